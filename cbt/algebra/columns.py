"""Descriptions of the columns that callers aggregate: keys, aggregates and orders, and the physical types these may
have.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from cbt.algebra.scalars import canonical_json

_PHYSICAL: dict[str, tuple[pl.DataType, ...]] = {
    "any": (pl.String(), pl.Int64(), pl.Float64(), pl.Boolean(), pl.Null()),
    "number": (pl.Int64(), pl.Float64(), pl.Null()),
    "integer": (pl.Int64(), pl.Null()),
    "string": (pl.String(), pl.Null()),
    "boolean": (pl.Boolean(), pl.Null()),
}
_STORED: dict[str, pl.DataType] = {
    "any": pl.String(),  # canonical JSON text, so that 1 and 1.0 are one key
    "number": pl.String(),
    "integer": pl.Int64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
}
_ORDERED: dict[str, pl.DataType] = {"integer": pl.Int64(), "number": pl.Float64(), "string": pl.String()}


@dataclass(frozen=True, slots=True)
class Key:
    """A column that is kept unchanged: a part of the group's key, or a selected column of a `RowBuffer`."""

    name: str
    type: str

    def __post_init__(self) -> None:
        _known_type(self.name, self.type)

    @property
    def stored_type(self) -> pl.DataType:
        return _STORED[self.type]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`function(argument, *parameters)` under a name; `type` is the argument's, parameters are constants. COUNT(*) has
    the argument None. The functions are listed in `cbt.aggregates.functions`.

    >>> Aggregate("slow", "approx_percentile", "ms", "number", (0.95,)).parameters
    (0.95,)
    """

    name: str
    function: str
    argument: str | None
    type: str
    parameters: tuple[float | tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        _known_type(self.name, self.type)
        if self.argument is None and self.function != "count":
            raise ValueError(f"aggregate {self.name!r}: {self.function} needs an argument")


@dataclass(frozen=True, slots=True)
class Order:
    """A column to order rows by, of type `integer` (Int64), `number` (Float64) or `string`.

    NULL comes last either way; NaN is greater than every other number.
    """

    name: str
    descending: bool
    type: str

    def __post_init__(self) -> None:
        if self.type not in _ORDERED:
            raise ValueError(f"rows cannot be ordered by column {self.name!r} of type {self.type!r}")

    @property
    def stored_type(self) -> pl.DataType:
        return _ORDERED[self.type]


def changed(columns: Iterable[str]) -> pl.Expr:
    """Whether a row differs from the one before it in any of the columns; the first row does."""
    differs = [pl.col(name).ne_missing(pl.col(name).shift()) for name in columns]
    return pl.any_horizontal(pl.int_range(pl.len()) == 0, *differs)


def check_physical(frame: pl.DataFrame, columns: Iterable[tuple[str, str]]) -> None:
    """Raises ValueError unless the frame has each (name, type) column in a physical form of that type."""
    schema = dict(zip(frame.columns, frame.dtypes, strict=True))
    for name, type_ in columns:
        if name not in schema:
            raise ValueError(f"the frame lacks column {name!r}")
        if schema[name] not in _PHYSICAL[type_]:
            raise ValueError(f"column {name!r} is {schema[name]}, which is no {type_}")


def check_whole(frame: pl.DataFrame, name: str) -> None:
    """Raises ValueError unless the frame has the column, of Int64 without NULL."""
    column = frame.get_column(name) if name in frame.columns else None
    if column is None or column.dtype != pl.Int64 or column.null_count():
        raise ValueError(f"the frame needs an Int64 column {name!r} without NULL")


def stored(series: pl.Series, key: Key) -> pl.Series:
    """A physical column in the form that its key's type is stored in."""
    return canonical_json(series) if key.type in ("any", "number") else series.cast(key.stored_type)


def _known_type(name: str, type_: str) -> None:
    if type_ not in _STORED:
        raise ValueError(f"column {name!r} has the unknown type {type_!r}")
