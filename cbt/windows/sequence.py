"""The windows of one size, one after the other, made of slices: the runs of panes that all of them have in common."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from cbt.windows.merging import Mergeable, combined
from cbt.windows.panes import WindowSize
from cbt.windows.two_stacks import TwoStacks

_BEFORE_ALL = -(2**63)


@dataclass(frozen=True, slots=True)
class CompleteWindow:
    """A complete window's PAO frame, whose `pane` is the window's start."""

    size: WindowSize
    start_ms: int
    frame: pl.DataFrame

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.size.size_ms


class WindowSequence:
    """Holds the slices of one window."""

    def __init__(self, layout: Mergeable, size: WindowSize) -> None:
        self.size, self._layout = size, layout
        self._aggregate = TwoStacks(layout)
        self._occupancy: deque[bool] = deque()  # for each of the aggregate's slices, whether a pane was added to it
        self._oldest = _BEFORE_ALL  # the start of the oldest slice
        self._filling, self._occupied = layout.empty(), False  # the slice after them, which is being filled
        self._filling_start = _BEFORE_ALL

    def advance(self, complete_ms: int) -> Iterator[CompleteWindow]:
        """Yields the windows that are complete once all panes before a time are, except windows without any pane.

        At most one combine for each window, and amortised two for each slice.
        """
        self._skip_to(complete_ms - self.size.size_ms)
        while self._filling_start + self.size.slice_ms <= complete_ms:
            yield from self._close_slice()
            self._skip_to(complete_ms - self.size.size_ms)

    def add(self, frame: pl.DataFrame) -> None:
        """Adds the pane after those that are complete. At most one combine."""
        self._filling = combined(self._layout, [self._filling, in_pane(frame, 0)])
        self._occupied = True

    @property
    def slices(self) -> int:
        """The number of slices held, without the one that is being filled."""
        return len(self._aggregate)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the columns held, those that frames share once for each of them. O(slices)."""
        return self._aggregate.memory_bytes + int(self._filling.estimated_size())

    def _slice_of(self, time_ms: int) -> int:
        return time_ms // self.size.slice_ms * self.size.slice_ms

    def _skip_to(self, time_ms: int) -> None:
        """Skips to a later slice if no unfinished window has any pane yet."""
        slice_start = self._slice_of(time_ms)
        if slice_start > self._filling_start and not self._occupied and not any(self._occupancy):
            self._aggregate = TwoStacks(self._layout)
            self._occupancy.clear()
            self._filling_start = slice_start

    def _close_slice(self) -> Iterator[CompleteWindow]:
        if self._filling_start % self.size.slide_ms < self.size.size_ms:
            self._push_slice()
        self._filling, self._occupied = self._layout.empty(), False
        self._filling_start += self.size.slice_ms
        start = self._filling_start - self.size.size_ms
        if start % self.size.slide_ms == 0:
            if any(self._occupancy):
                yield CompleteWindow(self.size, start, in_pane(self._aggregate.value(), start))
            self._evict_before(start + self.size.slide_ms)

    def _push_slice(self) -> None:
        if not len(self._aggregate):
            self._oldest = self._filling_start
        self._aggregate.push(self._filling)
        self._occupancy.append(self._occupied)

    def _evict_before(self, start: int) -> None:
        leaving = min((start - self._oldest) // self.size.slice_ms, len(self._aggregate))
        if leaving <= 0:
            return
        self._aggregate.evict(leaving)
        for _ in range(leaving):
            self._occupancy.popleft()
        self._oldest += leaving * self.size.slice_ms


def in_pane(frame: pl.DataFrame, pane: int) -> pl.DataFrame:
    """The frame with all its rows in one pane."""
    return frame.with_columns(pane=pl.lit(pane, dtype=pl.Int64))
