"""ELF QL: how fast its expressions are next to Polars by hand, how long compiling takes, how large plans are.

`python -m benchmarks.query [--quick] [--json FILE]`
"""

from benchmarks.chart import write_chart
from benchmarks.report import Comparison

from . import compiling, expressions

__all__ = ["run", "write_chart"]


def run(quick: bool) -> list[Comparison]:
    """Everything, in turn. Raises BenchmarkError."""
    measured = expressions.run(*(expressions.QUICK if quick else expressions.FULL))
    return measured + compiling.run(compiling.QUICK_ROUNDS if quick else compiling.FULL_ROUNDS)
