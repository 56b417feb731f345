"""Runs the benchmark and keeps its figures: `benchmarks/results/latency.json`, a chart beside it, and a table in
`docs/latency-model.md`.

`python -m benchmarks.latency.publish [--quick] [FIGURE ...]`: all of them without any; of others the last results stay.
What has been measured is kept if the run is broken off. `--from-results` only writes chart and table again.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.environment import ROOT
from benchmarks.jobs.figures import in_turn
from benchmarks.overlay.publish import merged, with_section
from benchmarks.report import Comparison, check_figures, print_table, read_json, write_json

from . import FIGURES, figures, write_chart
from .model.accuracy import BESIDE
from .model.real import FLEET as AGENTS
from .model.rules import SUSTAINED
from .model.simulated import FLEET as SIMULATED

RESULTS = ROOT / "benchmarks" / "results" / "latency.json"
PAGE = ROOT / "docs" / "latency-model.md"
OF_MODEL = (SIMULATED, AGENTS, "search", "rules")
"""Beginnings of the lines that are told of on that page."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency.publish")
    parser.add_argument("--quick", action="store_true", help="less data")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, take the results there are")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(FIGURES)}")
    options = parser.parse_args()
    names = options.figures
    check_figures(parser, names, FIGURES)
    report = read_json(RESULTS) if RESULTS.exists() and (names or options.from_results) else []
    before = report
    if not options.from_results:
        for measured in in_turn(figures(names or FIGURES, quick=options.quick)):
            report = renewed(before, measured)
            write_json(report, RESULTS)
    write_chart(report, RESULTS.with_suffix(".svg"))
    PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), section(report)), encoding="utf-8")
    print_table(report)
    return 0


def renewed(before: Sequence[Comparison], measured: Sequence[Comparison]) -> list[Comparison]:
    """Replaces earlier lines. None is left of a figure of the model, whose lines say how many settings it had."""
    again = tuple(of for of in OF_MODEL if any(line.case.startswith(of) for line in measured))
    return merged([line for line in before if not line.case.startswith(again)], measured)


def section(report: Sequence[Comparison]) -> str:
    """A table of the model's figures, but for those of single settings and rules, which are in the chart."""
    rows = [_row(line) for line in report if line.case.startswith(OF_MODEL) and not _is_drawn(line)]
    heading = "| figure | ELF | beside it | aimed at | |\n|---|---|---|---|---|\n"
    return (
        "\nFrom `python -m benchmarks.latency` ([how](../benchmarks/README.md#latency), "
        "[results](../benchmarks/results/latency.json)).\n\n"
        f"{heading}{''.join(rows)}\n"
        "![Latency as predicted and as measured](../benchmarks/results/latency.svg)\n"
    )


def _is_drawn(line: Comparison) -> bool:
    return BESIDE in line.case or line.case.startswith(SUSTAINED)


def _row(line: Comparison) -> str:
    beside = "" if line.rival_value is None else f"{line.rival}: {line.rival_value:.3g}"
    aim = "" if line.target is None else f"{line.target:.3g}" + ("" if line.rival is None else "x")
    met = "" if line.met is None else "met" if line.met else "**missed**"
    case = line.case.replace("|", "/")
    return f"| {case} | {line.value:.3g} {line.unit} | {beside} | {aim} | {met} |\n"


if __name__ == "__main__":
    sys.exit(main())
