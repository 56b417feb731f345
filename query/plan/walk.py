"""Walks the expressions of a plan, changes them, and takes conditions apart, for the rules of the optimizer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.functions import ConstantError
from query.model.expression import Operation, Reference
from query.model.types import TypeMismatchError
from query.plan.operations import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from query.model.expression import Expression
    from query.plan.plan import Plan


def event_expressions(plan: Plan) -> Iterator[Expression]:
    """The expressions that are evaluated on events."""
    if plan.where is not None:
        yield plan.where
    yield from (key.expression for key in plan.keys)
    yield from (argument.expression for argument in plan.arguments)
    if plan.kind == "rows":
        yield from shown_expressions(plan)


def shown_expressions(plan: Plan) -> Iterator[Expression]:
    """The expressions that are evaluated on groups, or on the rows that are shown."""
    yield from (output.expression for output in plan.output)
    yield from (key.expression for key in plan.order)
    if plan.having is not None:
        yield plan.having


def expressions_of(plan: Plan) -> Iterator[Expression]:
    """All of a plan's expressions."""
    yield from event_expressions(plan)
    if plan.kind == "aggregate":
        yield from shown_expressions(plan)


def with_expressions(plan: Plan, change: Callable[[Expression], Expression]) -> Plan:
    """The plan with each of its expressions changed; types stay."""
    return with_shown(
        replace(
            plan,
            where=None if plan.where is None else change(plan.where),
            keys=tuple(replace(key, expression=change(key.expression)) for key in plan.keys),
            arguments=tuple(replace(one, expression=change(one.expression)) for one in plan.arguments),
        ),
        change,
    )


def with_shown(plan: Plan, change: Callable[[Expression], Expression]) -> Plan:
    """The plan with the expressions over groups, or over the rows that are shown, changed."""
    return replace(
        plan,
        output=tuple(replace(one, expression=change(one.expression)) for one in plan.output),
        order=tuple(replace(key, expression=change(key.expression)) for key in plan.order),
        having=None if plan.having is None else change(plan.having),
    )


def with_operands(call: Operation, operands: Sequence[Expression]) -> Operation:
    """The operation on these operands; unchanged if it cannot take them."""
    if all(one is other for one, other in zip(call.operands, operands, strict=True)):
        return call
    try:
        changed = operation(call.operator, operands)
    except (ConstantError, TypeMismatchError):
        return call
    return changed if changed.type == call.type else call


def bottom_up(expression: Expression, change: Callable[[Operation], Expression]) -> Expression:
    """The expression with every call changed, operands first."""
    if not isinstance(expression, Operation):
        return expression
    return change(with_operands(expression, [bottom_up(operand, change) for operand in expression.operands]))


def conjuncts(condition: Expression | None) -> tuple[Expression, ...]:
    """The conditions that must all be TRUE for the condition to be TRUE."""
    if condition is None:
        return ()
    return condition.operands if isinstance(condition, Operation) and condition.operator == "and" else (condition,)


def conjunction(conditions: Sequence[Expression]) -> Expression | None:
    """A condition that is TRUE where all of these are; None for no conditions."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Operation("and", tuple(conditions), "boolean")


def with_references(expression: Expression, meanings: Mapping[str, Expression]) -> Expression:
    """The expression with names replaced by the expressions they stand for."""
    if isinstance(expression, Reference):
        return meanings.get(expression.name, expression)
    if not isinstance(expression, Operation):
        return expression
    operands = tuple(with_references(operand, meanings) for operand in expression.operands)
    return replace(expression, operands=operands)
