"""Physical values: a Polars expression together with the known properties of its column."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import polars as pl

from query.model.limits import INTEGER_MAX, INTEGER_MIN

# Physical kinds. "wide" is Int128 (exact sums); "null" is a column or value that is NULL throughout.
DTYPES: dict[str, pl.DataType] = {
    "integer": pl.Int64(),
    "wide": pl.Int128(),
    "double": pl.Float64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
    "null": pl.Null(),
}
NUMBERS = frozenset(("integer", "wide", "double"))
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
_PHYSICAL = {
    "any": frozenset(DTYPES),
    "number": NUMBERS | {"null"},
    "integer": frozenset(("integer", "wide", "null")),
    "timestamp": frozenset(("integer", "null")),
    "string": frozenset(("string", "null")),
    "boolean": frozenset(("boolean", "null")),
}


@dataclass(frozen=True, slots=True)
class Value:
    """A Polars expression, the physical kind of its column, and for integers the range its values lie in.

    `level` counts the rounds of intermediate columns that must be there first; `simple` values are columns and
    constants, which may be used several times in an expression at no cost. `most`: an upper bound on the magnitude of
    doubles, infinite if one may be infinite or NaN.
    """

    expression: pl.Expr
    kind: str
    low: int = INTEGER_MIN
    high: int = INTEGER_MAX
    level: int = 0
    simple: bool = False
    constant: bool = False
    most: float = inf

    def as_boolean(self) -> pl.Expr:
        """The expression, as a condition even if it is NULL throughout."""
        return pl.lit(None, dtype=pl.Boolean) if self.kind == "null" else self.expression

    @property
    def magnitude(self) -> float:
        """An upper bound on the magnitude of a number."""
        return float(max(abs(self.low), abs(self.high))) if self.kind == "integer" else self.most

    def as_double(self) -> pl.Expr:
        """The expression of a number in floating point."""
        return self.expression if self.kind == "double" else self.expression.cast(pl.Float64)


NULL = Value(pl.lit(None), "null", simple=True, constant=True)


def column(name: str, dtype: pl.DataType, type_: str) -> Value:
    """A column of a frame; NULL if its dtype holds no values of its type in the plan.

    Raises TypeError for a dtype that frames of events and results never have.
    """
    expression = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return _time_column(expression, type_)
    if dtype not in _KINDS:
        raise TypeError(f"the column {name} cannot be {dtype}")
    kind = _KINDS[dtype]
    if kind == "null" or kind not in _PHYSICAL[type_]:
        return NULL
    return Value(expression, kind, simple=True)


def _time_column(expression: pl.Expr, type_: str) -> Value:
    if type_ == "timestamp":
        return Value(expression.dt.cast_time_unit("ms").to_physical(), "integer", simple=True)
    if type_ in ("any", "string"):
        # A fixed format's time, in a column that other formats fill with other types.
        return Value(expression.dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ"), "string", simple=True)
    return NULL


def constant(value: int | float | str | bool | None) -> Value:
    """A constant of a plan."""
    match value:
        case None:
            return NULL
        case bool():
            return Value(pl.lit(value), "boolean", simple=True, constant=True)
        case int():
            return Value(pl.lit(value, dtype=pl.Int64), "integer", value, value, simple=True, constant=True)
        case float():
            return Value(pl.lit(value, dtype=pl.Float64), "double", most=abs(value), simple=True, constant=True)
        case str():
            return Value(pl.lit(value, dtype=pl.String), "string", simple=True, constant=True)
