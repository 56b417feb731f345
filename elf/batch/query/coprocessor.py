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

import query
from agent import SpillArea
from agent.configuration.rules import JOB_MEMORY, memory_bytes
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.event_batch import ROWS_PER_BATCH, batches_of
from agent.runtime.ingest.panes.pane_store import PaneStore
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
        function = JobFunction.of(query.Plan.from_wire(self.plan), self.since_ms, self.until_ms)
        lookup = function.lookup
        if lookup is not None and lookup.table is not None:
            lookup.hold_rows(self.lookups[lookup.table].frames(lookup.columns))
            lookup.is_settled, lookup.lacks = True, False
        return function

    def fold(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the partial state of a region's rows, in bounded memory."""
        function = self.function()
        with _new_store(function) as store:
            for frames in self.frames(function, store, rows):
                for batch in batches_of(frames, function):
                    store.add(batch)
            yield from encoded(function, _readable(store.flush()), store.counted, self.trees)

    def frames(
        self, function: JobFunction, store: PaneStore, rows: Iterator[pa.RecordBatch]
    ) -> Iterator[list[pl.DataFrame]]:
        """The rows' events, many at a time: each call on columns has its price. The store counts malformed lines."""
        raw = RawEvents(function.columns_of)
        waiting: list[pl.DataFrame] = []
        for some in rows:
            for events in raw.read(some):
                if events.parsed.malformed:
                    count_in(store.counted, {END: Counts(malformed=events.parsed.malformed)})
                for frame in events.parsed.frames:
                    waiting += function.read(events.stream, frame)
            if sum(frame.height for frame in waiting) >= ROWS_PER_BATCH:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

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
        shares = sum(one.segment.bytes for one in self.table.segments(self.wanted)) // BYTES_PER_TREE
        job = replace(self.job, trees=max(1, min(self.table.spark.sparkContext.defaultParallelism, shares)))
        pieces = self.rows().mapInArrow(job.fold, DDL)
        return pieces.repartition(job.trees, "tree").mapInArrow(job.combine, DDL) if job.trees > 1 else pieces

    def rows(self) -> DataFrame:
        """The rows that the job folds in the regions."""
        return self.table.rows(self.wanted.streams or (), self.job.since_ms, self.job.until_ms, COLUMNS)

    def uncounted(self) -> Counted:
        """Counts of what the regions do not see: the archive keeps only the number of overlong lines."""
        overlong = sum(one.segment.overlong for one in self.table.segments(self.wanted))
        return {END: Counts(malformed=overlong)} if overlong else {}

    def gathered(self, pieces: pa.Table) -> StateCombiner:
        """Combines all pieces into one state."""
        function = self.job.function()
        parts: dict[int, StateCombiner] = {}
        decode(function, pieces, parts)
        whole = StateCombiner(function)
        for part in parts.values():
            whole.add(part.state())
            whole.count(part.counted)
        whole.count(self.uncounted())
        return whole

    def combined(self) -> StateCombiner:
        """The combined state of the rows."""
        return self.gathered(self.pieces.toArrow())


@contextmanager
def _new_store(function: JobFunction) -> Iterator[PaneStore]:
    with TemporaryDirectory(prefix="elf-batch-") as directory:
        yield PaneStore(function, SpillArea(memory_bytes(JOB_MEMORY), Path(directory), _fail))


def _readable(frames: Iterator[pl.DataFrame | None]) -> Iterator[pl.DataFrame]:
    """The frames; a task whose disk fails is tried again elsewhere."""
    for frame in frames:
        if frame is None:
            _fail("what a task had counted cannot be read from disk", "see the frame before")
        else:
            yield frame


def _fail(what: str, why: str) -> None:
    raise OSError(f"{what}: {why}")
