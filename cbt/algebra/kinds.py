"""Scalars of mixed kinds in one column for each kind, so that equal values are equal rows without being written as
text.

`b` Boolean, `i` Int64, `f` Float64, `s` String: a value is in one of them, NULL in none. A number that is an integer
in -2**63 .. 2**63-1 is in `i`, whether it came as 1 or as 1.0; -0.0 is 0 and there is one NaN, as in canonical JSON.
"""

import polars as pl

from cbt.algebra.scalars import canonical_json

KINDS: dict[str, pl.DataType] = {"b": pl.Boolean(), "i": pl.Int64(), "f": pl.Float64(), "s": pl.String()}
KINDS_OF_TYPE = {"any": "bifs", "number": "if", "integer": "i", "string": "s", "boolean": "b"}


def kind_columns(name: str, type_: str) -> dict[str, pl.DataType]:
    """The columns `{name}.{kind}` that hold values of a type.

    >>> kind_columns("x", "number")
    {'x.i': Int64, 'x.f': Float64}
    """
    return {f"{name}.{kind}": KINDS[kind] for kind in KINDS_OF_TYPE[type_]}


def split_kinds(values: pl.Series, columns: dict[str, pl.DataType]) -> list[pl.Series]:
    """The values of a String, Int64, Float64, Boolean or Null column, distributed to `columns`. O(n)."""
    parts = {values.dtype: values}
    if values.dtype == pl.Float64:
        integral = (values == values.floor()) & (values >= -(2.0**63)) & (values < 2.0**63)
        parts[pl.Int64()] = values.set(~integral, None).cast(pl.Int64)
        parts[pl.Float64()] = _one_nan(values.set(integral, None))
    return [_column(parts.get(dtype), len(values), dtype).alias(name) for name, dtype in columns.items()]


def kind_texts(columns: list[pl.Series]) -> pl.Series:
    """The canonical JSON text of each row's value, NULL where no column has one. O(characters)."""
    return pl.select(pl.coalesce(canonical_json(column) for column in columns)).to_series()


def any_kind(columns: dict[str, pl.DataType]) -> pl.Expr:
    """Whether a row has a value at all."""
    return pl.any_horizontal(pl.col(name).is_not_null() for name in columns)


def value_order(name: str, parts: str, *, latest: bool = False) -> list[pl.Expr]:
    """Expressions to sort the columns `{name}.{part}` by, NULL last, in the order of MIN, or with `latest`, in the
    order of MAX, descending. The kind that comes first has its values first and NULL elsewhere.
    """
    columns = {part: pl.col(f"{name}.{part}") for part in parts}
    kinds = [[columns[part]] for part in parts if part not in "if"]
    if "i" in parts:
        numbers = _number_order(columns["i"], columns["f"]) if "f" in parts else [columns["i"]]
        kinds.insert(parts.index("i"), numbers)
    return [key for kind in (reversed(kinds) if latest else kinds) for key in kind]


def _number_order(integer: pl.Expr, double: pl.Expr) -> list[pl.Expr]:
    """Compares integers and doubles as doubles, then by the integer's rounding error; last, 1 is before 1.0."""
    rounded = integer.cast(pl.Float64)
    lost = (integer.cast(pl.Int128) - rounded.cast(pl.Int128)).fill_null(0)
    return [pl.coalesce(double, rounded), lost, double.is_not_null()]


def _column(values: pl.Series | None, length: int, dtype: pl.DataType) -> pl.Series:
    return pl.Series([None], dtype=dtype).new_from_index(0, length) if values is None else values


def _one_nan(values: pl.Series) -> pl.Series:
    return values.fill_nan(float("nan")) if values.is_nan().any() else values
