"""Windows that are shown while they are open: `EMIT CHANGES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from cbt import WindowSize

Combine = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class Grown(NamedTuple):
    """A window's state as of `pane`, the last that is in it so far; its rows have its start as their pane."""

    pane: int
    start_ms: int
    size_ms: int
    state: pl.DataFrame
    is_final: bool


class GrowingWindows:
    """Holds the state of every window that is open. One combine for each pane and window with it."""

    def __init__(self, combine: Combine, sizes: Sequence[WindowSize], pane_ms: int) -> None:
        self._combine = combine
        self._sizes = sizes
        self._pane_ms = pane_ms
        self._open: dict[tuple[int, int, int], pl.DataFrame] = {}
        """By end, size and start."""

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[Grown]:
        """The windows that are complete with this pane, by their ends, and then those that go on."""
        yield from self.advance(pane)
        changed = []
        for size in self._sizes:
            for start in size.containing(pane):
                window = (start + size.size_ms, size.size_ms, start)
                added = in_pane(state, start)
                known = self._open.get(window)
                self._open[window] = added if known is None else self._combine([known, added])
                changed.append(window)
        yield from self.advance(pane + self._pane_ms)
        for window in sorted(changed):
            if window in self._open:
                _, size_ms, start = window
                yield Grown(pane, start, size_ms, self._open[window], False)

    def advance(self, complete_ms: int) -> Iterator[Grown]:
        """The windows that are complete once all panes before a time are in."""
        for window in sorted(window for window in self._open if window[0] <= complete_ms):
            end, size_ms, start = window
            yield Grown(end - self._pane_ms, start, size_ms, self._open.pop(window), True)

    def end(self) -> Iterator[Grown]:
        """The windows that have begun, at the end of the input."""
        return self.advance(max((end for end, _, _ in self._open), default=0))

    @property
    def memory_bytes(self) -> int:
        return sum(int(state.estimated_size()) for state in self._open.values())


def in_pane(state: pl.DataFrame, pane: int) -> pl.DataFrame:
    """The rows as those of another pane."""
    return state.with_columns(pane=pl.lit(pane, dtype=pl.Int64))
