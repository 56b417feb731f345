"""Says what times live events may have, by a wall clock that may be wrong.

The wall clock is compared with the monotonic one. A step of it is believed once it has lasted; until then time goes on
as before, so that a clock that is an hour ahead for two seconds closes no pane. An agent that starts again resumes what
its process before believed: its first look at the clock may fall into such a step.
"""

from __future__ import annotations

FUTURE_MS = 60_000
"""Upper bound on an event's lead over the wall clock; later events are not believed."""
MAX_SKEW_MS = 2_000
"""Default of `max_skew`: lead over the wall clock up to which an event moves the watermark."""
STEP_MS = 1_000
"""Difference between the progress of the wall clock and of the monotonic clock that counts as a step."""
LASTING_S = 10.0
"""Time after which a step of the wall clock is believed."""


class EventClock:
    """The wall clock of one agent, without steps that have not lasted `LASTING_S` yet."""

    def __init__(self, max_skew_ms: int = MAX_SKEW_MS) -> None:
        self.max_skew_ms = max_skew_ms
        self.steps = 0
        """Number of steps of the wall clock."""
        self._lead_ms: float | None = None
        self._doubted_from: float | None = None
        self._stepped_upto: int | None = None
        self._steady_ms = self._wall_ms = 0

    @property
    def lead_ms(self) -> float | None:
        """The believed lead of the wall clock on the monotonic one; None before the first reading."""
        return self._lead_ms

    def resume(self, lead_ms: float) -> None:
        """Begins with what an earlier process of the agent has believed, in terms of this one's monotonic clock."""
        self._lead_ms = lead_ms

    @property
    def steady_ms(self) -> int:
        """The last reading of the wall clock, without a step that is still doubted."""
        return self._steady_ms

    @property
    def limit_ms(self) -> int:
        """The latest time of an event that may move a watermark."""
        return self._steady_ms + self.max_skew_ms

    @property
    def latest_ms(self) -> int:
        """The latest time of an event that is believed: it counts in its pane, also one written after a step that is
        still doubted.
        """
        return max(self._steady_ms, self._wall_ms) + FUTURE_MS

    def observe(self, now: float, wall_ms: int) -> int:
        """Compares both clocks, read together; returns the wall clock's time without a step that is still doubted."""
        lead_ms = wall_ms - now * 1000
        self._wall_ms = wall_ms
        if self._lead_ms is None or abs(lead_ms - self._lead_ms) <= STEP_MS:
            self._lead_ms, self._doubted_from = lead_ms, None
        elif self._doubted_from is None:
            self._doubted_from = now
            self.steps += 1
        elif now - self._doubted_from >= LASTING_S:
            self._stepped_upto = max(wall_ms, round(now * 1000 + self._lead_ms))
            self._lead_ms, self._doubted_from = lead_ms, None
        self._steady_ms = wall_ms if self._doubted_from is None else round(now * 1000 + self._lead_ms)
        return self._steady_ms

    def not_later(self, now: float, wall_ms: int) -> int:
        """An earlier reading, which cannot be compared with `now`, or the steady time where that is less."""
        if self._lead_ms is not None and wall_ms <= now * 1000 + self._lead_ms:
            return wall_ms
        return self.observe(now, wall_ms)

    def wall_at(self, now: float) -> float:
        """The wall clock's time (epoch ms) at a time of the monotonic clock (s), as far as steps are believed."""
        return now * 1000 + (self._lead_ms or 0.0)

    def take_step(self) -> int | None:
        """The end of the span that a step has skipped or repeats, once after it was believed."""
        stepped_upto, self._stepped_upto = self._stepped_upto, None
        return stepped_upto
