"""Jobs: how soon a fleet runs a change of one, brings its results and answers, and what a thousand of them cost.

`python -m benchmarks.jobs [--quick] [--json FILE] [FIGURE ...]`
"""

from benchmarks.report import Comparison

from .charts import write_chart
from .figures import FULL, QUICK, in_turn

__all__ = ["run", "write_chart"]


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names. What cannot be measured stays in the table, as missed."""
    *_, report = in_turn([figure for figure in (QUICK if quick else FULL) if not names or figure.name in names])
    return report
