"""Cuts events that a client sends into a job into batches, and decides what follows from each answer. No sockets, no
clocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import msgspec

from agent.control.messages import EmitRequest, EventsSent
from agent.runtime.messages.emissions import SentEvents
from elf.client.errors import (
    AgentUnreachableError,
    AnswerTimeoutError,
    ClientError,
    ConnectionLostError,
    ForbiddenError,
    QueryRefusedError,
    RefusedError,
    UnknownJobError,
)
from elf.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

LINES_MAX, ROWS_MAX = 8192, 1 << 16
"""Upper bounds on the events of a batch, as lines and as columns."""
BYTES_MAX = 512 << 10
"""Upper bound on the bytes of a batch."""
PATIENCE_S = 60.0
"""Time for which a batch is sent again and again before its client gives up."""
PAUSES_S = (0.02, 0.1, 0.5, 1.0)
_KINDS = {"String": "string", "Int64": "integer", "Float64": "number", "Boolean": "boolean"}
Rows = Iterable[Mapping[str, Any] | bytes | None]
"""Events as mappings, or as lines of JSON; None where what has come so far is to be sent."""


class EventSender:
    """The events of one type that a client sends into a job. `time`: the field with an event's time, if any."""

    def __init__(self, app: str, type_: str, time: str, emission: str, patience_s: float = PATIENCE_S) -> None:
        self.rows = 0
        """The number of events that are safe."""
        self._app = app
        self._type = type_
        self._time = time
        self._emission = emission
        self._patience_s = patience_s
        self._tries = 0
        self._since: float | None = None

    def requests(self, rows: Rows | pl.DataFrame) -> Iterator[EmitRequest]:
        """The requests that carry the events, to be sent one after the other."""
        if type(rows).__name__ == "DataFrame":  # Polars need not be loaded for lines
            batches = self._of_frame(cast("pl.DataFrame", rows))
        else:
            batches = self._of_lines(cast("Rows", rows))
        # Where there is nothing to send, the job and the type are looked at by a batch without events.
        for batch in chain([first] if (first := next(batches, None)) else [self._batch(0, b"")], batches):
            yield EmitRequest(self._app, self._emission, batch)

    def pause_after(self, answer: EventsSent | ClientError, now: float) -> float | None:
        """Decides what follows from an answer: None: the next request; else the time until this one is sent again.

        Raises the error that came, or why the events are not taken, with the number of those that are safe.
        """
        if isinstance(answer, EventsSent) and not answer.busy:
            self.rows += answer.rows
            self._tries, self._since = 0, None
            return None
        self._since = now if self._since is None else self._since
        may_pass = isinstance(answer, EventsSent) or _may_pass(answer)
        if not may_pass or now - self._since >= self._patience_s:
            raise self._explained(answer)
        self._tries += 1
        return PAUSES_S[min(self._tries, len(PAUSES_S)) - 1]

    def _explained(self, answer: EventsSent | ClientError) -> ClientError:
        kind = type(answer) if isinstance(answer, ClientError) else ClientError
        text = str(answer) if isinstance(answer, ClientError) else f"{self._app}: {answer.busy}"
        return kind(f"{text}; the {self.rows:,} events before this batch are in the job" if self.rows else text)

    def _of_lines(self, rows: Rows) -> Iterator[SentEvents]:
        first, number, lines, size = 0, -1, list[bytes](), 0
        for row in rows:
            number += row is not None
            line = b"" if row is None else row if isinstance(row, bytes) else _line(number, row)
            if len(line) >= BYTES_MAX:
                raise UsageError(f"line {number + 1}: an event of {len(line):,} bytes, at most {BYTES_MAX:,} are taken")
            if lines and (row is None or size + len(line) > BYTES_MAX or len(lines) >= LINES_MAX):
                yield self._batch(first, b"\n".join(lines))
                lines, size = [], 0
            if row is not None:
                first = first if lines else number
                lines.append(line)
                size += len(line) + 1
        if lines:
            yield self._batch(first, b"\n".join(lines))

    def _of_frame(self, frame: pl.DataFrame) -> Iterator[SentEvents]:
        first, step = 0, ROWS_MAX
        while first < frame.height:
            columns, data = _encoded_columns(frame.slice(first, step))
            if len(data) <= BYTES_MAX:
                yield self._batch(first, data, columns)
                first += step
            elif step == 1:
                raise UsageError(f"row {first + 1}: an event of {len(data):,} bytes, at most {BYTES_MAX:,} are taken")
            else:
                step = max(1, step // 2)

    def _batch(self, first: int, data: bytes, columns: list[tuple[str, str]] | None = None) -> SentEvents:
        return SentEvents(self._type, first, data, columns, self._time)


def _may_pass(error: ClientError) -> bool:
    """Whether the same request may be answered otherwise later."""
    if isinstance(error, QueryRefusedError | ForbiddenError | UnknownJobError):
        return False
    return isinstance(error, RefusedError | AgentUnreachableError | AnswerTimeoutError | ConnectionLostError)


def _line(number: int, row: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(row))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"line {number + 1}: no event, it has no JSON: {error}") from None


def _encoded_columns(frame: pl.DataFrame) -> tuple[list[tuple[str, str]], bytes]:
    """The columns of a table, by name and type, and their bytes. Raises UsageError for a type that events have not."""
    import polars as pl  # lines need neither

    import cbt

    columns = [_plain(column) for column in frame]
    kinds = [(one.name, _KINDS[str(one.dtype)]) for one in columns]
    return kinds, cbt.encode_frame(pl.DataFrame(columns))


def _plain(column: pl.Series) -> pl.Series:
    import polars as pl

    dtype = column.dtype
    if dtype.is_integer():
        plain = column.cast(pl.Int64, strict=False)
        if plain.null_count() > column.null_count():
            raise UsageError(f"the column {column.name} has integers beyond 64 bits")
        return plain
    if dtype.is_float() or dtype.is_decimal():
        return column.cast(pl.Float64)
    if isinstance(dtype, pl.Datetime):
        return column.dt.epoch("ms")
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if dtype in (pl.Boolean, pl.Null):
        return column.cast(pl.Boolean)
    raise UsageError(
        f"the column {column.name} is of type {dtype}: events have strings, integers, numbers, booleans and timestamps"
    )
