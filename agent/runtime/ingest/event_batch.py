"""Concatenates event frames and assigns panes, once for all operators with the same range of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.function.job_function import JobFunction, Range
from agent.runtime.model.panes import Counted, Counts

_STRETCHES_MAX = 256
"""Stretches of events of one pane up to which counting them costs less than grouping all events."""

ROWS_PER_BATCH = 1 << 16
"""Number of events that are filtered and aggregated at once."""
WAITING_ROWS_MAX = 1 << 19
"""Upper bound on events that wait for a sealing under way; past it the sealing is finished in one go."""


@dataclass(frozen=True)
class EventBatch:
    """Events of one schema with their pane."""

    events: pl.DataFrame

    @cached_property
    def oldest_pane(self) -> int | None:
        oldest = self.events["pane"].min()
        return oldest if isinstance(oldest, int) else None

    @cached_property
    def counted(self) -> Counted:
        """The number of events in each pane, and of their values that did not fit their type."""
        panes = self.events["pane"].to_numpy()
        starts = np.flatnonzero(np.diff(panes, prepend=panes[:1] - 1))
        if len(starts) <= _STRETCHES_MAX:
            return self._counted_in(starts, panes)
        coerced = pl.col("@coerced").sum() if "@coerced" in self.events.columns else pl.lit(0)
        by_pane = self.events.group_by("pane").agg(pl.len(), coerced.alias("coerced"))
        return {pane: Counts(events, coerced=coerced) for pane, events, coerced in by_pane.iter_rows()}

    def _counted_in(self, starts: npt.NDArray[np.int64], panes: npt.NDArray[np.int64]) -> Counted:
        """Counts stretches of events that each lie in one pane: times grow, mostly."""
        counted: Counted = {}
        events = np.diff(starts, append=len(panes)).tolist()
        coerced = [0] * len(events)
        if "@coerced" in self.events.columns and events:
            coerced = np.add.reduceat(self.events["@coerced"].to_numpy().astype(np.int64), starts).tolist()
        for pane, *counts in zip(panes[starts].tolist(), events, coerced, strict=True):
            before = counted.get(pane, Counts())
            counted[pane] = before.plus(Counts(counts[0], coerced=counts[1]))
        return counted

    def after(self, pane: int) -> EventBatch:
        """The batch without events up to a pane."""
        return EventBatch(self.events.filter(pl.col("pane") > pane))


def batches_of(frames: Sequence[pl.DataFrame], function: JobFunction) -> list[EventBatch]:
    """The frames' events in the function's range of time with their panes; frames of one schema become one batch."""
    alike: dict[tuple[tuple[str, pl.DataType], ...], list[pl.DataFrame]] = {}
    for events in frames:
        alike.setdefault(tuple(events.schema.items()), []).append(events)
    return [EventBatch(function.in_range(pl.concat(group))) for group in alike.values()]


class EventBatches:
    """Batches of the frames at hand, shared by all operators that take the same ones, until `clear`."""

    def __init__(self) -> None:
        self._made: dict[Range, tuple[tuple[pl.DataFrame, ...], list[EventBatch]]] = {}

    def of(self, frames: Sequence[pl.DataFrame], function: JobFunction) -> list[EventBatch]:
        """The batches of these frames for a function, made anew unless the last ones of its range are of the same."""
        known, batches = self._made.get(function.range, ((), []))
        if len(known) != len(frames) or any(one is not other for one, other in zip(known, frames, strict=True)):
            batches = batches_of(frames, function)
            self._made[function.range] = (tuple(frames), batches)
        return batches

    def clear(self) -> None:
        self._made.clear()


def rows_of(frames: list[pl.DataFrame]) -> int:
    """The number of rows in some frames."""
    return sum(frame.height for frame in frames)
