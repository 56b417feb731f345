"""Has the operators of jobs whose windows are to be out in time hand in what they have (WITHIN ... ELSE PARTIAL).

The master leaps over whoever is not there at a deadline. An agent that cannot keep up with its logs would be leaped
over each time, though it has most of a window: it closes the window's panes by itself, in time for what is left to do.
They are partial, and what comes later for them is late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.operator import Operator
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from agent.runtime.model.step_clock import StepClock
from agent.runtime.scheduling.deadline_queue import PhaseTimes, WorkPhase

SETTLE_MS = 10_000
"""Time from the beginning of an operator on in which no window is handed in: what was there before is still read."""
SHARE = 4
"""Part of a limit that is left to seal and send what is handed in, and to those who get it, but for long limits. An
agent that cannot keep up loses nothing by it: it reads on in the next window."""
LEFT_MS = 2_000
"""Time that is left at the most, unless its own phases take longer."""
PATIENCE_MS = 20
"""Least time after the grace: a look at the logs is to close the panes by itself where that is possible."""


def limit_of(function: JobFunction, *, bounded: bool) -> int | None:
    """The time in which results have to be out with what is there (ms); None: they wait."""
    within = function.plan.within
    is_timed = within is not None and within.on_miss == "partial" and function.pane_ms is not None
    return within.limit_ms if within is not None and is_timed and not bounded else None


class HandIns:
    """The operators of one agent that hand in. `times`: what phases take here."""

    def __init__(self, clock: StepClock, times: PhaseTimes) -> None:
        self._clock, self._times = clock, times
        self._settled_ms: dict[Operator, float] = {}
        """The operators, by the time from which on their windows have deadlines (epoch ms)."""

    def add(self, operator: Operator) -> None:
        """Has an operator hand in, if its results have to be out in time."""
        if operator.key.limit_ms is not None:
            self._settled_ms[operator] = self._clock.wall_ms + SETTLE_MS

    def drop(self, operator: Operator) -> None:
        """Forgets an operator."""
        self._settled_ms.pop(operator, None)

    @property
    def operators(self) -> Collection[Operator]:
        """All of them."""
        return self._settled_ms.keys()

    def next_at(self) -> float | None:
        """The time (s) at which `hand_in` wants to be called. O(operators that hand in)."""
        due_ms = min((due for _, _, due in self._due()), default=None)
        return None if due_ms is None else self._clock.now + (due_ms - self._clock.wall_ms) / 1000

    def due(self) -> Iterable[tuple[Operator, int]]:
        """The operators that have to hand in now, and up to which pane."""
        return [(operator, upto) for operator, upto, due_ms in self._due() if due_ms <= self._clock.wall_ms]

    def _due(self) -> Iterable[tuple[Operator, int, float]]:
        for operator in self._settled_ms:
            pane_ms = operator.pane_ms
            assert pane_ms is not None
            if not _is_read(operator) or operator.closed >= END:
                continue
            out = max(operator.closed, operator.handed_in)
            after_ms = FIRST_PANE if out == FIRST_PANE else closed_ms(out, pane_ms) + 1
            if (window := self._window_after(operator, after_ms)) is not None:
                end_ms, due_ms = window
                yield operator, end_ms - pane_ms, due_ms

    def _window_after(self, operator: Operator, time_ms: int) -> tuple[int, float] | None:
        """The end of the first window after a time that is handed in, and when that is (epoch ms)."""
        windowing, limit_ms = operator.function.plan.windowing, operator.key.limit_ms
        assert limit_ms is not None
        if windowing is None or not windowing.sizes:
            return None
        end_ms = windowing.end_after(int(max(time_ms, self._settled_ms[operator])))
        left_ms = min(limit_ms / SHARE, max(LEFT_MS, 2000 * self._times.remaining_s(operator, WorkPhase.SEAL)))
        return end_ms, end_ms + max(limit_ms - left_ms, operator.key.grace_ms + PATIENCE_MS)

    def due_ms(self, operator: Operator, time_ms: int) -> float | None:
        """The time at which the window of an event is handed in (epoch ms); None: never."""
        window = self._window_after(operator, time_ms)
        return None if window is None else window[1]

    def may_abandon(self, operator: Operator) -> bool:
        """Whether events of an operator may be abandoned: it hands in, and is known to count for somebody."""
        known = operator in self._settled_ms and _is_read(operator) and operator.function.is_ready
        return known and bool(operator.consumers) and all(one.is_begun for one in operator.consumers)

    def abandoned_ms(self, operators: Iterable[Operator]) -> int | None:
        """The instant up to which events of all these operators are late (epoch ms), whose jobs do not wait for them;
        None: somebody does."""
        closed: list[int] = []
        for one in operators:
            upto = max(one.closed, one.handed_in)
            if one not in self._settled_ms or not _is_read(one) or upto in (FIRST_PANE, END):
                return None
            closed.append(closed_ms(min([upto, *(consumer.closed for consumer in one.consumers)]), one.pane_ms))
        return min(closed, default=None)


def _is_read(operator: Operator) -> bool:
    """Whether an operator gets what its feeds bring, and knows their time."""
    return (operator.is_reading or operator.is_mapped) and operator.watermark.value is not None


def hand_in(operator: Operator, upto: int) -> None:
    """Closes panes up to one, as they are. Those are partial that the watermark has not passed by the grace: events
    that are out of order may not have been read yet."""
    operator.handed_in = max(operator.handed_in, upto)
    reached_ms, last_ms = operator.watermark.value, closed_ms(upto, operator.pane_ms)
    if reached_ms is None or reached_ms <= last_ms + operator.key.grace_ms:
        operator.lost_upto = max(operator.lost_upto, last_ms)
    operator.start_sealing()
