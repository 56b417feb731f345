"""Reads events from files and pipes: lines as they come, tables of Arrow at once."""

from __future__ import annotations

import io
import select
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from elf.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
"""The first bytes of a file and of a stream of Arrow."""
ARROW_BYTES_MAX = 1 << 30
LINE_BYTES_MAX = 1 << 20
PAUSE_S = 0.1
"""Time without input after which what has come is sent."""
_READ_BYTES = 1 << 16


def beginning(data: BinaryIO) -> bytes:
    """The first bytes of the input, of which the reader is told again."""
    head = b""
    while len(head) < len(ARROW[0]) and (piece := _read(data)):
        head += piece
    return head


def lines_of(data: BinaryIO, head: bytes) -> Iterator[bytes | None]:
    """The lines of the input, and None where nothing has come for a moment."""
    rest, is_told, number = b"", True, 0
    piece = head
    while piece:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        number += len(lines)
        is_told = is_told and not lines
        if len(rest) > LINE_BYTES_MAX:
            raise UsageError(f"line {number + 1}: longer than {LINE_BYTES_MAX:,} bytes")
        if not is_told and not _has_come(data):
            yield None
            is_told = True
        piece = _read(data)
    if rest:
        yield rest


def table_of(data: BinaryIO, head: bytes) -> pl.DataFrame:
    """The table that a stream or file of Arrow holds. Raises UsageError."""
    import polars as pl

    content = head + data.read(ARROW_BYTES_MAX + 1)
    if len(content) > ARROW_BYTES_MAX:
        raise UsageError(f"more than {ARROW_BYTES_MAX:,} bytes of Arrow: send it in parts")
    read = pl.read_ipc if content.startswith(ARROW[0]) else pl.read_ipc_stream
    try:
        return read(io.BytesIO(content))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic in native code arrives as a BaseException
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"this is no whole table of Arrow: {reason}") from None


def _read(data: BinaryIO) -> bytes:
    """Returns what has come, b"" at the end."""
    return data.read1(_READ_BYTES) if isinstance(data, io.BufferedReader) else data.read(_READ_BYTES)


def _has_come(data: BinaryIO) -> bool:
    """Whether there is input, or its end, within a moment."""
    try:
        return bool(select.select([data], [], [], PAUSE_S)[0])
    except (OSError, ValueError):
        return True
