"""The command line: `python -m benchmarks.chaos [--agents N] [--minutes M] [--seed S] [--json FILE]`."""

import argparse
import random
import sys
from pathlib import Path

from benchmarks.report import reported

from . import Extent, run

AGENTS_DEFAULT, AGENTS_LEAST, AGENTS_MOST = 16, 4, 20
MINUTES_DEFAULT = 10.0


def main() -> int:
    """1 if a window was wrong, an agent ended by itself, or nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos")
    parser.add_argument("--agents", type=int, default=AGENTS_DEFAULT, choices=range(AGENTS_LEAST, AGENTS_MOST + 1))
    parser.add_argument("--minutes", type=float, default=MINUTES_DEFAULT, help="time for which things go wrong")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the schedule of faults")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there, an object a line")
    options = parser.parse_args()
    extent = Extent(options.agents, 60 * options.minutes, options.seed)
    lines = reported("chaos", lambda: run(extent), options.json)
    return int(lines is None or any(line.met is False for line in lines))


if __name__ == "__main__":
    sys.exit(main())
