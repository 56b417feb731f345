"""Panes that are kept to be parts of windows, where they can be merged before their time."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from math import inf

import polars as pl

FRAME_COST = 256.0
"""Cost of merging a frame beside that of its rows, in rows."""
FOLDED_AT = 32
"""Number of panes after which those of which windows need no single one are merged."""


class PaneRuns:
    """The frames of panes, in order, each for a stretch of time: of one pane, or of several that were merged.

    Every pane that was ever added is remembered, until it is forgotten; its frame may be dropped before.
    """

    def __init__(self) -> None:
        self._occupied: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._frames: list[pl.DataFrame] = []
        self._costs: list[float] = [0.0]
        """Sums of the costs of all frames before each, and of all, dropped ones among them."""
        self._dropped_upto = -(2**63)

    def add(self, start: int, end: int, frame: pl.DataFrame) -> None:
        """Adds the pane after all others."""
        self._occupied.append(start)
        self._starts.append(start)
        self._ends.append(end)
        self._frames.append(frame)
        self._costs.append(self._costs[-1] + FRAME_COST + frame.height)

    def fold(self, merge: Callable[[Sequence[pl.DataFrame]], pl.DataFrame], begins: int, least: int) -> int:
        """Merges the last panes, from a time on, if there are `least` of them; returns how many were merged."""
        first = bisect_left(self._starts, begins)
        if len(self._frames) - first < least:
            return 0
        count = len(self._frames) - first
        start, end, frame = self._starts[first], self._ends[-1], merge(self._frames[first:])
        del self._starts[first:], self._ends[first:], self._frames[first:], self._costs[first + 1 :]
        self._starts.append(start)
        self._ends.append(end)
        self._frames.append(frame)
        self._costs.append(self._costs[-1] + FRAME_COST + frame.height)
        return count

    def is_occupied(self, start: int, end: int) -> bool:
        """Whether a pane of a stretch was added."""
        at = bisect_left(self._occupied, start)
        return at < len(self._occupied) and self._occupied[at] < end

    def first_occupied(self, start: int) -> int | None:
        """The first pane that was added, from a time on."""
        at = bisect_left(self._occupied, start)
        return self._occupied[at] if at < len(self._occupied) else None

    def cost(self, start: int, end: int) -> float:
        """The cost of merging the panes of a stretch; infinite if one of them has been dropped."""
        if start < self._dropped_upto and self.is_occupied(start, min(end, self._dropped_upto)):
            return inf
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        return self._costs[last] - self._costs[first]

    def frames(self, start: int, end: int) -> list[pl.DataFrame]:
        """The frames of a stretch."""
        return self._frames[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def stretches(self) -> list[tuple[int, int, pl.DataFrame]]:
        """All frames with their times."""
        return list(zip(self._starts, self._ends, self._frames, strict=True))

    def replace(self, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
        """Puts something in the place of each frame that costs the same."""
        self._frames = [change(frame) for frame in self._frames]

    def drop(self, upto: int) -> None:
        """Drops the frames that end at a time or before it."""
        count = bisect_right(self._ends, upto)
        if count:
            self._dropped_upto = self._ends[count - 1]
            del self._starts[:count], self._ends[:count], self._frames[:count], self._costs[:count]

    def forget(self, before: int) -> None:
        """Forgets that there were panes before a time, once there are many of them."""
        count = bisect_left(self._occupied, before)
        if 2 * count > len(self._occupied):
            del self._occupied[:count]

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def memory_bytes(self) -> int:
        return sum(int(frame.estimated_size()) for frame in self._frames)
