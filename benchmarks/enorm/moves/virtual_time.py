"""Virtual time: owners and a master that each do one thing at a time, with the processor time that was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .owner_rig import PaneCosts

LOAD = 0.7
"""Share of the time in which owners are busy (section 7.2)."""
_MASTER = 0


class Latency(NamedTuple):
    """Seconds from the end of a pane until each tree's owner has answered, and until the window is shown."""

    answered_s: dict[int, float]
    shown_s: float


def latencies(costs: Iterable[PaneCosts], period_s: float) -> Iterator[Latency]:
    """Yields the latency of each pane, one of which ends in each period."""
    free: defaultdict[int, float] = defaultdict(float)
    for number, cost in enumerate(costs):
        due = number * period_s
        for (giver, taker), (gives_s, takes_s) in cost.gives.items():
            free[giver] = max(due, free[giver]) + gives_s
            free[taker] = max(free[giver], free[taker]) + takes_s
        for tree, seconds in cost.answers.items():
            free[tree] = max(due, free[tree]) + seconds
        free[_MASTER] = max(free[_MASTER], *(free[tree] for tree in cost.answers)) + cost.shown_s
        yield Latency({tree: free[tree] - due for tree in cost.answers}, free[_MASTER] - due)


def completion_s(costs: Sequence[PaneCosts]) -> float:
    """Seconds until all windows are shown, where all panes are there from the start."""
    *_, last = latencies(costs, 0.0)
    return last.shown_s
