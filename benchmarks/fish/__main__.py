"""The command line: `python -m benchmarks.fish [--quick] [--json FILE] [FIGURE ...]`."""

import sys

from benchmarks.report import main

from . import run
from .figures import FULL

if __name__ == "__main__":
    sys.exit(main("fish", run, tuple(figure.name for figure in FULL)))
