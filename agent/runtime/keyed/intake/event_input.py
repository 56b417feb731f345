"""Reads what other systems send as events of a declared type: lines of JSON, or columns. Every input is hostile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import polars as pl

import cbt
import query
from agent.programs.element_graph import EventType, FieldType
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, SEQ

LINES_MAX, ROWS_MAX = 8192, 1 << 16
"""Upper bounds on the events that are sent at once, as lines and as columns."""
BATCH_BYTES_MAX = 512 << 10
"""Upper bound on the bytes of events that are sent at once."""
FRAME_BYTES_MAX = 32 << 20
_TIME_MIN = -(2**53)
AHEAD_MAX_MS = 60_000
"""Upper bound on the time by which an event may be ahead of the clock, as in logs."""
_COLUMNS: Mapping[str, pl.DataType] = {
    "string": pl.String(), "integer": pl.Int64(), "number": pl.Float64(), "boolean": pl.Boolean(),
}  # fmt: skip
"""The types that columns of events may have on their way; timestamps are integers, ms since the epoch."""
_FITS: Mapping[FieldType, tuple[str, ...]] = {
    "string": ("string",), "integer": ("integer",), "timestamp": ("integer",), "number": ("number", "integer"),
    "boolean": ("boolean",), "any": tuple(_COLUMNS),
}  # fmt: skip


class EventFault(Exception):  # noqa: N818 - it is a fault of the input, in one line
    """An event is none of its type; the message says which line, which field and why."""


def rows_of_lines(type_: EventType, lines: bytes, first: int, time_field: str, arrival_ms: int) -> pl.DataFrame:
    """Events as `@time`, `@seq` (the number of the line, from 0) and the fields, from lines of JSON objects, the first
    of which has the number `first`; empty lines are none.

    An event's time is that in the field `time_field`, which may be none of the type's; "" for that of its arrival.
    Raises EventFault.
    """
    decoded: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, line in enumerate(lines.split(b"\n"), first + 1):
        if not line.strip():
            continue
        try:
            event = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise EventFault(f"line {number}: no JSON: {error}") from None
        if not isinstance(event, dict):
            raise EventFault(f"line {number}: an event is a JSON object, as {{{_example(type_)}}}")
        decoded.append(event)
        numbers.append(number)
        if len(decoded) > LINES_MAX:
            raise EventFault(f"line {number}: more than {LINES_MAX:,} events at once")
    _check_names(type_, decoded, numbers, time_field)
    columns = [_column(name, kind, decoded, numbers) for name, kind in type_.fields]
    times = _times(decoded, numbers, time_field, arrival_ms)
    places = pl.Series(SEQ, numbers, pl.Int64) - 1
    return pl.DataFrame([pl.Series(EVENT_TIME, times, pl.Int64), places, *columns])


def _example(type_: EventType) -> str:
    return ", ".join(f'"{name}": …' for name, _ in islice(type_.fields, 3))


def _check_names(type_: EventType, events: Sequence[dict[str, Any]], numbers: Sequence[int], time_field: str) -> None:
    known = {name for name, _ in type_.fields} | ({time_field} if time_field else set())
    for number, event in zip(numbers, events, strict=True):
        for name in event:
            if name not in known:
                raise EventFault(f"line {number}: {_no_field(type_, name)}")


def _no_field(type_: EventType, name: str) -> str:
    fields = ", ".join(known for known, _ in type_.fields) or "none"
    return f"{type_.name} has no field {name[:100]!r}; it has {fields[:1000]}"


def _column(name: str, kind: FieldType, events: Sequence[dict[str, Any]], numbers: Sequence[int]) -> pl.Series:
    convert, values = _CONVERT[kind], []
    for number, event in zip(numbers, events, strict=True):
        value = event.get(name)
        if value is not None and (value := convert(value)) is None:
            shown = msgspec.json.encode(event[name])[:60].decode(errors="replace")
            raise EventFault(f"line {number}: the field {name} is of type {kind}, and {shown} is not")
        values.append(value)
    return pl.Series(name, values, DTYPES[kind])


def _times(events: Sequence[dict[str, Any]], numbers: Sequence[int], field: str, arrival_ms: int) -> list[int]:
    if not field:
        return [arrival_ms] * len(events)
    found = []
    for number, event in zip(numbers, events, strict=True):
        value = event.get(field)
        time_ms = None if value is None else _timestamp(value)
        if time_ms is not None and time_ms > arrival_ms + AHEAD_MAX_MS:
            raise EventFault(f"line {number}: the time in {field} is more than a minute ahead of this agent's clock")
        if time_ms is None:
            has = "none" if value is None else msgspec.json.encode(value)[:60].decode(errors="replace")
            raise EventFault(
                f"line {number}: the time in {field} is {has}: give milliseconds since the epoch, or text such as"
                " 2026-01-31T12:00:00Z"
            )
        found.append(time_ms)
    return found


def _integer(value: object) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return int(value) if is_whole and -(2**63) <= value < 2**63 else None  # type: ignore[operator, call-overload]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _timestamp(value: object) -> int | None:
    found = query.parse_timestamp(value) if isinstance(value, str) else _integer(value)
    return found if found is not None and found >= _TIME_MIN else None


def _canonical(value: object) -> str | None:
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="deterministic").decode()
    try:
        return str(cbt.canonical_json(pl.Series([value], strict=True))[0])
    except (ValueError, TypeError, OverflowError):
        return None


_CONVERT: Mapping[FieldType, Callable[[object], object]] = {
    "string": lambda value: value if isinstance(value, str) else None,
    "integer": _integer,
    "number": _number,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "timestamp": _timestamp,
    "any": _canonical,
}


def rows_of_columns(
    type_: EventType, columns: Sequence[tuple[str, str]], data: bytes, first: int, time_field: str, arrival_ms: int
) -> pl.DataFrame:
    """Events as `@time`, `@seq` and the fields, from columns (name and type) as the bytes of `cbt.encode_frame`.

    Raises EventFault.
    """
    kinds = dict(columns)
    if len(kinds) != len(columns) or not set(kinds.values()) <= _COLUMNS.keys():
        raise EventFault(f"columns of events are of the types {', '.join(_COLUMNS)}, each with a name of its own")
    fields = dict(type_.fields)
    for name in kinds:
        if name not in fields and name != time_field:
            raise EventFault(_no_field(type_, name))
    for name, kind in fields.items():
        if name in kinds and kinds[name] not in _FITS[kind]:
            raise EventFault(f"the field {name} is of type {kind}, and its column holds {kinds[name]}")
    schema = pl.Schema({name: _COLUMNS[kind] for name, kind in columns})
    try:
        frame = cbt.decode_frame(data, schema, bytes_max=FRAME_BYTES_MAX)
    except cbt.FrameError as error:
        raise EventFault(str(error)) from None
    if frame.height > ROWS_MAX:
        raise EventFault(f"more than {ROWS_MAX:,} events at once: {frame.height:,}")
    return pl.DataFrame(
        [_frame_times(frame, time_field, arrival_ms), _places(first, frame.height)]
        + [_frame_column(frame, name, kind) for name, kind in type_.fields]
    )


def _places(first: int, rows: int) -> pl.Series:
    return pl.int_range(first, first + rows, dtype=pl.Int64, eager=True).alias(SEQ)


def _frame_times(frame: pl.DataFrame, field: str, arrival_ms: int) -> pl.Series:
    if not field:
        return pl.Series(EVENT_TIME, [arrival_ms], pl.Int64).new_from_index(0, frame.height)
    times = _column_of(frame, field)
    if times is None or times.dtype != pl.Int64 or times.null_count():
        raise EventFault(f"the column {field} has the time of each event: timestamps, or milliseconds since the epoch")
    if len(times) and not times.is_between(_TIME_MIN, arrival_ms + AHEAD_MAX_MS).all():
        raise EventFault(f"the column {field} has times that are more than a minute ahead of this agent's clock")
    return times.rename(EVENT_TIME)


def _column_of(frame: pl.DataFrame, name: str) -> pl.Series | None:
    return frame[name] if name in frame.columns else None


def _frame_column(frame: pl.DataFrame, name: str, kind: FieldType) -> pl.Series:
    column = _column_of(frame, name)
    if column is None:
        return pl.Series(name, [None], DTYPES[kind]).new_from_index(0, frame.height)
    if kind == "any":
        return cbt.canonical_json(column)
    return column.cast(DTYPES[kind])
