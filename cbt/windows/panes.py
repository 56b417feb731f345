"""Panes: the smallest intervals that all windows of a job are made of, aligned to the Unix epoch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeVar

import polars as pl

_PANES_MAX = 100_000
_Times = TypeVar("_Times", pl.Expr, pl.Series)


def pane_of(time: _Times, size_ms: int | None) -> _Times:
    """The pane of each time: the pane's start. Both are Int64 ms since the Unix epoch; without a size there
    is one pane, 0.

    The division floors, so times before 1970 fall into the pane that starts before them. Times within
    `size_ms` of the ends of Int64 would wrap; parsed times never come near them. Raises ValueError for a size
    below 1.

    >>> pl.DataFrame({"time": [-1, 0, 31_000]}).select(pane_of(pl.col("time"), 30_000))["time"].to_list()
    [-30000, 0, 30000]
    """
    if size_ms is None:
        return time * 0
    if size_ms < 1:
        raise ValueError(f"a pane of {size_ms} ms has no length")
    return time // size_ms * size_ms


@dataclass(frozen=True, slots=True, order=True)
class WindowSize:
    """Windows [k·slide_ms, k·slide_ms + size_ms) for every integer k: tumbling where slide and size are equal,
    hopping where the slide is shorter, and samples with gaps between them where it is longer.

    Raises ValueError for a size or slide below 1 ms.

    >>> WindowSize.tumbling(30_000).containing(31_000)
    range(30000, 30001, 30000)
    """

    size_ms: int
    slide_ms: int

    def __post_init__(self) -> None:
        if self.size_ms < 1 or self.slide_ms < 1:
            raise ValueError(f"windows of {self.size_ms} ms every {self.slide_ms} ms have no length")

    @classmethod
    def tumbling(cls, size_ms: int) -> "WindowSize":
        return cls(size_ms, size_ms)

    @property
    def slice_ms(self) -> int:
        """The length of the longest slices that make up all of these windows."""
        return gcd(self.size_ms, self.slide_ms)

    def containing(self, time_ms: int) -> range:
        """The starts of the windows that a time lies in, ascending. O(1).

        >>> list(WindowSize(15_000, 5_000).containing(31_000))
        [20000, 25000, 30000]
        """
        first = (time_ms - self.size_ms) // self.slide_ms + 1
        return range(first * self.slide_ms, time_ms // self.slide_ms * self.slide_ms + 1, self.slide_ms)


class PanePlan:
    """The panes that a job's windows are made of: `pane_ms` is the greatest common divisor of all sizes and slides, or
    a part of it.

    Panes and windows are named by their start, in ms since the Unix epoch. Raises ValueError without window
    sizes, if the longest has more than 100 000 panes, or for panes that are no part of what sizes have in common.

    >>> plan = PanePlan([WindowSize(15_000, 5_000), WindowSize.tumbling(30_000)])
    >>> plan.pane_ms, plan.panes_max
    (5000, 6)
    >>> plan.panes_of(WindowSize(15_000, 5_000), 10_000)
    range(10000, 25000, 5000)
    """

    def __init__(self, sizes: Sequence[WindowSize], pane_ms: int | None = None) -> None:
        if not sizes:
            raise ValueError("there are no windows without a size")
        self.sizes = tuple(sorted(set(sizes)))
        self.common_ms = common_ms = gcd(*(size.slice_ms for size in self.sizes))
        self.pane_ms = common_ms if pane_ms is None else pane_ms
        if self.pane_ms < 1 or common_ms % self.pane_ms:
            raise ValueError(
                f"panes of {self.pane_ms} ms are no parts of the {common_ms} ms that windows have in common"
            )
        self.size_max_ms = max(size.size_ms for size in self.sizes)
        if self.panes_max > _PANES_MAX:
            raise ValueError(
                f"windows of up to {self.size_max_ms} ms have only panes of {self.pane_ms} ms in common, more than "
                f"{_PANES_MAX}: choose sizes and slides that divide each other"
            )

    @property
    def panes_max(self) -> int:
        """The panes of the longest window."""
        return self.size_max_ms // self.pane_ms

    def panes_of(self, size: WindowSize, start_ms: int) -> range:
        """The panes that make a window. O(1)."""
        return range(start_ms, start_ms + size.size_ms, self.pane_ms)

    def windows_with(self, pane: int) -> Iterator[tuple[WindowSize, int]]:
        """The windows that a pane is part of, by size and start. O(windows)."""
        return ((size, start) for size in self.sizes for start in size.containing(pane))

    def completed_by(self, pane: int) -> Iterator[tuple[WindowSize, int]]:
        """The windows that end with a pane. O(sizes).

        >>> plan = PanePlan([WindowSize(15_000, 5_000), WindowSize.tumbling(30_000)])
        >>> [(size.size_ms, start) for size, start in plan.completed_by(25_000)]
        [(15000, 15000), (30000, 0)]
        """
        starts = ((size, pane + self.pane_ms - size.size_ms) for size in self.sizes)
        return ((size, start) for size, start in starts if start % size.slide_ms == 0)
