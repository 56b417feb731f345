"""Stores a function's open panes: the groups or rows of matching events, and what was counted of each pane.

The disk it spills to may fail: what cannot be written stays in memory, what cannot be read is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

import cbt
from agent.runtime.function.job_function import JobFunction, TreeOrRows
from agent.runtime.function.nested_states import NestedState
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import EventBatch, batches_of, rows_of
from agent.runtime.ingest.panes.taken_states import TakenStates
from agent.runtime.model.panes import END, SELF, Counted, Counts, Run, count_in


class PaneStore:
    """The store of a job's function; it spills to an `area` if there is one. No method raises `cbt.SpillError`."""

    def __init__(self, function: JobFunction, area: SpillArea | None) -> None:
        self.counted: Counted = {}
        """Counts of the panes in it."""
        self._function = function
        self._area = area
        self._store = self._made()
        self._taken = TakenStates(function)

    def _made(self) -> TreeOrRows:
        if self._area is not None:
            try:
                return self._function.new_store(self._area)
            except cbt.SpillError as error:
                self._area.could_not_write(error)
        return self._function.new_store()

    def add(self, batch: EventBatch) -> None:
        """Counts a batch by pane, and inserts its matching events. O(n) and the insertion."""
        function = self._function
        count_in(self.counted, batch.counted)
        if not function.can_select(batch.events):  # passed over: none of them matches
            return
        for events in function.joined(batch.events):
            selected = function.select(events)
            if selected.height:
                self.insert(selected)
            if not function.aggregates:
                matched = selected.group_by("pane").agg(pl.len()).iter_rows()
                count_in(self.counted, {pane: Counts(matched=rows) for pane, rows in matched})
            if "@dropped" in events.columns:
                dropped = events.group_by("pane").agg(pl.col("@dropped").sum()).iter_rows()
                count_in(self.counted, {pane: Counts(dropped=rows) for pane, rows in dropped})

    def insert(self, selected: pl.DataFrame) -> None:
        """Takes selected events, whether the disk takes its part or not."""
        try:
            self._store.insert(selected)
        except cbt.SpillError as error:
            assert self._area is not None
            self._area.could_not_write(error)

    @property
    def is_on_disk(self) -> bool:
        """Whether a part of it is on disk: to insert more costs reads and writes there."""
        return isinstance(self._store, cbt.CompressedBufferTree) and self._store.is_on_disk

    @property
    def has_room(self) -> bool:
        """Whether states may be taken."""
        return self._taken.has_room

    def take(self, pane: int, nested: NestedState) -> None:
        """Takes the state of rows of a pane in their place."""
        count_in(self.counted, {pane: Counts(events=nested.rows, coerced=nested.coerced)})
        self._taken.add(pane, nested.frame)

    def with_taken(self, state: pl.DataFrame, after: int, upto: int) -> pl.DataFrame:
        """The state of the events of the panes in (after, upto], as `flush` has it, with the states that were taken."""
        return self._taken.with_rest(state, after, upto)

    def taken_rows(self, after: int, upto: int) -> int:
        """The number of rows of the states that were taken of the panes in (after, upto], at most."""
        return self._taken.rows(after, upto)

    def flush(self, pane: int | None = None, *, upto: int | None = None) -> Iterator[pl.DataFrame | None]:
        """Yields the frames of events. None comes last where the rest cannot be read: the rest of `pane` is lost then;
        of all panes up to one, others may still be read, each by itself.
        """
        try:
            yield from self._store.flush(pane, upto=upto)
        except cbt.SpillError as error:
            assert self._area is not None
            if pane is not None:
                self._area.could_not_read(error)
            yield None

    def readable(self, pane: int, run_rows: int) -> tuple[pl.DataFrame, bool]:
        """The readable state of a pane's events, and whether that is all of it. `run_rows`: as of `folded`."""
        held: list[pl.DataFrame] = []
        for frame in self.flush(pane):
            if frame is None:
                return self._function.gather(held), False
            held = self.folded([*held, frame], run_rows)
        return self._function.gather(held), True

    def folded(self, held: list[pl.DataFrame], run_rows: int) -> list[pl.DataFrame]:
        """Frames as one, within the limit of groups, where they have more than `run_rows` rows and twice as many as are
        kept."""
        crowded = len(held) > 1 and rows_of(held) > max(run_rows, 2 * self._function.plan.max_groups)
        return [self._function.gather(held)] if crowded else held

    def empty(self, *, upto: int = END) -> None:
        """Drops all panes up to one."""
        self._store.empty(upto=None if upto == END else upto)
        self._taken.empty(upto)
        self.counted = {pane: counts for pane, counts in self.counted.items() if pane > upto}

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes + self._taken.memory_bytes


def run_again(function: JobFunction, events: Iterable[pl.DataFrame], after: int, upto: int) -> Run:
    """The run of the panes in (after, upto] that is sealed of events, as the function reads them. O(events)."""
    store = PaneStore(function, None)
    inside = pl.col("pane").is_between(after, upto, closed="right")
    for batch in batches_of(list(events), function):
        store.add(EventBatch(batch.events.filter(inside)))
    frames = [frame for frame in store.flush(upto=None if upto == END else upto) if frame is not None]
    partial = SELF if function.lacks_rows else 0
    return Run(after, upto, SELF, function.gather(frames), store.counted, partial)
