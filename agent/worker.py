"""A job's worker on one agent (paper §3.1): events into the CBT, sealed panes out."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from agent.function import JobFunction
from agent.panes import END, FIRST_PANE, Run, add_counters, count

ROWS_PER_RUN = 1 << 16
"""A run is cut at the next pane boundary past this many rows, so that no message holds a job's whole past."""
ROWS_PER_BATCH = 1 << 16
"""Events that are filtered and aggregated at once."""
COUNTER_FRAMES_MAX = 256
"""Counter frames gathered before they are summed."""


class Worker:
    """Counts, filters, aggregates; then hands out its panes as runs that follow each other."""

    def __init__(self, function: JobFunction, number: int) -> None:
        self.function = function
        self.frontier = FIRST_PANE
        self._contributor = 1 << number
        self._store = function.new_store()
        self._counters: list[pl.DataFrame] = []
        self._waiting: list[pl.DataFrame] = []
        self._waiting_rows = 0

    def insert(self, events: pl.DataFrame) -> None:
        """Takes one event frame from a parser. Frames wait for each other: each call on columns has its price."""
        self._waiting.append(events)
        self._waiting_rows += events.height
        if self._waiting_rows >= ROWS_PER_BATCH:
            self._insert_waiting()

    def _insert_waiting(self) -> None:
        batches: dict[tuple[tuple[str, pl.DataType], ...], list[pl.DataFrame]] = {}
        for events in self._waiting:
            batches.setdefault(tuple(events.schema.items()), []).append(events)
        self._waiting, self._waiting_rows = [], 0
        for frames in batches.values():
            self._insert_batch(pl.concat(frames))

    def _insert_batch(self, events: pl.DataFrame) -> None:
        events = self.function.in_range(events)
        coerced = pl.col("@coerced").sum() if "@coerced" in events.columns else pl.lit(0)
        by_pane = events.group_by("pane").agg(pl.len().alias("events"), coerced.alias("coerced"))
        selected = self.function.select(events)
        if selected.height:
            self._store.insert(selected)
        self._count(by_pane)
        if not self.function.aggregates:
            self._count(selected.group_by("pane").agg(pl.len().alias("matched")))

    def count_malformed(self, lines: int) -> None:
        """Lines that are no events have no time: they count in the last window there is."""
        if lines:
            self._count(pl.DataFrame({"pane": [END], "malformed": [lines]}))

    def seal_all(self) -> Iterator[Run]:
        """Everything there is, in pane order, as runs of about `ROWS_PER_RUN` rows; the last one reaches END.

        For bounded input: its windows close when it ends. O(rows) in all; holds one run at a time.
        """
        self._insert_waiting()
        counters = add_counters(self._counters)
        held: list[pl.DataFrame] = []
        for frame in self._store.flush():
            held.append(frame)
            newest = frame["pane"][-1]
            if sum(part.height for part in held) > ROWS_PER_RUN and held[0]["pane"][0] < newest:
                state = pl.concat(held)
                older = pl.col("pane") < newest
                yield self._seal(newest - 1, state.filter(older), counters)
                held = [state.filter(~older)]
        state = pl.concat(held) if held else pl.DataFrame(schema=self.function.state_schema)
        yield self._seal(END, state, counters)
        self._store.empty()
        self._counters.clear()

    def _seal(self, upto: int, state: pl.DataFrame, counters: pl.DataFrame) -> Run:
        after, self.frontier = self.frontier, upto
        inside = pl.col("pane").is_between(after, upto, closed="right")
        return Run(after, upto, self._contributor, state, counters.filter(inside))

    def _count(self, by_pane: pl.DataFrame) -> None:
        self._counters.append(count(**{name: by_pane[name] for name in by_pane.columns}))
        if len(self._counters) >= COUNTER_FRAMES_MAX:
            self._counters = [add_counters(self._counters)]
