"""Lines of this benchmark's report, and the targets of more than one figure."""

from collections.abc import Sequence
from functools import partial

from benchmarks.overlay.lines import quantile
from benchmarks.report import Comparison, within

NAME = "recovery"
AGENTS = 8
MANY = 32
TARGET_AGENTS = 1_280
"""Number of agents in the fleet of the paper's figures."""
LEAF_TARGET_S, INTERIOR_TARGET_S, MASTER_TARGET_S = 4.0, 5.0, 7.0
at_most = partial(within, NAME)


def crash_lines(kind: str, place: str, late_s: Sequence[float], target_s: float) -> list[Comparison]:
    """The lines on one kind of crash: windows' delays after their end and grace."""
    return [
        at_most(f"{kind} killed, next window after its end and grace, p50: {place}", quantile(late_s, 0.5), "s"),
        at_most(f"{kind} killed, next window after its end and grace, slowest: {place}", max(late_s), "s", target_s),
    ]
