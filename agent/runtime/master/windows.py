"""Assembles windows of several panes at a job's master (DESIGN §5.6; Enorm).

Agents and combiners only handle panes. Published panes that open windows still need are not replicated: agents keep
their sealed panes until no window needs them (`JobFunction.retention_pane`), and hand them in again to the next master,
which assembles the same windows. An agent that has left or failed since is only in some panes of a window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_, sub
from typing import NamedTuple

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import END, PANE_MAX, Counted, Counts, Run, closed_ms
from cbt import CompleteWindow, Consolidator, OpenSessions, SessionLayout, WindowSize

Combine = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]


class WindowUpdate(NamedTuple):
    """A window's state after `pane`, its newest; the rows have the window's start as their pane."""

    pane: int
    start_ms: int
    size_ms: int
    state: pl.DataFrame
    is_final: bool


class ChangingWindows:
    """Holds the state of every open window; each pane costs one combine for each window that contains it."""

    def __init__(self, combine: Combine, sizes: Sequence[WindowSize], pane_ms: int) -> None:
        self._combine = combine
        self._sizes = sizes
        self._pane_ms = pane_ms
        self._open: dict[tuple[int, int, int], pl.DataFrame] = {}
        """States by end, size and start of their windows."""

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        """The windows that this pane completes, by their ends, and then the changed windows that stay open."""
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
                yield WindowUpdate(pane, start, size_ms, self._open[window], False)

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        """The windows that are complete once all panes before a time are added."""
        for window in sorted(window for window in self._open if window[0] <= complete_ms):
            end, size_ms, start = window
            yield WindowUpdate(end - self._pane_ms, start, size_ms, self._open.pop(window), True)

    def end(self) -> Iterator[WindowUpdate]:
        """The windows that are open at the end of the input."""
        return self.advance(max((end for end, _, _ in self._open), default=0))

    @property
    def memory_bytes(self) -> int:
        return sum(int(state.estimated_size()) for state in self._open.values())


def in_pane(state: pl.DataFrame, pane: int) -> pl.DataFrame:
    """The rows, moved to another pane."""
    return state.with_columns(pane=pl.lit(pane, dtype=pl.Int64))


class Members(NamedTuple):
    """The agents that contribute to any of some panes, and those that are whole in all of them."""

    contributors: int
    whole: int


@dataclass(slots=True)
class _Stretch:
    """The panes in (after, upto] with the same agents."""

    after: int
    upto: int
    contributors: int
    partial: int
    leaped: int = 0


class PaneIndex:
    """Counts and contributors of panes that come in order. Sums are differences of running sums: O(log panes)."""

    def __init__(self) -> None:
        self._panes: list[int] = []
        self._sums: list[tuple[int, ...]] = [tuple(Counts())]
        self._stretches: list[_Stretch] = []

    def add(self, run: Run, counted: Counted) -> None:
        """Takes the panes of the next run, with their counts where they have any."""
        for pane in sorted(counted):
            self._panes.append(pane)
            self._sums.append(tuple(map(add, self._sums[-1], counted[pane])))
        last = self._stretches[-1] if self._stretches else None
        goes_on = last is not None and last.upto == run.after
        now = (run.contributors, run.partial, run.leaped)
        if last is not None and goes_on and (last.contributors, last.partial, last.leaped) == now:
            last.upto = run.upto
        else:
            self._stretches.append(_Stretch(run.after, run.upto, *now))

    def counted(self, first: int, last: int) -> Counts:
        """The counts of the panes from `first` to `last`."""
        begin, end = bisect_left(self._panes, first), bisect_right(self._panes, last)
        return Counts(*map(sub, self._sums[end], self._sums[begin]))

    def members(self, first: int, last: int) -> Members:
        """The members of the panes from `first` to `last`; unknown panes have none."""
        inside = [one for one in self._stretches if one.after < last and one.upto >= first]
        if not inside:
            return Members(0, 0)
        contributors, whole = 0, -1
        for one in inside:
            contributors |= one.contributors
            whole &= one.contributors & ~one.partial
        is_covered = inside[0].after < first and inside[-1].upto >= last
        return Members(contributors, whole if is_covered else 0)

    def leaped(self, first: int, last: int) -> int:
        """The agents that were leaped over in any of the panes from `first` to `last`."""
        return reduce(or_, (one.leaped for one in self._stretches if one.after < last and one.upto >= first), 0)

    def forget(self, before: int) -> None:
        """Frees panes before a time, once there are many of them."""
        self._stretches = [one for one in self._stretches if one.upto >= before]
        old = bisect_left(self._panes, before)
        if 2 * old > len(self._panes):
            del self._panes[:old], self._sums[:old]


START = "session.start"


class SessionWindows:
    """Has the interface of `ChangingWindows`. All sessions that end with a pane are one window, from the pane in which
    the first of them began.
    """

    def __init__(self, layout: SessionLayout) -> None:
        self._layout = layout
        self._sessions = OpenSessions(layout)
        self._complete: int | None = None

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        """Takes a pane's state, with the times of its first and last events."""
        yield from self.advance(pane)
        self._complete = pane + self._layout.pane_ms
        yield from self._over(self._sessions.add(self._layout.pieces(state), self._complete).frame)

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        """The sessions that are over once all panes before a time are added."""
        if self._complete is not None and complete_ms > self._complete and len(self._sessions):
            self._complete = complete_ms
            yield from self._over(self._sessions.add(self._layout.empty(), complete_ms).frame)

    def end(self) -> Iterator[WindowUpdate]:
        """The open sessions, at the end of the input."""
        yield from self._over(self._sessions.end().frame)

    def _over(self, sessions: pl.DataFrame) -> Iterator[WindowUpdate]:
        first = sessions[START].min()
        if isinstance(first, int) and self._complete is not None:
            pane_ms = self._layout.pane_ms
            start = first // pane_ms * pane_ms
            yield WindowUpdate(self._complete - pane_ms, start, self._complete - start, sessions, True)

    @property
    def memory_bytes(self) -> int:
        return self._sessions.memory_bytes


