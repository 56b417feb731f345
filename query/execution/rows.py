"""The finished rows of windows: kept as columns until they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isfinite
from typing import Any, overload

import msgspec
import polars as pl

from query.model.canonical import Scalar, decode_texts, kind_of, physical
from query.model.timestamps import format_timestamps

Row = dict[str, Scalar]
_KINDS: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_INTEGRAL_MAX = 2.0**63
_ROWS_PASSING = 1 << 12


class ResultTable:
    """The rows of several windows as columns, converted to plain values all at once when first read.

    `frame` has the output columns v0, v1 ... (doubles of a number are in v0.double), or makes them when they are first
    read; `outputs` are their (name, type).
    """

    def __init__(self, frame: pl.DataFrame | Callable[[], pl.DataFrame], outputs: Sequence[tuple[str, str]]) -> None:
        self._given: pl.DataFrame | Callable[[], pl.DataFrame] | None = frame
        self._outputs = outputs
        self.names = [name for name, _ in outputs]
        self.found = {name: (f"v{n}", type_) for n, (name, type_) in enumerate(outputs)}
        """The column of the frame, and the type, of each name."""
        self._passing: tuple[int, int, list[Sequence[Scalar]]] = (0, -1, [])

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The columns. What makes them is forgotten, with what it holds."""
        given = self._given
        assert given is not None
        frame = given if isinstance(given, pl.DataFrame) else given()
        self._given = None
        return frame

    @cached_property
    def record(self) -> type[msgspec.Struct] | None:
        """The type of rows that JSON is made of: small, and unknown to the collector. None where a name is none that
        a type may have."""
        fields = [f"v{n}" for n in range(len(self.names))]
        try:
            return msgspec.defstruct("Row", fields, rename=dict(zip(fields, self.names, strict=True)), gc=False)
        except ValueError:
            return None

    @cached_property
    def columns(self) -> list[Sequence[Scalar]]:
        return self._converted(self.frame)

    def passing(self, start: int, stop: int) -> list[Sequence[Scalar]]:
        """The columns of some rows, of which windows are made once and in order: few are converted at a time."""
        first, last, columns = self._passing
        if not first <= start <= stop <= last:
            first, last = start, max(stop, start + _ROWS_PASSING)
            columns = self._converted(self.frame.slice(first, last - first))
            self._passing = first, last, columns
        return [column[start - first : stop - first] for column in columns]

    def _converted(self, frame: pl.DataFrame) -> list[Sequence[Scalar]]:
        return [_values(frame, f"v{n}", type_) for n, (_, type_) in enumerate(self._outputs)]


class ResultRows(Sequence[Row]):
    """The rows of one window as dicts of plain values, in order; equal to a list of the same rows."""

    def __init__(self, table: ResultTable, start: int, length: int) -> None:
        self._table = table
        self._span = slice(start, start + length)
        self._length = length

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns, in their order."""
        return self._table.names

    def column(self, name: str) -> Sequence[Scalar]:
        """All values of one column, in row order."""
        return self._table.columns[self._table.names.index(name)][self._span]

    def values(self, name: str) -> list[Scalar]:
        """The values of one column as JSON shows them, converted for these rows alone. O(rows)."""
        values = _values(self.frame, *self._table.found[name])
        return [None if isinstance(value, float) and not isfinite(value) else value for value in values]

    def kinds(self, name: str) -> Mapping[type, pl.Series] | None:
        """The values of one column as JSON shows them: a series for each of their types, as long as the rows; None
        where they are to be looked at one by one. O(rows)."""
        found = _kinds(self.frame, *self._table.found[name])
        if found is None:
            return None
        return {kind: column for kind, column in found.items() if column.null_count() < len(column)}

    def has(self, name: str) -> bool:
        """Whether they have a column of this name."""
        return name in self._table.found

    @property
    def frame(self) -> pl.DataFrame:
        """The rows as columns, as `ResultTable` takes them."""
        return self._table.frame[self._span]

    def to_encode(self) -> list[Any]:
        """The rows in a form that JSON is made of, which nobody keeps."""
        record, columns = self._table.record, self._table.passing(self._span.start, self._span.stop)
        return self._rows if record is None else list(map(record, *columns))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._rows == list(other)

    def __repr__(self) -> str:
        return f"ResultRows({self._rows!r})"

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _rows(self) -> list[Row]:
        columns = (column[self._span] for column in self._table.columns)
        return [dict(zip(self._table.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _values(frame: pl.DataFrame, name: str, type_: str) -> Sequence[Scalar]:
    """A column of the result as plain Python values."""
    column = frame[name]
    if type_ == "timestamp":
        return format_timestamps(column)
    if type_ in ("any", "number") and column.dtype == pl.String:
        return _decoded(column.to_list(), type_)
    values: list[Any] = column.to_list()
    if f"{name}.double" not in frame.columns or frame[f"{name}.double"].null_count() == len(values):
        return values
    doubles = frame[f"{name}.double"].to_list()
    return [_shown(double) if value is None else value for value, double in zip(values, doubles, strict=True)]


def _kinds(frame: pl.DataFrame, name: str, type_: str) -> dict[type, pl.Series] | None:
    """A column of the result as one series for each type of its plain values; None where some are doubles, or too
    large."""
    column = frame[name]
    if type_ == "timestamp":
        return {str: pl.Series(name, format_timestamps(column), dtype=pl.String)}
    if type_ in ("any", "number") and column.dtype == pl.String:
        kinds = frame.select(kind_of(pl.col(name).drop_nulls()).unique()).to_series().to_list()
        kind = _KINDS.get(kinds[0]) if len(kinds) == 1 and (type_ == "any" or kinds == ["integer"]) else None
        return None if kind is None else {kind: physical(column, kinds[0])}
    if f"{name}.double" in frame.columns and frame[f"{name}.double"].null_count() < frame.height:
        return None
    if column.dtype in (pl.Boolean, pl.String):
        return {bool if column.dtype == pl.Boolean else str: column}
    whole = column.cast(pl.Int64, strict=False) if column.dtype.is_integer() else None
    return None if whole is None or whole.null_count() > column.null_count() else {int: whole}


def _decoded(texts: Sequence[str | None], type_: str) -> Sequence[Scalar]:
    """The values of canonical JSON texts; for type number, only those that are numbers."""
    values = decode_texts(texts)
    kinds = set(map(type, values))
    if type_ == "number" and not kinds <= {int, float, type(None)}:
        values = [value if type(value) in (int, float) else None for value in values]
    return [_shown(value) for value in values] if float in kinds else values


def are_shown_whole(doubles: pl.Series) -> bool:
    """Whether these doubles, of which some may be NULL, are shown with all of their digits. O(n)."""
    return all(float(f"{value:.15g}") == value and isfinite(value) for value in doubles.drop_nulls())


def _shown(value: Scalar) -> Scalar:
    """A double rounded to 15 significant digits, as an integer if it then has no fraction and fits 64 bits."""
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.15g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < _INTEGRAL_MAX else rounded
