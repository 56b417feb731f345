"""Plan expressions to Polars expressions with SQL's meaning (docs/semantics.md), for columns of known dtypes.

The same plan expression compiles differently for an integer and for a float column, so a translation is made
for the physical dtypes of one frame. Timestamps are computed with as Int64 epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import polars as pl

from query.expression import Call, Expression, Literal, Reference
from query.like import matches
from query.limits import INTEGER_MAX, INTEGER_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Physical kinds. "wide" is Int128 (exact sums); "null" is a column or value that is NULL throughout.
_DTYPE_KINDS: dict[pl.DataType, str] = {
    pl.Int64(): "integer",
    pl.Int128(): "wide",
    pl.Float64(): "double",
    pl.String(): "string",
    pl.Boolean(): "boolean",
    pl.Null(): "null",
}
KIND_DTYPES = {kind: dtype for dtype, kind in _DTYPE_KINDS.items()}
_NUMBERS = frozenset(("integer", "wide", "double"))
# Beyond this 128-bit arithmetic may have wrapped around; judged in floating point, so a little early.
_WIDE_SAFE = 1.7e38


class PhysicalTypeError(TypeError):
    """A frame's column has a dtype that cannot hold the values of its type."""


@dataclass(frozen=True, slots=True)
class Value:
    """A Polars expression, the physical kind of its column, and for integers the range its values lie in."""

    expression: pl.Expr
    kind: str
    low: int = INTEGER_MIN
    high: int = INTEGER_MAX

    def as_boolean(self) -> pl.Expr:
        return pl.lit(None, dtype=pl.Boolean) if self.kind == "null" else self.expression

    def as_double(self) -> pl.Expr:
        return self.expression if self.kind == "double" else self.expression.cast(pl.Float64)


NULL = Value(pl.lit(None), "null")


def column(name: str, dtype: pl.DataType, type_: str) -> Value:
    """A column of a frame; raises PhysicalTypeError if its dtype does not suit its type in the plan."""
    expression = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        if type_ != "timestamp":
            # A fixed format's time in a column that other formats fill with anything.
            return Value(expression.dt.to_string("%Y-%m-%dT%H:%M:%S%.fZ"), "string")
        return Value(expression.dt.cast_time_unit("ms").to_physical(), "integer")
    kind = _DTYPE_KINDS.get(dtype)
    if kind is None or kind not in _PHYSICAL[type_]:
        raise PhysicalTypeError(f"the {type_} column {name} cannot be {dtype}")
    return NULL if kind == "null" else Value(expression, kind)


_PHYSICAL = {
    "any": frozenset(_DTYPE_KINDS.values()),
    "number": _NUMBERS | {"null"},
    "integer": frozenset(("integer", "wide", "null")),
    "timestamp": frozenset(("integer", "null")),
    "string": frozenset(("string", "null")),
    "boolean": frozenset(("boolean", "null")),
}


def translate(expression: Expression, columns: Mapping[str, Value]) -> Value:
    """The Polars expression for a plan expression over columns given by their names in the plan."""
    match expression:
        case Reference(name=name):
            return columns[name]
        case Literal():
            return _literal(expression.value)
        case Call(operator="in"):
            return _in(expression, columns)
        case Call(operator="like", operands=(text, Literal(value=pattern))):
            value = translate(text, columns)
            if value.kind == "null" or pattern is None:
                return NULL
            return Value(matches(value.expression, str(pattern)), "boolean")
        case Call(operator=operator, operands=operands):
            return _OPERATORS[operator]([translate(operand, columns) for operand in operands])


def _literal(value: int | float | str | bool | None) -> Value:
    match value:
        case None:
            return NULL
        case bool():
            return Value(pl.lit(value), "boolean")
        case int():
            return Value(pl.lit(value, dtype=pl.Int64), "integer", value, value)
        case float():
            return Value(pl.lit(value, dtype=pl.Float64), "double")
        case str():
            return Value(pl.lit(value, dtype=pl.String), "string")


