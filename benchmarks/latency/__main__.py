"""The command line: `python -m benchmarks.latency [--quick] [--json FILE] [FIGURE ...]`."""

import sys

from benchmarks.report import main

from . import FIGURES, run

if __name__ == "__main__":
    sys.exit(main("latency", run, FIGURES))
