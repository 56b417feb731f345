"""Cuts a stream of bytes into blocks at line ends, with bounded memory whatever the stream holds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.sources.records import open_record

BLOCK_BYTES = 2 << 20  # parsing is fastest at 1 to 4 MiB
LINE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a block: the file, and the offset of its first byte in the decompressed content."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines that follow each other in a file; only a file's last line may lack its newline.

    `overlong` counts the lines right before the block that were skipped for being longer than allowed.
    """

    data: bytes
    origin: Origin
    overlong: int


@dataclass(slots=True)
class BlockCutter:
    """Cuts a stream into blocks: `feed` it pieces in order, `finish` it once, and forward what they yield.

    Holds at most `block_bytes` + `line_bytes_max` and the last piece. With `csv_quotes` a block ends where
    a record ends, and a record is a line as far as `line_bytes_max` is concerned. `offset` is that of the first
    byte held; a stream need not begin at 0.
    """

    file: str
    block_bytes: int = BLOCK_BYTES
    line_bytes_max: int = LINE_BYTES_MAX
    csv_quotes: bool = False
    offset: int = 0
    held_bytes: int = 0
    _pieces: list[bytes] = field(default_factory=list)
    _overlong: int = 0  # lines skipped since the last block
    _skipping: bool = False  # inside an overlong line

    def feed(self, piece: bytes) -> Iterator[Block]:
        self._pieces.append(piece)
        self.held_bytes += len(piece)
        if self.held_bytes >= self.block_bytes:
            yield from self._cut(b"".join(self._pieces), at_end=False)

    def cut_whole_lines(self, piece: bytes) -> list[Block]:
        """The whole lines of a piece that begins at `offset`, instead of `feed`: what follows them is not held.

        The next piece begins at the new `offset`, so it brings that again.
        """
        blocks = list(self._cut(piece, at_end=False, all_lines=True))
        self._pieces, self.held_bytes = [], 0
        if self._overlong:
            blocks.append(Block(b"", Origin(self.file, self.offset), self._overlong))
            self._overlong = 0
        return blocks

    def skip_line(self) -> None:
        """Skips the rest of the line in which the stream begins."""
        self._skipping = True

    def finish(self, *, damaged: bool = False) -> Iterator[Block]:
        """The rest. A last line without newline is a line, unless the stream is `damaged` there."""
        data = b"".join(self._pieces)
        yield from self._cut(data[: data.rfind(b"\n") + 1] if damaged else data, at_end=True)
        if self._overlong:
            yield Block(b"", Origin(self.file, self.offset), self._overlong)

    def _cut(self, data: bytes, *, at_end: bool, all_lines: bool = False) -> Iterator[Block]:
        start, any_length = 0, at_end or all_lines
        while start < len(data) and (any_length or self._skipping or len(data) - start >= self.block_bytes):
            if self._skipping:
                end = data.find(b"\n", start) + 1
                self._skipping = end == 0
                start = end or len(data)
                continue
            end, overlong_end = self._next_span(data, start, at_end)
            if end > start:
                yield Block(data[start:end], Origin(self.file, self.offset + start), self._overlong)
                self._overlong = 0
            if overlong_end > end:
                self._overlong += 1
                self._skipping = overlong_end == len(data) and data[-1:] != b"\n"
            elif end == start:
                break
            start = overlong_end
        self.offset += start
        self._pieces = [data[start:]]
        self.held_bytes = len(data) - start

    def _next_span(self, data: bytes, start: int, at_end: bool) -> tuple[int, int]:
        """Ends of the next block and of the overlong line behind it; `start` where there is none yet."""
        end = self._block_end(data, start, at_end)
        line = start
        while end - line > self.line_bytes_max or (end == start and len(data) - line > self.line_bytes_max):
            newline = data.rfind(b"\n", line, line + self.line_bytes_max + 1)
            if newline < 0:
                return line, data.find(b"\n", line) + 1 or len(data)
            line = newline + 1
        return end, end

    def _block_end(self, data: bytes, start: int, at_end: bool) -> int:
        """The latest end of the next block; `start` if more data is needed."""
        newline = data.rfind(b"\n", start, start + self.block_bytes)
        if newline < 0:
            newline = data.find(b"\n", start + self.block_bytes)
        end = newline + 1
        if at_end and (end == 0 or len(data) - start <= self.block_bytes):
            return len(data)
        if end == 0:
            return start
        return self._record_end(data, start, end, at_end) if self.csv_quotes else end

    def _record_end(self, data: bytes, start: int, end: int, at_end: bool) -> int:
        open_at = open_record(data[start:end], self.line_bytes_max)
        if open_at is None:
            return end
        if open_at > 0:
            return start + open_at
        last = len(data) if at_end else data.rfind(b"\n") + 1
        if last > end:
            return self._record_end(data, start, last, at_end)
        return len(data) if at_end else start


def cut_in_steps(pieces: Iterable[bytes], cutter: BlockCutter) -> Iterator[tuple[int, list[Block]]]:
    """The length of each piece of a stream, and the blocks that it completes. When the stream fails, the good part
    comes first."""
    try:
        for piece in pieces:
            yield len(piece), list(cutter.feed(piece))
    except Exception:
        yield 0, list(cutter.finish(damaged=True))
        raise
    yield 0, list(cutter.finish())


def cut_blocks(pieces: Iterable[bytes], cutter: BlockCutter) -> Iterator[Block]:
    """Every block of a stream. When the stream fails, the good part comes first."""
    for _, blocks in cut_in_steps(pieces, cutter):
        yield from blocks
