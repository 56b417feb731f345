"""Computes a query over a join of two streams: Spark joins, agents' code parses the lines and aggregates the pairs.

Each side is read as its source reads it: the parsers on the original lines, the source's plan on events, and canonical
JSON for values of any type. So keys are equal here where they are equal in a fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import query
from agent.parsing import SourceColumn
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.event_batch import ROWS_PER_BATCH, batches_of
from agent.runtime.keyed.event_columns import event_frames, field_columns
from elf.batch.query.coprocessor import CoprocessorPlan, RegionJob
from elf.batch.query.event_counts import counted_of
from elf.batch.query.raw_events import COLUMNS, RawEvents
from elf.batch.table.table import ArchiveTable, Range
from elf.errors import ElfError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from agent.runtime.ingest.panes.pane_store import PaneStore
    from agent.runtime.model.panes import Counted

NOT_COMPUTABLE = (
    "the job's elements can be computed by the fleet alone: an archive computes joins of two streams, and KEYED BY"
)

_TIME = "@time"
_TYPES: Mapping[str, str] = {"integer": "bigint", "timestamp": "bigint", "number": "double", "boolean": "boolean"}


@dataclass(frozen=True)
class SideReader:
    """Reads one side in the regions: its plan on the wire, its fields, and its time range (epoch ms)."""

    plan: dict[str, Any]
    fields: query.Fields
    since_ms: int | None
    until_ms: int | None

    def ddl(self, side: str) -> str:
        """The columns of Spark: the time, and the fields by their numbers."""
        columns = (f"{side}{number} {_TYPES.get(kind, 'string')}" for number, (_, kind) in enumerate(self.fields))
        return ", ".join([f"{side}t bigint", *columns])

    def read(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the time and the fields of the events that the side keeps."""
        plan = query.Plan.from_wire(self.plan)
        function = JobFunction(plan, self.since_ms, self.until_ms)
        columns = [SourceColumn(column.name, column.path, column.type) for column in plan.columns]
        raw = RawEvents(lambda _stream: columns)
        for some in rows:
            for events in raw.read(some):
                for batch in batches_of(events.parsed.frames, function):
                    made = field_columns(function.select(batch.events), self.fields)
                    yield from made.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


@dataclass(frozen=True)
class PairsJob(RegionJob):
    """A plan over pairs as sent to where they are made. `fields`: the names of their columns, after the time's."""

    fields: tuple[str, ...] = ()

    def frames(
        self,
        function: JobFunction,
        store: PaneStore,  # noqa: ARG002
        rows: Iterator[pa.RecordBatch],
    ) -> Iterator[list[pl.DataFrame]]:
        """The pairs as events, some at a time."""
        for some in rows:
            pairs = pl.from_arrow(some)
            assert isinstance(pairs, pl.DataFrame)
            pairs.columns = [_TIME, *self.fields]
            for part in pairs.iter_slices(ROWS_PER_BATCH):
                yield list(event_frames(part, function.plan.columns))


@dataclass(frozen=True, slots=True)
class JoinedPlan(CoprocessorPlan):
    """A plan over the pairs of two streams."""

    join: query.StreamJoin

    def rows(self) -> DataFrame:
        """The pairs, those without a match too where the join is an outer one."""
        left, right, within = self.join.left, self.join.right, self.join.within_ms
        since_ms, until_ms = self.job.since_ms, self.job.until_ms
        ours = self._side(left, "l", since_ms, until_ms)
        theirs = self._side(
            right, "r", None if since_ms is None else since_ms - within, None if until_ms is None else until_ms + within
        )
        matches = [F.abs(ours["lt"] - theirs["rt"]) <= within, *_equal(ours, theirs, left, right)]
        pairs = ours.join(theirs, reduce(and_, matches), "left" if self.join.outer else "inner")
        return pairs.drop("rt")

    def uncounted(self) -> Counted:
        """Counts of malformed lines; events are the pairs."""
        return counted_of(self.table, self.wanted, None, {})

    def _side(self, side: query.JoinedSide, letter: str, since_ms: int | None, until_ms: int | None) -> DataFrame:
        reader = SideReader(side.plan.to_wire(), side.fields, since_ms, until_ms)
        streams = [stream for stream in self.wanted.streams or () if query.selects(side.plan.stream, stream)]
        return self.table.rows(streams, since_ms, until_ms, COLUMNS).mapInArrow(reader.read, reader.ddl(letter))


def joined_plan(plan: query.Plan, table: ArchiveTable, wanted: Range) -> JoinedPlan:
    """The plan of a query whose elements are a join of two streams. Raises ElfError for other elements."""
    join = query.stream_join(plan)
    if join is None:
        raise ElfError(NOT_COMPUTABLE)
    within = join.within_ms
    job = PairsJob(
        replace(plan, elements=None).to_wire(),
        wanted.since_ms,
        wanted.until_ms,
        {},
        fields=tuple(name for name, _ in join.fields),
    )
    read = replace(
        wanted,
        since_ms=None if wanted.since_ms is None else wanted.since_ms - within,
        until_ms=None if wanted.until_ms is None else wanted.until_ms + within,
    )
    return JoinedPlan(job, table, read, join)


def _equal(ours: DataFrame, theirs: DataFrame, left: query.JoinedSide, right: query.JoinedSide) -> list[Column]:
    places = [[name for name, _ in side.fields] for side in (left, right)]
    return [
        ours[f"l{places[0].index(one)}"] == theirs[f"r{places[1].index(other)}"]
        for one, other in zip(left.key, right.key, strict=True)
    ]
