"""Makes windows of the panes of a job's function, sharing the work of those that overlap, and fewer panes of those
that are in the same windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import polars as pl

from agent.runtime.function.changing_windows import WindowUpdate
from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.panes import Run
from cbt import CompleteWindow, Consolidator, WindowSize
from cbt.windows import WorkDone

OPEN_BYTES_MAX = 2 << 30
"""Upper bound on the memory of a job's open windows, at its master or an owner; past it the job ends."""


class ConsolidatedWindows:
    """Has the interface of `ChangingWindows`, over a consolidator that shares the work of overlapping windows."""

    @classmethod
    def of(cls, function: JobFunction) -> ConsolidatedWindows:
        """Windows of the sizes of a function that has several panes in each."""
        windowing = function.plan.windowing
        assert windowing is not None
        sizes = [WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes]
        return cls(function, sizes, windowing.pane_ms)

    def __init__(self, function: JobFunction, sizes: Sequence[WindowSize], pane_ms: int) -> None:
        self._consolidator = Consolidator(_States(function), sizes, function.difference, pane_ms)
        self._pane_ms = pane_ms

    def add(self, pane: int, state: pl.DataFrame) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.add(pane, state))

    def advance(self, complete_ms: int) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.advance(complete_ms))

    def end(self) -> Iterator[WindowUpdate]:
        return map(self._updates_of, self._consolidator.end())

    def _updates_of(self, window: CompleteWindow) -> WindowUpdate:
        newest = window.end_ms - self._pane_ms
        return WindowUpdate(newest, window.start_ms, window.size.size_ms, window.frame, True, newest)

    def partial(self) -> Iterator[WindowUpdate]:
        """The windows that have begun, as far as they have come. O(windows that have begun)."""
        return map(self._updates_of, self._consolidator.partial())

    @property
    def done(self) -> WorkDone:
        return self._consolidator.done

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


def at_edges(function: JobFunction, run: Run) -> Run:
    """The run with one state for the panes between one edge of any window and the next, before it leaves its agent
    (Enorm, section 5.1.1); itself where no window is made of several panes at its end alone, or more depends on panes:
    late events of some, panes of older versions, or a limit of groups that ends the job. O(n log n).

    These panes are in the same windows, so no window has other rows when all are of the last of them. What was counted
    stays with each pane, and a run can still be cut anywhere: windows end at edges, where the state is.
    """
    windowing = function.plan.windowing
    if windowing is None or not function.is_consolidated or function.refuses_others or run.patches or run.before:
        return run
    panes = run.state["pane"].unique().sort()
    edges = (panes // one.slide_ms + (panes - one.size_ms) // one.slide_ms for one in windowing.sizes)
    slices = reduce(add, edges)
    if panes.len() < 2 or slices.n_unique() == panes.len():
        return run
    last = pl.DataFrame({"pane": panes, "slice": slices}).select("pane", last=pl.col("pane").max().over("slice"))
    moved = run.state.with_columns(pl.col("pane").replace_strict(last["pane"], last["last"]))
    return replace(run, state=function.combine([moved]), encoding=None)
