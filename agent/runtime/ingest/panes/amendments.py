"""Gathers the late events of panes that are sealed and may still be amended, as a patch for the next run.

A run that is sealed never changes, whatever comes: it may have been passed on, combined with others. So what comes late
goes with the run after it. Its patch has the fate of that run, which counts once or not at all.
"""

from __future__ import annotations

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import EventBatch
from agent.runtime.ingest.panes.pane_store import PaneStore
from agent.runtime.model.fields import PANES_COUNTED_MAX
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Patch, total


class Amendments:
    """The late events of one operator, by pane. They share its limits of memory and disk."""

    def __init__(self, function: JobFunction, area: SpillArea | None) -> None:
        self._function = function
        self._area = area
        self._store: PaneStore | None = None
        self.settled = self.due_settled = FIRST_PANE
        """The last sealed pane that cannot be amended any more, now and when events came that wait for a sealing."""
        self.next: Patch | None = None
        """The patch that goes with the run that is sealed next."""

    def add(self, batch: EventBatch, first: int, last: int) -> EventBatch:
        """Takes the events of the panes from `first` to `last`; returns the others."""
        inside = pl.col("pane").is_between(first, last)
        late = batch.events.filter(inside)
        if late.is_empty():
            return batch
        if self._store is None:
            self._store = PaneStore(self._function, self._area)
        self._store.add(EventBatch(late))
        return EventBatch(batch.events.filter(~inside))

    def take(self, carrier: int, agent: int, lacking: range) -> Patch | None:
        """The patch that goes with the pane `carrier`, if there is any; of very many panes the first ones. `lacking`:
        panes whose late events may be lost."""
        lacks = dict.fromkeys(lacking[:PANES_COUNTED_MAX], agent)
        if self._store is None:
            return Patch(carrier, self._function.empty_state, {}, lacks, agent) if lacks else None
        panes = sorted(self._store.counted)[: PANES_COUNTED_MAX - len(lacks)]
        if not panes:
            return Patch(carrier, self._function.empty_state, {}, lacks, agent)
        counted = {pane: self._store.counted[pane] for pane in panes}
        frames = [frame for frame in self._store.flush(upto=panes[-1]) if frame is not None]
        self._store.empty(upto=panes[-1])
        if not self._store.counted:
            self._store = None
        agents = dict.fromkeys(panes, agent) | lacks
        return Patch(carrier, self._function.gather(frames), counted, agents, agent if lacks else 0)

    def drop(self) -> int:
        """Drops all; returns the number of events, which are to be counted as late."""
        counts = Counts() if self._store is None else total(self._store.counted.values())
        if self._store is not None:
            self._store.empty(upto=END)
            self._store = None
        return counts.events

    @property
    def memory_bytes(self) -> int:
        return 0 if self._store is None else self._store.memory_bytes
