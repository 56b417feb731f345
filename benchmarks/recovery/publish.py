"""Runs the benchmark and keeps its figures: `benchmarks/results/recovery.json`, and a chart beside it.

`python -m benchmarks.recovery.publish [FIGURE ...]`: all of them without any; of others the last results stay. What has
been measured is kept if the run is broken off.
"""

import argparse
import sys

from benchmarks.environment import ROOT
from benchmarks.jobs.figures import in_turn
from benchmarks.overlay.publish import merged
from benchmarks.report import Comparison, print_table, read_json, write_json

from . import write_chart
from .figures import FULL

RESULTS = ROOT / "benchmarks" / "results" / "recovery.json"
_NAMED = {figure.name: figure for figure in FULL}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recovery.publish")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(_NAMED)}")
    names = parser.parse_args().figures
    if unknown := set(names) - _NAMED.keys():
        parser.error(f"there is no figure {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, _NAMED))}")
    report: list[Comparison] = []
    if names and RESULTS.exists():
        report = read_json(RESULTS)
    before = report
    for measured in in_turn([_NAMED[name] for name in names or _NAMED]):
        report = merged(before, measured)
        write_json(report, RESULTS)
        write_chart(report, RESULTS.with_suffix(".svg"))
    print_table(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
