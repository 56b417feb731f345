"""Translates plan expressions to Polars expressions with SQL's meaning (docs/semantics.md), for columns of known
dtypes.

The same plan expression compiles differently for an integer and for a float column, so a translation is made
for the physical dtypes of one frame. Timestamps are computed with as Int64 epoch milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from operator import and_, or_
from typing import TYPE_CHECKING

import polars as pl

from query.functions import FUNCTIONS
from query.functions.function import bounded_text, in_one_kind
from query.functions.texts import cast
from query.model.expression import Constant, Expression, Operation, Reference
from query.model.like import matches
from query.model.limits import INTEGER_MAX, INTEGER_MIN
from query.model.types import CASTS, COMPARISONS, VALUES
from query.physical.arithmetic import calculate
from query.physical.values import DTYPES, NULL, NUMBERS, Value, constant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

# Up to this many constants a chain of comparisons is faster than Polars' is_in.
_CHAIN_MAX = 8
# Conditions of a CASE that may be inside another expression.
_BRANCHES_INSIDE = 4
_COMPARE: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": pl.Expr.eq,
    "<>": pl.Expr.ne,
    "<": pl.Expr.lt,
    "<=": pl.Expr.le,
    ">": pl.Expr.gt,
    ">=": pl.Expr.ge,
}


class Translator:
    """Translates expressions over columns given by their names in the plan.

    A value that an expression needs more than once becomes an intermediate column, and so does each `shared` operation;
    `prepare` adds these columns to a frame before translated expressions are evaluated on it.
    """

    def __init__(self, columns: Mapping[str, Value], shared: Collection[Operation] = ()) -> None:
        self._columns = columns
        self._rounds: list[list[pl.Expr]] = []
        self._names = (name for name in map("@{}".format, count()) if name not in columns)
        self._shared = shared
        self._known: dict[Operation, Value] = {}

    def continued(self) -> Translator:
        """A translator for the frame that this one has prepared, whose columns are the operations shared so far."""
        following = Translator(self._columns, self._shared)
        following._names = self._names
        following._known = {call: replace(value, level=0) for call, value in self._known.items()}
        return following

    def prepare(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """The frame with the intermediate columns of everything translated so far."""
        for columns in self._rounds:
            frame = frame.with_columns(columns)
        return frame

    def translate(self, expression: Expression) -> Value:
        """The physical value of a plan expression."""
        match expression:
            case Reference(name=name):
                return self._columns[name]
            case Constant(value=value):
                return constant(value)
        if not self._shared or expression not in self._shared:
            return self._translated(expression)
        if expression not in self._known:
            self._known[expression] = self.bind(self._translated(expression))
        return self._known[expression]

    def _translated(self, call: Operation) -> Value:
        match call:
            case Operation(operator="in"):
                return self._in(call)
            case Operation(operator="filter", operands=(condition, filtered)):
                return _where(self.translate(condition), self.translate(filtered))
            case Operation(operator="like" | "ilike" | "rlike" as operator, operands=(text, Constant(value=pattern))):
                return _like(operator, self.translate(text), pattern)
        operands = [self.translate(operand) for operand in call.operands]
        value = self.call(call, operands)
        return replace(value, constant=value.constant or all(operand.constant for operand in operands))

    def call(self, call: Operation, operands: Sequence[Value]) -> Value:
        """The value of an operation on these values of its operands."""
        operator = call.operator
        if operator in FUNCTIONS:
            return FUNCTIONS[operator].call(operands, call.operands, self.bind)
        if operator in CASTS:
            return cast(operator, operands[0], call.operands[0].type, self.bind)
        if operator == "case":
            return self._case(operands[:-1:2], operands[1::2], operands[-1])
        if operator == "switch":
            subject = self.bind(operands[0])
            tests = [_compare("=", subject, value) for value in operands[1:-1:2]]
            return self._case(tests, operands[2:-1:2], operands[-1])
        if operator == "between":
            operand = self.bind(operands[0])
            return _balanced(and_, [_compare(">=", operand, operands[1]), _compare("<=", operand, operands[2])])
        if operator == "||":
            return self._joined(operands)
        if operator == VALUES:
            return _values(operands)
        if operator == "and":
            return _balanced(and_, operands)
        if operator == "or":
            return _balanced(or_, operands)
        if operator == "not":
            return Value(~operands[0].as_boolean(), "boolean", level=operands[0].level)
        if operator == "is_null":
            return _is_null(operands[0])
        if operator in COMPARISONS:
            return _compare(operator, operands[0], operands[1])
        return calculate(operator, operands, self.bind)

    def _case(self, conditions: Sequence[Value], results: Sequence[Value], otherwise: Value) -> Value:
        """The result of the first condition that is true, or the default."""
        (chosen, *expressions), kind = in_one_kind([otherwise, *results])
        if kind == "null":
            return NULL
        for condition, expression in zip(reversed(conditions), reversed(expressions), strict=True):
            chosen = pl.when(condition.as_boolean()).then(expression).otherwise(chosen)
        value = Value(chosen, kind, level=max(part.level for part in (*conditions, *results, otherwise)))
        # Polars recurses over expressions: a long one ends here.
        return self.bind(value) if len(conditions) > _BRANCHES_INSIDE else value

    def _joined(self, operands: Sequence[Value]) -> Value:
        if any(operand.kind == "null" for operand in operands):
            return NULL
        texts = [self.bind(operand) for operand in operands]
        size = pl.sum_horizontal(text.expression.str.len_bytes() for text in texts)
        joined = bounded_text(pl.concat_str([text.expression for text in texts]), size)
        return Value(joined, "string", level=max(text.level for text in texts))

    def bound(self, expression: Expression) -> Value:
        """The physical value of a plan expression, in a form that may be used several times."""
        return self.bind(self.translate(expression))

    def bind(self, value: Value) -> Value:
        """The value in a form that may be used several times: an intermediate column, unless it is simple."""
        if value.simple:
            return value
        name = next(self._names)
        while len(self._rounds) <= value.level:
            self._rounds.append([])
        self._rounds[value.level].append(value.expression.alias(name))
        return replace(value, expression=pl.col(name), level=value.level + 1, simple=True)

    def _in(self, call: Operation) -> Value:
        operand = self.bound(call.operands[0])
        if operand.kind == "null":
            return NULL
        constants = [item for item in call.operands[1:] if isinstance(item, Constant)]
        others = [self.translate(item) for item in call.operands[1:] if not isinstance(item, Constant)]
        tests = [_compare("=", operand, other) for other in others]
        if known := [item.value for item in constants if item.value is not None]:
            tests.append(_in_constants(operand, known))
        if len(known) < len(constants):
            tests.append(NULL)
        return _balanced(or_, tests)


def _like(operator: str, text: Value, pattern: object) -> Value:
    if text.kind == "null" or pattern is None:
        return NULL
    if operator == "rlike":
        return Value(text.expression.str.contains(str(pattern)), "boolean", level=text.level)
    test = matches(text.expression, str(pattern), any_case=operator == "ilike")
    return Value(test, "boolean", level=text.level)


def _values(operands: Sequence[Value]) -> Value:
    """Several values as one text; whole numbers beyond 64 bits are rounded, and NaN is NULL."""
    named = [
        operand.expression.cast(pl.Float64) if operand.kind == "wide" else operand.expression for operand in operands
    ]
    columns = (one.alias(str(number)) for number, one in enumerate(named))
    return Value(pl.struct(*columns).struct.json_encode(), "string", level=max(one.level for one in operands))


def _where(condition: Value, value: Value) -> Value:
    """The value where the condition is TRUE, NULL elsewhere."""
    if value.kind == "null":
        return NULL
    kept = pl.when(condition.as_boolean()).then(value.expression)
    return Value(kept, value.kind, value.low, value.high, max(condition.level, value.level))


def _in_constants(operand: Value, constants: Sequence[int | float | str | bool]) -> Value:
    """Membership in the values of the operand's own physical kind; it never equals values of another kind."""
    fitting: list[int | float | str | bool]
    if operand.kind in ("integer", "wide"):
        whole = [int(value) for value in constants if value == int(value)]
        fitting = [value for value in whole if INTEGER_MIN <= value <= INTEGER_MAX]
    elif operand.kind == "double":
        fitting = [float(value) for value in constants]
    else:
        fitting = list(constants)
    if 0 < len(fitting) <= _CHAIN_MAX:
        return _balanced(or_, [_compare("=", operand, constant(value)) for value in fitting])
    values = pl.Series(fitting, dtype=DTYPES[operand.kind])
    return Value(operand.expression.is_in(values.implode()), "boolean", level=operand.level)


