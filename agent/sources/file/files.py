"""Reads files, pipes and standard input as blocks; `.gz` and `.zst` files are decompressed."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from agent.sources.blocks import BLOCK_BYTES, LINE_BYTES_MAX, Block, BlockCutter, Origin, cut_blocks
from agent.sources.errors import SourceError
from agent.sources.file.compression import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    ZSTD_SKIPPABLE_MAGICS,
    DamagedError,
    decompress,
)
from agent.sources.file.ranges import OpenedRanges, Reading

STANDARD_INPUT = "-"
HEAD_BYTES = 256 << 10

_READ_BYTES = 256 << 10
_KEPT_BYTES_MAX = 16 << 20  # of a pipe, read in search of a first line
_KINDS = {"gzip": ((GZIP_MAGIC,), ".gz"), "zstd": ((ZSTD_MAGIC, *ZSTD_SKIPPABLE_MAGICS), ".zst")}


@dataclass(slots=True)
class Progress:
    """Progress of a reading, in bytes of the file itself, compressed or not."""

    bytes_read: int = 0


class SourceFile:
    """One file, named pipe or, as `-`, the binary standard input that is given. Reads when asked, and only
    then.

    `head` may be called before `blocks` and takes nothing away from it; `blocks` may be called once. All
    methods raise SourceError: one line that names the file and says what is wrong.
    """

    def __init__(self, path: str, *, stdin: BinaryIO | None = None) -> None:
        self.file = path
        self.progress = Progress()
        self._stdin = stdin
        self._kept: list[bytes] = []  # what `head` has read of something that can be read only once
        self._stream: BinaryIO | None = None  # the same, still open

    def bytes_total(self) -> int | None:
        """Size of the file in the bytes that `progress` counts; None where nobody knows (a pipe)."""
        if self.file == STANDARD_INPUT:
            return None
        with _told(self.file):
            status = self._path().stat()
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def head(self, bytes_max: int = HEAD_BYTES) -> bytes:
        """The first lines, about `bytes_max` of them, without overlong ones; empty when there are none."""
        if self.bytes_total() is not None:
            with self._open() as stream:
                return self._first_block(_read(self.file, stream, Progress()), bytes_max)
        self._stream = self._open()
        return self._first_block(self._read_and_keep(self._stream), bytes_max)

    def blocks(
        self,
        *,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        csv_quotes: bool = False,
    ) -> Iterator[Block]:
        """The whole source in blocks of about `block_bytes`; `csv_quotes`: never cut inside a quoted CSV
        field.

        The good part of a damaged compressed file comes before its SourceError.
        """
        yield from cut_blocks(self.content(), BlockCutter(self.file, block_bytes, line_bytes_max, csv_quotes))

    def readings(
        self,
        *,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
        csv_quotes: bool = False,
    ) -> Iterator[Reading]:
        """Yields readings of the same blocks, which may be called in other threads: plain files are read there. Others
        have to be read, and decompressed, in order.
        """
        if csv_quotes or not self.is_plain():
            blocks = self.blocks(block_bytes=block_bytes, line_bytes_max=line_bytes_max, csv_quotes=csv_quotes)
            yield from (partial(list, (block,)) for block in blocks)
            return
        for reading, end in self._ranges().readings(block_bytes, line_bytes_max):
            self.progress.bytes_read = end
            yield reading

    def _ranges(self) -> OpenedRanges:
        with _told(self.file):
            return OpenedRanges.of_path(self.file)

    def is_plain(self) -> bool:
        """Whether its parts can be read on their own."""
        if not self.bytes_total():  # also of files that the system makes up as they are read
            return False
        with self._open() as stream:
            return _compression(self.file, stream.read(len(ZSTD_MAGIC))) is None

    def end(self, bytes_max: int) -> Block:
        """The last whole lines of a plain file, about `bytes_max` of them."""
        with self._open() as stream, _told(self.file):
            size = stream.seek(0, os.SEEK_END)
            start = stream.seek(max(0, size - bytes_max))
            data = stream.read(min(bytes_max, size)) or b""
        first = data.find(b"\n") + 1 if start else 0
        return Block(data[first : data.rfind(b"\n") + 1], Origin(self.file, start + first), 0)

    def content(self) -> Iterator[bytes]:
        """The whole source as pieces of at most 32 MiB, decompressed: what `blocks` is cut from, and once as well."""
        kept, self._kept = self._kept, []
        stream = self._stream or self._open()
        with nullcontext() if stream is self._stdin else stream:
            yield from _content(self.file, chain(kept, _read(self.file, stream, self.progress)))

    def _open(self) -> BinaryIO:
        if self.file == STANDARD_INPUT:
            if self._stdin is None:
                raise SourceError("standard input", "is not there to read from")
            return self._stdin
        with _told(self.file):
            return self._path().open("rb", buffering=0)

    def _path(self) -> Path:
        if not self.file:  # which a Path takes for the current directory
            raise SourceError(self.file, "no such file or directory")
        return Path(self.file)

    def _first_block(self, raw: Iterator[bytes], bytes_max: int) -> bytes:
        blocks = cut_blocks(_content(self.file, raw), BlockCutter(self.file, bytes_max))
        return next((block.data for block in blocks if block.data), b"")

    def _read_and_keep(self, stream: BinaryIO) -> Iterator[bytes]:
        for piece in _read(self.file, stream, self.progress):
            self._kept.append(piece)
            yield piece
            if sum(map(len, self._kept)) >= _KEPT_BYTES_MAX:
                return


class OpenedFile(SourceFile):
    """The first `size` bytes of an open file, which may be growing and nameless by now. Its owner closes it."""

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        super().__init__(path)
        self._descriptor = descriptor
        self._size = size

    def bytes_total(self) -> int:
        return self._size

    def _open(self) -> BinaryIO:
        return cast(BinaryIO, _FirstBytes(self._descriptor, self._size))

    def _ranges(self) -> OpenedRanges:
        return OpenedRanges(self.file, self._descriptor, self._size)


class _FirstBytes(io.RawIOBase):
    """Reads an open file's first bytes, at a position of its own."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor = descriptor
        self._position, self._size = 0, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = self._size - self._position
        data = os.pread(self._descriptor, left if size < 0 else min(size, left), self._position)
        self._position += len(data)
        return data


