"""Describes waiting events to schedulers: many alike events are one lot (Li et al., section 4.3)."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

SLOTS = 10
"""Slots of deadlines in a latency constraint: the paper gains most where a slot is a tenth of it (4.3)."""


class CostClass(StrEnum):
    """Groups of events that cost about the same (4): one look tells to which an event belongs."""

    CHEAP = "cheap"
    """The state of its key is in memory."""
    SPILLED = "spilled"
    """The state of its key is on disk."""
    MAPPED = "mapped"
    """The job's own code gets it first."""


@dataclass(slots=True, eq=False)
class Lot:
    """Events of one job that have the same deadline (seconds of the schedulers' clock), and cost `cost_s` each.

    They are rows of `source`, which schedulers never look at, from the row `first` on. Lots are equal if they are the
    same object. While a scheduler holds a lot, the lot is the scheduler's to change.
    """

    job: Hashable
    operator: Hashable
    deadline: float
    cost_class: CostClass
    events: int
    cost_s: float
    source: object = None
    first: int = 0

    def __post_init__(self) -> None:
        if self.events < 1 or not 0 < self.cost_s < math.inf or not math.isfinite(self.deadline):
            raise ValueError(
                f"a lot has events, each with a cost, and a deadline: not {self.events} events of {self.cost_s} s due"
                f" at {self.deadline}"
            )

    @property
    def cost(self) -> float:
        """The cost of all of its events (s)."""
        return self.events * self.cost_s

    def split_off(self, events: int) -> Lot:
        """Takes off its first events, fewer than all, as a lot of their own."""
        taken = Lot(
            self.job, self.operator, self.deadline, self.cost_class, events, self.cost_s, self.source, self.first
        )
        self.events -= events
        self.first += events
        return taken


def slot_of(deadline: float, within_s: float) -> float:
    """The deadline of the slot in which a deadline lies: earlier than it by less than a tenth of the constraint.

    >>> slot_of(7.38, 1.0), slot_of(7.3, 1.0)
    (7.3, 7.3)
    """
    slots_per_s = SLOTS / within_s
    return math.floor(deadline * slots_per_s + 1e-6) / slots_per_s
