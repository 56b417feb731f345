"""Simplifies conditions whose outcome is known, in SQL's logic of TRUE, FALSE and NULL.

WHERE (status = 200 AND TRUE) OR FALSE     ->     WHERE status = 200
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import Constant, Operation
from query.model.limits import OPERANDS_MAX
from query.plan.walk import bottom_up, with_expressions, with_operands

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan

_OF_ONE_KIND = frozenset(("string", "boolean", "timestamp"))
# The remaining branch of a choice among integers and doubles could have another physical type.


def simplify(plan: Plan) -> Plan:
    """The plan without conditions and branches that decide nothing."""
    plan = with_expressions(plan, lambda expression: bottom_up(expression, _simpler))
    if _is(plan.where, True):
        plan = replace(plan, where=None)
    return replace(plan, having=None) if _is(plan.having, True) else plan


def _simpler(call: Operation) -> Expression:
    match call:
        case Operation(operator="and" | "or"):
            return _logical(call)
        case Operation(operator="not", operands=(Operation(operator="not", operands=(operand,)),)):
            return operand
        case Operation(operator="filter", operands=(Constant(value=True), value)):
            return value
        case Operation(operator="filter", operands=(Constant(), _)):
            return Constant(None, call.type)
        case Operation(operator="IF", operands=(Constant(value=chosen), yes, no)) if call.type in _OF_ONE_KIND:
            return yes if chosen else no
        case Operation(operator="case") if call.type in _OF_ONE_KIND:
            return _case(call)
        case Operation(operator="COALESCE" | "IFNULL") if call.type in _OF_ONE_KIND:
            return _first_known(call)
    return call


def _logical(call: Operation) -> Expression:
    decisive = call.operator == "or"
    flat: list[Expression] = []
    for operand in call.operands:
        nested = isinstance(operand, Operation) and operand.operator == call.operator
        flat += operand.operands if nested and isinstance(operand, Operation) else [operand]
    if any(_is(operand, decisive) for operand in flat):
        return Constant(decisive, "boolean")
    left = [operand for operand in dict.fromkeys(flat) if not _is(operand, not decisive)]
    if len(left) < 2:
        return left[0] if left else Constant(not decisive, "boolean")
    if len(left) > OPERANDS_MAX or left == list(call.operands):
        return call
    return Operation(call.operator, tuple(left), call.type)


def _case(call: Operation) -> Expression:
    *pairs, otherwise = call.operands
    left: list[Expression] = []
    for condition, result in zip(pairs[::2], pairs[1::2], strict=True):
        if _is(condition, True):
            otherwise = result
            break
        if not isinstance(condition, Constant):
            left += [condition, result]
    if not left:
        return otherwise
    return Operation(call.operator, (*left, otherwise), call.type) if len(left) < len(pairs) else call


def _first_known(call: Operation) -> Expression:
    left: list[Expression] = []
    for operand in call.operands:
        if not _is(operand, None):
            left.append(operand)
        if isinstance(operand, Constant) and operand.value is not None:
            break
    if len(left) < 2:
        return left[0] if left else Constant(None, call.type)
    return with_operands(replace(call, operands=tuple(left)), left) if len(left) < len(call.operands) else call


def _is(expression: Expression | None, value: bool | None) -> bool:
    return isinstance(expression, Constant) and expression.value is value
