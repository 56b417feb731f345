"""Events into a store: what every worker does with a batch, live or over an archive."""

from __future__ import annotations

from typing import Protocol

import polars as pl

from agent.runtime.batches import Batch
from agent.runtime.function import JobFunction
from agent.runtime.panes import Counted, Counts, count_in


class Store(Protocol):
    """What takes selected events."""

    def insert(self, frame: pl.DataFrame) -> None: ...


def count_batch(function: JobFunction, store: Store, counted: Counted, batch: Batch) -> None:
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
