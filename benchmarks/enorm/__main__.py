"""The command line: `python -m benchmarks.enorm [--quick] [--json FILE] [FIGURE ...]`."""

import sys

from benchmarks.report import main

from . import FIGURES, run

if __name__ == "__main__":
    sys.exit(main("enorm", run, FIGURES))
