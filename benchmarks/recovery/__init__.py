"""Recovery: how late windows come after crashes, restarts and stalls (Fig. 9 and 10c of the paper).

`python -m benchmarks.recovery [--quick] [--json FILE] [FIGURE ...]`
"""

from benchmarks.jobs.figures import in_turn
from benchmarks.report import Comparison

from .charts import write_chart
from .figures import FULL, QUICK

__all__ = ["run", "write_chart"]


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names. What cannot be measured stays in the table, as missed."""
    *_, report = in_turn([figure for figure in (QUICK if quick else FULL) if not names or figure.name in names])
    return report
