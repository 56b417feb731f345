"""The compressed buffer tree next to hash maps: Figures 11 and 10a of the paper.

`python -m benchmarks.cbt [--quick] [--json FILE]`
"""

from benchmarks.report import Comparison

from . import inserts

__all__ = ["run"]


def run(quick: bool) -> list[Comparison]:
    """Everything, in turn. Raises BenchmarkError."""
    return inserts.run(inserts.QUICK if quick else inserts.FULL)
