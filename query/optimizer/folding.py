"""Computes expressions of constants when a query is compiled.

WHERE bytes > 10 * 1024     ->     WHERE bytes > 10240
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import polars as pl

from query.execution.translation import Translator
from query.model.expression import Constant, Operation
from query.model.limits import INTEGER_MAX, INTEGER_MIN
from query.plan.walk import expressions_of, with_expressions, with_operands

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan

TEXT_CHARACTERS_MAX = 200
"""Upper bound on the characters of a computed text; longer ones are computed by agents, so that plans stay small."""


def fold_constants(plan: Plan) -> Plan:
    """The plan with expressions of constants replaced by their values; all are computed at once."""
    calls: list[Operation] = []
    for expression in expressions_of(plan):
        if _collect(expression, calls):
            assert isinstance(expression, Operation)
            calls.append(expression)
    known = {id(call): literal for call, literal in zip(calls, _evaluated(calls), strict=True) if literal is not None}
    return with_expressions(plan, lambda expression: _replaced(expression, known)) if known else plan


def _collect(expression: Expression, calls: list[Operation]) -> bool:
    """Whether an expression is an operation on constants; else adds the largest such operations in it to `calls`."""
    if not isinstance(expression, Operation):
        return False
    inner = [operand for operand in expression.operands if _collect(operand, calls)]
    if all(isinstance(operand, Constant) or operand in inner for operand in expression.operands):
        return True
    calls.extend(operand for operand in inner if isinstance(operand, Operation))
    return False


def _evaluated(calls: list[Operation]) -> list[Constant | None]:
    """The values of operations on constants; None for a value that a plan cannot hold."""
    if not calls:
        return []
    translator = Translator({})
    values = [translator.bound(call).expression.alias(f"c{number}") for number, call in enumerate(calls)]
    row = translator.prepare(pl.LazyFrame({"row": [0]})).select(values).collect().row(0)
    return [_literal(value, call.type) for value, call in zip(row, calls, strict=True)]


def _literal(value: object, type_: str) -> Constant | None:
    match type_, value:
        case _, None:
            return Constant(None, type_)
        case "boolean", bool():
            return Constant(value, type_)
        case "string", str() if len(value) <= TEXT_CHARACTERS_MAX:
            return Constant(value, type_)
        case "number", float() if isfinite(value):
            return Constant(value, type_)
        case "integer" | "timestamp", int() if INTEGER_MIN <= value <= INTEGER_MAX:
            return Constant(value, type_)
    return None


def _replaced(expression: Expression, known: dict[int, Constant]) -> Expression:
    if id(expression) in known:
        return known[id(expression)]
    if not isinstance(expression, Operation):
        return expression
    return with_operands(expression, [_replaced(operand, known) for operand in expression.operands])
