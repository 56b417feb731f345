"""Runs the benchmark and keeps its figures: `benchmarks/results/query.json`, and a chart beside it.

`python -m benchmarks.query.publish [--from-results]`: with that it only draws the chart anew.
"""

import argparse
import sys

from benchmarks.environment import ROOT
from benchmarks.report import print_table, read_json, write_json

from . import run, write_chart

RESULTS = ROOT / "benchmarks" / "results" / "query.json"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.query.publish")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, take the results there are")
    if not parser.parse_args().from_results:
        write_json(run(quick=False), RESULTS)
    report = read_json(RESULTS)
    print_table(report)
    write_chart(report, RESULTS.with_suffix(".svg"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
