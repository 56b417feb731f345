"""Assembles windows that are shown while they grow (EMIT CHANGES), and again when what came late has changed them.

A window's last result comes once nothing can change it any more: its end and the grace are behind all panes up to the
one that could still bring late events. Until then its state is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import polars as pl

from cbt import WindowSize

Combine = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
AMENDED_AT_ONCE = 100
"""Upper bound on windows after their end that are shown again with one pane; others come with later ones."""


class WindowUpdate(NamedTuple):
    """A window's state after `pane`, its newest; the rows have the window's start as their pane. `at`: the pane with
    which it comes. `revision`: how often it has changed since its end.
    """

    pane: int
    start_ms: int
    size_ms: int
    state: pl.DataFrame
    is_final: bool
    at: int
    revision: int = 0


Window = tuple[int, int, int]
"""End, size and start of a window."""


class ChangingWindows:
    """Holds the state of every open window; each pane costs one combine for each window that contains it. For
    `amends_ms` after its end a window takes late events.
    """

    def __init__(self, combine: Combine, sizes: Sequence[WindowSize], pane_ms: int, amends_ms: int = 0) -> None:
        self._combine = combine
        self._sizes = sizes
        self._pane_ms = pane_ms
        self._held_ms = -(-amends_ms // pane_ms) * pane_ms
        self._amends_ms = amends_ms
        self._open: dict[Window, pl.DataFrame] = {}
        self._changed: set[Window] = set()
        """Windows that were not shown as they are now."""
        self._revisions: dict[Window, int] = {}

    def accepts(self, pane: int, at: int) -> bool:
        """Whether late events of a pane can still be put into all windows that hold them, with those of another."""
        return all(
            start + size.size_ms + self._amends_ms > at for size in self._sizes for start in size.containing(pane)
        )

    def amend(self, pane: int, state: pl.DataFrame) -> None:
        """Takes late events of an earlier pane; `show` shows what they have changed."""
        self._merge(pane, state)

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        """The windows that this pane completes, by their ends, and then the changed windows that stay open."""
        yield from self.advance(pane)
        self._merge(pane, state)
        yield from self.show(pane)

    def _merge(self, pane: int, state: pl.DataFrame) -> None:
        for size in self._sizes:
            for start in size.containing(pane):
                window = (start + size.size_ms, size.size_ms, start)
                added = in_pane(state, start)
                known = self._open.get(window)
                self._open[window] = added if known is None else self._combine([known, added])
                self._changed.add(window)

    def show(self, pane: int) -> Iterator[WindowUpdate]:
        """The windows that are complete with a pane, and then those that have changed and stay open."""
        yield from self.advance(pane + self._pane_ms)
        amended = 0
        for window in sorted(self._changed):
            end, size_ms, start = window
            is_over = end <= pane
            amended += is_over
            if amended <= AMENDED_AT_ONCE or not is_over:
                newest = min(pane, end - self._pane_ms)
                yield WindowUpdate(newest, start, size_ms, self._open[window], False, pane, self._revised(window, pane))

    def _revised(self, window: Window, at: int) -> int:
        """The number of changes of a window since its end, now that it is shown with a pane."""
        if window in self._changed:
            self._changed.discard(window)
            if window[0] <= at:
                self._revisions[window] = self._revisions.get(window, 0) + 1
        return self._revisions.get(window, 0)

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        """The windows that nothing can change any more once all panes before a time are added."""
        for window in sorted(window for window in self._open if window[0] + self._held_ms <= complete_ms):
            yield self._last(window, window[0] + self._held_ms - self._pane_ms)

    def settle(self, complete_ms: int, at: int) -> Iterator[WindowUpdate]:
        """The windows that are over once all panes before a time are added: nothing more will come."""
        for window in sorted(window for window in self._open if window[0] <= complete_ms):
            yield self._last(window, at)

    def _last(self, window: Window, at: int) -> WindowUpdate:
        end, size_ms, start = window
        revision = self._revised(window, at)
        self._revisions.pop(window, None)
        return WindowUpdate(end - self._pane_ms, start, size_ms, self._open.pop(window), True, at, revision)

    def end(self) -> Iterator[WindowUpdate]:
        """The windows that are open at the end of the input."""
        return self.advance(max((end for end, _, _ in self._open), default=0) + self._held_ms)

    @property
    def memory_bytes(self) -> int:
        return sum(int(state.estimated_size()) for state in self._open.values())


def in_pane(state: pl.DataFrame, pane: int) -> pl.DataFrame:
    """The rows, moved to another pane."""
    return state.with_columns(pane=pl.lit(pane, dtype=pl.Int64))
