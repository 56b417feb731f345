"""A job's windows that are made of several panes, at its master: it consolidates panes (DESIGN §5.6; Enorm).

Agents and combiners know of panes only. What windows of several panes need of those that are out already is not
replicated: agents keep their sealed panes until no window needs them (`JobFunction.kept_after`), and hand them in
again to the next master, which makes the same windows of them. Who has gone since is in some panes of a window only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from agent.runtime.function import JobFunction
from agent.runtime.growing_windows import GrowingWindows, Grown
from agent.runtime.pane_ledger import PaneLedger
from agent.runtime.panes import END, Counted, Counts, Run, closed_ms
from agent.runtime.session_windows import SessionWindows
from cbt import Consolidator, Window, WindowSize

BYTES_MAX = 2 << 30
"""So much memory open windows may take before that ends the job."""
LOOK_PANES = 64
"""So often that is looked at."""


@dataclass(frozen=True, slots=True)
class MadeWindow:
    """A window as it can be published. `pane`: the last in it so far. `position` grows from one to the next: the pane,
    and some ms more where several windows come with it. `expected`, `contributors`, `partial`: sets of agents.
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


Expected = Callable[[int, int], int]
"""Who belongs to any of the panes from one to another."""


class OpenWindows:
    """Of one version of a job, whose windows begin at `starts` at the earliest."""

    def __init__(self, function: JobFunction, starts: int) -> None:
        assert function.plan.windowing is not None
        windowing = function.plan.windowing
        sizes = [WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes]
        self.function = function
        self._pane_ms = windowing.pane_ms
        self._starts = starts
        self._ledger = PaneLedger()
        self._windows: GrowingWindows | SessionWindows | _Consolidated
        if function.sessions is not None:
            self._windows = SessionWindows(function.sessions)
        elif windowing.changes:
            self._windows = GrowingWindows(function.combine, sizes, self._pane_ms)
        else:
            self._windows = _Consolidated(function, sizes, self._pane_ms)
        self._last = (0, 0)
        self._taken = 0
        self.is_too_large = False
        """Whether they take more memory than they may."""

    def take(self, run: Run, counted: Counted, expected: Expected) -> Iterator[tuple[MadeWindow, pl.DataFrame]]:
        """The windows that the next run completes or changes, in order, each with its state."""
        self._ledger.add(run, counted)
        for grown in self._grown(run, counted):
            if grown.start_ms >= self._starts:
                yield self._made(grown, expected), grown.state
        self._ledger.forget(self.function.kept_after(run.upto) + 1)

    def _grown(self, run: Run, panes: Iterable[int]) -> Iterator[Grown]:
        for pane in sorted(panes):
            yield from self._windows.add(pane, run.state.filter(pl.col("pane") == pane))
            self._taken += 1
            if self._taken % LOOK_PANES == 0:
                self.is_too_large = self._windows.memory_bytes > BYTES_MAX
        if run.upto == END:
            yield from self._windows.end()
        else:
            yield from self._windows.advance(closed_ms(run.upto, self._pane_ms) + 1)

    def _made(self, grown: Grown, expected: Expected) -> MadeWindow:
        before, rank = self._last
        rank = rank + 1 if grown.pane == before else 0
        self._last = (grown.pane, rank)
        # Of a window that is open, panes to come are nobody's yet: who is in all so far is whole.
        members = self._ledger.members(grown.start_ms, grown.pane)
        belong = expected(grown.start_ms, grown.pane)
        return MadeWindow(
            pane=grown.pane,
            position=grown.pane + rank,
            start_ms=grown.start_ms,
            size_ms=grown.size_ms,
            counted=self._ledger.counted(grown.start_ms, grown.pane),
            expected=belong,
            contributors=belong & members.contributors,
            partial=belong & members.contributors & ~members.whole,
            is_final=grown.is_final,
        )


class _Consolidated:
    """The same shape over a consolidator, which shares the work of windows that overlap."""

    def __init__(self, function: JobFunction, sizes: Sequence[WindowSize], pane_ms: int) -> None:
        self._consolidator = Consolidator(_States(function), sizes)
        self._pane_ms = pane_ms

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[Grown]:
        return map(self._grown, self._consolidator.add(pane, state))

    def advance(self, complete_ms: int) -> Iterator[Grown]:
        return map(self._grown, self._consolidator.advance(complete_ms))

    def end(self) -> Iterator[Grown]:
        return map(self._grown, self._consolidator.end())

    def _grown(self, window: Window) -> Grown:
        return Grown(window.end_ms - self._pane_ms, window.start_ms, window.size.size_ms, window.frame, True)

    @property
    def memory_bytes(self) -> int:
        return self._consolidator.memory_bytes


class _States:
    """What a consolidator merges: states of a function, within its limit of groups."""

    def __init__(self, function: JobFunction) -> None:
        self._function = function

    def empty(self) -> pl.DataFrame:
        return self._function.nothing

    def combine(self, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        return self._function.combine(list(frames))
