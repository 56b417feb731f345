"""Columns of parsed values as a segment stores them, typed by their values and never by the use in a query.

A field's kind says how it is stored. `text` is a CSV field before a whole segment shows whether all of its texts are
numbers; `null` never had a value; an `object` has columns for the fields inside and none for itself; `unkept`
had a value that no column can hold, so the whole column is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import polars as pl

from agent.parsing.canonical_json import canonical_json

Kind = Literal["integer", "number", "string", "boolean", "timestamp", "any", "object", "text", "null", "unkept"]
DTYPES: dict[Kind, pl.DataType] = {
    "integer": pl.Int64(),
    "number": pl.Float64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
    "timestamp": pl.Datetime("ms", "UTC"),
    "any": pl.String(),
}
EXACT_MAX = 1 << 53
"""Largest integer up to which every integer is a double."""
_KINDS: dict[type, Kind] = {int: "integer", float: "number", str: "string", bool: "boolean"}
_NOTHING = type(None)
_INTEGER = r"^(?:0|-?[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?$"


@dataclass(frozen=True, slots=True)
class Field:
    """One column of some rows."""

    kind: Kind
    values: pl.Series

    def gather(self, rows: pl.Series) -> Field:
        """The values of other rows; NULL where `rows` names none."""
        return Field(self.kind, self.values.gather(rows))


def null_field(count: int) -> Field:
    return Field("null", _nulls(count))


def object_field(count: int) -> Field:
    return Field("object", _nulls(count))


def unkept_field(count: int) -> Field:
    return Field("unkept", _nulls(count))


def field_of_values(values: list[Any]) -> Field:
    """A column of decoded JSON values."""
    kinds = set(map(type, values))
    kinds.discard(_NOTHING)
    if not kinds:
        return null_field(len(values))
    if kinds == {int, float} and all(abs(value) <= EXACT_MAX for value in values if type(value) is int):
        kinds, values = {float}, [None if value is None else float(value) for value in values]
    if len(kinds) == 1 and (kind := _KINDS.get(kinds.pop())):
        try:
            series = pl.Series(values, dtype=DTYPES[kind], strict=True)
        except (OverflowError, TypeError):  # an integer beyond 64 bits
            return _field_of_any(values)
        if kind == "number" and not series.is_finite().all():
            return unkept_field(len(values))
        return Field(kind, series)
    return _field_of_any(values)


def field_of_kinds(kinds: Mapping[type, pl.Series], count: int, others: list[Any]) -> Field:
    """A column of `count` scanned values, which come as one series for each of their types, and of decoded ones."""
    first, second = _scanned_field(kinds, count), field_of_values(others)
    if first is not None and second.kind in ("null", first.kind):
        return united([first, second]) if others else first
    if first is not None and first.kind == "null" and second.kind in DTYPES:
        return united([first, second])
    return field_of_values([*_values_of_kinds(kinds, count), *others])


def _scanned_field(kinds: Mapping[type, pl.Series], count: int) -> Field | None:
    """A column of values of one type or of numbers, None if it is neither."""
    if not kinds:
        return null_field(count)
    if len(kinds) == 1:
        ((kind, series),) = kinds.items()
        return Field(_KINDS[kind], series)
    if kinds.keys() == {int, float} and _is_exact(Field("integer", kinds[int])):
        return Field("number", kinds[float].fill_null(kinds[int].cast(pl.Float64)))
    return None


def _values_of_kinds(kinds: Mapping[type, pl.Series], count: int) -> list[Any]:
    values: list[Any] = [None] * count
    for series in kinds.values():
        values = [old if new is None else new for old, new in zip(values, series.to_list(), strict=True)]
    return values


def united(fields: Sequence[Field]) -> Field:
    """Concatenates the columns of several sets of rows."""
    kinds = {field.kind for field in fields} - {"null"}
    count = sum(len(field.values) for field in fields)
    if "unkept" in kinds or ("object" in kinds and len(kinds) > 1):
        return unkept_field(count)
    if "object" in kinds:
        return object_field(count)
    if not kinds:
        return null_field(count)
    if kinds == {"text"}:
        return _typed(pl.concat([field.values.cast(pl.String) for field in fields]))
    if kinds == {"integer", "number"} and all(map(_is_exact, fields)):
        return Field("number", pl.concat([field.values.cast(pl.Float64) for field in fields]))
    if len(kinds) == 1:
        kind = kinds.pop()
        return Field(kind, pl.concat([field.values.cast(DTYPES[kind]) for field in fields]))
    if kinds == {"text", "string"}:
        return Field("string", pl.concat([field.values.cast(pl.String) for field in fields]))
    return Field("any", pl.concat([_as_json(field) for field in fields]))


def _typed(texts: pl.Series) -> Field:
    """Types a column of CSV texts: numbers only if all texts are in canonical form, so that none reads differently."""
    given = texts.drop_nulls()
    if not given.len():
        return null_field(len(texts))
    if given.str.contains(_INTEGER).all():
        return Field("integer", texts.cast(pl.Int64))
    if given.str.contains(_NUMBER).all():
        return Field("number", texts.cast(pl.Float64))
    return Field("string", texts)


def _is_exact(field: Field) -> bool:
    return field.kind != "integer" or bool(field.values.is_between(-EXACT_MAX, EXACT_MAX).all())


def _field_of_any(values: list[Any]) -> Field:
    texts = [None if value is None else canonical_json(value) for value in values]
    if any(text is None and value is not None for text, value in zip(texts, values, strict=True)):
        return unkept_field(len(values))
    return Field("any", pl.Series(texts, dtype=pl.String))


def _as_json(field: Field) -> pl.Series:
    if field.kind in ("any", "null"):
        return field.values.cast(pl.String)
    encode = msgspec.json.encode
    return pl.Series(
        [None if value is None else encode(value).decode() for value in field.values.to_list()], dtype=pl.String
    )


def _nulls(count: int) -> pl.Series:
    return pl.Series([None], dtype=pl.Null).new_from_index(0, count)
