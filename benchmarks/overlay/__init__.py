"""The overlay in the simulator: routes, joins, repairs, churn, trees and their costs.

`python -m benchmarks.overlay [--quick] [--json FILE]`
"""

from benchmarks.report import Comparison

from . import kills
from .charts import write_chart
from .figures import FULL, QUICK
from .lines import shown
from .pool import run_all
from .population import progress

__all__ = ["run", "write_chart"]


def run(quick: bool) -> list[Comparison]:
    """Measure all figures, in two processes. A figure that cannot be measured stays in the table, as missed."""
    report = run_all(QUICK if quick else FULL)
    report += kills.growth(report)
    verdicts = [line.met for line in report if line.met is not None]
    progress(f"{sum(verdicts)} of {len(verdicts)} targets met")
    for line in report:
        if line.met is False:
            progress(f"    {shown(line)}")
    return report
