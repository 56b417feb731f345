"""Holds the calls, frames and CPU time of one program against its limits.

The start of the program is its first call. Calls are done one after the other, so the time of each begins when the one
before is done.
"""

from __future__ import annotations

import math
from collections import deque

from agent.programs.commands import ProgramLimits

BUSY_CHECK_S = 1.0
"""Interval at which a busy program is checked; an idle one every half `cpu_window_s`, as it may only pretend to be
idle. All programs are checked at the same moments, so that it costs one wake-up."""
SECOND_CHECK_S = 0.25
"""Delay before the second check of an overdue call: its end may have waited while the agent was busy."""
SPARE_S = 1.0
"""Time without calls after which a program that is held to its processors has all the spare time it may have."""


class Pace:
    """Holds a program to its processors: its next call waits until what it has used is no more than they give.

    What they give in `SPARE_S` without a call may be used later. Times are seconds of one clock.
    """

    def __init__(self, cores: float, now: float) -> None:
        self._cores = cores
        self._left_s = cores * SPARE_S
        self._now, self._cpu_s = now, 0.0

    def pause_s(self, now: float, cpu_s: float) -> float:
        """The time until the next call may be sent, 0 if now; `cpu_s` is the CPU time since the start."""
        left_s = self._left_s + self._cores * (now - self._now) - (cpu_s - self._cpu_s)
        self._left_s = min(left_s, self._cores * SPARE_S)
        self._now, self._cpu_s = now, cpu_s
        return max(0.0, -self._left_s / self._cores)


class Watchdog:
    """Watches one program. Times are seconds of one clock; a breach says, for people, what the program did."""

    def __init__(self, limits: ProgramLimits, now: float) -> None:
        self._limits = limits
        self._unfinished = 1
        self._is_starting = True
        self._deadline = now + limits.start_s
        self._is_overdue = False
        self._frames = self._bytes = 0
        self._samples: deque[tuple[float, float]] = deque([(now, 0.0)])
        self._check_at = now
        self._idle_cpu_s: float | None = None
        self._is_awaited = False
        self.pace = None if math.isinf(limits.cores) else Pace(limits.cores, now)

    @property
    def is_busy(self) -> bool:
        return self._unfinished > 0

    def next_check(self) -> float:
        """The time at which to call `check_time`."""
        return min(self._check_at, self._deadline) if self.is_busy else self._check_at

    def note_call(self, now: float) -> None:
        """Notes that a call is sent."""
        self._unfinished += 1
        self._idle_cpu_s, self._is_awaited = None, False
        if self._unfinished == 1:
            self._begin_call(now)
            self._look_soon(now)

    def note_waiting(self, now: float) -> None:
        """Notes that a call is sent as soon as there are processors for it."""
        self._is_awaited = True
        self._look_soon(now)

    def _look_soon(self, now: float) -> None:
        self._check_at = min(self._check_at, _next_moment(now, BUSY_CHECK_S))

    def note_frame(self, frame: bytes, now: float) -> str | None:
        """Notes a frame of the program, empty at the end of a call. Returns the breach, if it is one."""
        if not self._unfinished:
            return "spoke when it was not called"
        if not frame:
            self._unfinished -= 1
            self._is_starting = False
            self._begin_call(now)
            return None
        self._frames += 1
        self._bytes += len(frame)
        if self._frames > self._limits.frames_in_call:
            return f"said more than {self._limits.frames_in_call:,} things in one call"
        if self._bytes > self._limits.bytes_in_call:
            return f"said more than {size(self._limits.bytes_in_call)} in one call"
        return None

    def check_time(self, now: float, cpu_s: float) -> str | None:
        """Checks CPU and elapsed time; `cpu_s` is the CPU time since the start. Returns the breach, if there is one."""
        looks_often = self.is_busy or self._is_awaited
        self._check_at = _next_moment(now, BUSY_CHECK_S if looks_often else self._limits.cpu_window_s / 2)
        if (breach := self._check_cpu(now, cpu_s)) is not None:
            return breach
        if not self.is_busy or now < self._deadline:
            return None
        if not self._is_overdue:
            self._is_overdue = True
            self._deadline = now + SECOND_CHECK_S
            return None
        if self._is_starting:
            return f"did not start within {self._limits.start_s:g} s"
        return f"took longer than {self._limits.call_s:g} s for a callback"

    def _check_cpu(self, now: float, cpu_s: float) -> str | None:
        """Checks CPU time: that of a program that is held to its processors only while it is not called."""
        if self.pace is not None:
            if not self.is_busy and self._idle_cpu_s is None:
                self._idle_cpu_s = cpu_s
            if self._idle_cpu_s is not None and cpu_s - self._idle_cpu_s > self._limits.cpu_s:
                return f"used more than {self._limits.cpu_s:g} s of CPU time while it was not called"
            return None
        samples, window_s = self._samples, self._limits.cpu_window_s
        samples.append((now, cpu_s))
        while samples[1][0] <= now - window_s:
            samples.popleft()
        if cpu_s - samples[0][1] > self._limits.cpu_s:
            return f"used more than {self._limits.cpu_s:g} s of CPU time within {window_s:g} s"
        return None

    def _begin_call(self, now: float) -> None:
        self._deadline = now + self._limits.call_s
        self._is_overdue = False
        self._frames = self._bytes = 0


def _next_moment(now: float, period: float) -> float:
    return (now // period + 1) * period


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count >> 20:,} MiB" if count >= 1 << 20 else f"{count:,} bytes"
