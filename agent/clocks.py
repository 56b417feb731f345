"""Reads the clock of timers and the wall clock together."""

from __future__ import annotations

from collections.abc import Callable

READ_S, READS_MAX = 0.001, 5
"""Time within which two clocks are read together, and how often that is tried."""


def wall_at(now: float, clock: Callable[[], float], wall_ms: Callable[[], int]) -> int:
    """The wall clock (epoch ms) at a time of the clock of timers. Both are read again if others have had the processor
    in between: deadlines and latencies are told by how far they are apart."""
    for _ in range(READS_MAX):
        before, found_ms, after = clock(), wall_ms(), clock()
        if after - before <= READ_S:
            break
    return round(found_ms - 1000 * (before - now))
