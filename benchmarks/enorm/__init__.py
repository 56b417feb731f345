"""Enorm: windows of several sizes that are made of each other (section 6.1), and operators that are fused (4.4.1, 7.6).

`python -m benchmarks.enorm [--quick] [--json FILE] [FIGURE ...]`
"""

from benchmarks.report import Comparison

from .fusion_figures import fused_jobs
from .merges import merged_by_jobs
from .window_work import processor_time

FIGURES = ("merges", "processor-time", "fusion")
__all__ = ["FIGURES", "run"]


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names."""
    wanted = names or FIGURES
    lines = merged_by_jobs() if "merges" in wanted else []
    lines += processor_time(quick=quick) if "processor-time" in wanted else []
    return lines + (fused_jobs(quick=quick) if "fusion" in wanted else [])
