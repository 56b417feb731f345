"""Counts the intervals that a job's windows are made of: panes, slices between edges of windows, and windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isinf, lcm
from typing import NamedTuple

import numpy as np

from agent.placement.amounts import check_amount
from cbt.windows import PanePlan, WindowSize, plan_windows

CYCLE_PANES_MAX = 100_000
"""Upper bound on the panes over which edges of windows are counted; sizes with a longer cycle are counted in part."""


class Intervals(NamedTuple):
    """A number of intervals, of as many panes each."""

    number: float
    panes: float


def copies(intervals: Iterable[Intervals], growth: float) -> float:
    """The size of the states of all intervals, in those of a pane. A state of n panes has n^`growth` times the keys of
    one (Heaps): with 0 all panes have the same keys, with 1 none has a key of another.

    >>> copies([Intervals(2, 4)], 0.5)
    4.0
    """
    return sum((one.number * one.panes**growth for one in intervals), start=0.0)


@dataclass(frozen=True, slots=True)
class WindowCounts:
    """Intervals of a job's windows in a period, on average.

    `overlap`: windows that an event in any of them is in (W). `panes`: those that are in any (PW). `slices`: intervals
    between one edge of any window and the next. `windows`: by size. `open`: windows that are open between two panes, of
    the panes that they have so far. `pane_inputs`, `slice_inputs`: states that are merged to make windows of panes (by
    the plan that shares most) and of slices.
    """

    overlap: float
    panes: float
    slices: tuple[Intervals, ...]
    windows: tuple[Intervals, ...]
    open: tuple[Intervals, ...]
    pane_inputs: float
    slice_inputs: float

    @classmethod
    def of(
        cls, sizes: Sequence[WindowSize], period_ms: float, *, subtracts: bool = False, pane_ms: int | None = None
    ) -> WindowCounts:
        """The counts for windows of these sizes. `subtracts`: states can be taken off windows exactly. `pane_ms`: as of
        `PanePlan`.

        Plans windows, which may take 50 ms. Raises ValueError for sizes as `PanePlan` does, and for no period.

        >>> minute = 60_000
        >>> counts = WindowCounts.of([WindowSize.tumbling(7 * minute), WindowSize.tumbling(10 * minute)], 70 * minute)
        >>> counts.panes, sum(one.number for one in counts.slices)
        (70.0, 16.0)
        """
        check_amount("period_ms", period_ms, 1)
        plan = PanePlan(sizes, pane_ms)
        cycle_ms = min(lcm(*(size.slide_ms for size in plan.sizes)), CYCLE_PANES_MAX * plan.pane_ms)
        edges = np.unique(np.concatenate([[0, cycle_ms], *(_edges(size, cycle_ms) for size in plan.sizes)]))
        lengths = np.diff(edges) // plan.pane_ms
        holding = sum(
            (edges[:-1] // size.slide_ms - (edges[:-1] - size.size_ms) // size.slide_ms) for size in plan.sizes
        )
        held = holding > 0
        times = period_ms / cycle_ms
        panes = float(lengths[held].sum())
        spans, numbers = np.unique(lengths[held], return_counts=True)
        slices = zip((numbers * times).tolist(), spans.tolist(), strict=True)
        pane_inputs = _inputs(plan, period_ms, subtracts=subtracts)
        return cls(
            overlap=float((holding * lengths).sum()) / panes,
            panes=panes * times,
            slices=tuple(Intervals(number, span) for number, span in slices),
            windows=tuple(Intervals(period_ms / one.slide_ms, one.size_ms / plan.pane_ms) for one in plan.sizes),
            open=tuple(
                Intervals((one.size_ms - plan.pane_ms) / one.slide_ms, one.size_ms / (2 * plan.pane_ms))
                for one in plan.sizes
            ),
            pane_inputs=pane_inputs,
            slice_inputs=min(pane_inputs, float(holding.sum()) * times),
        )

    def extra_copies(self, growth: float) -> float:
        """The size of the states that become extra when a group moves, in those of a pane: one for each open window."""
        return copies(self.open, growth)


def _edges(size: WindowSize, cycle_ms: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The times in a cycle at which windows of a size begin or end."""
    starts = np.arange(0, cycle_ms, size.slide_ms, dtype=np.int64)
    return np.concatenate((starts, (starts + size.size_ms) % cycle_ms))


def _inputs(panes: PanePlan, period_ms: float, *, subtracts: bool) -> float:
    """The states that are merged in a period to make windows of panes."""
    plan = plan_windows(panes, subtracts=subtracts)
    if not isinf(plan.inputs):
        return plan.inputs * period_ms / plan.period_ms
    return sum(_alone(size, panes.pane_ms) * period_ms / size.slide_ms for size in panes.sizes)


def _alone(size: WindowSize, pane_ms: int) -> float:
    """The states that are merged for a window that is made by itself: of its panes, or in two stacks of slices."""
    if size.slide_ms >= size.size_ms:
        return size.size_ms / pane_ms
    return size.slide_ms / pane_ms + 4 * size.slide_ms / size.slice_ms + 2
