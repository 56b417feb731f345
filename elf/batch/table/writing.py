"""Writes rows as sorted segments by Spark's tasks, first into a folder that readers ignore."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from agent.archive.format.segments import (
    EVENTS,
    KEY,
    PARSED,
    ROW_GROUP_ROWS,
    SEGMENTS_DIRECTORY,
    TIME,
    WRITTEN,
    Segment,
    united_origins,
)
from agent.parsing.fields import EXACT_MAX
from agent.parsing.known_fields import COLUMNS_MAX
from elf.batch.table.layout import OBJECT, column, file_ids, mixed_numbers, united_kinds
from elf.batch.table.stores import ArchiveStore, StoredSegment
from elf.batch.table.table import ArchiveTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

UNFINISHED = "_writing-"
"""Prefix of folders with unfinished segments."""
_OPTIONS = {
    "compression": "zstd",
    "parquet.block.row.count.limit": str(ROW_GROUP_ROWS),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}


@dataclass(frozen=True, slots=True)
class _Origin:
    """Facts about rows before they are written: their segments, and the columns they will have."""

    parts: Sequence[Segment]
    kinds: Mapping[str, str]
    is_complete: bool


def stored_columns(table: ArchiveTable, segments: Sequence[StoredSegment]) -> tuple[dict[str, str], bool]:
    """The parsed columns of segments once merged, with their kinds, and whether these columns hold all fields."""
    parts = [one.segment for one in segments]
    kinds = united_kinds(parts)
    kept = dict(list(kinds.items())[:COLUMNS_MAX]) | dict.fromkeys(_inexact(table, segments), "any")
    objects = {name for one in parts for name, kind in one.columns.items() if kind == OBJECT}
    is_complete = all(one.is_complete for one in parts) and len(kept) == len(kinds) and not objects & set(kept)
    return kept, is_complete


def _inexact(table: ArchiveTable, segments: Sequence[StoredSegment]) -> list[str]:
    """Columns with both integers and numbers that have an integer which no float represents exactly."""
    from pyspark.sql import functions as F  # noqa: N812

    found = []
    for name in mixed_numbers(one.segment for one in segments):
        integers = [one for one in segments if one.segment.columns.get(name) == "integer"]
        values = column(f"{PARSED}{name}")
        if table.read(integers).where((values > EXACT_MAX) | (values < F.lit(-EXACT_MAX))).head(1):
            found.append(name)
    return found


def write(table: ArchiveTable, store: ArchiveStore, parts: Sequence[StoredSegment], regions: int) -> list[Segment]:
    """Writes the rows of segments of one stream as at most `regions` new ones, each a range of keys.

    The new files are in place then, but not committed.
    """
    kinds, is_complete = stored_columns(table, parts)
    rows = table.read(parts, kinds)
    folder = f"{SEGMENTS_DIRECTORY}/{UNFINISHED}{uuid.uuid4().hex}"
    ranged = rows.coalesce(1) if regions == 1 else rows.repartitionByRange(regions, KEY)
    origin = _Origin([one.segment for one in parts], kinds, is_complete)
    try:
        ranged.sortWithinPartitions(KEY).write.options(**_OPTIONS).parquet(store.directory.uri_of(folder))
        segments = []
        for described in _described(rows, store.directory.uri_of(folder)):
            segment = _segment(described, origin)
            store.directory.move(f"{folder}/{described['file']}", segment.file)
            segments.append(segment)
    finally:
        store.directory.delete(folder)
    return _with_uncounted(sorted(segments, key=lambda one: one.first_key), origin.parts)


def _described(rows: DataFrame, uri: str) -> list[Row]:
    """Statistics of each file in a folder."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = f"`{KEY}` binary, `{WRITTEN}` bigint, `{TIME}` bigint, `{EVENTS}` int"
    read = rows.sparkSession.read.schema(schema).parquet(uri)
    return (
        read.groupBy(F.col("_metadata.file_name").alias("file"), F.col("_metadata.file_size").alias("bytes"))
        .agg(
            F.count("*").alias("rows"),
            F.min(KEY).alias("first_key"), F.max(KEY).alias("last_key"),
            F.min(column(TIME)).alias("from_ms"), F.max(column(TIME)).alias("to_ms"),
            F.coalesce(F.sum(column(EVENTS)), F.lit(0)).alias("events"),
            F.count_if(column(EVENTS) == 0).alias("malformed"),
            F.coalesce(F.max(column(EVENTS)), F.lit(0)).alias("events_max"),
            F.collect_set(file_ids()).alias("files"), F.max(WRITTEN).alias("written_ms"),
        )
        .collect()
    )  # fmt: skip


def _segment(described: Row, origin: _Origin) -> Segment:
    parts = origin.parts
    files = {int.from_bytes(file, "big") for file in described["files"]}
    # Several events of one line have their own times, which only the old segments' statistics cover.
    several = described["events_max"] > 1
    objects = {name: kind for one in parts for name, kind in one.columns.items() if kind == OBJECT}
    return Segment(
        name=uuid.uuid4().hex,
        stream=parts[0].stream,
        agent=parts[0].agent,
        rows=described["rows"],
        bytes=described["bytes"],
        first_key=bytes(described["first_key"]).hex(),
        last_key=bytes(described["last_key"]).hex(),
        from_ms=min(one.from_ms for one in parts) if several else described["from_ms"],
        to_ms=max(one.to_ms for one in parts) if several else described["to_ms"],
        events=described["events"],
        malformed=described["malformed"],
        origins=[one for one in united_origins(chain.from_iterable(part.origins for part in parts)) if one[0] in files],
        columns=objects | dict(origin.kinds),
        is_complete=origin.is_complete,
        formats=list(dict.fromkeys(form for one in parts for form in one.formats)),
        written_ms=described["written_ms"],
    )


def _with_uncounted(segments: Sequence[Segment], parts: Sequence[Segment]) -> list[Segment]:
    """The segments, the first with the counts that rows do not carry: lines without events, and malformed events beside
    others.
    """
    if not segments or sum(one.rows for one in segments) != sum(one.rows for one in parts):
        return list(segments)
    uncounted = sum(one.malformed for one in parts) - sum(one.malformed for one in segments)
    first = msgspec.structs.replace(
        segments[0], malformed=segments[0].malformed + uncounted, overlong=sum(one.overlong for one in parts)
    )
    return [first, *segments[1:]]
