"""The command line: `python -m benchmarks.dashboard [--minutes 30] [--jobs 50] [--json FILE] [FIGURE ...]`."""

import argparse
import sys
from pathlib import Path

from benchmarks.report import check_figures, reported

from .open_page import FIGURES, JOBS, MINUTES, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="time for which the page stays open")
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, an object a line")
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"all, or some of: {', '.join(FIGURES)}")
    options = parser.parse_args()
    check_figures(parser, options.figures, FIGURES)
    jobs, minutes, figures = options.jobs, max(3, options.minutes), options.figures or FIGURES
    return 1 if reported("dashboard", lambda: run(jobs, minutes, figures), options.json) is None else 0


if __name__ == "__main__":
    sys.exit(main())
