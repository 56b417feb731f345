"""The command line: `python -m benchmarks.local [--quick] [--json FILE] [CASE ...]`."""

import sys

from benchmarks.report import main

from . import run
from .cases import CASES

if __name__ == "__main__":
    sys.exit(main("local", run, tuple(CASES)))
