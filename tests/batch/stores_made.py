"""Stores made for tests: segments of given lines, written as an agent's archiver writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.archive.format.log import commit, create_store
from agent.archive.format.rows import ArchiveRows, FileOrigin, RowReader
from agent.archive.format.segments import Segment, write_segment
from agent.parsing import sniff
from agent.sources import Block, Origin

MINUTE_MS = 60_000
START_MS = 1_700_000_000_000 - 1_700_000_000_000 % MINUTE_MS


def json_lines(count: int, first: int = 0, status: str = "200") -> bytes:
    """Events a second apart, with a number each and a status as it is written."""
    lines = (
        f'{{"time": {START_MS + 1000 * n}, "n": {n}, "status": {status}, "path": "/{n % 7}"}}'
        for n in range(first, first + count)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def rows_of(
    data: bytes, *, stream: str = "web", agent: str = "web-1", offset: int = 0, file_id: int = 7
) -> ArchiveRows:
    """The rows of these lines, as read from `offset` of a file."""
    origin = FileOrigin(stream, agent, "access.log", file_id, sniff(data, "access.log"))
    rows = RowReader(origin).read(Block(data, Origin("access.log", offset), 0), START_MS)
    assert rows is not None
    return rows


def add_segment(
    store: Path, data: bytes, *, stream: str = "web", agent: str = "web-1", offset: int = 0, file_id: int = 7,
    written_ms: int = START_MS,
) -> Segment:  # fmt: skip
    """Commits these lines, as read from `offset` of a file, as one segment."""
    create_store(store, agent)
    rows = rows_of(data, stream=stream, agent=agent, offset=offset, file_id=file_id)
    segment = write_segment(store, [rows], written_ms)
    commit(store, written_ms, add=[segment])
    return segment


def add_pieces(store: Path, data: bytes, pieces: Sequence[int], **options: int | str) -> list[Segment]:
    """Adds data as several segments with these numbers of lines."""
    lines, made, offset = data.splitlines(keepends=True), [], 0
    for count in pieces:
        piece, lines = b"".join(lines[:count]), lines[count:]
        made.append(add_segment(store, piece, offset=offset, **options))  # type: ignore[arg-type]
        offset += len(piece)
    return made
