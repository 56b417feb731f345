"""Enorm: windows made of each other (section 6.1), operators that are fused (4.4.1, 7.6), key groups that move (3.2,
4.4.2, 4.5, 7.2 to 7.5), decisions on how windows are computed (5.1.1, 5.1.2), and their throughput (7.1).

`python -m benchmarks.enorm [--quick] [--json FILE] [FIGURE ...]`
"""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.jobs.figures import in_turn
from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from .balance import balance
from .charts import write_chart
from .decisions import decisions
from .fused_stages import staged_jobs
from .fusion_figures import fused_jobs
from .merges import merged_by_jobs
from .moves.latency_figures import busy_owners
from .moves.live_moves import live_moves
from .moves.moving_groups import completion, moving_groups, moving_million, split_and_combine
from .moves.owned_keys import owned_keys
from .split_and_combined import split_and_combined
from .window_work import processor_time

_MEASURES: dict[str, Callable[[bool], list[Comparison]]] = {
    "merges": lambda _: merged_by_jobs(),
    "processor-time": lambda quick: processor_time(quick=quick),
    "fusion": lambda quick: fused_jobs(quick=quick),
    "stages": lambda quick: staged_jobs(quick=quick),
    "moves": lambda quick: moving_groups(quick=quick),
    "moves-million": lambda quick: moving_million(quick=quick),
    "split-and-combine": lambda quick: split_and_combine(quick=quick),
    "completion": lambda quick: completion(quick=quick),
    "busy-owners": lambda quick: busy_owners(quick=quick),
    "owners": lambda quick: owned_keys(quick=quick),
    "live-moves": lambda quick: live_moves(quick=quick),
    "balance": lambda quick: balance(quick=quick),
    "decisions": lambda quick: decisions(quick=quick),
    "throughput": lambda quick: split_and_combined(quick=quick),
}
FIGURES = tuple(_MEASURES)
__all__ = ["FIGURES", "figures", "run", "write_chart"]


def figures(names: Sequence[str], *, quick: bool = False) -> list[Figure]:
    """The figures of these names."""
    return [Figure(name, partial(_measured, name, quick), benchmark="enorm") for name in names]


def _measured(name: str, quick: bool) -> list[Comparison]:
    return _MEASURES[name](quick)


def run(quick: bool, *names: str) -> list[Comparison]:
    """All figures, or those of these names, each in a process of its own. What cannot be measured stays in the table,
    as missed."""
    *_, report = in_turn(figures(names or FIGURES, quick=quick))
    return report
