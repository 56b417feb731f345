"""Keyed processing elements: what they carry beside stateful streams of others, and how soon they are whole again.

`python -m benchmarks.s4 [--quick] [--json FILE] [FIGURE ...]`
"""

from benchmarks.jobs.figures import in_turn
from benchmarks.report import Comparison

from .figures import FULL, QUICK


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names. What cannot be measured stays in the table, as missed."""
    *_, report = in_turn([figure for figure in (QUICK if quick else FULL) if not names or figure.name in names])
    return report
