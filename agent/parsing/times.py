"""Converts times as logs write them to milliseconds since the Unix epoch.

Every textual form has a fixed width, so a column of texts of one length is a byte matrix, and a form is a
*layout*: which column holds which digit. Values are read with integer arithmetic on whole columns; a value's
outcome is decided by its own bytes alone, never by its neighbours. About 15 M values/s on one core.

Forms: ISO 8601 (`T` or a space, clock, seconds and fraction optional, `Z`, `+hh:mm`, `+hhmm`, `+hh` or
nothing, which means UTC), the common log format `17/May/2015:10:05:03 +0000`, Twitter's `Wed Aug 27
13:08:45 +0000 2008`, and numbers (or numeric texts) of seconds since the epoch, or of milliseconds from
1e11 upwards.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl

TIME_MS_MIN = -62_135_596_800_000  # 0001-01-01T00:00:00.000Z
TIME_MS_MAX = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
MILLISECONDS_FROM = 100_000_000_000  # epoch numbers of this magnitude are milliseconds (as seconds: the year 5138)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_RESULTS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{3})?Z")
_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int32]  # small numbers: the fields of a time
_Ints = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]

_DIGITS = "YMDhmsfxHN"  # year month day hour minute second milliseconds, finer digits, zone hour and minute
_CLASSES = {"T": b"Tt ", ".": b".,", "Z": b"Zz", "±": b"+-"}  # characters with more than one spelling
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _patterns() -> list[str]:
    zones = ("", "Z", "±HH:NN", "±HHNN", "±HH")
    dates = ["YYYY-MM-DD", "DD/bbb/YYYY:hh:mm:ss ±HHNN", "www bbb DD hh:mm:ss ±HHNN YYYY"]
    clocks = ["hh:mm", "hh:mm:ss", *(f"hh:mm:ss.{'fffxxxxxx'[:digits]}" for digits in range(1, 10))]
    return dates + [f"YYYY-MM-DDT{clock}{zone}" for clock in clocks for zone in zones]


@dataclass(frozen=True, slots=True)
class _Layout:
    """One form: the columns of its digits, by field, and what every other column must hold."""

    fields: dict[str, slice]  # field letter -> rows of the digit matrix
    digits: npt.NDArray[np.intp]
    literals: tuple[npt.NDArray[np.intp], _Bytes]
    classes: tuple[tuple[int, bytes], ...]
    fraction_unit: int  # milliseconds
    sign: int | None
    month: int | None
    weekday: int | None

    @classmethod
    def of(cls, pattern: str) -> "_Layout":
        columns = {letter: [i for i, c in enumerate(pattern) if c == letter] for letter in _DIGITS}
        fields, digits = {}, list[int]()
        for letter, positions in columns.items():
            fields[letter] = slice(len(digits), len(digits) + len(positions))
            digits += positions
        literal = [i for i, c in enumerate(pattern) if c not in _DIGITS and c not in _CLASSES and c not in "bw"]
        return cls(
            fields=fields,
            digits=np.array(digits, np.intp),
            literals=(np.array(literal, np.intp), np.array([ord(pattern[i]) for i in literal], np.uint8)),
            classes=tuple((i, _CLASSES[c]) for i, c in enumerate(pattern) if c in _CLASSES),
            fraction_unit=10 ** (3 - pattern.count("f")),
            sign=pattern.find("±") if "±" in pattern else None,
            month=pattern.find("bbb") if "bbb" in pattern else None,
            weekday=pattern.find("www") if "www" in pattern else None,
        )


@cache
def _month_starts() -> _Ints:
    """Days since the epoch of the first of every month, by 12 * year + month - 1."""
    return np.arange("0000-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)


@cache
def _layouts() -> dict[int, list[_Layout]]:
    by_width: dict[int, list[_Layout]] = {}
    for pattern in _patterns():
        by_width.setdefault(len(pattern), []).append(_Layout.of(pattern))
    return by_width


def parse_times(values: pl.Series) -> pl.Series:
    """Int64 milliseconds since the epoch of a String, integer or float column; NULL where there is no
    usable time.

    Fractions of a millisecond are cut off in texts and rounded in numbers. O(n).
    """
    if values.dtype == pl.String:
        return _parse_texts(values)
    if values.dtype.is_float():
        return _parse_doubles(values)
    if values.dtype.is_integer():
        return _parse_integers(values)
    return pl.Series(values.name, [None] * len(values), pl.Int64)


def parse_time(text: str) -> int | None:
    """Milliseconds since the epoch of one text, or None when it is no usable time. As results spell times, it takes
    some microseconds, else a hundred times that."""
    if not text.isascii():
        return None
    if _OF_RESULTS.fullmatch(text):
        with suppress(ValueError):
            return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
    result: int | None = parse_times(pl.Series([text], dtype=pl.String)).item()
    return result


def _in_range(milliseconds: pl.Expr) -> pl.Expr:
    return pl.when(milliseconds.is_between(TIME_MS_MIN, TIME_MS_MAX)).then(milliseconds)


def _parse_integers(values: pl.Series) -> pl.Series:
    value = pl.col(values.name)
    seconds = value.is_between(-MILLISECONDS_FROM, MILLISECONDS_FROM, closed="none")
    scaled = pl.when(seconds).then(value * 1000).otherwise(value)
    return values.cast(pl.Int64, strict=False).to_frame().select(_in_range(scaled)).to_series()


def _parse_doubles(values: pl.Series) -> pl.Series:
    value = pl.col(values.name)
    scaled = pl.when(value.abs() < MILLISECONDS_FROM).then(value * 1000.0).otherwise(value)
    whole = scaled.round(mode="half_to_even").cast(pl.Int64, strict=False)
    return values.cast(pl.Float64).to_frame().select(_in_range(whole)).to_series()


def _parse_texts(values: pl.Series) -> pl.Series:
    widths = values.str.len_bytes()
    if not values.null_count() and (width := widths.min()) == widths.max() and width in _layouts():
        milliseconds, known = _parse_width(values, int(width))  # type: ignore[arg-type]
    else:
        milliseconds, known = _parse_widths(values, widths)
    result = pl.Series(values.name, milliseconds)
    if known.all():
        return result
    known_series = pl.Series(known)
    return result.zip_with(known_series, _parse_numeric_texts(values.set(known_series, None)))


def _parse_widths(values: pl.Series, widths: pl.Series) -> tuple[_Ints, _Mask]:
    milliseconds = np.zeros(len(values), np.int64)
    known = np.zeros(len(values), np.bool_)
    for width in widths.unique().drop_nulls():
        if width in _layouts():
            rows = np.flatnonzero((widths == width).fill_null(False).to_numpy())
            milliseconds[rows], known[rows] = _parse_width(values.gather(rows), width)
    return milliseconds, known


def _parse_width(values: pl.Series, width: int) -> tuple[_Ints, _Mask]:
    """Values and validity of texts that are all `width` bytes long."""
    joined: str = values.str.join("").item()
    columns = np.frombuffer(joined.encode(), np.uint8).reshape(-1, width).T.copy()
    # No text fits two layouts, so the order only saves work: the one of the first value is likely everyone's.
    first, *others = sorted(_layouts()[width], key=lambda layout: not _fits(layout, columns[:, :1])[0])
    milliseconds, known = _read(first, columns)
    for layout in others:
        if known.all():
            break
        rows = np.flatnonzero(~known)
        milliseconds[rows], known[rows] = _read(layout, columns[:, rows])
    return milliseconds, known


def _read(layout: _Layout, columns: _Bytes) -> tuple[_Ints, _Mask]:
    """Milliseconds and validity of `columns` (width × values) under one layout."""
    digits = columns[layout.digits] - np.uint8(48)  # anything but a digit wraps around to more than nine
    fits = _fits(layout, columns) & (digits <= 9).all(axis=0)
    number = {letter: _number(digits[rows], columns.shape[1]) for letter, rows in layout.fields.items()}
    if layout.month is not None:
        number["M"] = _name_number(columns, layout.month, _MONTHS)
    fits &= (number["Y"] >= 1) & (number["M"] >= 1) & (number["M"] <= 12)
    fits &= (number["h"] <= 23) & (number["m"] <= 59) & (number["s"] <= 60)  # 60: a leap second
    fits &= (number["H"] <= 23) & (number["N"] <= 59)
    index = np.where(fits, number["Y"] * 12 + number["M"] - 1, 0)
    first = _month_starts()[index]
    fits &= (number["D"] >= 1) & (number["D"] <= _month_starts()[index + 1] - first)
    minutes = number["h"] * 60 + number["m"]
    if layout.sign is not None:
        offset = number["H"] * 60 + number["N"]
        minutes += np.where(columns[layout.sign] == ord("-"), offset, -offset)
    milliseconds = (first + (number["D"] - 1)) * 86_400_000 + (minutes * 60 + number["s"]) * 1000
    milliseconds += number["f"] * layout.fraction_unit
    fits &= (milliseconds >= TIME_MS_MIN) & (milliseconds <= TIME_MS_MAX)
    return milliseconds, fits


def _fits(layout: _Layout, columns: _Bytes) -> _Mask:
    """Whether the characters between the digits are the layout's."""
    positions, expected = layout.literals
    fits = (columns[positions] == expected[:, None]).all(axis=0)
    for position, allowed in layout.classes:
        fits &= np.logical_or.reduce([columns[position] == character for character in allowed])
    if layout.weekday is not None:
        fits &= _name_number(columns, layout.weekday, _WEEKDAYS) > 0
    return np.asarray(fits, np.bool_)


def _number(digits: _Bytes, count: int) -> _Numbers:
    value = np.zeros(count, np.int32)
    for row in digits:
        value *= 10
        value += row
    return value


def _name_number(columns: _Bytes, position: int, names: tuple[str, ...]) -> _Numbers:
    """One-based number of the three-letter name at `position`, in any case; 0 where it is none of `names`."""
    code = _number_of_letters(columns[position : position + 3] | np.uint8(0x20))
    number = np.zeros(columns.shape[1], np.int32)
    for index, name in enumerate(names, start=1):
        number[code == _number_of_letters(np.frombuffer(name.encode(), np.uint8)[:, None])] = index
    return number


def _number_of_letters(letters: _Bytes) -> _Numbers:
    first, second, third = letters.astype(np.int32)
    return np.asarray(first << 16 | second << 8 | third, np.int32)


def _parse_numeric_texts(texts: pl.Series) -> pl.Series:
    integers = texts.cast(pl.Int64, strict=False)
    doubles = texts.zip_with(integers.is_null(), pl.Series([None], dtype=pl.String)).cast(pl.Float64, strict=False)
    return _parse_integers(integers).fill_null(_parse_doubles(doubles))