def _in(call: Call, columns: Mapping[str, Value]) -> Value:
    operand = translate(call.operands[0], columns)
    if operand.kind == "null":
        return NULL
    constants = [item for item in call.operands[1:] if isinstance(item, Literal)]
    others = [translate(item, columns) for item in call.operands[1:] if not isinstance(item, Literal)]
    tests = [_equal([operand, other]) for other in others]
    known = [constant.value for constant in constants if constant.value is not None]
    if known:
        tests.append(_in_constants(operand, known))
    if len(known) < len(constants):
        tests.append(NULL)
    return tests[0] if len(tests) == 1 else _or(tests)


def _in_constants(operand: Value, constants: Sequence[int | float | str | bool]) -> Value:
    """Membership in values of the operand's own physical kind; the rest of them it can never equal."""
    fitting: list[int | float | str | bool]
    if operand.kind in ("integer", "wide"):
        whole = [value for value in constants if value == int(value)]
        fitting = [int(value) for value in whole if INTEGER_MIN <= value <= INTEGER_MAX]
    elif operand.kind == "double":
        fitting = [float(value) for value in constants]
    else:
        fitting = list(constants)
    values = pl.Series(fitting, dtype=KIND_DTYPES[operand.kind])
    return Value(operand.expression.is_in(values.implode()), "boolean")


def _and(operands: Sequence[Value]) -> Value:
    return _balanced(and_, operands)


def _or(operands: Sequence[Value]) -> Value:
    return _balanced(or_, operands)


def _balanced(operator: Callable[[pl.Expr, pl.Expr], pl.Expr], operands: Sequence[Value]) -> Value:
    """A chain as a balanced tree: Polars recurses over expressions, and a chain may be thousands long."""
    level = [operand.as_boolean() for operand in operands]
    while len(level) > 1:
        level = [reduce(operator, level[start : start + 2]) for start in range(0, len(level), 2)]
    return Value(level[0], "boolean")


def _not(operands: Sequence[Value]) -> Value:
    return Value(~operands[0].as_boolean(), "boolean")


def _is_null(operands: Sequence[Value]) -> Value:
    (value,) = operands
    return Value(pl.lit(True) if value.kind == "null" else value.expression.is_null(), "boolean")


def _comparison(operator: str) -> Callable[[Sequence[Value]], Value]:
    def compare(operands: Sequence[Value]) -> Value:
        left, right = operands
        if "null" in (left.kind, right.kind):
            return NULL
        if left.kind != right.kind and not {left.kind, right.kind} <= _NUMBERS:
            # Values of different kinds are never equal and in no order, but NULL beside one is unknown still.
            either_null = left.expression.is_null() | right.expression.is_null()
            verdict = pl.when(either_null).then(None).otherwise(pl.lit(operator == "<>"))
            return Value(verdict, "boolean")
        return Value(_COMPARE[operator](left.expression, right.expression), "boolean")

    return compare


_COMPARE: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": pl.Expr.eq,
    "<>": pl.Expr.ne,
    "<": pl.Expr.lt,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    ">=": pl.Expr.ge,
}
_equal = _comparison("=")


def _finite(expression: pl.Expr) -> Value:
    """What a double result may be: arithmetic gives NULL where floating point would give NaN or infinity."""
    return Value(pl.when(expression.is_finite()).then(expression), "double")


def _arithmetic(operator: str) -> Callable[[Sequence[Value]], Value]:
    compute = _COMPUTE[operator]

    def calculate(operands: Sequence[Value]) -> Value:
        left, right = operands
        kinds = {left.kind, right.kind}
        if "null" in kinds:
            return NULL
        if "double" in kinds:
            return _finite(compute(left.as_double(), right.as_double()))
        if "wide" in kinds:
            return _wide(compute, left, right)
        return _exact(compute, left, right, _bounds(operator, left, right))

    return calculate


_COMPUTE: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "+": pl.Expr.add,
    "-": pl.Expr.sub,
    "*": pl.Expr.mul,
}


def _bounds(operator: str, left: Value, right: Value) -> tuple[int, int]:
    """The range of a sum, difference or product."""
    if operator == "+":
        return left.low + right.low, left.high + right.high
    if operator == "-":
        return left.low - right.high, left.high - right.low
    corners = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    return min(corners), max(corners)


