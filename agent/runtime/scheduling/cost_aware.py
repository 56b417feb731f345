"""Decides which of one job's waiting events are processed, and when (Li et al., section 4.2, Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

from agent.runtime.scheduling.lots import CostClass, Lot
from agent.runtime.scheduling.schedule_tree import ScheduleTree

LOTS_MAX = 1 << 16
"""Upper bound on the lots that wait; past it the dearest are abandoned. Whoever looks at `has_room` first never gets
there."""
TOLERANCE_S = 1e-8
"""Time by which an event may be late without being abandoned: sums of costs are no more exact."""


class CostAwareScheduler:
    """Holds events that can all be processed in time, and hands them out by deadline.

    Whenever that is more than can be done, it abandons the fewest events that makes the rest possible. What is
    abandoned stays so: it is counted, and handed out once by `abandoned`. Times are seconds of the caller's clock.
    """

    def __init__(self, lots_max: int = LOTS_MAX) -> None:
        self._tree = ScheduleTree()
        self._lots_max = lots_max
        self._abandoned: list[Lot] = []
        self.released_events = 0
        self.taken_events = 0
        self.abandoned_events = 0

    def __len__(self) -> int:
        """The number of events that wait."""
        return self._tree.events

    @property
    def has_room(self) -> bool:
        """Whether more lots may come: where they may not, streams are not read on."""
        return len(self._tree) < self._lots_max

    @property
    def next_deadline(self) -> float | None:
        """The deadline of the lot that comes next; None if nothing waits. O(log g)."""
        lot = self._tree.next()
        return None if lot is None else lot.deadline

    def release(self, lots: Iterable[Lot], now: float) -> None:
        """Takes lots that have just come. O(log m) for each lot, amortized."""
        for lot in lots:
            self.released_events += lot.events
            self._note_released(lot, now)
            self._insert(lot)
        self._abandon_late(now)

    def next_to_process(self, now: float, slice_s: float = math.inf) -> Lot | None:
        """The events to process now: a lot, or as many of one as take `slice_s`, but one at least. None: nothing waits.

        Costs are predictions: what cannot be done any more because something took longer is abandoned first.
        O(log m), amortized.
        """
        self._abandon_late(now)
        lot = self._tree.next()
        if lot is None:
            return None
        taken = self._take(lot, lot.events if slice_s >= lot.cost else max(1, int(slice_s / lot.cost_s)))
        self.taken_events += taken.events
        return taken

    def revise(self, operator: Hashable, cost_class: CostClass, cost_s: float) -> None:
        """Gives the events of a class that wait another cost, as measured by now. O(all lots)."""
        for lot in [lot for lot in self._tree if lot.operator == operator and lot.cost_class is cost_class]:
            self._delete(lot)
            lot.cost_s = cost_s
            self._insert(lot)

    def withdraw(self, job: Hashable) -> list[Lot]:
        """Takes out all that waits of a job, by deadline. O(all lots)."""
        lots = [lot for lot in self._tree if lot.job == job]
        for lot in lots:
            self._delete(lot)
        return sorted(lots, key=lambda lot: lot.deadline)

    def drop(self, job: Hashable) -> None:
        """Forgets a job that is over, with all that waits of it. O(all lots)."""
        self.withdraw(job)

    def abandoned(self) -> list[Lot]:
        """The lots, and parts of lots, that were abandoned since the last call."""
        lots, self._abandoned = self._abandoned, []
        return lots

    def _abandon_late(self, now: float) -> None:
        """Abandons the dearest events of whatever is due by the first deadline that would be missed, until none is."""
        while (missed := self._tree.min_unscheduled_group(now - TOLERANCE_S)) is not None:
            deadline, excess = missed
            lot = self._victim(deadline, now)
            self._abandon(lot, min(lot.events, math.ceil(excess / lot.cost_s)), now)
        while len(self._tree) > self._lots_max:
            lot = self._victim(math.inf, now)
            self._abandon(lot, lot.events, now)

    def _abandon(self, lot: Lot, events: int, now: float) -> None:
        taken = self._take(lot, max(1, events))
        self.abandoned_events += taken.events
        self._abandoned.append(taken)
        self._note_abandoned(taken, now)

    def _take(self, lot: Lot, events: int) -> Lot:
        """Takes the first events of a lot out of the schedule, as a lot of their own."""
        if events >= lot.events:
            self._delete(lot)
            return lot
        taken = lot.split_off(events)
        self._shrunk(lot, events)
        return taken

    def _victim(self, deadline: float, now: float) -> Lot:  # noqa: ARG002
        """The lot of which events are abandoned, of those due by a deadline."""
        lot = self._tree.max_cost_in_groups(deadline)
        assert lot is not None, "something is due by a deadline that is missed"
        return lot

    def _insert(self, lot: Lot) -> None:
        self._tree.insert(lot)

    def _delete(self, lot: Lot) -> None:
        self._tree.delete(lot)

    def _shrunk(self, lot: Lot, events: int) -> None:
        self._tree.shrunk(lot, events)

    def _note_released(self, lot: Lot, now: float) -> None:
        """Notes whose events come."""

    def _note_abandoned(self, taken: Lot, now: float) -> None:
        """Notes whose events are lost."""
