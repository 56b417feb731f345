"""The overlay in the simulator: routes, joins, repairs, churn, trees and what all of it costs.

`python -m benchmarks.overlay [--quick] [--json FILE]`
"""

from benchmarks.report import Comparison

from . import kills
from .charts import write_chart
from .figures import FULL, QUICK
from .pool import run_all

__all__ = ["run", "write_chart"]


def run(quick: bool) -> list[Comparison]:
    """Everything, in two processes. What cannot be measured stays in the table, as missed."""
    report = run_all(QUICK if quick else FULL)
    return report + kills.growth(report)
