"""The command line: `python -m benchmarks.jobs [--quick] [--json FILE] [FIGURE ...]`."""

import sys

from benchmarks.report import main

from . import run
from .figures import FULL

if __name__ == "__main__":
    sys.exit(main("jobs", run, [figure.name for figure in FULL]))
