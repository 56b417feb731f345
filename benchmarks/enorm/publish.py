"""Runs the benchmark and keeps its figures: `benchmarks/results/enorm.json`, and a chart beside it.

`python -m benchmarks.enorm.publish [FIGURE ...]`: all of them without any; of others the last results stay. What has
been measured is kept if the run is broken off.
"""

import argparse
import sys

from benchmarks.environment import ROOT
from benchmarks.jobs.figures import in_turn
from benchmarks.overlay.publish import merged
from benchmarks.report import Comparison, check_figures, print_table, read_json, write_json

from . import FIGURES, figures, write_chart

RESULTS = ROOT / "benchmarks" / "results" / "enorm.json"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.enorm.publish")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(FIGURES)}")
    names = parser.parse_args().figures
    check_figures(parser, names, FIGURES)
    before: list[Comparison] = []
    if names and RESULTS.exists():
        before = read_json(RESULTS)
    report = before
    for measured in in_turn(figures(names or FIGURES)):
        report = merged(before, measured)
        write_json(report, RESULTS)
        write_chart(report, RESULTS.with_suffix(".svg"))
    print_table(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
