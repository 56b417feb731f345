"""Reads and parses one stream for one feed, a bounded amount in each blocking call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import polars as pl

from agent.configuration.config import StreamConfig
from agent.feeding.reading_ledger import Files, ReadFrom, ReadTo
from agent.feeding.replay import NOTHING_SEALED, Replay, followed
from agent.parsing import NO_WATERMARK_MS, TIME, Abandoned, Format, Parsed, Parser, SourceColumn, parser, sniff
from agent.parsing.native.library import count_lines
from agent.runtime.durable.records import Chain
from agent.runtime.ingest.event_clock import FUTURE_MS, MAX_SKEW_MS
from agent.runtime.ingest.feed import Feed
from agent.runtime.model.latency.critical_path import BlockRead
from agent.sources.file.source import FileSource
from agent.sources.file.tail import TailReader
from agent.sources.reader import ReaderStatistics, SourceBlock, StreamReader

ROWS_PER_INSERT = 1 << 15
"""Upper bound on events inserted at once; the agent does other work between two inserts."""
PARSERS_MAX = 64
LINES_MIN = 16
"""Least number of lines of a block that is worth a look at some of them, whether they are too late."""

Columns = tuple[SourceColumn, ...]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """A parsed block. The block is kept in case other columns are needed by the time it is inserted.

    `wall_ms`: the time of events that carry none. `read_to`: the place after it, None if the source has no places.
    `replayed`: the chains whose last run came after it, in an earlier process. `read`: when it was read.
    """

    piece: SourceBlock[Format]
    columns: Columns
    wall_ms: int
    parsed: Parsed
    read_to: ReadTo | None = None
    replayed: frozenset[Chain] = frozenset()
    read: BlockRead | None = None

    def covers(self, columns: Columns) -> bool:
        return self.columns == columns or set(columns) <= set(self.columns)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The blocks that one call has read. `at_end`: they are all that was there at `wall_ms`.

    `files`: the position after them, and `newest_ms` the time of the newest event before it; None: the source has no
    positions. `began`: the position at which the reader has begun, with its first batch.
    """

    blocks: tuple[ParsedBlock, ...]
    at_end: bool
    wall_ms: int
    faults: tuple[str, ...]
    statistics: ReaderStatistics
    files: Files | None = None
    newest_ms: int = NO_WATERMARK_MS
    began: Files | None = None


