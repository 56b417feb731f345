"""Events at the times of clocks that are known to be wrong, which hold up nobody's time."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from agent.runtime.keyed.elements.runtime import EVENT_TIME
from agent.runtime.keyed.hosting.rows.outgoing import NEVER

FAR_MS = 60_000
"""Difference between clocks from which on one of them is wrong."""
ON_WAY_MS, AHEAD_MS = 300_000, 5_000
"""Time for which an event is on its way at most, and by which it is ahead of its agent's clock."""


class WrongClocks:
    """The clocks of agents that are behind by hours, say: they go on sending events that are late for all that waits
    for them, and would hold up time for ever."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def tell(self, clocks_ms: Sequence[int]) -> None:
        """Learns what these clocks show now."""
        self._spans = [(clock_ms - ON_WAY_MS, clock_ms + AHEAD_MS) for clock_ms in clocks_ms]

    def lowest(self, rows: pl.DataFrame) -> int:
        """The lowest time of rows that is that of no such clock, NEVER for none. O(rows)."""
        lowest = rows[EVENT_TIME].min() if rows.height else None
        if not isinstance(lowest, int):
            return NEVER
        if not self._spans or lowest > max(last for _, last in self._spans):
            return lowest
        times = rows[EVENT_TIME].to_numpy()
        for first, last in self._spans:
            times = times[(times < first) | (times > last)]
        return int(times.min()) if len(times) else NEVER
