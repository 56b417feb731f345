"""The compressed buffer tree next to hash maps: Figures 11 and 10a of the paper.

`python -m benchmarks.cbt [--quick] [--json FILE]`
"""

from benchmarks.report import Comparison

from . import inserts, windows
from .charts import write_chart

__all__ = ["run", "write_chart"]


def run(quick: bool) -> list[Comparison]:
    """Everything, in turn. Raises BenchmarkError."""
    figure_11 = inserts.run(inserts.QUICK if quick else inserts.FULL)
    return figure_11 + windows.run(windows.QUICK if quick else windows.FULL, with_targets=not quick)
