"""What one program has been told and has said, and the time it takes, held against its limits.

Its start is the first call. Calls are done one after the other, so the time of each begins when the one before is done.
"""

from __future__ import annotations

from collections import deque

from agent.programs.commands import ProgramLimits

BUSY_LOOK_S = 1.0
"""How often a program at work is looked at; an idle one half a `cpu_window_s` apart, as it may only say that it is.
All are looked at in the same moments, so that it costs one wake-up."""
SECOND_LOOK_S = 0.25
"""A call that takes too long is looked at again: word of its end may have waited while the agent was busy."""


class Watchdog:
    """One program's. Times are seconds of one clock; a breach is what the program has done, for people."""

    def __init__(self, limits: ProgramLimits, now: float) -> None:
        self._limits = limits
        self._unfinished = 1
        self._is_starting = True
        self._deadline = now + limits.start_s
        self._is_overdue = False
        self._said_frames = self._said_bytes = 0
        self._samples: deque[tuple[float, float]] = deque([(now, 0.0)])
        self._look_at = now

    @property
    def is_busy(self) -> bool:
        return self._unfinished > 0

    def next_look(self) -> float:
        """When `looked` is to be called."""
        return min(self._look_at, self._deadline) if self.is_busy else self._look_at

    def called(self, now: float) -> None:
        """A call is on its way."""
        self._unfinished += 1
        if self._unfinished == 1:
            self._begin_call(now)
            self._look_at = min(self._look_at, _next_moment(now, BUSY_LOOK_S))

    def said(self, frame: bytes, now: float) -> str | None:
        """The program has said something, or that a call is done. The breach, if it is one."""
        if not self._unfinished:
            return "spoke when it was not called"
        if not frame:
            self._unfinished -= 1
            self._is_starting = False
            self._begin_call(now)
            return None
        self._said_frames += 1
        self._said_bytes += len(frame)
        if self._said_frames > self._limits.said_frames:
            return f"said more than {self._limits.said_frames:,} things in one call"
        if self._said_bytes > self._limits.said_bytes:
            return f"said more than {size(self._limits.said_bytes)} in one call"
        return None

    def looked(self, now: float, cpu_s: float) -> str | None:
        """`cpu_s`: the CPU time it has had since its start. The breach, if there is one."""
        self._look_at = _next_moment(now, BUSY_LOOK_S if self.is_busy else self._limits.cpu_window_s / 2)
        samples, window_s = self._samples, self._limits.cpu_window_s
        samples.append((now, cpu_s))
        while samples[1][0] <= now - window_s:
            samples.popleft()
        if cpu_s - samples[0][1] > self._limits.cpu_s:
            return f"used more than {self._limits.cpu_s:g} s of CPU time within {window_s:g} s"
        if not self.is_busy or now < self._deadline:
            return None
        if not self._is_overdue:
            self._is_overdue = True
            self._deadline = now + SECOND_LOOK_S
            return None
        if self._is_starting:
            return f"did not start within {self._limits.start_s:g} s"
        return f"took longer than {self._limits.call_s:g} s for a callback"

    def _begin_call(self, now: float) -> None:
        self._deadline = now + self._limits.call_s
        self._is_overdue = False
        self._said_frames = self._said_bytes = 0


def _next_moment(now: float, period: float) -> float:
    return (now // period + 1) * period


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count >> 20:,} MiB" if count >= 1 << 20 else f"{count:,} bytes"
