"""Turns columns of frames into those of the calls of programs, and back, with checks of what a program says."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

import cbt
from agent.parsing.columns import column_of_values
from agent.programs.calls import SEPARATOR, AnswerError, PackedColumn
from agent.programs.element_graph import FieldType
from agent.runtime.keyed.elements.runtime import DTYPES

_NUMBERS = {"q": "<i8", "d": "<f8", "b": "u1"}
_FITTING: dict[FieldType, str] = {
    "string": "s",
    "integer": "q",
    "timestamp": "q",
    "number": "d",
    "boolean": "b",
}
_OF_KIND: dict[str, FieldType] = {"s": "string", "q": "integer", "d": "number", "b": "boolean"}
_KINDS: dict[pl.DataType, Literal["q", "d", "b", "s"]] = {
    pl.Int64(): "q",
    pl.Float64(): "d",
    pl.Boolean(): "b",
    pl.String(): "s",
}


def packed(values: pl.Series, kind: FieldType) -> PackedColumn:
    """Packs a column of a field of this type. O(n), without a step of Python for each value.

    >>> packed(pl.Series([1, 2]), "integer").kind, packed(pl.Series(["1", None]), "any").texts
    ('q', '1\\x1fnull')
    """
    if kind == "any":
        return PackedColumn("j", texts=values.fill_null("null").str.join(SEPARATOR)[0])
    if values.null_count():
        return PackedColumn("l", values=values.to_list())
    packed_as = _KINDS[values.dtype]
    if packed_as != "s":
        physical = values.cast(pl.UInt8) if packed_as == "b" else values
        return PackedColumn(packed_as, physical.to_numpy().astype(_NUMBERS[packed_as], copy=False).tobytes())
    texts = values.str.join(SEPARATOR)[0]
    if texts.count(SEPARATOR) != len(values) - 1:
        return PackedColumn("l", values=values.to_list())
    return PackedColumn("s", texts=texts)


def unpacked(name: str, column: PackedColumn, kind: FieldType, rows: int) -> tuple[pl.Series, int]:
    """A column that a program has packed, as one of this type, and the number of values that were none of the type and
    are NULL. O(n). Raises AnswerError.

    >>> unpacked("n", PackedColumn("l", values=[1, "x", None]), "integer", 3)[0].to_list()
    [1, None, None]
    """
    if column.kind == "l":
        if len(column.values) != rows:
            raise AnswerError(f"answered with {len(column.values)} values of {name} for {rows} events")
        return _of_values(name, column.values, kind)
    if column.kind == _FITTING.get(kind):
        return physical(name, column, rows), 0
    if kind == "any" and column.kind in _OF_KIND:
        return cbt.canonical_json(physical(name, column, rows)), 0
    raise AnswerError(f"answered with values of {name} that are no {kind}")


def physical(name: str, column: PackedColumn, rows: int) -> pl.Series:
    """A packed column without NULL as it is. Raises AnswerError unless it has so many rows."""
    if column.kind == "s":
        values = _texts(name, column.texts, rows)
    elif (dtype := _NUMBERS.get(column.kind)) is not None:
        values = numbers(name, column.numbers, dtype, rows)
        if column.kind == "b":
            values = values.cast(pl.Boolean)
    else:
        raise AnswerError(f"answered with a column of kind {column.kind}")
    return values


def numbers(name: str, data: bytes, dtype: str, rows: int) -> pl.Series:
    """Numbers of a call or an answer. Raises AnswerError unless there are so many."""
    kind = np.dtype(dtype)
    if len(data) != rows * kind.itemsize:
        raise AnswerError(f"answered with {len(data):,} bytes of {name} for {rows:,} rows")
    return pl.Series(name, np.frombuffer(data, kind))


def _texts(name: str, texts: str, rows: int) -> pl.Series:
    if texts.count(SEPARATOR) + 1 != rows:
        raise AnswerError(f"answered with {texts.count(SEPARATOR) + 1:,} texts of {name} for {rows:,} rows")
    return pl.Series(name, texts.split(SEPARATOR), dtype=pl.String)


def _of_values(name: str, values: list[object], kind: FieldType) -> tuple[pl.Series, int]:
    """Any values, as those of events of logs are taken."""
    column = column_of_values(name, kind, values)
    misfits = 0 if column.misfits is None else int(column.misfits.sum())
    dtype = DTYPES[kind]
    first, *others = (
        cbt.canonical_json(variant) if kind == "any" else variant.cast(dtype) for variant in column.variants
    )
    for other in others:
        first = first.fill_null(other)
    return first.rename(name), misfits
