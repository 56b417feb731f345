"""From raw values to physical columns, and from columns to frames.

A column is held as *variants*: series of one physical type each, as long as the block, of which at most one
has a value in any row. Rows that have their values in different variants go to different frames, so what a
row means never depends on its neighbours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.parsing.canonical_json import canonical_json, is_json
from agent.parsing.formats import COERCED, TIME, Parsed, SourceColumn
from agent.parsing.times import parse_times

_NOTHING = type(None)
_DTYPES: dict[type, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
}
_ACCEPTED: dict[str, frozenset[type]] = {
    "any": frozenset((bool, int, float, str, list, dict)),
    "number": frozenset((int, float)),
    "integer": frozenset((int,)),
    "string": frozenset((str,)),
    "boolean": frozenset((bool,)),
}
_Rows = npt.NDArray[np.int64]
_BLANKS = " \t"
_NESTED = frozenset((list, dict))
_MISFIT = object()


@dataclass(frozen=True, slots=True)
class ParsedColumn:
    """A needed column of one block: its variants, and in which rows a value did not fit (None: nowhere)."""

    name: str
    variants: tuple[pl.Series, ...]
    misfits: pl.Series | None = None


def null_column(name: str, count: int) -> ParsedColumn:
    """The column of `count` events that do not have it."""
    return ParsedColumn(name, (pl.Series(name, [None], pl.Null).new_from_index(0, count),))


def same_times(time_ms: int, count: int) -> pl.Series:
    """The times of `count` events that happened at once."""
    return pl.Series([time_ms], dtype=pl.Int64).new_from_index(0, count)


def column_of_values(name: str, use: str, values: list[Any]) -> ParsedColumn:
    """A column of decoded JSON values; `use` is its type in the plan."""
    if use == "timestamp":
        return _timestamps(column_of_values(name, "any", values))
    accepted = _ACCEPTED[use]
    kinds = set(map(type, values))
    kinds.discard(_NOTHING)
    if kinds <= accepted and kinds <= _DTYPES.keys():
        variants = _variants(name, kinds, values)
        if variants is not None:
            return ParsedColumn(name, variants)
    fitted = [None if value is None else _fit(value, accepted) for value in values]
    misfits = pl.Series([old is not None and new is None for old, new in zip(values, fitted, strict=True)])
    variants = _variants(name, set(map(type, fitted)), fitted)
    assert variants is not None
    return ParsedColumn(name, variants, misfits if misfits.any() else None)


def accepts(use: str) -> frozenset[type]:
    """The types of JSON values that fit a use, which is no time."""
    return _ACCEPTED[use]


def times_of_kinds(kinds: Mapping[type, pl.Series], count: int) -> pl.Series:
    """Int64 epoch milliseconds of scanned values: integers are such times; NULL where a value is no time."""
    times = kinds[int] if int in kinds else pl.Series([None], dtype=pl.Int64).new_from_index(0, count)
    for kind in (str, float):
        if kind in kinds:
            times = times.fill_null(parse_times(kinds[kind]))
    return times


def timestamps_of_kinds(name: str, kinds: Mapping[type, pl.Series], count: int) -> ParsedColumn:
    """A column of times from scanned values, of which integers are times already."""
    times = times_of_kinds(kinds, count)
    stamps = times.cast(pl.Datetime("ms", "UTC")).rename(name)
    given = [series.is_not_null() for kind, series in kinds.items() if kind is not int]
    return ParsedColumn(name, (stamps,), _misfits(reduce(or_, given), [times]) if given else None)


def column_of_kinds(name: str, use: str, kinds: Mapping[type, pl.Series], count: int) -> ParsedColumn:
    """A column of scalar JSON values that come as one series for each of their types; `use` is its type in the plan, no
    time."""
    accepted = accepts(use)
    variants = tuple(kinds[kind].rename(name) for kind in _DTYPES if kind in kinds and kind in accepted)
    misfits = [series.is_not_null() for kind, series in kinds.items() if kind not in accepted]
    return ParsedColumn(name, variants or null_column(name, count).variants, reduce(or_, misfits) if misfits else None)


def column_of_series(name: str, use: str, kinds: Mapping[type, pl.Series], count: int) -> ParsedColumn:
    """`column_of_values` of scalar values that come as one series for each of their types that there are."""
    if use == "timestamp":
        return _timestamps(column_of_kinds(name, "any", kinds, count))
    return column_of_kinds(name, use, kinds, count)


def _variants(name: str, kinds: set[type], values: list[Any]) -> tuple[pl.Series, ...] | None:
    """One series for every kind of value; None if there are numbers that Int64 or Float64 cannot hold."""
    variants = []
    for kind, dtype in _DTYPES.items():
        if kind in kinds:
            own = values if len(kinds) == 1 else [value if type(value) is kind else None for value in values]
            try:
                variants.append(pl.Series(name, own, dtype, strict=True))
            except (OverflowError, TypeError):  # an integer beyond 64 bits
                return None
            if kind is float and not variants[-1].is_finite().all():
                return None
    return tuple(variants) or null_column(name, len(values)).variants


def _fit(value: Any, accepted: frozenset[type]) -> Any:
    """The value as it is stored, None if it does not fit."""
    kind = type(value)
    if kind not in accepted:
        return None
    if kind is list or kind is dict:
        return canonical_json(value)
    if kind is int and not -(1 << 63) <= value < 1 << 63:
        return _double(value) if float in accepted else None
    if kind is float and not math.isfinite(value):
        return None
    return value


def _double(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def column_of_texts(name: str, use: str, texts: pl.Series) -> ParsedColumn:
    """A column of CSV fields, of which the empty ones are NULL; `use` is its type in the plan."""
    texts = texts.rename(name)
    if use == "timestamp":
        return _timestamps(ParsedColumn(name, (texts,)))
    if use == "boolean":
        return _booleans(name, texts)
    if use not in ("number", "integer"):
        return ParsedColumn(name, (texts,))
    integers = texts.cast(pl.Int64, strict=False)
    if integers.null_count() == texts.null_count():
        return ParsedColumn(name, (integers,))
    texts = texts.str.strip_chars(_BLANKS)
    integers = texts.cast(pl.Int64, strict=False)
    variants = [integers]
    if use == "number":
        variants.append(_doubles(texts, integers.is_null()))
    valued = [variant for variant in variants if variant.null_count() < len(variant)] or [integers]
    return ParsedColumn(name, tuple(valued), _misfits(texts.is_not_null(), valued))


def _doubles(texts: pl.Series, where: pl.Series) -> pl.Series:
    doubles = texts.cast(pl.Float64, strict=False)
    return doubles.zip_with(where & doubles.is_finite(), pl.Series([None], dtype=pl.Float64))


def _booleans(name: str, texts: pl.Series) -> ParsedColumn:
    lower = texts.str.strip_chars(_BLANKS).str.to_lowercase()
    known = lower.is_in(["true", "false"])
    values = (lower == "true").zip_with(known, pl.Series([None], dtype=pl.Boolean))
    return ParsedColumn(name, (values,), _misfits(texts.is_not_null(), [values]))


def _misfits(given: pl.Series, variants: Sequence[pl.Series]) -> pl.Series | None:
    """Rows in which something was given and no variant has a value."""
    misfits = given
    for variant in variants:
        misfits = misfits & variant.is_null()
    return misfits if misfits.any() else None


def times_of(column: ParsedColumn) -> pl.Series:
    """Int64 epoch milliseconds of a column of texts and numbers; NULL where a value is no time."""
    times, *others = (parse_times(variant) for variant in column.variants)
    for other in others:
        times = times.fill_null(other)
    return times


def _timestamps(column: ParsedColumn) -> ParsedColumn:
    times = times_of(column)
    given = column.variants[0].is_not_null()
    for variant in column.variants[1:]:
        given |= variant.is_not_null()
    stamps = times.cast(pl.Datetime("ms", "UTC")).rename(column.name)
    return ParsedColumn(column.name, (stamps,), _misfits(given, [times]))


def first_times(columns: Sequence[ParsedColumn]) -> pl.Series:
    """Int64 epoch milliseconds of the first of these columns that has a time; NULL where none has."""
    return first_of(list(map(times_of, columns)))


def first_of(times: Sequence[pl.Series]) -> pl.Series:
    """In each row the first of these times that there is."""
    first, *others = times
    for other in others:
        first = first.fill_null(other)
    return first


def parsed(times: pl.Series, columns: Sequence[ParsedColumn], malformed: int) -> Parsed:
    """The events of a block. Rows without a time are malformed; rows that mix types are split over frames."""
    unusable = times.null_count()
    if unusable:
        usable = times.is_not_null()
        times = times.filter(usable)
        columns = [_filter(column, usable) for column in columns]
    if times.is_empty():
        return Parsed((), malformed + unusable)
    times = times.rename(TIME)
    coerced = _coerced(columns)
    frames = [
        # Named by a dict: a list of series would give one with an empty name another.
        pl.DataFrame(
            {s.name: s if rows is None else s.gather(rows) for s in [times, *chosen, *coerced]},
        )
        for rows, chosen in _homogeneous(columns)
    ]
    return Parsed(tuple(map(_without_zeros, frames)), malformed + unusable)


def joined(first: Parsed, second: Parsed) -> Parsed:
    """The events of both, in one frame where their columns are alike. Of the second none is passed over."""
    frames, malformed = (*first.frames, *second.frames), first.malformed + second.malformed
    if len(frames) == 2 and frames[0].schema == frames[1].schema:
        frames = (pl.concat(frames),)
    return Parsed(frames, malformed, passed_over=first.passed_over)


def _filter(column: ParsedColumn, rows: pl.Series) -> ParsedColumn:
    misfits = None if column.misfits is None else column.misfits.filter(rows)
    return ParsedColumn(column.name, tuple(variant.filter(rows) for variant in column.variants), misfits)


def _coerced(columns: Sequence[ParsedColumn]) -> list[pl.Series]:
    counts = [column.misfits.cast(pl.UInt32) for column in columns if column.misfits is not None]
    return [sum(counts[1:], start=counts[0]).rename(COERCED)] if counts else []


def _without_zeros(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.drop(COERCED) if COERCED in frame.columns and frame[COERCED].max() == 0 else frame


def _homogeneous(columns: Sequence[ParsedColumn]) -> list[tuple[_Rows | None, list[pl.Series]]]:
    """Sets of rows (None: all) with the variant of every column that has those rows' values."""
    choices = {column.name: _choice(column) for column in columns if len(column.variants) > 1}
    if not choices:
        return [(None, [column.variants[0] for column in columns])]
    groups: _Rows = np.zeros(1, np.int64)
    for choice in choices.values():
        _, groups = np.unique(groups * len(_DTYPES) + choice, return_inverse=True)
    order = np.argsort(groups, kind="stable")
    row_sets = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
    return [
        (
            rows,
            [column.variants[choices[column.name][rows[0]] if column.name in choices else 0] for column in columns],
        )
        for rows in row_sets
    ]


def _choice(column: ParsedColumn) -> _Rows:
    """Index of the variant with the value, in every row; the first one where there is no value."""
    choice = np.zeros(len(column.variants[0]), np.int64)
    for index, variant in enumerate(column.variants):
        choice[variant.is_not_null().to_numpy()] = index
    return choice


def parsed_rows(times: Sequence[int], columns: Sequence[SourceColumn], values: dict[str, list[Any]]) -> Parsed:
    """The events of rows given as values by column, typed as if they had been read from JSON lines.

    A value that JSON lines cannot hold does not fit, whatever its column's type.
    """
    made = [
        column_of_values(column.name, column.type, _plain(values[column.field]))
        if column.field in values
        else null_column(column.name, len(times))
        for column in columns
    ]
    return parsed(pl.Series(times, dtype=pl.Int64), made, 0)


def _plain(values: list[Any]) -> list[Any]:
    """The values, with one that fits no column in place of each list or dict that JSON cannot hold."""
    if _NESTED.isdisjoint(map(type, values)):
        return values
    return [_MISFIT if type(value) in _NESTED and not is_json(value) else value for value in values]
