"""Runs the benchmark and keeps its figures: `benchmarks/results/fish.json`, and a chart beside it.

`python -m benchmarks.fish.publish [--rows N] [--runs N] [FIGURE ...]`: all of them without any; of others the last
results stay. What has been measured is kept if the run is broken off. `--rows` and `--runs` are of each Zipf stream.
"""

import argparse
import sys
from dataclasses import replace

from benchmarks.environment import ROOT
from benchmarks.overlay.publish import merged
from benchmarks.report import Comparison, check_figures, print_table, read_json, write_json

from . import measured, with_means, write_chart
from .figures import FULL, WHOLE, earnest, figures

RESULTS = ROOT / "benchmarks" / "results" / "fish.json"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fish.publish")
    names_there = tuple(figure.name for figure in FULL)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(names_there)}")
    parser.add_argument("--rows", type=int, default=WHOLE.rows, help="rows of each Zipf stream")
    parser.add_argument("--runs", type=int, help="runs of each Zipf stream: ten, or three of some figures")
    options = parser.parse_args()
    names = options.figures
    check_figures(parser, names, names_there)
    extent = replace(WHOLE, rows=options.rows, runs=options.runs or WHOLE.runs, few=options.runs or WHOLE.few)
    named = {figure.name: figure for figure in (*figures(extent), *earnest())}
    before: list[Comparison] = []
    if names and RESULTS.exists():
        before = read_json(RESULTS)
    report = before
    for lines in measured([named[name] for name in names or named]):
        report = with_means(merged(before, lines))
        write_json(report, RESULTS)
        write_chart(report, RESULTS.with_suffix(".svg"))
    print_table(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
