"""Functions of times, which are epoch milliseconds inside, in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

from query.functions.function import Arguments, Compute, ConstantError, Scalar, ScalarFunction
from query.functions.texts import in_calendar
from query.model.limits import DAY_MS, WINDOW_DAYS_MAX
from query.model.timestamps import SHOWN_MAX, SHOWN_MIN
from query.physical.values import Value

_SIZES_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS}
_INTERVAL = re.compile(rf"\s*(\d{{1,15}})\s*({'|'.join(_SIZES_MS)})s?\s*", re.IGNORECASE)
_CALENDAR = {"month": "1mo", "quarter": "1q", "year": "1y"}
# 1970-01-01 was a Thursday; weeks begin on Mondays.
_MONDAY_MS = -3 * DAY_MS
_PARTS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "year": lambda time: time.dt.year(),
    "quarter": lambda time: time.dt.quarter(),
    "month": lambda time: time.dt.month(),
    "week": lambda time: time.dt.week(),
    "day": lambda time: time.dt.day(),
    "hour": lambda time: time.dt.hour(),
    "minute": lambda time: time.dt.minute(),
    "second": lambda time: time.dt.second(),
    "millisecond": lambda time: time.dt.millisecond(),
    "day_of_week": lambda time: time.dt.weekday(),
    "day_of_year": lambda time: time.dt.ordinal_day(),
}


def _start(time: pl.Expr, size_ms: int, origin_ms: int = 0) -> pl.Expr:
    return time - (time - origin_ms if origin_ms else time) % size_ms


def _truncated(arguments: Arguments) -> Value:
    unit, time = arguments.text(0).lower(), arguments.bound(1).expression
    if unit in _CALENDAR:
        time = in_calendar(time).dt.truncate(_CALENDAR[unit]).to_physical()
    else:
        time = _start(time, _SIZES_MS[unit], _MONDAY_MS if unit == "week" else 0)
    return arguments.result(time, "integer")


def interval_ms(interval: Scalar) -> int:
    """Milliseconds of `'5 minutes'` or of a number of them; raises ConstantError."""
    size_ms = interval
    if isinstance(interval, str):
        match = _INTERVAL.fullmatch(interval)
        if match is None:
            raise ConstantError(f"an interval is written as '5 minutes': the units are {', '.join(_SIZES_MS)}")
        size_ms = int(match[1]) * _SIZES_MS[match[2].lower()]
    if not isinstance(size_ms, int) or isinstance(size_ms, bool) or not 1 <= size_ms <= WINDOW_DAYS_MAX * DAY_MS:
        raise ConstantError(f"an interval is from 1 millisecond to {WINDOW_DAYS_MAX:,} days long")
    return size_ms


def _bucket(arguments: Arguments) -> Value:
    return arguments.result(_start(arguments.bound(1).expression, interval_ms(arguments.constant(0))), "integer")


def _check_interval(constants: Sequence[Scalar]) -> None:
    if constants[0] is not None:
        interval_ms(constants[0])


def _check_unit(constants: Sequence[Scalar]) -> None:
    _check_word(constants[0], {**_SIZES_MS, **_CALENDAR})


def _check_part(constants: Sequence[Scalar]) -> None:
    _check_word(constants[0], _PARTS)


def _check_word(
    word: Scalar, words: Sequence[str] | dict[str, object] | dict[str, Callable[[pl.Expr], pl.Expr]]
) -> None:
    if isinstance(word, str) and word.lower() not in words:
        raise ConstantError(f"there is no {word[:40]} of a time: there are {', '.join(words)}")


def _part(arguments: Arguments) -> Value:
    part = _PARTS[arguments.text(0).lower()]
    return arguments.result(part(in_calendar(arguments.bound(1).expression)).cast(pl.Int64), "integer")


def _part_of(name: str) -> Compute:
    def compute(arguments: Arguments) -> Value:
        return arguments.result(_PARTS[name](in_calendar(arguments.bound(0).expression)).cast(pl.Int64), "integer")

    return compute


def _same(arguments: Arguments) -> Value:
    return arguments.values[0]


def _from_seconds(arguments: Arguments) -> Value:
    # Half a millisecond up, so that 0.1 s is 100 ms.
    arguments.bound(0)
    milliseconds = (arguments.double(0) * 1_000).round().clip(-2e18, 2e18).cast(pl.Int64, strict=False)
    known = pl.when(milliseconds.is_between(SHOWN_MIN, SHOWN_MAX)).then(milliseconds)
    return arguments.result(known, "integer")


def _of_part(name: str, part: str, doc: str, example: str, result: str) -> ScalarFunction:
    return ScalarFunction(name, "time: timestamp", "integer", _part_of(part), doc, f"{name}({example})", result)


_TIME = "CAST('2024-05-01 12:34:56.789' AS TIMESTAMP)"
FUNCTIONS = (
    ScalarFunction(
        "DATE_TRUNC", "unit!: string, time: timestamp", "timestamp", _truncated,
        "the start of the millisecond, second, minute, hour, day, week (Monday), month, quarter or year",
        f"DATE_TRUNC('hour', {_TIME})", '"2024-05-01T12:00:00Z"', check=_check_unit,
    ),
    ScalarFunction(
        "TIME_BUCKET", "interval!: any, time: timestamp", "timestamp", _bucket,
        "the start of the interval, of milliseconds or as '5 minutes', aligned to 1970-01-01 as windows are",
        f"TIME_BUCKET('5 minutes', {_TIME})", '"2024-05-01T12:30:00Z"', check=_check_interval,
    ),
    ScalarFunction(
        "DATE_PART", "part!: string, time: timestamp", "integer", _part,
        "a part of a time, as EXTRACT(part FROM time): year, quarter, month, week, day, hour, minute, second, "
        "millisecond, day_of_week or day_of_year",
        f"DATE_PART('week', {_TIME})", "18", check=_check_part,
    ),
    _of_part("YEAR", "year", "the year", _TIME, "2024"),
    _of_part("MONTH", "month", "the month, 1 to 12", _TIME, "5"),
    _of_part("DAY", "day", "the day of the month, 1 to 31", _TIME, "1"),
    _of_part("HOUR", "hour", "the hour, 0 to 23", _TIME, "12"),
    _of_part("MINUTE", "minute", "the minute, 0 to 59", _TIME, "34"),
    _of_part("SECOND", "second", "the second, 0 to 59", _TIME, "56"),
    _of_part("DAY_OF_WEEK", "day_of_week", "1 for Monday to 7 for Sunday", _TIME, "3"),
    ScalarFunction(
        "EPOCH_MS", "time: timestamp", "integer", _same,
        "milliseconds since 1970-01-01 UTC", f"EPOCH_MS({_TIME})", "1714566896789",
    ),
    ScalarFunction(
        "TO_TIMESTAMP", "seconds: number", "timestamp", _from_seconds,
        "the time a number of seconds after 1970-01-01 UTC", "TO_TIMESTAMP(1.5)", '"1970-01-01T00:00:01.500Z"',
    ),
)  # fmt: skip
