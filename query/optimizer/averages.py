"""AVG of integers beside their SUM or COUNT: saves one state in each group, also on its way up.

    SELECT SUM(n), AVG(n)     ->     SELECT SUM(n), SUM(n) / COUNT(n)

Averages of doubles stay: a sum of doubles may overflow where AVG does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import Operation, Reference
from query.plan.plan import PlanAggregate
from query.plan.walk import with_references, with_shown

if TYPE_CHECKING:
    from query.plan.plan import Plan


def averages_of_sums(plan: Plan) -> Plan:
    """The plan with SUM and COUNT in place of such averages; either may then occur twice."""
    parts = {one.argument for one in plan.aggregates if one.function in ("sum", "count") and one.type == "integer"}
    aggregates = list(plan.aggregates)
    ratios: dict[str, Operation] = {}
    for one in plan.aggregates:
        if one.function == "avg" and one.type == "integer" and one.argument in parts:
            total, count = (_added(aggregates, one, function) for function in ("sum", "count"))
            ratios[one.name] = Operation("/", (total, count), "number")
    if not ratios:
        return plan
    plan = replace(plan, aggregates=tuple(aggregates))
    return with_shown(plan, lambda expression: with_references(expression, ratios))


def _added(aggregates: list[PlanAggregate], average: PlanAggregate, function: str) -> Reference:
    found = next((one for one in aggregates if (one.function, one.argument) == (function, average.argument)), None)
    if found is None:
        found = PlanAggregate(f"a{len(aggregates)}", function, average.argument, "integer")
        aggregates.append(found)
    return Reference(found.name, "integer")
