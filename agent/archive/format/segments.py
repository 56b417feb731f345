"""Segments: sorted rows of one stream of one agent as a Parquet file, and their description in a log."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import polars as pl

from agent.archive.format.row_key import encode_keys
from agent.archive.format.rows import ArchiveRows
from agent.durable_files import sync_directory
from agent.parsing import Format
from agent.parsing.fields import DTYPES, Field, null_field, united
from agent.parsing.known_fields import COLUMNS_MAX

SEGMENTS_DIRECTORY = "segments"
SUFFIX = ".parquet"
ROW_GROUP_ROWS = 1 << 15
KEY, WRITTEN, TIME, LINE, EVENTS, FORMAT, FILE, OFFSET, AGENT, STREAM = (
    "key", "written", "raw:time", "raw:line", "raw:events", "raw:format", "raw:file", "raw:offset", "raw:agent",
    "raw:stream",
)  # fmt: skip
PARSED = "parsed:"
_COMPRESSION_LEVEL = 3


class Segment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of rows as the entry of a log describes it. Keys are hex; times are inclusive, of all events.

    `origins`: [file id, first offset, end offset] of the ranges its rows were read from. `columns`: the kinds of its
    parsed columns; of an `object` only the fields are stored. `is_complete`: these columns hold all values of its
    events. `formats`: the formats of the files. `malformed` counts as agents do; the `overlong` lines among them have
    no row.
    """

    name: str
    stream: str
    agent: str
    rows: int
    bytes: int
    first_key: str
    last_key: str
    from_ms: int
    to_ms: int
    events: int
    malformed: int
    origins: list[tuple[int, int, int]]
    columns: dict[str, str]
    is_complete: bool
    formats: list[Format]
    written_ms: int
    overlong: int = 0

    @property
    def file(self) -> str:
        """Path within the store's folder."""
        return f"{SEGMENTS_DIRECTORY}/{self.name}{SUFFIX}"


def segment_frame(lots: Sequence[ArchiveRows], written_ms: int) -> tuple[pl.DataFrame, Segment]:
    """Sorts rows of one stream of one agent by key, and describes their segment, but for its size.

    There must be a row.
    """
    stream, agent = lots[0].file.stream, lots[0].file.agent
    assert all((rows.file.stream, rows.file.agent) == (stream, agent) for rows in lots), "a segment has one stream"
    fields, is_complete = _fields(lots)
    frame = _frame(lots, fields, written_ms)
    keys = frame[KEY]
    return frame, Segment(
        name=uuid.uuid4().hex,
        stream=stream,
        agent=agent,
        rows=frame.height,
        bytes=0,
        first_key=keys[0].hex(),
        last_key=keys[-1].hex(),
        from_ms=min(rows.first_ms for rows in lots),
        to_ms=max(rows.last_ms for rows in lots),
        events=int(frame[EVENTS].sum()),
        malformed=sum(rows.malformed for rows in lots),
        origins=united_origins((rows.file.file_id, rows.begin, rows.end) for rows in lots),
        columns={name: field.kind for name, field in fields.items() if field.kind not in ("null", "unkept")},
        is_complete=is_complete,
        formats=list(dict.fromkeys(rows.file.format for rows in lots)),
        written_ms=written_ms,
        overlong=sum(rows.overlong for rows in lots),
    )


def _frame(lots: Sequence[ArchiveRows], fields: Mapping[str, Field], written_ms: int) -> pl.DataFrame:
    times = pl.concat([rows.times for rows in lots])
    offsets = pl.concat([rows.offsets for rows in lots])
    file_ids = _constant(lots, "file_id", pl.UInt64())
    stream, agent = lots[0].file.stream, lots[0].file.agent
    columns = {
        KEY: encode_keys(stream, agent, times, file_ids, offsets),
        WRITTEN: pl.repeat(written_ms, len(times), dtype=pl.Int64, eager=True),
        TIME: times,
        AGENT: pl.repeat(agent, len(times), dtype=pl.String, eager=True),
        STREAM: pl.repeat(stream, len(times), dtype=pl.String, eager=True),
        FILE: _constant(lots, "path", pl.String()),
        OFFSET: offsets.cast(pl.Int64),
        FORMAT: _formats(lots),
        EVENTS: pl.concat([rows.events for rows in lots]),
        LINE: pl.concat([rows.lines for rows in lots]),
    }
    stored = {f"{PARSED}{name}": field.values for name, field in fields.items() if field.kind in DTYPES}
    frame = pl.DataFrame(columns | stored)
    if not frame[KEY].is_sorted():
        frame = frame.sort(KEY)
    return frame


def write_segment(directory: Path, lots: Sequence[ArchiveRows], written_ms: int) -> Segment:
    """Writes rows as a segment of the store in `directory`, durably. No reader sees it before an entry names it."""
    data, segment = encode_segment(lots, written_ms)
    path = directory / segment.file
    try:
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    return segment


def encode_segment(lots: Sequence[ArchiveRows], written_ms: int) -> tuple[bytes, Segment]:
    """The file of a segment, for any kind of store, and its description for an entry."""
    frame, segment = segment_frame(lots, written_ms)
    file = io.BytesIO()
    frame.write_parquet(
        file, compression="zstd", compression_level=_COMPRESSION_LEVEL, statistics=True, row_group_size=ROW_GROUP_ROWS
    )
    return file.getvalue(), msgspec.structs.replace(segment, bytes=file.tell())


def _constant(lots: Sequence[ArchiveRows], name: str, dtype: pl.DataType) -> pl.Series:
    return pl.concat([pl.repeat(getattr(rows.file, name), len(rows), dtype=dtype, eager=True) for rows in lots])


def _formats(lots: Sequence[ArchiveRows]) -> pl.Series:
    encoded = (msgspec.json.encode(rows.file.format).decode() for rows in lots)
    return pl.concat(
        [pl.repeat(text, len(rows), dtype=pl.String, eager=True) for text, rows in zip(encoded, lots, strict=True)]
    )


def _fields(lots: Sequence[ArchiveRows]) -> tuple[dict[str, Field], bool]:
    """Merges the fields of all rows into a bounded number of columns; tells whether those hold all values."""
    names = list(dict.fromkeys(name for rows in lots for name in rows.fields))
    fields: dict[str, Field] = {}
    spelled: set[str] = set()
    is_complete, columns = all(rows.is_complete for rows in lots), 0
    for name in names:
        field = united([rows.fields.get(name) or null_field(len(rows)) for rows in lots])
        is_column = field.kind in DTYPES
        is_twin = name.lower() in spelled  # there are readers that do not tell them apart
        if field.kind == "unkept" or is_twin or (is_column and columns == COLUMNS_MAX):
            is_complete = False
            continue
        columns += is_column
        spelled.add(name.lower())
        fields[name] = field
    return fields, is_complete


def united_origins(origins: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Merges ranges of origins that touch or overlap; returns them in order."""
    found: list[tuple[int, int, int]] = []
    for file_id, begin, end in sorted(origins):
        if found and found[-1][0] == file_id and begin <= found[-1][2]:
            found[-1] = (file_id, found[-1][1], max(end, found[-1][2]))
        else:
            found.append((file_id, begin, end))
    return found
