"""Runs the benchmark and keeps its figures: `benchmarks/results/jobs.json`, and a chart beside it.

`python -m benchmarks.jobs.publish [FIGURE ...]`: all of them without any; of others the last results stay. What has
been measured is kept if the run is broken off. `--from-results` only draws the chart anew.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.environment import ROOT
from benchmarks.overlay.publish import merged
from benchmarks.report import Comparison, print_table, read_json, write_json

from . import write_chart
from .figures import FULL, in_turn

RESULTS = ROOT / "benchmarks" / "results" / "jobs.json"
_NAMED = {figure.name: figure for figure in FULL}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.publish")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, take the results there are")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(_NAMED)}")
    options = parser.parse_args()
    if unknown := set(options.figures) - _NAMED.keys():
        parser.error(f"there is no figure {', '.join(map(repr, unknown))}; there are {', '.join(map(repr, _NAMED))}")
    if not options.from_results:
        _measure(options.figures)
    report = _last_results()
    print_table(report)
    write_chart(report, RESULTS.with_suffix(".svg"))
    return 0


def _measure(names: Sequence[str]) -> None:
    """Bring the results up to date; those of all figures begin anew."""
    before = _last_results() if names and RESULTS.exists() else []
    for report in in_turn([_NAMED[name] for name in names or _NAMED]):
        write_json(merged(before, report), RESULTS)


def _last_results() -> list[Comparison]:
    return read_json(RESULTS)


if __name__ == "__main__":
    sys.exit(main())
