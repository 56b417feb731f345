"""Turns splits of existing logs into segments: the work of one task of a bulk load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import Segment, encode_segment, write_segment
from agent.sources import BLOCK_BYTES, Block, SourceError, SourceFile
from agent.sources.blocks import BlockCutter, cut_blocks

if TYPE_CHECKING:
    import pyarrow as pa

SEGMENT_BYTES = 64 << 20
"""Bytes of lines after which a task begins another segment."""
LOADED_COLUMNS = "segment string, data binary, fault string"
_READ_BYTES = 1 << 20
_LOOK_BACK_BYTES = 64 << 10


class FileSplit(msgspec.Struct, frozen=True):
    """The lines of a file that begin at or after `begin` and before `end` (None: the end of the file).

    `is_plain`: the file is not compressed and every line break ends a record. `arrival_ms`: the time of events without
    one.
    """

    origin: FileOrigin
    begin: int
    end: int | None
    is_plain: bool
    arrival_ms: int


@dataclass(frozen=True, slots=True)
class SegmentLoader:
    """Makes segments of the splits of each task, by the task's number, and yields their descriptions.

    Segments are written to `directory`; where it is None, their bytes are yielded, for a file system that only Spark
    can reach.
    """

    tasks: Sequence[Sequence[FileSplit]]
    directory: str | None
    written_ms: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for number in batch.column(0).to_pylist():
                for segment, data, fault in self._load(self.tasks[number]):
                    described = None if segment is None else msgspec.json.encode(segment).decode()
                    yield pa.RecordBatch.from_arrays(
                        [
                            pa.array([described], pa.string()),
                            pa.array([data], pa.binary()),
                            pa.array([fault], pa.string()),
                        ],
                        names=["segment", "data", "fault"],
                    )

    def _load(self, splits: Sequence[FileSplit]) -> Iterator[tuple[Segment | None, bytes | None, str | None]]:
        lots: list[ArchiveRows] = []
        held = 0
        for split in splits:
            try:
                for rows in read_split(split):
                    lots.append(rows)
                    held += rows.bytes
                    if held >= SEGMENT_BYTES:
                        yield self._written(lots)
                        lots, held = [], 0
            except SourceError as error:
                yield None, None, str(error)
        if lots:
            yield self._written(lots)

    def _written(self, lots: Sequence[ArchiveRows]) -> tuple[Segment, bytes | None, None]:
        if self.directory is not None:
            return write_segment(Path(self.directory), lots, self.written_ms), None, None
        data, segment = encode_segment(lots, self.written_ms)
        return segment, data, None


def read_split(split: FileSplit) -> Iterator[ArchiveRows]:
    """The rows of a split, equal to those from reading its file from the beginning. Raises SourceError."""
    blocks = _plain_blocks(split) if split.is_plain else _later_blocks(split)
    reader = RowReader(split.origin)
    for block, before in blocks:
        if before is not None:
            reader = RowReader(split.origin, before)
        rows = reader.read(block, split.arrival_ms)
        if rows is not None:
            yield rows


def _plain_blocks(split: FileSplit) -> Iterator[tuple[Block, int | None]]:
    """Yields blocks, the first with the time of the last event before it."""
    path = split.origin.path
    try:
        with Path(path).open("rb", buffering=0) as file:
            begin = _line_start(file, split.begin)
            end = None if split.end is None else _line_start(file, split.end)
            before = _time_before(file, begin, split)
            for block in cut_blocks(_content(file, begin, end), BlockCutter(path, offset=begin)):
                yield block, before
                before = None
    except OSError as error:
        raise SourceError(path, (error.strerror or str(error)).lower()) from None


def _later_blocks(split: FileSplit) -> Iterator[tuple[Block, int | None]]:
    """Yields blocks of a file that can only be read from its beginning, without those before the split."""
    csv_quotes = split.origin.format.quotes_span_lines
    skipped: Block | None = None
    for block in SourceFile(split.origin.path).blocks(block_bytes=BLOCK_BYTES, csv_quotes=csv_quotes):
        cut = split.begin - block.origin.offset
        if cut >= len(block.data):
            skipped = block
            continue
        before = None
        if cut > 0:
            skipped = Block(block.data[:cut], block.origin, 0)
            block = Block(block.data[cut:], type(block.origin)(block.origin.file, split.begin), block.overlong)
        if skipped is not None:
            before, skipped = _last_time(skipped, split), None
        yield block, before


def _content(file: BinaryIO, begin: int, end: int | None) -> Iterator[bytes]:
    file.seek(begin)
    left = None if end is None else end - begin
    while left is None or left > 0:
        data = file.read(_READ_BYTES if left is None else min(left, _READ_BYTES))
        if not data:
            return
        left = None if left is None else left - len(data)
        yield data


def _line_start(file: BinaryIO, offset: int) -> int:
    """Offset of the first line that begins at or after `offset`; the end of the file where none does."""
    if offset == 0:
        return 0
    position = file.seek(offset - 1)
    while data := file.read(_READ_BYTES):
        newline = data.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(data)
    return position


def _time_before(file: BinaryIO, begin: int, split: FileSplit) -> int | None:
    """Time of the last event before `begin`; looks back as far as needed."""
    back = _LOOK_BACK_BYTES
    while begin > 0:
        start = _line_start(file, max(0, begin - back))
        if start < begin:
            blocks = cut_blocks(_content(file, start, begin), BlockCutter(split.origin.path, back, offset=start))
            found = [time for block in blocks if (time := _last_time(block, split)) is not None]
            if found:
                return found[-1]
        if back >= begin:
            return None
        back *= 4
    return None


def _last_time(block: Block, split: FileSplit) -> int | None:
    rows = RowReader(split.origin).read(block, split.arrival_ms)
    if rows is None or not (rows.events.max() or 0):
        return None
    return int(rows.times[-1])
