"""Runs the benchmark and publishes its figures: results, chart, and a section of `docs/overlay.md`.

`python -m benchmarks.overlay.publish [FIGURE ...]`: all figures without arguments; the others' last results are kept.
Measured figures are kept if the run is interrupted. `--from-results` only rewrites chart and section.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.environment import ROOT
from benchmarks.report import Comparison, print_table, read_json, write_json

from . import kills, write_chart
from .figures import FULL
from .pool import reports, together

RESULTS = ROOT / "benchmarks" / "results" / "overlay.json"
PAGE = ROOT / "docs" / "overlay.md"
_NAMED = {figure.name: figure for figure in FULL}
BEGIN, END = "<!-- written by a benchmark -->", "<!-- end -->"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overlay.publish")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, take the results there are")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"one of: {', '.join(_NAMED)}")
    options = parser.parse_args()
    unknown = set(options.figures) - _NAMED.keys()
    if unknown:
        parser.error(f"there is no figure {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, _NAMED))}")
    if not options.from_results:
        _measure(options.figures)
    report = _last_results()
    print_table(report)
    write_chart(report, RESULTS.with_suffix(".svg"))
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section(report)), encoding="utf-8")
    return 0


def _measure(names: Sequence[str]) -> None:
    """Update the results; without a choice of figures, from scratch."""
    before = _last_results() if names and RESULTS.exists() else []
    for report in reports([_NAMED[name] for name in names or _NAMED]):
        results = merged(before, report)
        write_json(merged(results, kills.growth(results)), RESULTS)


def _last_results() -> list[Comparison]:
    return read_json(RESULTS)


def merged(before: Sequence[Comparison], measured: Sequence[Comparison]) -> list[Comparison]:
    """Replace earlier lines by new ones and append the others; those of one curve stay together."""
    fresh = {(line.case, line.rival): line for line in measured}
    kept = [fresh.pop((line.case, line.rival), line) for line in before]
    return together([*kept, *fresh.values()])


def with_section(page: str, text: str) -> str:
    """Replace the text between the marks on a page; without marks, append a section."""
    before, begin, rest = page.partition(BEGIN)
    if not begin:
        return f"{page.rstrip()}\n\n## Measured\n\n{BEGIN}\n{text}{END}\n"
    return f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}"


def section(report: Sequence[Comparison]) -> str:
    """Return a table of figures that depend on the number of nodes, with a column for each, and one of the others."""
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
        "\nFrom `python -m benchmarks.overlay` ([how](../benchmarks/README.md#overlay), "
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
    """Return a figure with its target; a further line of the same place adds another rival."""
    missed = ", **missed**" if line.met is False else ""
    aim = "" if line.target is None else f" ({_number(line.target)}{missed})"
    rival = "" if line.rival_value is None else f"; {line.rival}: {_number(line.rival_value)}"
    return (f"{_number(line.value)}{aim}" if before is None else before) + rival


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