def _balanced(operator: Callable[[pl.Expr, pl.Expr], pl.Expr], operands: Sequence[Value]) -> Value:
    """A chain as a balanced tree: Polars recurses over expressions, and a chain may be thousands long."""
    links = [operand.as_boolean() for operand in operands]
    while len(links) > 1:
        pairs = [operator(*pair) for pair in zip(links[::2], links[1::2], strict=False)]
        links = pairs + links[len(pairs) * 2 :]
    return Value(links[0], "boolean", level=max(operand.level for operand in operands))


def _is_null(operand: Value) -> Value:
    expression = pl.lit(True) if operand.kind == "null" else operand.expression.is_null()
    return Value(expression, "boolean", level=operand.level)


def _compare(operator: str, left: Value, right: Value) -> Value:
    if "null" in (left.kind, right.kind):
        return NULL
    level = max(left.level, right.level)
    if left.kind == right.kind or {left.kind, right.kind} <= NUMBERS:
        return Value(_COMPARE[operator](left.expression, right.expression), "boolean", level=level)
    # Values of different kinds are never equal and have no order, but a comparison with NULL is still unknown.
    both_known = left.expression.is_not_null() & right.expression.is_not_null()
    return Value(pl.when(both_known).then(pl.lit(operator == "<>")), "boolean", level=level)
