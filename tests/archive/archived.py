"""Files and texts read as rows of an archive."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import Segment, segment_frame
from agent.parsing import Format, sniff
from agent.sources import Block, Origin, SourceFile

ARRIVAL_MS = 1_700_000_000_000


def rows_of_text(
    *texts: bytes, file_id: int = 7, kind: str = "auto", time_field: str | None = None
) -> list[ArchiveRows]:
    """The rows of a file that is read in these pieces."""
    return read_in(sniff(b"".join(texts), "a.log", kind, time_field), texts, file_id=file_id)


def read_in(form: Format, texts: Sequence[bytes], *, file_id: int = 7, offset: int = 0) -> list[ArchiveRows]:
    """The same in a given format."""
    reader = RowReader(FileOrigin("web", "web-1", "a.log", file_id, form))
    found = []
    for text in texts:
        rows = reader.read(Block(text, Origin("a.log", offset), 0), ARRIVAL_MS)
        assert reader.fault is None
        found += [] if rows is None else [rows]
        offset += len(text)
    return found


def rows_of_file(path: Path, block_bytes: int = 1 << 20) -> tuple[bytes, list[ArchiveRows]]:
    """The content of a file, and its rows."""
    source = SourceFile(str(path))
    form = sniff(source.head(), str(path))
    reader = RowReader(FileOrigin("web", "web-1", str(path), 7, form))
    blocks = list(source.blocks(block_bytes=block_bytes, csv_quotes=form.quotes_span_lines))
    lots = [reader.read(block, ARRIVAL_MS) for block in blocks]
    return b"".join(block.data for block in blocks), [rows for rows in lots if rows is not None]


def frame_of(lots: list[ArchiveRows]) -> pl.DataFrame:
    """The rows in the order of their offsets."""
    return segment_frame(lots, 5)[0].sort("raw:offset")


def segment_of(lots: list[ArchiveRows]) -> Segment:
    return segment_frame(lots, 5)[1]
