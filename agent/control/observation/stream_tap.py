"""Taps a stream for a client: a sample of its new events as their columns, or of its malformed lines as text.

A tap reads the stream by itself from its end, so it shows lines that no job wants, and no job waits for it. Each look
reads a bounded amount in a thread; lines past the client's rate are counted, and not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
import polars as pl
import trio

import query as ql
from agent.configuration.config import StreamConfig
from agent.control import messages as control
from agent.control.local_catalog import schema_of_stream
from agent.control.server import Connection
from agent.feeding.reading import PARSERS_MAX
from agent.parsing import Format, Parser, SourceColumn, parser, sniff
from agent.sources.reader import SourceBlock, StreamReader

LOOK_S = 0.25
COLUMNS_MAX = 100
"""Upper bound on the columns of an event that are shown."""
LINE_CHARACTERS_MAX = 2000
WAITING_BYTES_MAX = 1 << 20
"""Bytes that wait for a client from which on it gets no more: a sample need not be whole."""


class NoLineError(Exception):
    """A stream has no line that tells its columns."""

    def __init__(self, stream: str) -> None:
        super().__init__(f"stream {stream} has no line yet that tells its columns: try again when it has one")


class StreamTap:
    """One tap. Raises `query.QueryError` for a condition that does not fit the stream, NoLineError where nothing tells
    its columns. Its methods block."""

    def __init__(self, stream: StreamConfig, request: control.TapRequest) -> None:
        self._request = request
        self._plan = None if request.malformed else _plan(stream, request.where)
        recognise = partial(sniff, kind=stream.format, time_field=stream.time_field)
        self._reader: StreamReader[Format] = stream.source.open(recognise, bounded=False, read_from="end")
        self._parsers: dict[Format, Parser] = {}
        if self._plan is not None:
            self._events, self._results = ql.EventStage(self._plan), ql.ResultStage(self._plan)
            self._columns = [SourceColumn(one.name, one.path, one.type) for one in self._plan.columns]

    def look(self, now: float, wall_ms: int, most: int) -> control.Tapped:
        """The new lines, at most `most`, and how many there were."""
        shown: list[control.TappedLine] = []
        found = read = 0
        for piece in self._reader.poll(now):
            read += piece.block.data.count(b"\n")
            lines, count = self._malformed(piece, wall_ms) if self._plan is None else self._shown(piece, wall_ms)
            found += count
            for line in lines:
                if len(shown) == most:
                    break
                shown.append(line)
        return control.Tapped(self._request.stream, shown, found - len(shown), read)

    def close(self) -> None:
        self._reader.close()

    def _shown(self, piece: SourceBlock[Format], wall_ms: int) -> tuple[Iterator[control.TappedLine], int]:
        """The events of a block that the condition keeps, and their number."""
        key = piece.form.parsing_key
        if key not in self._parsers:
            if len(self._parsers) >= PARSERS_MAX:
                self._parsers.clear()
            self._parsers[key] = parser(piece.form, self._columns)
        kept = [self._events.apply(frame) for frame in self._parsers[key].parse(piece.block, wall_ms).frames]
        count = sum(frame.height for frame in kept)
        return self._events_of(piece.part.path, kept), count

    def _events_of(self, place: str, kept: list[pl.DataFrame]) -> Iterator[control.TappedLine]:
        for frame in kept:
            few = frame.head(control.TAPPED_PER_S_MAX).with_columns(pane=pl.lit(0, dtype=pl.Int64))
            for row in self._results.windows(few, [0])[0]:
                yield control.TappedLine(place, {name: value for name, value in row.items() if value is not None})

    def _malformed(self, piece: SourceBlock[Format], wall_ms: int) -> tuple[Iterator[control.TappedLine], int]:
        """The lines of a block that are no event, or have no usable time."""
        records = piece.form.traits.records(piece.form).read(piece.block, wall_ms)
        is_bad = ~records.is_nothing
        is_bad[records.owners[records.times.is_not_null().to_numpy()]] = False
        bad = np.flatnonzero(is_bad)
        spans, data = records.spans, piece.block.data
        texts = (data[spans.starts[one] : spans.ends[one]].decode(errors="backslashreplace") for one in bad.tolist())
        cut = (text if len(text) <= LINE_CHARACTERS_MAX else f"{text[:LINE_CHARACTERS_MAX]}…" for text in texts)
        return (control.TappedLine(piece.part.path, line=text) for text in cut), len(bad) + piece.block.overlong


def _plan(stream: StreamConfig, where: str | None) -> ql.Plan:
    """The plan that selects the stream's columns where the condition holds."""
    schema = schema_of_stream(stream)
    if not schema.columns:
        raise NoLineError(stream.name)
    columns = ", ".join(_spelled(name, schema) for name in list(schema.columns)[:COLUMNS_MAX])
    condition = "" if where is None else f" WHERE {where}"
    parsed = ql.parse(f"SELECT {columns} FROM {_quoted(stream.name)}{condition}")
    plan = ql.analyze(parsed, {stream.name: schema}, {})
    if plan.kind != "rows" or plan.windowing is not None or plan.reads_rows or plan.branches or plan.outer is not None:
        raise ql.QueryError("where takes a condition and nothing behind it, as in status >= 500", parsed.text)
    return plan


def _spelled(column: str, schema: ql.Schema) -> str:
    """A column for a query: with dots it is a field of a nested object, except where the columns are fixed."""
    return ".".join(map(_quoted, column.split("."))) if schema.open else _quoted(column)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def tap(
    streams: Iterable[StreamConfig], request: control.TapRequest, connection: Connection, wall_ms: Callable[[], int]
) -> control.Refused:
    """Sends a client new lines of a stream until it has gone; returns the refusal where there is nothing to send."""
    names = {one.name: one for one in streams}
    if (stream := names.get(request.stream)) is None:
        has = ", ".join(names) or "none"
        return control.Refused("usage", f"this agent has no stream {request.stream}; its streams: {has}")
    try:
        one = await trio.to_thread.run_sync(StreamTap, stream, request)
    except (ql.QueryError, NoLineError) as error:
        return control.Refused("usage", str(error))
    try:
        is_first, most = True, max(1, round(request.per_s * LOOK_S))
        while True:
            tapped = await trio.to_thread.run_sync(one.look, trio.current_time(), wall_ms(), most)
            # What it has not read yet is not in the way of what comes.
            if (tapped.read or is_first) and connection.waiting_bytes < WAITING_BYTES_MAX:
                connection.send(tapped)
            is_first = False
            await trio.sleep(LOOK_S)
    finally:
        one.close()
