"""Turns values into columns that sort plainly, NULL last, with the same dtypes for every frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from query.model.expression import Reference
from query.plan.plan import PlanOrder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from query.physical.values import Value
    from query.plan.plan import Plan

# The plain columns one sort key becomes. A number is a double and what the double rounds away of an integer;
# a key of any type has its rank (boolean, number, string) before them and its text after.
_PLAIN = {
    "any": ("integer", "number", "integer", "string"),
    "number": ("number", "integer"),
    "integer": ("integer",),
    "timestamp": ("integer",),
    "string": ("string",),
    "boolean": ("integer",),
}
_RANKS = {"boolean": 0, "integer": 1, "wide": 1, "double": 1, "string": 2}


def order_columns(key: PlanOrder, columns: Sequence[pl.Expr]) -> list[pl.Expr]:
    """The plain columns of a key of ORDER BY, whose value has become `columns`: where NULL comes first, they begin with
    a column that says whether there is a value.
    """
    if not key.nulls_first:
        return list(columns)
    return [columns[0].is_not_null().cast(pl.Int64), *columns]


def row_order(plan: Plan) -> tuple[PlanOrder, ...]:
    """The order of a rows plan: ORDER BY, event time, the selected columns. Rows that tie look alike."""
    if plan.kind == "aggregate":
        return ()
    selected = (PlanOrder(output.expression, False) for output in plan.output)
    keys = (*plan.order, PlanOrder(Reference("@time", "timestamp"), False), *selected)
    first_use = {key.expression: key for key in reversed(keys)}
    return tuple(key for key in keys if first_use[key.expression] is key)


def directions(keys: Iterable[PlanOrder]) -> list[bool]:
    """Whether each plain column these keys become is descending."""
    return [
        descending
        for key in keys
        for descending in [False] * key.nulls_first + [key.descending] * len(_PLAIN[key.expression.type])
    ]


def plain_types(keys: Iterable[PlanOrder]) -> list[str]:
    """The type (integer, number or string) of each plain column these keys become."""
    return [type_ for key in keys for type_ in (*["integer"] * key.nulls_first, *_PLAIN[key.expression.type])]


def sort_columns(value: Value, type_: str) -> list[pl.Expr]:
    """The plain columns of a key, most significant first: Int64 (Int128 for exact sums), Float64, String."""
    expression, kind = value.expression, value.kind
    if type_ == "any":
        return _any_columns(value)
    if type_ == "number":
        return _number_columns(value)
    if kind == "null":
        return [pl.lit(None, dtype=pl.String if type_ == "string" else pl.Int64)]
    return [expression.cast(pl.Int64) if kind == "boolean" else expression]


def _number_columns(value: Value) -> list[pl.Expr]:
    if value.kind == "null":
        return [pl.lit(None, dtype=pl.Float64), pl.lit(None, dtype=pl.Int64)]
    approximate = value.as_double()
    if value.kind == "double":
        return [approximate, pl.when(approximate.is_not_null()).then(pl.lit(0, dtype=pl.Int64))]
    exact = value.expression.cast(pl.Int128)
    rounded_away = exact - approximate.cast(pl.Int128, strict=False)
    return [approximate, rounded_away.cast(pl.Int64, strict=False)]


def _any_columns(value: Value) -> list[pl.Expr]:
    text = pl.lit(None, dtype=pl.String)
    if value.kind == "null":
        return [pl.lit(None, dtype=pl.Int64), *_number_columns(value), text]
    rank = pl.when(value.expression.is_not_null()).then(pl.lit(_RANKS[value.kind], dtype=pl.Int64))
    nothing = [pl.lit(None, dtype=pl.Float64), pl.lit(None, dtype=pl.Int64)]
    if value.kind == "string":
        return [rank, *nothing, value.expression]
    if value.kind == "boolean":
        return [rank, value.expression.cast(pl.Float64), nothing[1], text]
    return [rank, *_number_columns(value), text]


_NUMBER_BITS = 64
_CODED = (pl.Int64(), pl.String())
"""Types of columns whose values can be numbered in order."""


def in_order(frame: pl.DataFrame, descending: Mapping[str, bool]) -> pl.DataFrame:
    """The rows ordered by columns, most significant first, NULL last, without these columns but `pane`. O(n log n).

    Texts that come again in many panes are compared once: all rows are then ordered as one number each, whose upper
    bits number the values of the columns and whose lower bits are the row's number.
    """
    others = [name for name in descending if name != "pane"]
    order = _packed(frame.select(*descending), descending) if len(others) < len(descending) else None
    if order is not None:
        return frame.drop(others).rechunk()[order]  # from several chunks it takes twenty times as long
    return frame.sort(list(descending), descending=list(descending.values()), nulls_last=True).drop(others)


def _packed(keys: pl.DataFrame, descending: Mapping[str, bool]) -> pl.Series | None:
    """The numbers of the rows in order; None where a row's values do not fit one number."""
    if any(dtype not in _CODED for dtype in keys.dtypes):
        return None
    rows = keys.height
    bits = (rows - 1).bit_length()
    packed = pl.int_range(rows, dtype=pl.UInt64, eager=True)
    for name, is_descending in reversed(list(descending.items())):
        found, greatest = _numbered(keys[name], is_descending=is_descending)
        if found is None or bits + greatest.bit_length() > _NUMBER_BITS:
            return None
        packed += found * (1 << bits)
        bits += greatest.bit_length()
    return (packed.sort(multithreaded=False) % (1 << (rows - 1).bit_length())).cast(pl.UInt32)


def _numbered(column: pl.Series, *, is_descending: bool) -> tuple[pl.Series | None, int]:
    """A column's values as numbers from 0 on, which have its order, and the greatest number: that of NULL."""
    numbers = column
    if column.dtype == pl.String:
        known = column.drop_nulls().unique().sort()
        numbers = column.cast(pl.Enum(known)).to_physical().cast(pl.Int64)
    low, high = numbers.min(), numbers.max()
    if not isinstance(low, int) or not isinstance(high, int) or (high - low).bit_length() >= _NUMBER_BITS - 1:
        return None, 0
    numbers = (high - numbers if is_descending else numbers - low).fill_null(high - low + 1)
    return numbers.cast(pl.UInt64), high - low + 1
