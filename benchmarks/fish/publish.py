"""Runs the benchmark and keeps its figures: `benchmarks/results/fish.json`, and a chart beside it.

`python -m benchmarks.fish.publish [FIGURE ...]`: all of them without any; of others the last results stay. What has
been measured is kept if the run is broken off.
"""

import argparse
import json
import sys

from benchmarks.environment import ROOT
from benchmarks.overlay.publish import merged
from benchmarks.report import Comparison, check_figures, print_table, write_json

from . import measured, with_means, write_chart
from .figures import FULL

RESULTS = ROOT / "benchmarks" / "results" / "fish.json"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fish.publish")
    named = {figure.name: figure for figure in FULL}
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(named)}")
    names = parser.parse_args().figures
    check_figures(parser, names, tuple(named))
    before: list[Comparison] = []
    if names and RESULTS.exists():
        before = [Comparison(**json.loads(line)) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    report = before
    for lines in measured([named[name] for name in names or named]):
        report = with_means(merged(before, lines))
        write_json(report, RESULTS)
        write_chart(report, RESULTS.with_suffix(".svg"))
    print_table(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
