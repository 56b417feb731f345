"""Has the windows of a job come in time with what is there, where its query says so (WITHIN ... ELSE PARTIAL).

The master leaps over whoever is not there, once for all trees, so late that what it does itself is done in time. What
it publishes then names the agents that it has leaped over; what they bring later is counted, as of any pane that is
out. A new master gives agents time to find it: windows that end until then have no deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agent.runtime.master.results.latency_meter import LatencyMeter
from agent.runtime.master.state import JobState
from agent.runtime.model.panes import END, FIRST_PANE, Run, closed_ms
from agent.runtime.model.step_clock import StepClock

SETTLE_MS = 10_000
"""Time from the beginning of an epoch in which no window has a deadline, unless all agents are there before."""
HAND_IN_MS = 2_000
"""Time from which on all agents are there in which they hand in what they have."""
MARGIN_MS = 5
"""Time that is left over, beside what the master's own part has taken of late."""


class ResultDeadlines:
    """The deadlines of one master's windows. `clock` tells the time; `agreed_ms` the wall clock (epoch ms) by most
    agents; `are_all` whether all agents are there that are not dead."""

    def __init__(
        self,
        state: JobState,
        latency: LatencyMeter,
        clock: StepClock,
        agreed_ms: Callable[[], float],
        are_all: Callable[[], bool],
    ) -> None:
        self.upto = FIRST_PANE
        """The last pane that nobody is waited for, as it was to be out."""
        self._state, self._latency, self._clock, self._agreed_ms = state, latency, clock, agreed_ms
        self._settled_ms, self._are_all = agreed_ms() + SETTLE_MS, are_all
        self._is_settled = False

    @property
    def are_stated(self) -> bool:
        """Whether windows are to be out in time with what is there."""
        within = self._state.versions.newest.function.plan.within
        return within is not None and within.on_miss == "partial" and not self._state.job.bounded

    def extend(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: what others have sent meanwhile is still to be taken."""
        self._settled_ms = max(self._settled_ms, self._agreed_ms() + min(1000 * seconds, HAND_IN_MS))

    def next_at(self) -> float | None:
        """The time (s) from which on nobody is waited for in the next window; None: it has no deadline."""
        end_ms = self._next_end_ms()
        return None if end_ms is None else self._due_at(end_ms)

    def reached(self, now: float) -> int | None:
        """The last pane of a window whose deadline has come, once; None if none has."""
        end_ms = self._next_end_ms()
        if end_ms is None or now < self._due_at(end_ms):
            return None
        pane_ms = self._state.versions.newest.function.pane_ms
        assert pane_ms is not None
        self.upto = end_ms - pane_ms
        return self.upto

    def _due_at(self, end_ms: int) -> float:
        """The time (s) from which on nobody is waited for in a window with this end (epoch ms)."""
        within = self._state.versions.newest.function.plan.within
        assert within is not None
        own_ms = min(1000 * self._latency.own_part_s + MARGIN_MS, within.limit_ms / 2)
        return self._clock.now + (end_ms + within.limit_ms - own_ms - self._agreed_ms()) / 1000

    def with_leaped(self, runs: Iterable[Run], dead: int) -> list[Run]:
        """Complete runs, in which those are leaped over who live and are not there at a deadline."""
        return [self._marked(run, dead) if run.upto <= self.upto else run for run in runs]

    def _marked(self, run: Run, dead: int) -> Run:
        lacking = self._state.roster.expected(run.upto) & ~(run.contributors | dead)
        return replace(run, leaped=run.leaped | lacking) if lacking else run

    def _next_end_ms(self) -> int | None:
        """The end of the first window that is neither out nor leaped to (epoch ms); None without deadlines."""
        function, out = self._state.versions.newest.function, max(self._state.published_upto, self.upto)
        windowing = function.plan.windowing
        if not self.are_stated or windowing is None or not windowing.sizes or out == END:
            return None
        if out < self._state.versions.newest.after:
            return None  # panes of the version before wait as long as that one says
        if not self._is_settled and self._are_all():
            self._is_settled = True
            self._settled_ms = min(self._settled_ms, self._agreed_ms() + HAND_IN_MS)
        reached_ms = self._settled_ms
        if out != FIRST_PANE:
            reached_ms = max(reached_ms, closed_ms(out, function.pane_ms) + 1)
        return windowing.end_after(int(reached_ms))