BYTES_MAX = 2 << 30
"""Upper bound on the memory of open windows; past it the job ends."""
LOOK_PANES = 64
"""Number of panes between two looks at the memory of open windows."""


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window that can be published. `pane`: its newest. `position` grows from window to window: the pane, and some
    ms more if several windows come with it. `expected`, `contributors`, `partial`, `leaped`: bitmaps of agents.
    """

    pane: int
    position: int
    start_ms: int
    size_ms: int | None
    counted: Counts
    expected: int
    contributors: int
    partial: int
    is_final: bool = True
    leaped: int = 0


Expected = Callable[[int, int], int]
"""Bitmap of the agents that belong to any of the panes from one to another."""


class WindowAssembler:
    """Assembles the windows of one version of a job, which begin at `starts` at the earliest."""

    def __init__(self, function: JobFunction, starts: int) -> None:
        assert function.plan.windowing is not None
        windowing = function.plan.windowing
        sizes = [WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes]
        self.function = function
        self._pane_ms = windowing.pane_ms
        self._starts = starts
        self._index = PaneIndex()
        self._windows: ChangingWindows | SessionWindows | _Consolidated
        if function.sessions is not None:
            self._windows = SessionWindows(function.sessions)
        elif windowing.changes:
            self._windows = ChangingWindows(function.combine, sizes, self._pane_ms)
        else:
            self._windows = _Consolidated(function, sizes, self._pane_ms)
        self._last = (0, 0)
        self._taken = 0
        self.is_too_large = False
        """Whether open windows take more than BYTES_MAX of memory."""

    def take(self, run: Run, counted: Counted, expected: Expected) -> Iterator[tuple[ClosedWindow, pl.DataFrame]]:
        """The windows that the next run completes or changes, in order, each with its state."""
        self._index.add(run, counted)
        for update in self._updates_of(run, counted):
            if update.start_ms >= self._starts:
                yield self._closed(update, expected), update.state
        self._index.forget(self.function.retention_pane(run.upto) + 1)

    def _updates_of(self, run: Run, panes: Iterable[int]) -> Iterator[WindowUpdate]:
        for pane in sorted(panes):
            yield from self._windows.add(pane, run.state.filter(pl.col("pane") == pane))
            self._taken += 1
            if self._taken % LOOK_PANES == 0:
                self.is_too_large = self._windows.memory_bytes > BYTES_MAX
        if run.upto == END:
            yield from self._windows.end()
        else:
            # The span of an unsound run is taken without its content: nobody waits for it.
            yield from self._windows.advance(min(closed_ms(run.upto, self._pane_ms) + 1, PANE_MAX))

    def _closed(self, update: WindowUpdate, expected: Expected) -> ClosedWindow:
        before, rank = self._last
        rank = rank + 1 if update.pane == before else 0
        self._last = (update.pane, rank)
        # An agent that is in all panes of an open window up to now is whole.
        members = self._index.members(update.start_ms, update.pane)
        belong = expected(update.start_ms, update.pane)
        return ClosedWindow(
            pane=update.pane,
            position=update.pane + rank,
            start_ms=update.start_ms,
            size_ms=update.size_ms,
            counted=self._index.counted(update.start_ms, update.pane),
            expected=belong,
            contributors=belong & members.contributors,
            partial=belong & members.contributors & ~members.whole,
            is_final=update.is_final,
            leaped=belong & self._index.leaped(update.start_ms, update.pane),
        )


class _Consolidated:
    """Has the interface of `ChangingWindows`, over a consolidator that shares the work of overlapping windows."""

    def __init__(self, function: JobFunction, sizes: Sequence[WindowSize], pane_ms: int) -> None:
        self._consolidator = Consolidator(_States(function), sizes)
        self._pane_ms = pane_ms

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.add(pane, state))

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.advance(complete_ms))

    def end(self) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.end())

    def _updates_of(self, window: CompleteWindow) -> WindowUpdate:
        return WindowUpdate(window.end_ms - self._pane_ms, window.start_ms, window.size.size_ms, window.frame, True)

    @property
    def memory_bytes(self) -> int:
        return self._consolidator.memory_bytes


class _States:
    """Lets a consolidator merge states of a function, within its limit of groups."""

    def __init__(self, function: JobFunction) -> None:
        self._function = function

    def empty(self) -> pl.DataFrame:
        return self._function.empty_state

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        return self._function.combine(list(frames))
