"""Translates plan expressions to columns of Spark, where these mean the same (docs/semantics.md).

Only operations with an exact equivalent are translated; all others raise NotExactError, and the caller computes the
plan in another way. Spark must not run in ANSI mode: a value that does not fit is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its customary name

from query.model.expression import Constant, Operation, Reference
from query.model.like import java_regex, literal_of
from query.model.limits import INTEGER_MAX, INTEGER_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

    from query.model.expression import Expression

_NUMBERS = frozenset(("integer", "number", "double"))
_COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_OF_INTEGERS: Mapping[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
}
_OF_DOUBLES: Mapping[str, Callable[[Column, Column], Column]] = {"+": add, "-": sub, "*": mul}
_INFINITE = float("inf")
EXACT_MAX = 1 << 53
"""Bound up to which every integer is also a double."""


class NotExactError(Exception):
    """Spark has no exact equivalent of an operation; the message names it."""


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """A column and the kind of its values: integer, double, number, string, boolean or null.

    Values of a `number` are stored as doubles, but some may have been integers of up to 53 bits: only operations that
    are the same for both are allowed. `narrow`: an integer of up to 53 bits.
    """

    column: Column
    kind: str
    narrow: bool = False


class SparkTranslator:
    """Translates expressions over columns given by their names in the plan."""

    def __init__(self, columns: Mapping[str, SparkColumn]) -> None:
        self._columns = columns

    def translate(self, expression: Expression) -> SparkColumn:
        """The column of an expression; raises NotExactError."""
        match expression:
            case Reference(name=name):
                return self._columns[name]
            case Constant(value=value):
                return constant(value)
        return self._call(expression)

    def condition(self, expression: Expression) -> Column:
        """The boolean column of a condition; raises NotExactError."""
        return _as_boolean(self.translate(expression))

    def _call(self, call: Operation) -> SparkColumn:
        operator = call.operator
        if operator == "in":
            return self._in(call)
        if operator == "like" and isinstance(call.operands[1], Constant):
            return _like(self.translate(call.operands[0]), call.operands[1].value)
        operands = [self.translate(operand) for operand in call.operands]
        if operator in _COMPARE:
            return _compare(operator, *operands)
        if operator in _LOGIC:
            return SparkColumn(_LOGIC[operator]([_as_boolean(operand) for operand in operands]), "boolean")
        if operator in _CALLS:
            return _CALLS[operator](operands)
        if operator in _OF_INTEGERS:
            return _ring(operator, *operands)
        raise NotExactError(f"{operator.upper()} has no exact equivalent in Spark")

    def _in(self, call: Operation) -> SparkColumn:
        operand = self.translate(call.operands[0])
        if operand.kind == "null":
            return operand
        tests = [_compare("=", operand, self._item(one, operand.kind)) for one in call.operands[1:]]
        return SparkColumn(reduce(or_, map(_as_boolean, tests)), "boolean")

    def _item(self, item: Expression, kind: str) -> SparkColumn:
        """An item of IN; beside integers, a double becomes the integer that it equals."""
        if kind != "integer" or not isinstance(item, Constant) or not isinstance(item.value, float):
            return self.translate(item)
        whole = item.value.is_integer() and INTEGER_MIN <= item.value <= INTEGER_MAX
        return constant(int(item.value)) if whole else SparkColumn(F.lit(""), "string")


def constant(value: int | float | str | bool | None) -> SparkColumn:
    """A constant of a plan."""
    match value:
        case None:
            return SparkColumn(F.lit(None), "null")
        case bool():
            return SparkColumn(F.lit(value), "boolean")
        case int():
            return SparkColumn(F.lit(value).cast("bigint"), "integer", narrow=abs(value) <= EXACT_MAX)
        case float():
            return SparkColumn(F.lit(value).cast("double"), "double")
        case str():
            return SparkColumn(F.lit(value), "string")


def _as_boolean(value: SparkColumn) -> Column:
    return F.lit(None).cast("boolean") if value.kind == "null" else value.column


def _compare(operator: str, left: SparkColumn, right: SparkColumn) -> SparkColumn:
    if "null" in (left.kind, right.kind):
        return constant(None)
    kinds = {left.kind, right.kind}
    if kinds == {"integer", "number"} and not (left.narrow or right.narrow):
        raise NotExactError("comparing integers with numbers of which some are integers is not exact in doubles")
    if len(kinds) == 1 or kinds <= _NUMBERS:
        return SparkColumn(_COMPARE[operator](left.column, right.column), "boolean")
    both_known = left.column.isNotNull() & right.column.isNotNull()
    return SparkColumn(F.when(both_known, F.lit(operator == "<>")), "boolean")


def _between(operands: Sequence[SparkColumn]) -> SparkColumn:
    operand, low, high = operands
    tests = [_compare(">=", operand, low), _compare("<=", operand, high)]
    return SparkColumn(reduce(and_, map(_as_boolean, tests)), "boolean")


def _is_null(operands: Sequence[SparkColumn]) -> SparkColumn:
    return SparkColumn(operands[0].column.isNull(), "boolean")


def _like(text: SparkColumn, pattern: object) -> SparkColumn:
    if text.kind == "null" or pattern is None:
        return constant(None)
    place, literal = literal_of(str(pattern))
    if place == "within":
        test = text.column.contains(literal)
    elif place == "end":
        test = text.column.endswith(literal)
    elif place == "start":
        test = text.column.startswith(literal)
    elif place == "whole":
        test = text.column == literal
    else:
        test = text.column.rlike(java_regex(str(pattern)))
    return SparkColumn(test, "boolean")


def _case(operands: Sequence[SparkColumn]) -> SparkColumn:
    return _chosen(operands[:-1:2], operands[1::2], operands[-1])


def _switch(operands: Sequence[SparkColumn]) -> SparkColumn:
    tests = [_compare("=", operands[0], value) for value in operands[1:-1:2]]
    return _chosen(tests, operands[2:-1:2], operands[-1])


def _chosen(conditions: Sequence[SparkColumn], results: Sequence[SparkColumn], otherwise: SparkColumn) -> SparkColumn:
    kind = _one_kind([*results, otherwise])
    chosen = otherwise.column
    for condition, result in zip(reversed(conditions), reversed(results), strict=True):
        chosen = F.when(_as_boolean(condition), result.column).otherwise(chosen)
    return SparkColumn(chosen, kind)


def _filter(operands: Sequence[SparkColumn]) -> SparkColumn:
    condition, value = operands
    return value if value.kind == "null" else SparkColumn(F.when(_as_boolean(condition), value.column), value.kind)


def _coalesce(operands: Sequence[SparkColumn]) -> SparkColumn:
    return SparkColumn(F.coalesce(*(operand.column for operand in operands)), _one_kind(operands))


def _one_kind(values: Sequence[SparkColumn]) -> str:
    kinds = {value.kind for value in values} - {"null"}
    if len(kinds) > 1:
        raise NotExactError(f"a value that is one of {' and '.join(sorted(kinds))} has no type of its own in Spark")
    return kinds.pop() if kinds else "null"


def _ring(operator: str, left: SparkColumn, right: SparkColumn) -> SparkColumn:
    kinds = {left.kind, right.kind}
    if "null" in kinds:
        return constant(None)
    if kinds == {"integer"}:
        return SparkColumn(_OF_INTEGERS[operator](left.column, right.column), "integer")
    if "double" in kinds:
        return _finite(_OF_DOUBLES[operator](_double(left), _double(right)))
    raise NotExactError(f"{operator} of numbers of which some are integers is not exact in doubles")


def _quotient(operands: Sequence[SparkColumn]) -> SparkColumn:
    left, right = operands
    if "null" in (left.kind, right.kind):
        return constant(None)
    return _finite(F.when(_double(right) != 0.0, _double(left) / _double(right)))


def _whole_quotient(operands: Sequence[SparkColumn]) -> SparkColumn:
    left, right = _integers("//", operands)
    # The smallest integer divided by -1 overflows.
    negated = F.try_subtract(F.lit(0).cast("bigint"), left.column)
    quotient = F.call_function("div", left.column, right.column)
    return SparkColumn(F.when(right.column == -1, negated).otherwise(quotient), "integer")


def _remainder(operands: Sequence[SparkColumn]) -> SparkColumn:
    left, right = _integers("%", operands)
    return SparkColumn(left.column % right.column, "integer")


def _negated(operands: Sequence[SparkColumn]) -> SparkColumn:
    (operand,) = operands
    if operand.kind == "integer":
        return SparkColumn(F.try_subtract(F.lit(0).cast("bigint"), operand.column), "integer")
    return operand if operand.kind == "null" else SparkColumn(-operand.column, operand.kind)


def _integers(operator: str, operands: Sequence[SparkColumn]) -> Sequence[SparkColumn]:
    if any(operand.kind != "integer" for operand in operands):
        raise NotExactError(f"{operator} of anything but integers has no exact equivalent in Spark")
    return operands


def _double(value: SparkColumn) -> Column:
    return value.column.cast("double") if value.kind == "integer" else value.column


def _finite(value: Column) -> SparkColumn:
    """NULL where floating point gave NaN or infinity."""
    return SparkColumn(F.when(F.abs(value) < F.lit(_INFINITE), value), "double")


_LOGIC: Mapping[str, Callable[[Sequence[Column]], Column]] = {
    "and": lambda operands: reduce(and_, operands),
    "or": lambda operands: reduce(or_, operands),
    "not": lambda operands: ~operands[0],
}
_CALLS: Mapping[str, Callable[[Sequence[SparkColumn]], SparkColumn]] = {
    "between": _between,
    "is_null": _is_null,
    "case": _case,
    "switch": _switch,
    "filter": _filter,
    "COALESCE": _coalesce,
    "IFNULL": _coalesce,
    "/": _quotient,
    "//": _whole_quotient,
    "%": _remainder,
    "MOD": _remainder,
    "negate": _negated,
}
