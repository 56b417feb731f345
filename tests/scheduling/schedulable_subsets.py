"""Oracles of the schedulers: Algorithm 1 as it is written (Li et al., section 4.2), and all subsets one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

Event = tuple[int, int]
"""The deadline and the cost of an event."""


def is_schedulable(events: Sequence[Event], now: int) -> bool:
    """Whether all events can be processed in time, one after the other from now on."""
    for deadline, cost in sorted(events):
        now += cost
        if now > deadline:
            return False
    return True


def largest_schedulable_subset(events: Sequence[Event], now: int) -> list[Event]:
    """Algorithm 1: by deadlines, removes the dearest event due by then until the others can be done by then."""
    groups = {
        deadline: [one for one in events if one[0] == deadline] for deadline in sorted({one[0] for one in events})
    }
    kept: list[Event] = []
    for deadline, group in groups.items():
        kept += group
        while kept and now + sum(cost for _, cost in kept) > deadline:
            kept.remove(max(kept, key=lambda one: one[1]))
    return kept


def largest_subset_of_all(events: Sequence[Event], now: int) -> int:
    """The size of the largest schedulable subset, by looking at all of them."""
    sizes = range(len(events), -1, -1)
    return next(size for size in sizes if any(is_schedulable(some, now) for some in combinations(events, size)))