class FeedReader:
    """Reads and parses for one feed. Calls block; one `read` may run at a time, and `reparse` and `close` beside it.

    The source is closed by `close`, or at its end by the `read` that was under way then, which nobody may wait for.

    `known`: the position from which a feed goes on that was read before. `sealed`: the places at which an earlier
    process has sealed its last runs; blocks end there. `timer` tells seconds, in any thread.
    """

    def __init__(
        self,
        feed: Feed,
        stream: StreamConfig,
        known: Files | None = None,
        max_skew_ms: int = MAX_SKEW_MS,
        sealed: Mapping[Chain, Files] = NOTHING_SEALED,
        timer: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._replay, self._timer = Replay(sealed), timer
        recognise = partial(sniff, kind=stream.format, time_field=stream.time_field)
        self._reader: StreamReader[Format]
        if feed.start == "remembered" or known is not None:
            assert isinstance(stream.source, FileSource), "only files have positions"
            self._reader = stream.source.tail(recognise, "beginning", known or ())
        else:
            self._reader = stream.source.open(recognise, bounded=feed.bounded, read_from=feed.start)
        self._tail = self._reader if isinstance(self._reader, TailReader) else None
        self._has_begun = False
        self._seen_ms = NO_WATERMARK_MS
        self._is_live = not feed.bounded
        self._clauses = feed.clauses
        self.max_skew_ms = max_skew_ms
        self._parsers: dict[tuple[Format, Columns], Parser] = {}
        self._newest_ms = NO_WATERMARK_MS
        self._watermark_ms = NO_WATERMARK_MS
        self._faults: list[str] = []
        self._closing = threading.Lock()
        self._is_reading = self._is_closed = False

    def read(
        self, columns: Columns, now: float, wall_ms: int, abandoned_ms: Callable[[], int | None] = lambda: None
    ) -> ReadBatch:
        """Reads up to a few MiB; nothing once it is closed. `wall_ms` is the time of events that carry none.
        `abandoned_ms`: the time up to which events are late for all by now, who do not wait for them: blocks of such
        are not decoded."""
        with self._closing:
            if self._is_closed:
                return ReadBatch((), True, wall_ms, (), self._reader.statistics())
            self._is_reading = True
        try:
            return self._read(columns, now, wall_ms, abandoned_ms)
        finally:
            with self._closing:
                self._is_reading = False
                if self._is_closed:
                    self._reader.close()

    def _read(self, columns: Columns, now: float, wall_ms: int, abandoned_ms: Callable[[], int | None]) -> ReadBatch:
        blocks = []
        began = self._begin(now)
        before = self._tail.positions if self._tail is not None else ()
        for piece in self._replay.cut(self._reader.poll(now)):
            begun_s = self._timer()
            parsed = self._parsed(piece, columns, wall_ms, abandoned_ms())
            read = BlockRead(now, self._timer() - begun_s)
            self._note_times(piece, parsed, wall_ms)
            parsed = replace(parsed, watermark_ms=self._watermark())
            blocks.append(ParsedBlock(piece, columns, wall_ms, parsed, read=read))
        if blocks:
            # The watermark holds only once the last block of this call is inserted.
            self._raise_watermark()
            last = blocks[-1]
            blocks[-1] = replace(last, parsed=replace(last.parsed, watermark_ms=self._watermark()))
        if self._tail is not None:
            blocks = self._placed(blocks, before, self._tail.positions)
        faults, self._faults = (*self._reader.faults(), *self._faults), []
        files = self._tail.positions if self._tail is not None and blocks else None
        statistics = self._reader.statistics()
        return ReadBatch(tuple(blocks), self._reader.at_end, wall_ms, faults, statistics, files, self._seen_ms, began)

    def _placed(self, blocks: list[ParsedBlock], before: Files, after: Files) -> list[ParsedBlock]:
        """The blocks of a poll with their places; the files were at these positions before and after it."""
        ends = {file.identity: file.offset for file in before}
        began: list[ReadFrom] = []
        for block in blocks:
            file, origin = followed(block.piece.part).identity, block.piece.block.origin.offset
            began.append(ReadFrom(file, min(ends.get(file, origin), origin)))
            ends[file] = origin + len(block.piece.block.data)
        place, placed = ReadTo(after), []
        for block, start in zip(reversed(blocks), reversed(began), strict=True):
            placed.append(replace(block, read_to=place, replayed=self._replay.of(block.piece)))
            place = ReadTo(before=(start, place))
        return placed[::-1]

    def _begin(self, now: float) -> Files | None:
        """Finds the files, the first time; returns where their reading begins."""
        if self._has_begun or self._tail is None:
            return None
        self._tail.look(now)
        self._has_begun = True
        return self._tail.positions

    def quiet_batch(self, now: float, wall_ms: int) -> ReadBatch | None:
        """The result of `read` if it would certainly find nothing, else None. Does not block."""
        if not self._reader.is_quiet(now):
            return None
        return ReadBatch((), True, wall_ms, (), self._reader.statistics())

    def reparse(self, batch: ParsedBlock, columns: Columns) -> ParsedBlock:
        """Parses a block again with other columns."""
        parsed = self._parse(batch.piece, columns, batch.wall_ms)
        return replace(batch, columns=columns, parsed=replace(parsed, watermark_ms=batch.parsed.watermark_ms))

    def _parsed(self, piece: SourceBlock[Format], columns: Columns, wall_ms: int, abandoned_ms: int | None) -> Parsed:
        """The events of a block, unless all those that are looked at are too late."""
        if abandoned_ms is not None and (abandoned := self._abandoned(piece, columns, wall_ms, abandoned_ms)):
            return Parsed((), piece.block.overlong, abandoned=abandoned)
        return self._parse(piece, columns, wall_ms)

    def _abandoned(
        self, piece: SourceBlock[Format], columns: Columns, wall_ms: int, abandoned_ms: int
    ) -> Abandoned | None:
        """The lines of a block that is not worth decoding; None if it is, or has too few lines to tell."""
        data = piece.block.data if piece.block.data.endswith(b"\n") else piece.block.data + b"\n"
        if (lines := count_lines(data)) < LINES_MIN:
            return None
        some = _some_lines(data)
        seen = self._parse(replace(piece, block=replace(piece.block, data=b"".join(some))), columns, wall_ms)
        times = [time for frame in seen.all_frames for time in frame[TIME]]
        return Abandoned(lines, max(times)) if len(times) == len(some) and max(times) <= abandoned_ms else None

    def _parse(self, piece: SourceBlock[Format], columns: Columns, wall_ms: int) -> Parsed:
        """The events of a block. A block that its parser fails on is counted, line by line, as malformed."""
        try:
            parsed = self._parser(piece.form, columns).parse(piece.block, wall_ms)
        except (Exception, pl.exceptions.PanicException) as error:
            lines = piece.block.data.count(b"\n")
            self._faults.append(f"{piece.part.path}: {lines:,} lines cannot be parsed: {error!r}"[:500])
            parsed = Parsed((), lines)
        return replace(parsed, malformed=parsed.malformed + piece.block.overlong)

    def close(self) -> None:
        """Closes the source, now or when the `read` under way is over. Does not wait for it."""
        with self._closing:
            self._is_closed = True
            if not self._is_reading:
                self._reader.close()

    def _parser(self, form: Format, columns: Columns) -> Parser:
        key = form.parsing_key, columns
        found = self._parsers.get(key)
        if found is None:
            if len(self._parsers) >= PARSERS_MAX:
                self._parsers.clear()
            found = self._parsers[key] = parser(form, columns, self._clauses)
        return found

    def _note_times(self, piece: SourceBlock[Format], parsed: Parsed, wall_ms: int) -> None:
        """Advances a file to its newest event, apart from events ahead of the wall clock."""
        limit = wall_ms + self.max_skew_ms
        # An event that is not believed yet may be, by the time it is inserted.
        abandoned = [] if parsed.abandoned is None else [parsed.abandoned.newest_ms]
        seen = (_newest(frame[TIME], wall_ms + 2 * FUTURE_MS) for frame in parsed.all_frames)
        self._seen_ms = max(self._seen_ms, *(time for time in seen if time is not None), *abandoned, NO_WATERMARK_MS)
        newest = [time for frame in parsed.all_frames if (time := _newest(frame[TIME], limit)) is not None]
        newest += abandoned
        reached = piece.part.reached_ms
        if newest:
            piece.part.reached_ms = max(newest) if reached is None else max(reached, *newest)
            self._newest_ms = max(self._newest_ms, *newest)
        elif reached is None and (parsed.malformed or parsed.all_frames):
            # A file without credible times must not hold the others back.
            piece.part.reached_ms = wall_ms

    def _watermark(self) -> int | None:
        return self._watermark_ms if self._is_live else None

    def _raise_watermark(self) -> None:
        """Raises the watermark to the least progress of files that hold more, or to the newest event if none does."""
        behind = [NO_WATERMARK_MS if file.reached_ms is None else file.reached_ms for file in self._reader.behind()]
        self._watermark_ms = max(self._watermark_ms, min([self._newest_ms, *behind]))


def known_in(stream: StreamConfig, before: StreamConfig, read_upto: Files | None) -> Files | None:
    """The position from which a changed stream is read on: files that were read before go on where they were, others
    from their ends. None: it has no positions. Blocks."""
    if not isinstance(stream.source, FileSource):
        return None
    known = {file.identity: file for file in read_upto or ()}
    if stream.source == before.source:
        return tuple(known.values())
    ends = stream.source.tail(partial(sniff, kind=stream.format, time_field=stream.time_field), "end")
    try:
        ends.look(0.0)
        return tuple(known.get(file.identity, file) for file in ends.positions)
    finally:
        ends.close()


def slices(parsed: Parsed) -> Iterator[Parsed]:
    """Splits events into bounded amounts; counters, the watermark and what was passed over come with the last."""
    parts = [
        frame.slice(start, ROWS_PER_INSERT)
        for frame in parsed.frames
        for start in range(0, frame.height, ROWS_PER_INSERT)
    ]
    for part in parts[:-1]:
        held_back = None if parsed.watermark_ms is None else NO_WATERMARK_MS
        yield Parsed((part,), 0, held_back)
    yield replace(parsed, frames=tuple(parts[-1:]))


def _newest(times: pl.Series, limit: int) -> int | None:
    newest = times.max()
    if isinstance(newest, int) and newest > limit:
        newest = times.filter(times <= limit).max()
    return newest if isinstance(newest, int) else None


def _some_lines(data: bytes) -> tuple[bytes, ...]:
    """The first line of several, one in the middle, and the last: each once, though that may be the last, too."""
    middle, last = data.index(b"\n", len(data) // 2) + 1, data.rindex(b"\n", 0, -1) + 1
    ends = {start: data.index(b"\n", start) + 1 for start in (0, min(middle, last), last)}
    return tuple(data[start:end] for start, end in ends.items())
