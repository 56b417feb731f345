"""The command line: `python -m benchmarks.s4 [--quick] [--json FILE] [FIGURE ...]`."""

import sys

from benchmarks.report import main

from . import run
from .figures import FULL

if __name__ == "__main__":
    sys.exit(main("s4", run, tuple(figure.name for figure in FULL)))
