"""The schedule of the demo: one agent is killed and started again. No clocks, no processes.

Windows close every `WINDOW_S` seconds, and their results come `GRACE_S` later. So the first one comes at most two
windows and the grace after the query (`FIRST_WINDOW_S`), a kill shows in the next one, and an agent that came back is
in the first window that begins after that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

WINDOW_S = 5
GRACE_S = 5
FIRST_WINDOW_S = 2 * WINDOW_S + GRACE_S
_PAUSE_S = 1.5
"""Time for a viewer to look at a window before the next act."""
_START_S = 5
"""Upper bound on a killed agent's return to the roster."""
_SEEN_S = WINDOW_S + _PAUSE_S
"""Time from a kill until a window without the agent has been seen."""
_BACK_S = _START_S + 2 * WINDOW_S + GRACE_S
"""Time from an agent's start until a window with the agent comes."""
KILL_NEEDS_S = FIRST_WINDOW_S + _PAUSE_S + _SEEN_S
BOTH_NEED_S = KILL_NEEDS_S + _BACK_S


class Act(Enum):
    """An act on the victim."""

    KILL = "kill"
    START = "start"


@dataclass(frozen=True, slots=True)
class WindowSighting:
    """The facts of a window that the schedule needs: its time, and whether it was complete or lacked the victim."""

    at_s: float
    complete: bool
    lacks_victim: bool


class ActSchedule:
    """Decides the next act; `next_act` is called again and again. Times are seconds since the query."""

    def __init__(self, seconds: float) -> None:
        self.kills = seconds >= KILL_NEEDS_S
        self.restarts = seconds >= BOTH_NEED_S
        self._seconds = seconds
        self._killed_at: float | None = None
        self._started_at: float | None = None

    @property
    def left_out(self) -> str | None:
        """Acts there is no time for, as a text for the viewer; None if there is time for all."""
        if self.restarts:
            return None
        if self.kills:
            return f"too short for the killed agent's return (it takes {BOTH_NEED_S:g} seconds)"
        return f"too short to kill an agent (it takes {KILL_NEEDS_S:g} seconds, and {BOTH_NEED_S:g} with its return)"

    def next_act(self, now_s: float, windows: Sequence[WindowSighting]) -> Act | None:
        """The act that is due, at most once each; it counts as performed."""
        if self._killed_at is None:
            if self.kills and self._may_kill(now_s, windows):
                self._killed_at = now_s
                return Act.KILL
        elif self._started_at is None and self.restarts and self._may_start(now_s, windows):
            self._started_at = now_s
            return Act.START
        return None

    def _may_kill(self, now_s: float, windows: Sequence[WindowSighting]) -> bool:
        """Whether to kill: after two complete windows, one if time is short, any window if there is no time at all."""
        complete = [window for window in windows if window.complete]
        needed_s = _SEEN_S + (_BACK_S if self.restarts else 0)
        wanted = 2 if now_s + WINDOW_S + needed_s < self._seconds else 1
        seen = len(complete) >= wanted and now_s - complete[wanted - 1].at_s >= _PAUSE_S
        return seen or (bool(windows) and now_s + needed_s >= self._seconds)

    def _may_start(self, now_s: float, windows: Sequence[WindowSighting]) -> bool:
        """Whether to start the victim: after a window without it, or when the time for its return would run out."""
        assert self._killed_at is not None
        without = [window.at_s for window in windows if window.lacks_victim and window.at_s >= self._killed_at]
        seen = bool(without) and now_s - without[0] >= _PAUSE_S
        return seen or (now_s - self._killed_at >= _SEEN_S and now_s + _BACK_S >= self._seconds)
