"""Moves conditions that the FILTER of every aggregate has to WHERE: events that count nowhere are dropped at once.

    SELECT COUNT(*) FILTER (WHERE b), SUM(n) FILTER (WHERE b)     ->     SELECT COUNT(*), SUM(n) ... WHERE b

The rule applies only to queries without groups: with GROUP BY, a group whose events are all dropped would have no row.
It does not apply to sessions, which any event continues, counted or not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import Operation
from query.plan.walk import conjunction, conjuncts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from query.model.expression import Expression
    from query.plan.plan import Plan


def hoist_filters(plan: Plan) -> Plan:
    """The plan with the conditions of all FILTERs in WHERE."""
    if plan.windowing is not None and plan.windowing.session is not None:
        return plan
    filters = [_conditions(argument.expression) for argument in plan.arguments]
    if plan.keys or not filters or any(one.argument is None for one in plan.aggregates):
        return plan
    shared = [condition for condition in filters[0] if all(condition in others for others in filters[1:])]
    if not shared:
        return plan
    arguments = tuple(replace(one, expression=_without(one.expression, shared)) for one in plan.arguments)
    types = {one.name: one.type for one in arguments}
    aggregates = tuple(replace(one, type=types[one.argument]) for one in plan.aggregates if one.argument is not None)
    where = conjunction([*conjuncts(plan.where), *shared])
    return replace(plan, where=where, arguments=arguments, aggregates=aggregates)


def _conditions(argument: Expression) -> tuple[Expression, ...]:
    return conjuncts(argument.operands[0]) if isinstance(argument, Operation) and argument.operator == "filter" else ()


def _without(argument: Expression, shared: Sequence[Expression]) -> Expression:
    assert isinstance(argument, Operation)
    condition, value = argument.operands
    left = conjunction([one for one in conjuncts(condition) if one not in shared])
    return value if left is None else replace(argument, operands=(left, value))
