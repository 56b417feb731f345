"""Translates aggregates into Spark columns, and their values into states of a job's groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import cbt
from query.spark import NotExactError, SparkColumn

_PARTS = {"integer": "i", "number": "f", "double": "f", "string": "s", "boolean": "b"}
_OF_PARTS = {"any": "bifs", "number": "if", "integer": "i", "string": "s", "boolean": "b"}
_DTYPES: dict[str, pl.DataType] = {"b": pl.Boolean(), "i": pl.Int64(), "f": pl.Float64(), "s": pl.String()}
_HI_BITS, _LO_BITS = 32, 128
"""Units of a sum of numbers: 2**-32, and beside them 2**-128."""
_LIMBS = 3
_LIMB_BITS_MIN = 28
_IDEMPOTENT = frozenset(("count_distinct", "approx_count_distinct"))


class InexactError(Exception):
    """Raised when a sum that Spark has computed is not exact, so that the plan must be computed another way."""


@dataclass(frozen=True, slots=True)
class ColumnState:
    """One aggregate: the columns Spark computes for each group, and the state columns made of them.

    `is_exact`: whether the computed values are exact. `grouped_by`: the argument, for an aggregate that needs only its
    distinct values.
    """

    computed: Sequence[Column]
    states: Sequence[pl.Expr]
    is_exact: pl.Expr | None = None
    grouped_by: tuple[str, Column] | None = None


def column_state(aggregate: cbt.Aggregate, argument: SparkColumn | None, rows: int) -> ColumnState:
    """The state of an aggregate over at most `rows` rows. Raises NotExactError where Spark has no exact equivalent."""
    name, function = aggregate.name, aggregate.function
    if argument is None:
        return ColumnState([F.count(F.lit(1)).alias(f"{name}.n")], [pl.col(f"{name}.n")])
    if function in _IDEMPOTENT and argument.kind != "null":
        return ColumnState([], [], grouped_by=(aggregate.argument or "", argument.column))
    if function not in _FUNCTIONS or argument.kind == "null":
        raise NotExactError(f"{function.upper()} is computed by agents' code")
    return _FUNCTIONS[function](aggregate, argument, rows)


def _count(aggregate: cbt.Aggregate, argument: SparkColumn, rows: int) -> ColumnState:  # noqa: ARG001
    name = f"{aggregate.name}.n"
    return ColumnState([F.count(argument.column).alias(name)], [pl.col(name)])


def _extreme(function: Callable[[Column], Column]) -> Callable[[cbt.Aggregate, SparkColumn, int], ColumnState]:
    def state(aggregate: cbt.Aggregate, argument: SparkColumn, rows: int) -> ColumnState:  # noqa: ARG001
        own = f"{aggregate.name}.{_PARTS[argument.kind]}"
        value = pl.col(own) + 0.0 if _PARTS[argument.kind] == "f" else pl.col(own)  # -0.0 is 0.0
        others = [f"{aggregate.name}.{part}" for part in _OF_PARTS[aggregate.type]]
        nothing = [pl.lit(None, _DTYPES[one[-1]]).alias(one) for one in others if one != own]
        return ColumnState([function(argument.column).alias(own)], [value, *nothing])

    return state


def _sum(aggregate: cbt.Aggregate, argument: SparkColumn, rows: int) -> ColumnState:
    if argument.kind != "integer":
        return _sum_of_doubles(aggregate, argument, rows)
    name = aggregate.name
    total, n = f"{name}.total", f"{name}.n"
    computed = [F.try_sum(argument.column).alias(total), F.count(argument.column).alias(n)]
    is_exact = pl.col(total).is_not_null() | (pl.col(n) == 0)  # beyond 64 bits it is NULL
    whole = pl.col(total).fill_null(0).cast(pl.Int128)
    if aggregate.type == "integer":
        return ColumnState(computed, [whole.alias(f"{name}.sum"), pl.col(n)], is_exact)
    hi = (whole * pl.lit(1 << _HI_BITS, pl.Int128)).alias(f"{name}.hi")
    return ColumnState(computed, [hi, _zero(f"{name}.lo"), _no_outliers(name), pl.col(n)], is_exact)


def _sum_of_doubles(aggregate: cbt.Aggregate, argument: SparkColumn, rows: int) -> ColumnState:
    """Sums doubles in fixed point: the whole part and the fraction as integers of as many bits as cannot overflow.

    Scaling by a power of two and taking off the fraction are exact in doubles. A value that is too large, or has bits
    below the last integer, makes the sum inexact.
    """
    name, bits = aggregate.name, 62 - rows.bit_length()
    if bits < _LIMB_BITS_MIN:
        raise NotExactError(f"sums of doubles of {rows:,} rows are computed by agents' code")
    rest, limbs = argument.column, []
    for limb in range(_LIMBS):
        whole = rest.cast("bigint")
        limbs.append(F.sum(whole).alias(f"{name}.limb{limb}"))
        rest = (rest - whole.cast("double")) * float(1 << bits)
    fits = (F.abs(argument.column) < float(1 << bits)) & (rest == 0.0)
    n, exact = f"{name}.n", f"{name}.exact"
    computed = [*limbs, F.count(argument.column).alias(n), F.bool_and(fits).alias(exact)]
    first, *others = (pl.col(f"{name}.limb{limb}").fill_null(0).cast(pl.Int128) for limb in range(_LIMBS))
    fraction = others[0] * _i128(1 << bits) + others[1]
    unit = _i128(1 << (2 * bits - _HI_BITS))
    states = [
        (first * _i128(1 << _HI_BITS) + fraction // unit).alias(f"{name}.hi"),
        (fraction % unit * _i128(1 << (_LO_BITS - 2 * bits))).alias(f"{name}.lo"),
        _no_outliers(name),
        pl.col(n),
    ]
    return ColumnState(computed, states, pl.col(exact).fill_null(True))


def _zero(name: str) -> pl.Expr:
    return _i128(0).alias(name)


def _no_outliers(name: str) -> pl.Expr:
    return pl.lit(None, pl.String).alias(f"{name}.wide")


def _i128(value: int) -> pl.Expr:
    return pl.lit(value, pl.Int128)


_FUNCTIONS: Mapping[str, Callable[[cbt.Aggregate, SparkColumn, int], ColumnState]] = {
    "count": _count,
    "sum": _sum,
    "avg": _sum,
    "min": _extreme(F.min),
    "max": _extreme(F.max),
    "bool_and": _extreme(F.min),
    "every": _extreme(F.min),
    "bool_or": _extreme(F.max),
}
