"""Reads the content of an open compressed file forward, a bounded amount at a time, and holds a window of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import suppress

from agent.sources.file.compression import ZSTD_MAGIC, DamagedError, compression_of, decompress
from agent.sources.file.files import HEAD_BYTES

STEP_BYTES = 16 << 20
"""Content that one call produces, about; a call of the decompressor may bring up to 32 MiB more."""
EXPANSION_MAX = 256
"""Upper bound on the size of content as a multiple of the file's: logs compress to a tenth, bombs to a thousandth."""
EXPANDED_FREELY_BYTES = 64 << 20
"""Size of content up to which its proportion to the file does not matter."""

_READ_BYTES = 64 << 10
_MAGIC_BYTES = len(ZSTD_MAGIC)


class ExpandedContent:
    """The content of a file that is open at `descriptor`. Calls raise DamagedError, or OSError.

    `end` is the size of the content so far, and `is_whole` says that there is no more. Content can be read from the
    `keep_from` of the last `expand` on, and within its first HEAD_BYTES until `drop_head`.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.restart()

    def restart(self) -> None:
        """Begins anew, as the file may be longer by now."""
        self.end = 0
        self.is_whole = False
        self._damage: DamagedError | None = None
        self._head = b""
        self._head_bytes = HEAD_BYTES
        self._at = 0
        self._window = bytearray()
        self._window_start = 0
        self._output = self._expanded()

    @property
    def unread_bytes(self) -> int:
        """The size of what is left of the file, compressed."""
        return max(0, os.fstat(self._descriptor).st_size - self._at)

    def expand(self, upto: int, *, keep_from: int) -> int:
        """Produces content up to an offset, but no more than about STEP_BYTES. Returns how much it has produced."""
        self._drop_before(keep_from)
        began = self.end
        while self.end < upto and not self.is_whole and self.end - began < STEP_BYTES:
            piece = self._next_piece()
            if piece is None:
                self.is_whole = True
            else:
                self._take(piece, keep_from)
        return self.end - began

    def _next_piece(self) -> bytes | None:
        if self._damage is None:
            try:
                return next(self._output, None)
            except DamagedError as error:
                self._damage = error
        raise self._damage

    def pread(self, size: int, offset: int) -> bytes:
        """Content that was kept, as `os.pread` returns it."""
        if offset >= self._window_start:
            start = offset - self._window_start
            return bytes(self._window[start : start + size])
        return self._head[offset : offset + size]

    def drop_head(self, kept_bytes: int) -> None:
        """Keeps no more than this of the beginning."""
        self._head_bytes = kept_bytes
        self._head = self._head[:kept_bytes]

    def _take(self, piece: bytes, keep_from: int) -> None:
        if self.end < self._head_bytes and len(self._head) == self.end:
            self._head += piece[: self._head_bytes - self.end]
        self.end += len(piece)
        self._window += piece
        self._drop_before(keep_from)

    def _drop_before(self, offset: int) -> None:
        count = min(offset - self._window_start, len(self._window))
        if count > 0:
            del self._window[:count]
            self._window_start += count

    def _expanded(self) -> Generator[bytes]:
        first = os.pread(self._descriptor, _MAGIC_BYTES, 0)
        kind = compression_of(first)
        if kind is None:
            raise DamagedError("it holds no compressed data", ends_early=len(first) < _MAGIC_BYTES)
        size = 0
        for piece in decompress(self._chunks(), kind):
            size += len(piece)
            if size > max(EXPANDED_FREELY_BYTES, EXPANSION_MAX * self._at):
                raise DamagedError(f"it holds more than {EXPANSION_MAX} times its size, so it is no log")
            yield piece

    def _chunks(self) -> Iterator[bytes]:
        while chunk := os.pread(self._descriptor, _READ_BYTES, self._at):
            self._at += len(chunk)
            yield chunk


def expanded_head(path: str, size: int) -> bytes:
    """The beginning of a compressed file's content; shorter where the file is damaged or not complete. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        content = ExpandedContent(descriptor)
        with suppress(DamagedError):
            content.expand(size, keep_from=0)
        return content.pread(size, 0)
    finally:
        os.close(descriptor)