def _exact(
    compute: Callable[[pl.Expr, pl.Expr], pl.Expr], left: Value, right: Value, bounds: tuple[int, int]
) -> Value:
    """Integer arithmetic, in 128 bits only where 64 could overflow; an overflow is NULL."""
    low, high = bounds
    if low >= INTEGER_MIN and high <= INTEGER_MAX:
        return Value(compute(left.expression, right.expression), "integer", low, high)
    wide = compute(left.expression.cast(pl.Int128), right.expression.cast(pl.Int128))
    return Value(wide.cast(pl.Int64, strict=False), "integer")


def _wide(compute: Callable[[pl.Expr, pl.Expr], pl.Expr], left: Value, right: Value) -> Value:
    one, other = left.expression.cast(pl.Int128), right.expression.cast(pl.Int128)
    estimate = compute(left.as_double(), right.as_double())
    return Value(pl.when(estimate.abs() < _WIDE_SAFE).then(compute(one, other)), "wide")


def _negate(operands: Sequence[Value]) -> Value:
    zero = Value(pl.lit(0, dtype=pl.Int64), "integer", 0, 0)
    if operands[0].kind == "double":
        return Value(-operands[0].expression, "double")
    return _arithmetic("-")([zero, operands[0]])


def _divide(operands: Sequence[Value]) -> Value:
    left, right = operands
    if "null" in (left.kind, right.kind):
        return NULL
    return _finite(left.as_double() / right.as_double())


def _divide_whole(operands: Sequence[Value]) -> Value:
    """Division truncated toward zero, where Polars' rounds down."""
    left, right = operands
    kinds = {left.kind, right.kind}
    if "null" in kinds:
        return NULL
    if "double" in kinds:
        quotient = left.as_double() / right.as_double()
        return _finite(pl.when(quotient < 0).then(quotient.ceil()).otherwise(quotient.floor()))
    if "wide" not in kinds and left.low >= 0 and right.low > 0:
        return Value(left.expression // right.expression, "integer", 0, left.high)
    # Only the smallest integer divided by -1 can overflow.
    overflows = "wide" in kinds or (left.low == INTEGER_MIN and right.low <= -1 <= right.high)
    dtype = pl.Int128() if overflows else pl.Int64()
    one, other = left.expression.cast(dtype), right.expression.cast(dtype)
    quotient = one // other
    inexact = (quotient * other != one) & ((one < 0) != (other < 0))
    truncated = quotient + inexact.cast(dtype)
    if "wide" in kinds:
        return Value(truncated, "wide")
    return Value(truncated.cast(pl.Int64, strict=False), "integer")


def _remainder(operands: Sequence[Value]) -> Value:
    """The remainder with the sign of the dividend, where Polars' has the divisor's."""
    left, right = operands
    kinds = {left.kind, right.kind}
    if "null" in kinds:
        return NULL
    if "double" in kinds:
        size = left.as_double().abs() % right.as_double().abs()
        return _finite(pl.when(left.as_double() < 0).then(-size).otherwise(size))
    kind = "wide" if "wide" in kinds else "integer"
    low, high = _remainder_bounds(left, right)
    if kind == "integer" and left.low >= 0 and right.low > 0:
        return Value(left.expression % right.expression, kind, low, high)
    remainder = left.expression % right.expression
    wrong = (remainder != 0) & ((left.expression < 0) != (right.expression < 0))
    return Value(pl.when(wrong).then(remainder - right.expression).otherwise(remainder), kind, low, high)


def _remainder_bounds(left: Value, right: Value) -> tuple[int, int]:
    most = max(abs(right.low), abs(right.high))
    return (min(0, max(left.low, 1 - most)), max(0, min(left.high, most - 1)))


_OPERATORS: dict[str, Callable[[Sequence[Value]], Value]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "is_null": _is_null,
    "negate": _negate,
    "/": _divide,
    "//": _divide_whole,
    "%": _remainder,
    **{operator: _arithmetic(operator) for operator in _COMPUTE},
    **{operator: _comparison(operator) for operator in _COMPARE},
}
