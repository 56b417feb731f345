"""Which columns of a result are measured, and which say what was measured."""

from __future__ import annotations

from query.expression import references
from query.plan import Plan


def measures(plan: Plan) -> tuple[str, ...]:
    """The names of a result's columns that are made of aggregates; of a query without any, all columns."""
    plan = plan.shown
    aggregates = {aggregate.name for aggregate in plan.aggregates}
    if not aggregates:
        return tuple(column.name for column in plan.output)
    return tuple(
        column.name
        for column in plan.output
        if any(reference.name in aggregates for reference in references(column.expression))
    )
