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
STRAGGLER_TARGET_S, LEAP_TARGET_S = 3.0, 0.1
"""Two panes and a second; from the decision to leap to the publication."""
SIDE_TARGET_S, HEALED_TARGET_S = 1.0, 15.0
"""A window of real time; from the healing of the network to one whole fleet."""
TARGETS_S = {"leaf": LEAF_TARGET_S, "interior node": INTERIOR_TARGET_S, "master": MASTER_TARGET_S}
at_most = partial(within, NAME)


def crash_lines(how: str, place: str, kind: str, found: Sequence[tuple[float, float]]) -> list[Comparison]:
    """The lines on one kind of crash: of each, the delay of the slowest window after its end and grace, and that of the
    first with all agents that live."""
    slowest, whole = [one for one, _ in found], [one for _, one in found]
    begin = f"{how}{kind} killed"
    target_s = TARGETS_S[kind]
    of_slowest, of_whole = (None, target_s) if kind == "interior node" else (target_s, None)
    return [
        at_most(f"{begin}, slowest window, p50: {place}", quantile(slowest, 0.5), "s"),
        at_most(f"{begin}, slowest window, p99: {place}", quantile(slowest, 0.99), "s", of_slowest),
        at_most(f"{begin}, next complete window, p50: {place}", quantile(whole, 0.5), "s"),
        at_most(f"{begin}, next complete window, p99: {place}", quantile(whole, 0.99), "s", of_whole),
    ]
