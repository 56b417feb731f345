"""Times the panes of one operator from the look that lets them be closed to the runs that are sealed of them."""

from __future__ import annotations

from agent.runtime.model.containment import Clock
from agent.runtime.model.latency.critical_path import NOT_FOUND, CriticalPath, Found
from agent.runtime.model.panes import END, FIRST_PANE, closed_ms
from agent.runtime.model.step_clock import StepClock
from query.latency.phases import Phase


class SealTiming:
    """`found`: the look at a feed that is under way. `path`: that of the panes that are being sealed; None: of no live
    job's. `clock` tells the time, `work` the seconds that the process has worked."""

    def __init__(self, clock: StepClock, work: Clock) -> None:
        self.found = NOT_FOUND
        self.path: CriticalPath | None = None
        self._clock, self._work = clock, work
        self._began_s = 0.0

    @property
    def now(self) -> float:
        """The clock's time (s)."""
        return self._clock.now

    def take(self, found: Found) -> None:
        """Notes what the operator has got by now, and who has found it."""
        self.found = found._replace(taken_at=self._clock.now)

    def close(self, upto: int, pane_ms: int | None, grace_ms: int) -> None:
        """Panes up to one are closed by what was found."""
        self.path = None
        if pane_ms is not None and upto not in (FIRST_PANE, END) and self.found is not NOT_FOUND:
            self.path = CriticalPath.begun(self.found, closed_ms(upto, pane_ms) + 1, grace_ms, pane_ms)

    def begin(self) -> None:
        """Their sealing begins with the events that came before."""
        self._began_s = self._work()
        if self.path is not None:
            self.path = self.path.spent(Phase.SEAL_WAIT, self._clock.now)

    def inserted(self) -> None:
        """Notes that these events are inserted."""
        if self.path is not None:
            self.path = self.path.spent(Phase.INSERT, self.path.at + max(0.0, self._work() - self._began_s))
