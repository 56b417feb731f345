"""Runs ELF QL with agents' code on each region of the archive (a coprocessor).

A Spark task runs the same code as agents do over its rows: the parsers on the original lines, a job's function and its
compressed buffer tree. It yields partial states, which are combined by ranges of the keys' hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from agent import SpillArea
from agent.configuration.rules import JOB_MEMORY, memory_bytes
from agent.runtime.function.job_function import JobFunction, TreeOrRows
from agent.runtime.ingest.event_batch import EventBatches, count_batch
from agent.runtime.ingest.operator import ROWS_PER_BATCH
from agent.runtime.model.panes import END, Counted, Counts, count_in
from agent.runtime.upstream.tables import FileTable as LookupTable
from elf.batch.query.partial_states import DDL, StateCombiner, decode, encoded
from elf.batch.query.raw_events import COLUMNS, RawEvents
from elf.batch.table.table import ArchiveTable, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BYTES_PER_TREE = 32 << 20
"""Bytes of input per range of hashes; below this, shuffling states takes longer than combining them where they arrive.
"""


@dataclass(frozen=True)
class RegionJob:
    """A plan as sent to the regions, with its time range (epoch ms), the look-up tables it joins with, and the number
    of hash ranges its states are combined by.
    """

    plan: dict[str, Any]
    since_ms: int | None
    until_ms: int | None
    lookups: Mapping[str, LookupTable]
    trees: int = 1

    def function(self) -> JobFunction:
        """The plan, ready to run. Raises `query.TableError` for a table that cannot be joined with."""
        function = JobFunction.from_wire(self.plan, self.since_ms, self.until_ms)
        lookup = function.lookup
        if lookup is not None and lookup.table is not None:
            lookup.hold_rows(self.lookups[lookup.table].frames(lookup.columns))
            lookup.is_settled, lookup.lacks = True, False
        return function

    def fold(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the partial state of a region's rows, in bounded memory."""
        function = self.function()
        with _new_store(function) as store:
            fold = _Fold(function, store)
            for batch in rows:
                fold.take(batch)
            fold.settle()
            yield from encoded(function, store.flush(), fold.counted, self.trees)

    def combine(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Combines the partial states of many regions in a range of hashes into one."""
        function = self.function()
        parts: dict[int, StateCombiner] = {}
        for batch in pieces:
            decode(function, batch, parts)
        for part in parts.values():
            yield from encoded(function, [part.state()], part.counted, self.trees)


@dataclass(frozen=True, slots=True)
class CoprocessorPlan:
    """A plan run where the rows of a range are stored."""

    job: RegionJob
    table: ArchiveTable
    wanted: Range

    @property
    def pieces(self) -> DataFrame:
        """Partial states and counts, as rows of bytes."""
        streams = self.wanted.streams or ()
        shares = sum(one.segment.bytes for one in self.table.segments(self.wanted)) // BYTES_PER_TREE
        job = replace(self.job, trees=max(1, min(self.table.spark.sparkContext.defaultParallelism, shares)))
        pieces = self.table.rows(streams, job.since_ms, job.until_ms, COLUMNS).mapInArrow(job.fold, DDL)
        return pieces.repartition(job.trees, "tree").mapInArrow(job.combine, DDL) if job.trees > 1 else pieces

    def gathered(self, pieces: pa.Table) -> StateCombiner:
        """Combines all pieces into one state."""
        function = self.job.function()
        parts: dict[int, StateCombiner] = {}
        decode(function, pieces, parts)
        whole = StateCombiner(function)
        for part in parts.values():
            whole.add(part.state())
            whole.count(part.counted)
        # The archive keeps only the number of overlong lines.
        overlong = sum(one.segment.overlong for one in self.table.segments(self.wanted))
        whole.count({END: Counts(malformed=overlong)} if overlong else {})
        return whole

    def combined(self) -> StateCombiner:
        """The combined state of the rows."""
        return self.gathered(self.pieces.toArrow())


class _Fold:
    """Inserts the events of one region into a store."""

    def __init__(self, function: JobFunction, store: TreeOrRows) -> None:
        self.counted: Counted = {}
        self._function = function
        self._store = store
        self._events = RawEvents(function.columns_of)
        self._batches = EventBatches()
        self._waiting: list[pl.DataFrame] = []
        self._waiting_rows = 0

    def take(self, rows: pa.RecordBatch) -> None:
        for events in self._events.read(rows):
            if events.parsed.malformed:
                count_in(self.counted, {END: Counts(malformed=events.parsed.malformed)})
            for frame in events.parsed.frames:
                for part in self._function.read(events.stream, frame):
                    self._waiting.append(part)
                    self._waiting_rows += part.height
        if self._waiting_rows >= ROWS_PER_BATCH:
            self.settle()

    def settle(self) -> None:
        """Counts and inserts waiting events in one go: each call on columns has a fixed cost."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        for batch in self._batches.of(waiting, self._function) if waiting else ():
            count_batch(self._function, self._store, self.counted, batch)
        self._batches.clear()


@contextmanager
def _new_store(function: JobFunction) -> Iterator[TreeOrRows]:
    with TemporaryDirectory(prefix="elf-batch-") as directory:
        yield function.new_store(SpillArea(memory_bytes(JOB_MEMORY), Path(directory)))
