"""Event frames put together for operators: what many of them need of the same frames is done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import polars as pl

from agent.runtime.function.job_function import JobFunction, Range
from agent.runtime.model.panes import Counted, Counts, count_in


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
        """How many events there are in each pane, and how many of their values did not fit."""
        coerced = pl.col("@coerced").sum() if "@coerced" in self.events.columns else pl.lit(0)
        by_pane = self.events.group_by("pane").agg(pl.len(), coerced.alias("coerced"))
        return {pane: Counts(events, coerced=coerced) for pane, events, coerced in by_pane.iter_rows()}

    def after(self, pane: int) -> EventBatch:
        """Without events up to a pane."""
        return EventBatch(self.events.filter(pl.col("pane") > pane))


class EventBatches:
    """Those of one moment: all operators count what came before they go on, until `clear`."""

    def __init__(self) -> None:
        self._made: dict[Range, tuple[tuple[pl.DataFrame, ...], list[EventBatch]]] = {}

    def of(self, frames: Sequence[pl.DataFrame], function: JobFunction) -> list[EventBatch]:
        """The frames, as far as they are in the function's range, those of one schema as one."""
        known, batches = self._made.get(function.range, ((), []))
        if len(known) != len(frames) or any(one is not other for one, other in zip(known, frames, strict=True)):
            alike: dict[tuple[tuple[str, pl.DataType], ...], list[pl.DataFrame]] = {}
            for events in frames:
                alike.setdefault(tuple(events.schema.items()), []).append(events)
            batches = [EventBatch(function.in_range(pl.concat(group))) for group in alike.values()]
            self._made[function.range] = (tuple(frames), batches)
        return batches

    def clear(self) -> None:
        self._made.clear()


class Store(Protocol):
    """What takes selected events."""

    def insert(self, frame: pl.DataFrame) -> None: ...


def count_batch(function: JobFunction, store: Store, counted: Counted, batch: EventBatch) -> None:
    """Inserts what the function makes of a batch, and adds to what is counted of its panes. O(n) and the insertion."""
    count_in(counted, batch.counted)
    for events in function.joined(batch.events):
        selected = function.select(events)
        if selected.height:
            store.insert(selected)
        if not function.aggregates:
            matched = selected.group_by("pane").agg(pl.len()).iter_rows()
            count_in(counted, {pane: Counts(matched=rows) for pane, rows in matched})
        if "@dropped" in events.columns:
            dropped = events.group_by("pane").agg(pl.col("@dropped").sum()).iter_rows()
            count_in(counted, {pane: Counts(dropped=rows) for pane, rows in dropped})
