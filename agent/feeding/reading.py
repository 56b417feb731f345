"""One reading of one stream, as far as it blocks: files are read and parsed, a bounded amount in each call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from agent.configuration.config import StreamConfig
from agent.parsing import NO_WATERMARK_MS, TIME, Format, Parsed, Parser, SourceColumn, parser, sniff
from agent.runtime.ingest.feed import Feed
from agent.sources.file.backlog import BoundedReader
from agent.sources.file.tail import TailReader
from agent.sources.reader import FileBlock, ReaderStatistics, StreamReader

ROWS_PER_INSERT = 1 << 15
"""Events given to the agent at once, so that between two inserts it can do other things."""
AHEAD_MS_MAX = 60_000
"""How far ahead of the wall clock an event may be and still say how far its file has come."""
PARSERS_MAX = 64

Columns = tuple[SourceColumn, ...]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """A parsed block. It keeps the block, for the case that other columns are needed by the time it is used.

    `wall_ms`: the time of events that carry none.
    """

    piece: FileBlock[Format]
    columns: Columns
    wall_ms: int
    parsed: Parsed

    def suits(self, columns: Columns) -> bool:
        return self.columns == columns or set(columns) <= set(self.columns)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What one call has read. `at_end`: it was everything that was there at `wall_ms`."""

    batches: tuple[ParsedBlock, ...]
    at_end: bool
    wall_ms: int
    faults: tuple[str, ...]
    statistics: ReaderStatistics


class FeedReader:
    """Reads and parses for one feed. Its calls block; one `read` may run at a time, and `again` beside it."""

    def __init__(self, feed: Feed, stream: StreamConfig) -> None:
        recognise = partial(sniff, kind=stream.format, time_field=stream.time_field)
        self._reader: StreamReader[Format]
        if feed.bounded:
            self._reader = BoundedReader(stream.paths, recognise)
        else:
            self._reader = TailReader(stream.paths, recognise, read_from=feed.start)
        self._is_live = not feed.bounded
        self._parsers: dict[tuple[Format, Columns], Parser] = {}
        self._newest_ms = NO_WATERMARK_MS
        self._watermark_ms = NO_WATERMARK_MS
        self._faults: list[str] = []

    def read(self, columns: Columns, now: float, wall_ms: int) -> ReadBatch:
        """The next few MiB, if there are as many. `wall_ms` is the time of events that carry none."""
        batches = []
        for piece in self._reader.poll(now):
            parsed = self._parse(piece, columns, wall_ms)
            self._note_times(piece, parsed, wall_ms)
            batches.append(ParsedBlock(piece, columns, wall_ms, replace(parsed, watermark_ms=self._watermark())))
        if batches:
            # Only with the last one everything is in that has been read.
            self._raise_watermark()
            last = batches[-1]
            batches[-1] = replace(last, parsed=replace(last.parsed, watermark_ms=self._watermark()))
        faults, self._faults = (*self._reader.faults(), *self._faults), []
        return ReadBatch(tuple(batches), self._reader.at_end, wall_ms, faults, self._reader.statistics())

    def quiet_round(self, now: float, wall_ms: int) -> ReadBatch | None:
        """What `read` would return, if it is certain that it would find nothing. Does not block."""
        if not self._reader.is_quiet(now):
            return None
        return ReadBatch((), True, wall_ms, (), self._reader.statistics())

    def again(self, batch: ParsedBlock, columns: Columns) -> ParsedBlock:
        """The same block with other columns."""
        parsed = self._parse(batch.piece, columns, batch.wall_ms)
        return replace(batch, columns=columns, parsed=replace(parsed, watermark_ms=batch.parsed.watermark_ms))

    def _parse(self, piece: FileBlock[Format], columns: Columns, wall_ms: int) -> Parsed:
        """The events of a block. A block that its parser fails on is counted, line by line, as malformed."""
        try:
            parsed = self._parser(piece.form, columns).parse(piece.block, wall_ms)
        except (Exception, pl.exceptions.PanicException) as error:
            lines = piece.block.data.count(b"\n")
            self._faults.append(f"{piece.file.path}: {lines:,} lines cannot be parsed: {error!r}"[:500])
            parsed = Parsed((), lines)
        return replace(parsed, malformed=parsed.malformed + piece.block.overlong)

    def close(self) -> None:
        self._reader.close()

    def _parser(self, form: Format, columns: Columns) -> Parser:
        key = form.parsing_key, columns
        found = self._parsers.get(key)
        if found is None:
            if len(self._parsers) >= PARSERS_MAX:
                self._parsers.clear()
            found = self._parsers[key] = parser(form, columns)
        return found

    def _note_times(self, piece: FileBlock[Format], parsed: Parsed, wall_ms: int) -> None:
        """How far a file has come: to its newest event, leaving out those of tomorrow."""
        limit = wall_ms + AHEAD_MS_MAX
        newest = [time for frame in parsed.frames if (time := _newest(frame[TIME], limit)) is not None]
        reached = piece.file.reached_ms
        if newest:
            piece.file.reached_ms = max(newest) if reached is None else max(reached, *newest)
            self._newest_ms = max(self._newest_ms, *newest)
        elif reached is None and (parsed.malformed or parsed.frames):
            # A file that tells no time to be believed must not hold the others back.
            piece.file.reached_ms = wall_ms

    def _watermark(self) -> int | None:
        return self._watermark_ms if self._is_live else None

    def _raise_watermark(self) -> None:
        """As far as all files have come that hold more; where none does, to the newest event."""
        behind = [NO_WATERMARK_MS if file.reached_ms is None else file.reached_ms for file in self._reader.behind()]
        self._watermark_ms = max(self._watermark_ms, min([self._newest_ms, *behind]))


def slices(parsed: Parsed) -> Iterator[Parsed]:
    """The same events in bounded amounts; what is counted once comes with the last."""
    parts = [
        frame.slice(start, ROWS_PER_INSERT)
        for frame in parsed.frames
        for start in range(0, frame.height, ROWS_PER_INSERT)
    ]
    for part in parts[:-1]:
        held_back = None if parsed.watermark_ms is None else NO_WATERMARK_MS
        yield Parsed((part,), 0, held_back)
    yield Parsed(tuple(parts[-1:]), parsed.malformed, parsed.watermark_ms)


def _newest(times: pl.Series, limit: int) -> int | None:
    newest = times.max()
    if isinstance(newest, int) and newest > limit:
        newest = times.filter(times <= limit).max()
    return newest if isinstance(newest, int) else None
