"""Runs the benchmark and puts its figures where people read them: results, chart, and a section of `docs/overlay.md`.

`python -m benchmarks.overlay.publish [--from-results]`: the latter writes the section anew from the last results.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.environment import ROOT
from benchmarks.report import Comparison, print_table, write_json

from . import run, write_chart

RESULTS = ROOT / "benchmarks" / "results" / "overlay.json"
PAGE = ROOT / "docs" / "overlay.md"
BEGIN, END = "<!-- written by benchmarks.overlay.publish -->", "<!-- end -->"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlay.publish")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, take the results there are")
    if parser.parse_args().from_results:
        report = [Comparison(**json.loads(line)) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    else:
        report = run(quick=False)
        write_json(report, RESULTS)
        print_table(report)
    write_chart(report, RESULTS.with_suffix(".svg"))
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section(report)), encoding="utf-8")
    return 0


def with_section(page: str, text: str) -> str:
    """Replace what stands between the marks on a page; without them, put a section at its end."""
    before, begin, rest = page.partition(BEGIN)
    if not begin:
        return f"{page.rstrip()}\n\n## Measured\n\n{BEGIN}\n{text}{END}\n"
    return f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}"


def section(report: Sequence[Comparison]) -> str:
    """One row for each label: its figure at every place, with targets, and rivals."""
    rows: dict[str, list[str]] = {}
    for line in report:
        label, _, place = line.case.partition(": ")
        rows.setdefault(label, []).extend(_cells(line, place, rows.get(label, [])))
    body = "".join(f"| {label} | {'; '.join(cells)} |\n" for label, cells in rows.items())
    return (
        "\nFrom one run of `python -m benchmarks.overlay` ([how](../benchmarks/README.md#overlay), "
        "[results](../benchmarks/results/overlay.json)). In brackets: the target, the most it may be unless it is a "
        "share; **missed** ones are marked.\n\n| figure | where: measured |\n|---|---|\n"
        f"{body}\n![The overlay's figures as curves](../benchmarks/results/overlay.svg)\n"
    )


def _cells(line: Comparison, place: str, before: Sequence[str]) -> list[str]:
    """A place with its figure; the second line of a place brings a rival only."""
    where = f"{place}: " if place else ""
    measured = f"{where}{_number(line.value)} {line.unit}"
    cells: list[str] = []
    if not any(cell.startswith(measured) for cell in before):
        missed = ", **missed**" if line.met is False else ""
        cells.append(measured + ("" if line.target is None else f" ({_number(line.target)}{missed})"))
    if line.rival is not None and line.rival_value is not None:
        cells.append(f"{line.rival}: {_number(line.rival_value)}")
    return cells


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
