"""Parts of a plain file that can be read on their own: any thread reads its part into memory of its own."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agent.sources.blocks import Block, BlockCutter, cut_in_steps
from agent.sources.errors import SourceError

Reading = Callable[[], list[Block]]
"""Reads the blocks of one part. May be called once, in any thread. Raises SourceError."""
_SEARCH_BYTES = 16 << 10
"""Bytes that are read first in search of a line's end."""
_READ_BYTES = 256 << 10


class OpenedRanges:
    """The first `size` bytes of an open file: what is appended is not read."""

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.file = path
        self.descriptor = descriptor
        self.size = size

    @classmethod
    def of_path(cls, path: str) -> OpenedRanges:
        """Opens a file, which is closed with the last of its readings."""
        descriptor = os.open(path, os.O_RDONLY)
        opened = cls(path, descriptor, os.fstat(descriptor).st_size)
        weakref.finalize(opened, os.close, descriptor)
        return opened

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from an offset on, fewer at the end. Raises SourceError."""
        try:
            return os.pread(self.descriptor, size, offset)
        except OSError as error:
            raise SourceError(self.file, (error.strerror or str(error)).lower()) from None

    def readings(self, block_bytes: int, line_bytes_max: int) -> Iterator[tuple[Reading, int]]:
        """Readings of parts that end where lines do, in order, with the offset that each comes to. Where a line is
        longer than it may be, the rest of the file is read at once, block by block."""
        start = 0
        while True:
            end = self._last_line_end(start, start + block_bytes, line_bytes_max)
            if end is None:
                yield from self._in_turn(start, block_bytes, line_bytes_max)
                return
            yield _Part(self, start, end, line_bytes_max).blocks, end
            if end == self.size:
                return
            start = end

    def _last_line_end(self, start: int, limit: int, line_bytes_max: int) -> int | None:
        """The end of the last line that ends before `limit`, or of the file if it does; None if no line ends there."""
        if self.size <= limit:
            return self.size
        searched = _SEARCH_BYTES
        while True:
            begin = max(start, limit - searched)
            newline = self.read(limit - begin, begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            if begin == start or searched > line_bytes_max:
                return None
            searched *= 8

    def _in_turn(self, start: int, block_bytes: int, line_bytes_max: int) -> Iterator[tuple[Reading, int]]:
        cutter = BlockCutter(self.file, block_bytes, line_bytes_max, offset=start)
        for size, blocks in cut_in_steps(self._pieces(start), cutter):
            start += size
            yield _already(blocks), start

    def _pieces(self, offset: int) -> Iterator[bytes]:
        while piece := self.read(_READ_BYTES, offset):
            offset += len(piece)
            yield piece


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines from `start` to `end`."""

    opened: OpenedRanges
    start: int
    end: int
    line_bytes_max: int

    def blocks(self) -> list[Block]:
        """Its lines, without overlong ones."""
        data = self.opened.read(self.end - self.start, self.start)
        cutter = BlockCutter(self.opened.file, len(data) + 1, self.line_bytes_max, offset=self.start)
        return [*cutter.feed(data), *cutter.finish()]


def _already(blocks: list[Block]) -> Reading:
    return lambda: blocks
