"""The command line: `python -m benchmarks.query [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main

from . import run

if __name__ == "__main__":
    sys.exit(main("query", run))
