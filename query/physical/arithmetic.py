"""SQL's arithmetic in Polars: NULL where a result overflows, is not finite, or a divisor is zero.

Operands that an expression needs more than once are bound to intermediate columns first: repeated at each level, a
nested expression would grow exponentially.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import polars as pl

from query.model.limits import INTEGER_MAX, INTEGER_MIN
from query.physical.values import NULL, Value

Bind: TypeAlias = Callable[[Value], Value]
_Compute: TypeAlias = Callable[[pl.Expr, pl.Expr], pl.Expr]

# Above this bound 128-bit arithmetic may have wrapped around; it is tested in floating point, so slightly low.
_WIDE_SAFE = 1.7e38
# A double below this is finite, whatever rounding adds.
_FINITE = 1e300
_COMPUTE: dict[str, _Compute] = {
    "+": pl.Expr.add,
    "-": pl.Expr.sub,
    "*": pl.Expr.mul,
}


def calculate(operator: str, operands: Sequence[Value], bind: Bind) -> Value:
    """The result of `+ - * / // %` or of negation."""
    if operator == "negate":
        return _negated(operands[0], bind)
    left, right = operands
    kinds = {left.kind, right.kind}
    if "null" in kinds:
        return NULL
    if operator in _COMPUTE:
        return _ring(operator, left, right, bind)
    if operator == "/":
        ratio = _ratio(bind(left), right)
        by_constant = right.constant and right.low == right.high != 0 and left.magnitude < _FINITE
        return replace(ratio, most=left.magnitude) if by_constant else finite(ratio, bind)
    left, right = bind(left), bind(right)
    if "double" in kinds:
        return _double_quotient(left, right, bind) if operator == "//" else _double_remainder(left, right)
    if operator == "//":
        return _whole_quotient(left, right, bind)
    return _whole_remainder(left, right, bind)


def _result(expression: pl.Expr, kind: str, *operands: Value) -> Value:
    return Value(expression, kind, level=max(operand.level for operand in operands))


def finite(value: Value, bind: Bind) -> Value:
    """A double that is NULL where floating point gave NaN or infinity."""
    bound = bind(value)
    return _result(pl.when(bound.expression.is_finite()).then(bound.expression), "double", bound)


def _negated(operand: Value, bind: Bind) -> Value:
    if operand.kind == "null":
        return NULL
    if operand.kind == "double":
        return _result(-operand.expression, "double", operand)
    zero = Value(pl.lit(0, dtype=pl.Int64), "integer", 0, 0, simple=True)
    return _ring("-", zero, operand, bind)


def _ring(operator: str, left: Value, right: Value, bind: Bind) -> Value:
    compute = _COMPUTE[operator]
    kinds = {left.kind, right.kind}
    if "double" in kinds:
        return _of_doubles(operator, left, right, bind)
    if "wide" in kinds:
        return _wide(compute, bind(left), bind(right))
    level = max(left.level, right.level)
    low, high = _bounds(operator, left, right)
    if low >= INTEGER_MIN and high <= INTEGER_MAX:
        return Value(compute(left.expression, right.expression), "integer", low, high, level)
    # 64 bits could overflow: compute in 128, which cannot, and keep what fits.
    exact = compute(left.expression.cast(pl.Int128), right.expression.cast(pl.Int128))
    return Value(exact.cast(pl.Int64, strict=False), "integer", level=level)


def _of_doubles(operator: str, left: Value, right: Value, bind: Bind) -> Value:
    value = _result(_COMPUTE[operator](left.as_double(), right.as_double()), "double", left, right)
    one, other = left.magnitude, right.magnitude
    most = one * other if operator == "*" else one + other
    return replace(value, most=most) if most < _FINITE else finite(value, bind)


def _bounds(operator: str, left: Value, right: Value) -> tuple[int, int]:
    """The range of a sum, difference or product."""
    if operator == "+":
        return left.low + right.low, left.high + right.high
    if operator == "-":
        return left.low - right.high, left.high - right.low
    corners = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    return min(corners), max(corners)


def _wide(compute: _Compute, left: Value, right: Value) -> Value:
    exact = compute(left.expression.cast(pl.Int128), right.expression.cast(pl.Int128))
    estimate = compute(left.as_double(), right.as_double())
    return _result(pl.when(estimate.abs() < _WIDE_SAFE).then(exact), "wide", left, right)


def _ratio(left: Value, right: Value) -> Value:
    """The quotient in floating point, infinite or NaN where the divisor is zero."""
    divisor = right.as_double()
    if right.constant:
        # Polars multiplies by the inverse of a constant divisor, which rounds twice; of a column it does not.
        divisor = divisor + left.as_double() * 0.0
    return _result(left.as_double() / divisor, "double", left, right)


def _double_quotient(left: Value, right: Value, bind: Bind) -> Value:
    quotient = bind(_ratio(left, right))
    size = quotient.expression.abs().floor()
    return finite(_result(size * quotient.expression.sign(), "double", quotient), bind)


def _double_remainder(left: Value, right: Value) -> Value:
    operands = [left.as_double(), right.as_double()]
    remainder = pl.map_batches(operands, _remainders, return_dtype=pl.Float64)
    return _result(remainder, "double", left, right)


def _remainders(operands: Sequence[pl.Series]) -> pl.Series:
    """C's fmod, exact however large the quotient; Polars' own remainder is rounded."""
    import numpy as np  # a tenth of an agent's memory, for an operator few queries use

    left, right = (operand.to_numpy() for operand in operands)
    with np.errstate(invalid="ignore"):
        remainders = np.fmod(left, right)
    return pl.Series(operands[0].name, remainders, nan_to_null=True)


def _whole_quotient(left: Value, right: Value, bind: Bind) -> Value:
    """Division truncated toward zero, where Polars' rounds down."""
    kinds = {left.kind, right.kind}
    one, other = left.expression, right.expression
    if "wide" not in kinds and left.low >= 0 and right.low > 0:
        return Value(one // other, "integer", 0, left.high, max(left.level, right.level))
    if "wide" in kinds or (left.low == INTEGER_MIN and right.low <= -1 <= right.high):
        # The smallest integer divided by -1 overflows.
        one, other = one.cast(pl.Int128), other.cast(pl.Int128)
    floor = bind(_result(one // other, "wide", left, right)).expression
    up = (floor * other != one) & ((one < 0) != (other < 0))
    quotient = pl.when(up).then(floor + 1).otherwise(floor)
    level = 1 + max(left.level, right.level)
    if "wide" in kinds:
        return Value(quotient, "wide", level=level)
    return Value(quotient.cast(pl.Int64, strict=False), "integer", level=level)


def _whole_remainder(left: Value, right: Value, bind: Bind) -> Value:
    """The remainder with the sign of the dividend, where Polars' has the divisor's."""
    kind = "wide" if "wide" in (left.kind, right.kind) else "integer"
    one, other = left.expression, right.expression
    most = max(abs(right.low), abs(right.high)) - 1
    low, high = (min(0, max(left.low, -most)), max(0, min(left.high, most)))
    if left.low >= 0 and right.low > 0:
        return Value(one % other, kind, low, high, max(left.level, right.level))
    floored = bind(_result(one % other, kind, left, right))
    remainder = floored.expression
    wrong = (remainder != 0) & ((one < 0) != (other < 0))
    corrected = pl.when(wrong).then(remainder - other).otherwise(remainder)
    return Value(corrected, kind, low, high, floored.level)
