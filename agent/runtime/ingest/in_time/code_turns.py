"""Says which events a job's code gets next, where its windows are to be out in time: those that it can map until then.

The code runs in a process of its own, one call after the other. So its events wait for that process, and not for the
agent's turns: what is left of its processor by other processes, the system decides, and the time between its answers
tells. What it cannot do in time is abandoned (Li et al., VLDB 2015, section 4.2), and not even sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent.runtime.model.step_clock import StepClock
from agent.runtime.scheduling.cost_aware import CostAwareScheduler
from agent.runtime.scheduling.event_costs import TRIAL_EVENTS, EventCosts
from agent.runtime.scheduling.lots import CostClass, Lot

CALLS = 2
"""Calls in a slice of work: the code has the next one when it answers."""


class CodeTurns:
    """The events that wait for one job's code. `slice_s` tells how much work may be with the code at once. Deadlines
    are by the clock that `wall_s` tells (s)."""

    def __init__(self, clock: StepClock, wall_s: Callable[[], float], slice_s: Callable[[], float]) -> None:
        self._clock, self._wall_s, self._slice_s = clock, wall_s, slice_s
        self._scheduler = CostAwareScheduler()
        self._costs = EventCosts()
        self._asked: dict[int, tuple[int, float]] = {}
        """The events of each call that is not answered, and when it was made."""
        self._answered_at = 0.0

    def __len__(self) -> int:
        """The number of events that wait."""
        return len(self._scheduler)

    @property
    def _cost_s(self) -> float:
        return self._costs.cost_s(None, CostClass.MAPPED)

    def call_rows(self, rows_max: int) -> int:
        """The number of events in a call."""
        if not self._costs.is_known(None, CostClass.MAPPED):
            return min(TRIAL_EVENTS, rows_max)
        return max(1, min(rows_max, int(self._slice_s() / CALLS / self._cost_s)))

    def wait(self, source: object, events: int, due: float) -> None:
        """Has the events of a call wait."""
        lot = Lot(None, None, due, CostClass.MAPPED, events, self._cost_s, source)
        self._scheduler.release([lot], self._free_at())

    def take(self) -> Lot | None:
        """The events of the next call, if the code is to have one now."""
        if len(self._asked) >= CALLS:
            return None
        return self._scheduler.next_to_process(self._free_at())

    def abandon_late(self) -> None:
        """Abandons what cannot be done in time any more."""
        self._scheduler.release((), self._free_at())

    def asked(self, number: int, events: int) -> None:
        """Notes a call."""
        self._asked[number] = (events, self._clock.now)

    def answered(self, number: int) -> None:
        """Notes that a call is over, and measures what it has taken."""
        events, asked_at = self._asked.pop(number, (0, 0.0))
        now = self._clock.now
        self._costs.measured(None, CostClass.MAPPED, events, now - max(asked_at, self._answered_at))
        self._answered_at = now
        if (cost_s := self._costs.revision(None, CostClass.MAPPED)) is not None:
            self._scheduler.revise(None, CostClass.MAPPED, cost_s)

    def ended(self) -> None:
        """Notes that no call is answered any more: the code has ended."""
        self._asked.clear()

    def abandoned(self) -> Iterator[Lot]:
        """The events that were abandoned since the last call."""
        yield from self._scheduler.abandoned()

    def withdraw(self) -> list[Lot]:
        """Takes out all events that wait."""
        return self._scheduler.withdraw(None)

    def _free_at(self) -> float:
        """The time at which the code has answered all that it was asked, by what that costs."""
        return self._wall_s() + self._cost_s * sum(events for events, _ in self._asked.values())
