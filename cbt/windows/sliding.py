"""The aggregate of a sliding window: slices enter at its end and leave at its start."""

from typing import Protocol

import polars as pl

from cbt.layout.layout import Layout
from cbt.windows.merging import Mergeable
from cbt.windows.panes import WindowSize
from cbt.windows.running_difference import RunningDifference
from cbt.windows.subtraction import invertible, subtracts_exactly
from cbt.windows.two_stacks import TwoStacks

_SLICES_MIN = 4  # for windows of fewer slices two stacks take half the time


class SlidingAggregate(Protocol):
    """A queue of frames of one pane that gives the combination of all its frames."""

    def __len__(self) -> int: ...

    def push(self, frame: pl.DataFrame) -> None: ...

    def evict(self, count: int) -> None: ...

    def value(self) -> pl.DataFrame: ...

    @property
    def memory_bytes(self) -> int: ...


def sliding_aggregate(layout: Mergeable, size: WindowSize) -> SlidingAggregate:
    """A running difference if the aggregates are invertible and windows overlap in many slices, else two stacks."""
    many = size.size_ms >= _SLICES_MIN * size.slice_ms and size.slide_ms < size.size_ms
    if many and isinstance(layout, Layout) and invertible(layout):
        return RunningDifference(layout)
    return TwoStacks(layout)


def aggregate_for(aggregate: SlidingAggregate, layout: Mergeable, frame: pl.DataFrame) -> SlidingAggregate:
    """The aggregate itself, or two stacks in its place if it could not subtract the frame exactly."""
    if isinstance(aggregate, RunningDifference) and isinstance(layout, Layout) and not subtracts_exactly(layout, frame):
        return TwoStacks(layout, aggregate.frames())
    return aggregate
