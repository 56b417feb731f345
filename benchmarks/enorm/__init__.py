"""Enorm: windows made of each other (section 6.1), operators that are fused (4.4.1, 7.6), key groups that move (3.2,
4.4.2), decisions on how windows are computed (5.1.1, 5.1.2), and their throughput (7.1).

`python -m benchmarks.enorm [--quick] [--json FILE] [FIGURE ...]`
"""

from collections.abc import Callable

from benchmarks.report import Comparison

from .balance import balance
from .decisions import decisions
from .fused_stages import staged_jobs
from .fusion_figures import fused_jobs
from .merges import merged_by_jobs
from .moving_groups import moving_groups, owned_keys
from .split_and_combined import split_and_combined
from .window_work import processor_time

_MEASURES: dict[str, Callable[[bool], list[Comparison]]] = {
    "merges": lambda _: merged_by_jobs(),
    "processor-time": lambda quick: processor_time(quick=quick),
    "fusion": lambda quick: fused_jobs(quick=quick),
    "stages": lambda quick: staged_jobs(quick=quick),
    "moves": lambda quick: moving_groups(quick=quick),
    "owners": lambda quick: owned_keys(quick=quick),
    "balance": lambda quick: balance(quick=quick),
    "decisions": lambda quick: decisions(quick=quick),
    "split": lambda quick: split_and_combined(quick=quick),
}
FIGURES = tuple(_MEASURES)
__all__ = ["FIGURES", "run"]


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names."""
    return [line for name in names or FIGURES for line in _MEASURES[name](quick)]
