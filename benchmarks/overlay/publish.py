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
    """A table of what depends on the number of nodes, with a column for each; then one of all the rest."""
    curves: dict[str, dict[str, str]] = {}
    for line in report:
        label, _, place = line.case.partition(": ")
        places = curves.setdefault(f"{label} ({line.unit})", {})
        places[place] = _cell(line, places.get(place))
    sized = {label: places for label, places in curves.items() if all(map(_is_size, places))}
    sizes = sorted({place for places in sized.values() for place in places}, key=lambda place: (len(place), place))
    by_size = [[label, *(places.get(nodes, "") for nodes in sizes)] for label, places in sized.items()]
    others = [
        [label, "; ".join(f"{place}: {cell}" if place else cell for place, cell in places.items())]
        for label, places in curves.items()
        if label not in sized
    ]
    return (
        "\nFrom one run of `python -m benchmarks.overlay` ([how](../benchmarks/README.md#overlay), "
        "[results](../benchmarks/results/overlay.json)).\nIn brackets stands the target: the most a figure may be, the "
        "least of a share.\n\n"
        f"{_table(['by the number of nodes', *sizes], by_size)}\n{_table(['figure', 'measured'], others)}\n"
        "![The overlay's figures as curves](../benchmarks/results/overlay.svg)\n"
    )


def _is_size(place: str) -> bool:
    return place.replace(",", "").isdecimal()


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cell(line: Comparison, before: str | None) -> str:
    """A figure with its target; a further line of the same place brings another rival."""
    missed = ", **missed**" if line.met is False else ""
    aim = "" if line.target is None else f" ({_number(line.target)}{missed})"
    rival = "" if line.rival_value is None else f"; {line.rival}: {_number(line.rival_value)}"
    return (f"{_number(line.value)}{aim}" if before is None else before) + rival


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