def read_blocks(
    path: str,
    *,
    stdin: BinaryIO | None = None,
    block_bytes: int = BLOCK_BYTES,
    line_bytes_max: int = LINE_BYTES_MAX,
    csv_quotes: bool = False,
) -> Iterator[Block]:
    """The blocks of one file, or of `stdin` for `-`; see `SourceFile`. Raises SourceError."""
    source = SourceFile(path, stdin=stdin)
    return source.blocks(block_bytes=block_bytes, line_bytes_max=line_bytes_max, csv_quotes=csv_quotes)


@contextmanager
def _told(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SourceError(file, (error.strerror or str(error)).lower()) from None
    except ValueError as error:  # a NUL or a stray surrogate in the path
        raise SourceError(file, f"no such file: {error}") from None


def _read(file: str, stream: BinaryIO, progress: Progress) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read)  # of a buffered pipe: what is there, without waiting for more
    while True:
        with _told(file):
            piece = read(_READ_BYTES)
        if not piece:
            return
        progress.bytes_read += len(piece)
        yield piece


def _content(file: str, raw: Iterator[bytes]) -> Iterator[bytes]:
    """The raw bytes, decompressed if they are compressed."""
    first = b""
    for piece in raw:
        first += piece
        if len(first) >= len(ZSTD_MAGIC):
            break
    kind = _compression(file, first)
    whole = chain([first] if first else [], raw)
    if kind is None:
        yield from whole
        return
    good = 0
    try:
        for output in decompress(whole, kind):
            good += len(output)
            yield output
    except DamagedError as error:
        raise SourceError(file, f"{error}: only {good} bytes of content could be read") from None


def _compression(file: str, first: bytes) -> str | None:
    for kind, (magics, suffix) in _KINDS.items():
        if first.startswith(magics):
            return kind
        if first and file.lower().endswith(suffix):
            raise SourceError(file, f"is named {suffix} but holds no {kind} data: 0 bytes of content could be read")
    return None
