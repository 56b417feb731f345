"""The archive as one table: finds the segments of a range, and reads their rows with Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from agent.archive.format.row_key import decode_key
from agent.archive.format.segments import EVENTS, KEY, PARSED, TIME, WRITTEN
from elf.batch.table.layout import RAW, Conversion, column, stored_kinds, struct_of, united_kinds
from elf.batch.table.overlaps import sharing_rows
from elf.batch.table.stores import ArchiveStore, StoredSegment, open_stores, torn
from elf.errors import ElfError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_RANK = "@rank"


@dataclass(frozen=True, slots=True)
class Range:
    """A range of rows: by streams (None: all), by time from `since_ms` on and before `until_ms` (epoch ms), by key from
    `start` on and before `stop`.
    """

    streams: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    start: bytes | None = None
    stop: bytes | None = None

    @classmethod
    def of_key(cls, key: bytes) -> Range:
        """The range of the row with a key. Raises RowKeyError for an invalid key."""
        return cls(frozenset([decode_key(key).stream]), start=key, stop=key + b"\0")

    def may_have(self, one: StoredSegment) -> bool:
        """Whether a segment may have rows in the range, as its entry in the log tells."""
        segment = one.segment
        return (
            (self.streams is None or segment.stream in self.streams)
            and (self.since_ms is None or segment.to_ms >= self.since_ms)
            and (self.until_ms is None or segment.from_ms < self.until_ms)
            and (self.start is None or bytes.fromhex(segment.last_key) >= self.start)
            and (self.stop is None or bytes.fromhex(segment.first_key) < self.stop)
        )


EVERYTHING = Range()


@dataclass(frozen=True)
class ArchiveTable:
    """Stores as of the moment the table was opened. With `skip_torn`, segments whose files are damaged are left out and
    listed in `skipped`; else they are an error.
    """

    spark: SparkSession
    stores: Sequence[ArchiveStore]
    skip_torn: bool = False
    skipped: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, spark: SparkSession, uris: Sequence[str], *, skip_torn: bool = False) -> ArchiveTable:
        """Reads the logs of all stores. Raises ElfError for missing or damaged stores."""
        return cls(spark, open_stores(uris, spark), skip_torn)

    def streams(self) -> list[str]:
        return sorted({one.segment.stream for one in self._all()})

    def agents(self, streams: Iterable[str] | None = None) -> list[str]:
        """Agents with rows of these streams."""
        return sorted({one.segment.agent for one in self.segments(_of_streams(streams))})

    def columns(self, streams: Iterable[str] | None = None) -> dict[str, str]:
        """Parsed columns of these streams, with their kinds."""
        return united_kinds(one.segment for one in self.segments(_of_streams(streams)))

    def segments(self, wanted: Range = EVERYTHING) -> list[StoredSegment]:
        """Segments that may have rows in a range, in order of key."""
        found = [one for one in self._all() if wanted.may_have(one)]
        return sorted(found, key=lambda one: (one.segment.first_key, one.segment.name))

    def scan(self, wanted: Range = EVERYTHING, columns: Sequence[str] | None = None) -> DataFrame:
        """The rows in a range, each once, with these columns (None: all), unordered.

        Raises ElfError for torn segments, UsageError for a column that no segment has.
        """
        return self._read(self.segments(wanted), columns, lambda: _condition(wanted))

    def rows(
        self,
        streams: Iterable[str],
        since_ms: int | None = None,
        until_ms: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The rows that may have events between two times, each once: a row with several events stores only one
        time.
        """
        from pyspark.sql import functions as F  # noqa: N812

        wanted = Range(frozenset(streams), since_ms, until_ms)
        in_time = Range(None, since_ms, until_ms)
        several = column(EVENTS) > F.lit(1)

        def condition() -> Column | None:
            within = _condition(in_time)
            return None if within is None else within | several

        return self._read(self.segments(wanted), columns, condition, [EVENTS])

    def get(self, key: bytes) -> Row | None:
        """The row with a key, if there is one. Raises RowKeyError for an invalid key."""
        return self.scan(Range.of_key(key)).first()

    def read(self, segments: Sequence[StoredSegment], kinds: Mapping[str, str] | None = None) -> DataFrame:
        """All rows of these segments, each once, with these parsed columns (None: all)."""
        return self._read(segments, None, lambda: None, kinds=kinds)

    def scan_segments(self, segments: Sequence[StoredSegment], wanted: Range, columns: Sequence[str]) -> DataFrame:
        """The rows of these segments that are in a range, as `scan` reads them."""
        return self._read(segments, columns, lambda: _condition(wanted))

    def _all(self) -> Iterable[StoredSegment]:
        seen = set()
        for store in self.stores:
            for name, segment in store.state.segments.items():
                if name not in seen:
                    seen.add(name)
                    yield StoredSegment(store, segment)

    def _whole(self, segments: Sequence[StoredSegment]) -> list[StoredSegment]:
        """The segments whose files are intact. Raises ElfError for others unless `skip_torn`."""
        faults = torn(segments)
        if faults and not self.skip_torn:
            more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
            raise ElfError(
                f"{next(iter(faults.values()))}{more}; restore it from a copy, or go on without it: --skip-torn"
            )
        self.skipped.update(faults)
        return [one for one in segments if one.segment.name not in faults]

    def _read(
        self,
        segments: Sequence[StoredSegment],
        columns: Sequence[str] | None,
        condition: Callable[[], Column | None],
        also: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> DataFrame:
        segments = self._whole(segments)
        kinds = dict(united_kinds(one.segment for one in segments) if kinds is None else kinds)
        names = [*RAW, *(f"{PARSED}{name}" for name in kinds)] if columns is None else columns
        kinds |= self._kinds_elsewhere(names, kinds)
        doubles = sharing_rows(segments)
        parts = []
        for twice in (False, True):
            chosen = [one for one in segments if (one.segment.name in doubles) == twice]
            needed = list(dict.fromkeys([*names, KEY, TIME, *also, *([WRITTEN] if twice else [])]))
            read = [self._read_alike(alike, needed, kinds, condition()) for alike in _alike(chosen, needed, kinds)]
            if read:
                united = reduce(lambda one, other: one.unionByName(other), read)
                parts.append((_latest(united) if twice else united).select(*map(column, names)))
        if not parts:
            return self.spark.createDataFrame([], struct_of(names, kinds))
        return reduce(lambda one, other: one.unionByName(other), parts)

    def _kinds_elsewhere(self, names: Sequence[str], kinds: Mapping[str, str]) -> dict[str, str]:
        """Kinds of columns that only segments outside of the range have."""
        lacking = [name for name in names if name not in RAW and name.removeprefix(PARSED) not in kinds]
        if not lacking:
            return {}
        known = self.columns()
        for name in lacking:
            if not name.startswith(PARSED) or name.removeprefix(PARSED) not in known:
                there = ", ".join([*RAW, *(f"{PARSED}{one}" for one in known)])
                raise UsageError(f"no segment has a column {name}; there are {there}"[:1000])
        return {name.removeprefix(PARSED): known[name.removeprefix(PARSED)] for name in lacking}

    def _read_alike(
        self, segments: Sequence[StoredSegment], names: list[str], kinds: Mapping[str, str], condition: Column | None
    ) -> DataFrame:
        """Rows of segments in which these columns have the same kinds."""
        stored: dict[str, str] = {}
        for one in segments:
            stored.update(stored_kinds(one.segment))
        own = {name: stored.get(name, kind) for name, kind in kinds.items()}
        frame = self.spark.read.schema(struct_of(names, own)).parquet(*(one.uri for one in segments))
        if condition is not None:
            frame = frame.where(condition)
        wanted = {name: kind for name, kind in kinds.items() if f"{PARSED}{name}" in names}
        convert = Conversion(tuple(names), own, wanted)  # type: ignore[arg-type]
        return frame.mapInArrow(convert, struct_of(names, kinds)) if convert.changed() else frame


def _of_streams(streams: Iterable[str] | None) -> Range:
    return EVERYTHING if streams is None else Range(frozenset(streams))


def _alike(
    segments: Sequence[StoredSegment], names: Sequence[str], kinds: Mapping[str, str]
) -> list[list[StoredSegment]]:
    """Groups segments so that each column has one kind per group."""
    wanted = [name for name in kinds if f"{PARSED}{name}" in names]
    groups: dict[tuple[str, ...], list[StoredSegment]] = {}
    for one in segments:
        stored = stored_kinds(one.segment)
        kind = tuple(name for name in wanted if stored.get(name, kinds[name]) != kinds[name])
        groups.setdefault((*kind, *(stored[name] for name in kind)), []).append(one)
    return list(groups.values())


def _condition(wanted: Range) -> Column | None:
    """The part of a range that Spark compares with files' statistics: keys and times."""
    from pyspark.sql import functions as F  # noqa: N812

    conditions = []
    if wanted.since_ms is not None:
        conditions.append(column(TIME) >= F.lit(wanted.since_ms))
    if wanted.until_ms is not None:
        conditions.append(column(TIME) < F.lit(wanted.until_ms))
    if wanted.start is not None:
        conditions.append(column(KEY) >= F.lit(wanted.start))
    if wanted.stop is not None:
        conditions.append(column(KEY) < F.lit(wanted.stop))
    return reduce(lambda one, other: one & other, conditions) if conditions else None


def _latest(rows: DataFrame) -> DataFrame:
    """Keeps the latest of the rows with one key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    order = Window.partitionBy(KEY).orderBy(F.col(WRITTEN).desc())
    return rows.withColumn(_RANK, F.row_number().over(order)).where(F.col(_RANK) == 1).drop(_RANK)
