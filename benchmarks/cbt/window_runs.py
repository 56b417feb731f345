"""Programs that count keys in sliding windows, each in its own way, and time it.

`python -m benchmarks.cbt.window_runs tree|slate|recompute PANES PANE_EVENTS FILE`: a window has so many panes, and a
pane so many of the file's keys. Every pane ends with a result: the count of each key in the window that ends
there. The first windows, which are not full, are not timed.
"""

import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.cbt.keys import read_keys
from benchmarks.cbt.runs import Run
from benchmarks.cbt.tree_inserts import frames_of, insert_all, tree_of_counts
from benchmarks.cbt.windows import PANE_MS, TIMED_WINDOWS
from benchmarks.contender import Answer
from cbt.windows import CompleteWindow, Consolidator, WindowSize

Events = TypeVar("Events")


class SlidingCounts(Protocol[Events]):
    """Counts in a window of so many panes. What is timed are `insert`, `result` and `advance`."""

    def prepared(self, keys: NDArray[np.bytes_], pane: int) -> Events:
        """The keys of a pane in the form in which they would come."""

    def insert(self, events: Events) -> None: ...

    def result(self) -> Collection[int] | pl.Series:
        """The counts in the window that ends with what was inserted."""

    def advance(self) -> None:
        """Goes on to the next pane: all that has to be done before more can be inserted."""


class TreeWindows(SlidingCounts[list[pl.DataFrame]]):
    """The tree holds the open pane; flushed, it is added to the window, from which the oldest one is subtracted."""

    def __init__(self, panes: int) -> None:
        self._tree = tree_of_counts()
        self._windows = Consolidator(self._tree.layout, [WindowSize(panes * PANE_MS, PANE_MS)])
        self._pane = 0
        self._out: Iterator[CompleteWindow] = iter(())

    def prepared(self, keys: NDArray[np.bytes_], pane: int) -> list[pl.DataFrame]:
        return frames_of(keys, pane * PANE_MS)

    def insert(self, events: list[pl.DataFrame]) -> None:
        insert_all(self._tree, events)

    def result(self) -> pl.Series:
        self._out = self._windows.add(self._pane, pl.concat(self._tree.flush(self._pane)))
        return self._tree.layout.lower(next(self._out).frame)["n"]

    def advance(self) -> None:
        for _ in self._out:
            raise AssertionError("there is one window a pane")
        self._tree.empty(self._pane)
        self._pane += PANE_MS


class SlateWindows(SlidingCounts[list[str]]):
    """Each event updates the key's count in the window and in its pane; a pane that leaves is taken off again."""

    def __init__(self, panes: int) -> None:
        self._panes_max = panes
        self._window: dict[str, int] = {}
        self._panes: deque[dict[str, int]] = deque([{}])

    def prepared(self, keys: NDArray[np.bytes_], pane: int) -> list[str]:  # noqa: ARG002 - panes follow each other
        strings: list[str] = keys.astype(str).tolist()
        return strings

    def insert(self, events: list[str]) -> None:
        window, pane = self._window, self._panes[-1]
        in_window, in_pane = window.get, pane.get
        for key in events:
            window[key] = in_window(key, 0) + 1
            pane[key] = in_pane(key, 0) + 1

    def result(self) -> Collection[int]:
        return self._window.copy().values()

    def advance(self) -> None:
        if len(self._panes) == self._panes_max:
            for key, count in self._panes.popleft().items():
                left = self._window[key] - count
                if left:
                    self._window[key] = left
                else:
                    del self._window[key]
        self._panes.append({})


class Recomputation(SlidingCounts[list[pl.DataFrame]]):
    """Keeps the window's events, and groups all of them for each result: one Polars group-by."""

    def __init__(self, panes: int) -> None:
        self._panes: deque[list[pl.DataFrame]] = deque(maxlen=panes)

    def prepared(self, keys: NDArray[np.bytes_], pane: int) -> list[pl.DataFrame]:
        return frames_of(keys, pane * PANE_MS)

    def insert(self, events: list[pl.DataFrame]) -> None:
        self._panes.append(events)

    def result(self) -> pl.Series:
        window = pl.concat(frame for pane in self._panes for frame in pane)
        return window.group_by("key").len("n")["n"]

    def advance(self) -> None:
        """The oldest pane goes as the next one comes."""


def run(counts: SlidingCounts[Events], keys: NDArray[np.bytes_], panes: int, pane_events: int) -> Run:
    """Medians over the full windows: `result_ms` from the last event to the result, `work_ms` for all of a pane."""
    found: list[Answer] = []
    result_ms: list[float] = []
    work_ms: list[float] = []
    for number in range(panes + TIMED_WINDOWS):
        events = counts.prepared(keys[number * pane_events : (number + 1) * pane_events], number)
        times = [time.perf_counter()]
        counts.insert(events)
        times.append(time.perf_counter())
        result = counts.result()
        times.append(time.perf_counter())
        counts.advance()
        times.append(time.perf_counter())
        if number >= panes:
            found.append(Answer.of(list(result)))
            result_ms.append((times[2] - times[1]) * 1e3)
            work_ms.append((times[3] - times[0]) * 1e3)
    answer = Answer(*(sum(parts) for parts in zip(*((a.rows, a.total, a.squares) for a in found), strict=True)))
    return Run(answer, {"result_ms": statistics.median(result_ms), "work_ms": statistics.median(work_ms)})


def main() -> None:
    way, panes, pane_events, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    ways: dict[str, Callable[[int], SlidingCounts[Any]]]
    ways = {"tree": TreeWindows, "slate": SlateWindows, "recompute": Recomputation}
    run(ways[way](panes), read_keys(path), panes, pane_events).report()


if __name__ == "__main__":
    main()
