"""Functions of numbers. What overflows, is not finite, or lies outside a function's domain is NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from query.functions.function import Arguments, Compute, ConstantError, Scalar, ScalarFunction
from query.model.limits import INTEGER_MIN
from query.physical.arithmetic import calculate, finite
from query.physical.values import Value

DIGITS_MAX = 15


def _in_doubles(compute: Callable[[pl.Expr], pl.Expr]) -> Compute:
    def function(arguments: Arguments) -> Value:
        return finite(arguments.result(compute(arguments.double(0)), "double"), arguments.bind)

    return function


def _power(arguments: Arguments) -> Value:
    return finite(arguments.result(arguments.double(0).pow(arguments.double(1)), "double"), arguments.bind)


def _absolute(arguments: Arguments) -> Value:
    value = arguments.bound(0)
    if value.kind != "integer":
        return arguments.result(value.expression.abs(), value.kind)
    return arguments.result(pl.when(value.expression != INTEGER_MIN).then(value.expression).abs(), "integer")


def _to_whole(compute: Callable[[pl.Expr], pl.Expr]) -> Compute:
    def function(arguments: Arguments) -> Value:
        value = arguments.values[0]
        return arguments.result(compute(value.expression), "double") if value.kind == "double" else value

    return function


def _rounded(arguments: Arguments) -> Value:
    value, digits = arguments.values[0], arguments.number(1, 0)
    if value.kind != "double":
        return value
    rounded = value.expression.round(digits, mode="half_away_from_zero")
    return finite(arguments.result(rounded, "double"), arguments.bind)


def _check_digits(constants: Sequence[Scalar]) -> None:
    digits = constants[1] if len(constants) > 1 else 0
    if isinstance(digits, int) and not 0 <= digits <= DIGITS_MAX:
        raise ConstantError(f"ROUND takes 0 to {DIGITS_MAX} digits, not {digits}")


def _sign(arguments: Arguments) -> Value:
    return arguments.result(arguments.expression(0).sign().cast(pl.Int64), "integer")


def _remainder(arguments: Arguments) -> Value:
    return calculate("%", arguments.values, arguments.bind)


FUNCTIONS = (
    ScalarFunction("ABS", "number: number", "numeric", _absolute, "without its sign", "ABS(-3)", "3"),
    ScalarFunction("SIGN", "number: number", "integer", _sign, "-1, 0 or 1", "SIGN(-2.5)", "-1"),
    ScalarFunction(
        "ROUND", "number: number, digits?!: integer", "numeric", _rounded,
        "rounded to a number of decimal digits, or to a whole number; half away from zero", "ROUND(2.345, 1)", "2.3",
        check=_check_digits,
    ),
    ScalarFunction(
        "FLOOR", "number: number", "numeric", _to_whole(lambda number: number.floor()),
        "the next whole number below", "FLOOR(-1.5)", "-2",
    ),
    ScalarFunction(
        "CEIL", "number: number", "numeric", _to_whole(lambda number: number.ceil()),
        "the next whole number above", "CEIL(1.2)", "2",
    ),
    ScalarFunction(
        "MOD", "number: number, divisor: number", "numeric", _remainder,
        "the same as `%`", "MOD(-7, 3)", "-1",
    ),
    ScalarFunction(
        "SQRT", "number: number", "number", _in_doubles(lambda number: number.sqrt()),
        "the square root, NULL of negative numbers", "SQRT(9)", "3",
    ),
    ScalarFunction(
        "LN", "number: number", "number", _in_doubles(lambda number: number.log()),
        "the natural logarithm, NULL unless the number is above 0", "LN(1)", "0",
    ),
    ScalarFunction(
        "LOG10", "number: number", "number", _in_doubles(lambda number: number.log10()),
        "the decimal logarithm", "LOG10(1000)", "3",
    ),
    ScalarFunction(
        "EXP", "number: number", "number", _in_doubles(lambda number: number.exp()),
        "e to the power of the number", "EXP(0)", "1",
    ),
    ScalarFunction(
        "POWER", "base: number, exponent: number", "number", _power,
        "one number to the power of another", "POWER(2, 10)", "1024",
    ),
)  # fmt: skip
