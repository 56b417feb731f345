"""Windows of several sizes that are made of each other (Enorm, section 6.1): what jobs merge, and the processor's time.

`python -m benchmarks.enorm [--quick] [--json FILE] [FIGURE ...]`
"""

from benchmarks.report import Comparison

from .merges import merged_by_jobs
from .window_work import processor_time

FIGURES = ("merges", "processor-time")
__all__ = ["FIGURES", "run"]


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names."""
    wanted = names or FIGURES
    lines = merged_by_jobs() if "merges" in wanted else []
    return lines + (processor_time(quick=quick) if "processor-time" in wanted else [])
