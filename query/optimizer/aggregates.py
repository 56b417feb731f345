"""Keeps equal aggregates once, and drops those that nothing shows; COUNT of a constant becomes COUNT(*).

SELECT COUNT(1), COUNT(*), IF(FALSE, MAX(user), 'none')     ->     SELECT COUNT(*), COUNT(*), 'none'
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.functions.aggregates import aggregate_type
from query.model.expression import Constant, Reference, references
from query.plan.plan import Argument, PlanAggregate
from query.plan.walk import shown_expressions, with_references, with_shown

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan


def each_aggregate_once(plan: Plan) -> Plan:
    """The plan with the aggregates and arguments that are needed, numbered anew."""
    if plan.kind == "rows":
        return plan
    shown = {reference.name for expression in shown_expressions(plan) for reference in references(expression)}
    values = {argument.name: argument.expression for argument in plan.arguments}
    arguments: dict[Expression, Argument] = {}
    kept: dict[tuple[object, ...], PlanAggregate] = {}
    names: dict[str, Expression] = {}
    for number, one in enumerate(plan.aggregates):
        # Without keys and aggregates there would be no group.
        is_last = not plan.keys and not kept and number == len(plan.aggregates) - 1
        if one.name not in shown and not is_last:
            continue
        value = None if one.argument is None else values[one.argument]
        if one.function == "count" and isinstance(value, Constant) and value.value is not None:
            value = None
        identity = (one.function, value, one.parameters)
        if identity not in kept:
            argument = None if value is None else arguments.setdefault(value, Argument(f"x{len(arguments)}", value))
            type_ = "integer" if value is None else value.type
            named = None if argument is None else argument.name
            kept[identity] = replace(one, name=f"a{len(kept)}", argument=named, type=type_)
        if kept[identity].name != one.name:
            names[one.name] = Reference(kept[identity].name, aggregate_type(one.function.upper(), one.type))
    plan = replace(plan, arguments=tuple(arguments.values()), aggregates=tuple(kept.values()))
    return with_shown(plan, lambda expression: with_references(expression, names)) if names else plan
