"""The processor's time for windows that are made of each other, and for those of each size made by themselves."""

import heapq
from collections.abc import Callable, Iterator
from statistics import median
from time import process_time

import polars as pl

from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, smaller
from cbt import Aggregate, Key, Layout
from cbt.windows import Consolidator
from cbt.windows.sequence import CompleteWindow, WindowSequence

from .cases import CASES, Case

KEYS, QUICK_KEYS = 20_000, 2_000
"""Keys of each pane."""
ROUNDS = 3
GAIN = 4.0
"""Least gain for the windows of figure 7; others may take no more time."""
LAYOUTS = {
    "COUNT": Layout([Key("k", "string")], [Aggregate("v", "count", None, "any")]),
    "MAX": Layout([Key("k", "string")], [Aggregate("v", "max", "n", "number")]),
}


def processor_time(*, quick: bool) -> list[Comparison]:
    """A line for each case and aggregate: both sides take turns, and medians count."""
    cases = [case for case in CASES if not (quick and case.hours > 2)]
    return [_line(case, kind, QUICK_KEYS if quick else KEYS) for case in cases for kind in LAYOUTS]


def _line(case: Case, kind: str, keys: int) -> Comparison:
    layout = LAYOUTS[kind]
    names = [f"key-{one:06}" for one in range(keys)]
    columns = {"k": names, "n": [1.0] * keys, "pane": pl.zeros(keys, dtype=pl.Int64, eager=True)}
    frame = layout.lift(pl.DataFrame(columns))
    times: dict[str, list[float]] = {"shared": [], "alone": []}
    found = set[tuple[int, float]]()
    for _ in range(ROUNDS):
        for name, make in (("shared", _shared), ("alone", _alone)):
            began = process_time()
            windows = list(make(case, layout, frame))
            times[name].append(process_time() - began)
            found.add((len(windows), _total(layout, windows)))
    if len(found) > 1:
        raise BenchmarkError(f"windows differ: {case.name}, {kind}")
    label = f"processor time of windows in {case.hours} h, {keys:,} keys: {case.name}, {kind}"
    ours, theirs = (median(times[name]) for name in ("shared", "alone"))
    target = GAIN if case is CASES[0] else 1.0
    return smaller("enorm", label, ours, "s", "each size by itself", theirs, target)


def _panes(case: Case) -> range:
    pane_ms = case.panes.pane_ms
    return range(0, case.hours * 3_600_000, pane_ms)


def _shared(case: Case, layout: Layout, frame: pl.DataFrame) -> Iterator[CompleteWindow]:
    windows = Consolidator(layout, case.panes.sizes)
    for pane in _panes(case):
        yield from windows.add(pane, frame)


def _alone(case: Case, layout: Layout, frame: pl.DataFrame) -> Iterator[CompleteWindow]:
    """Slices of each size are running aggregates, and overlapping windows keep them in two stacks."""
    sequences = [WindowSequence(layout, size) for size in case.panes.sizes]
    by_end: Callable[[CompleteWindow], object] = lambda window: (window.end_ms, window.size)  # noqa: E731
    for pane in _panes(case):
        yield from heapq.merge(*(one.advance(pane) for one in sequences), key=by_end)
        for one in sequences:
            one.add(frame)
        yield from heapq.merge(*(one.advance(pane + case.panes.pane_ms) for one in sequences), key=by_end)


def _total(layout: Layout, windows: list[CompleteWindow]) -> float:
    return sum(float(layout.lower(window.frame)["v"].sum()) for window in windows)
