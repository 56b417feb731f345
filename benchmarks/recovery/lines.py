"""Lines of this benchmark's report, and the targets of more than one figure."""

from collections.abc import Sequence
from functools import partial

from benchmarks.overlay.lines import quantile
from benchmarks.report import Comparison, within

NAME = "recovery"
AGENTS = 8
FEW = 4
MANY = 32
TARGET_AGENTS = 1_280
"""Number of agents in the fleet of the paper's figures."""
LEAF_TARGET_S, INTERIOR_TARGET_S, MASTER_TARGET_S = 4.0, 5.0, 7.0
TARGETS_S = {"leaf": LEAF_TARGET_S, "interior node": INTERIOR_TARGET_S, "master": MASTER_TARGET_S}
at_most = partial(within, NAME)


def crash_lines(kind: str, place: str, late_s: Sequence[float], whole_s: Sequence[float]) -> list[Comparison]:
    """The lines on one kind of crash, a figure a crash: the delay of the slowest window after its end and grace, and
    that of the first one with all agents that live."""
    slowest, whole = f"{kind} killed, slowest window after its end and grace", f"{kind} killed, next complete window"
    target_s = TARGETS_S[kind]
    is_complete = kind == "interior node"
    place = f"{place}, {len(late_s)} crashes"
    return [
        at_most(f"{slowest}, p50: {place}", quantile(late_s, 0.5), "s"),
        at_most(f"{slowest}, p99: {place}", quantile(late_s, 0.99), "s", None if is_complete else target_s),
        at_most(f"{whole}, p50: {place}", quantile(whole_s, 0.5), "s"),
        at_most(f"{whole}, p99: {place}", quantile(whole_s, 0.99), "s", target_s if is_complete else None),
    ]
