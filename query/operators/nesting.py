"""Tells where aggregates nest, so that an operator can merge states of the one before it, not its rows (Figure 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.model.expression import Reference, references

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan

NESTS = {
    "sum": ("count",),
    "min": ("min", "any_value"),
    "any_value": ("min", "any_value"),
    "max": ("max",),
    "bool_and": ("bool_and", "every"),
    "every": ("bool_and", "every"),
    "bool_or": ("bool_or",),
}
"""Aggregate → those of which it is the merged state, to the last bit. Not SUM of SUM: each row's sum is rounded, or is
too large, by itself."""


def takes_states(plan: Plan, below: Plan) -> bool:
    """Whether the aggregates of a plan over the rows of another one are merged states of that one's aggregates.

    Not where rows are left out between them: WHERE, HAVING and LIMIT read values, which states are not yet.

    >>> from query import Schema, analyze, parse
    >>> text = "SELECT {}(n) FROM (SELECT host, COUNT(*) AS n FROM web GROUP BY host)"
    >>> plans = [analyze(parse(text.format(one)), {"web": Schema({}, open=True)}) for one in ("SUM", "AVG")]
    >>> [takes_states(plan.outer, plan) for plan in plans]
    [True, False]
    """
    if "rows" in (plan.kind, below.kind) or not plan.aggregates:
        return False
    if plan.where is not None or below.having is not None or below.limit is not None:
        return False
    shown = {one.name: one.expression for one in below.output}
    columns = {one.name: shown.get(".".join(one.path)) for one in plan.columns}
    functions = {one.name: one.function for one in below.aggregates}

    def function_of(expression: Expression | None) -> str | None:
        """The aggregate that an expression over the rows is the value of."""
        column = columns.get(expression.name) if isinstance(expression, Reference) else None
        return functions.get(column.name) if isinstance(column, Reference) else None

    arguments = {one.name: function_of(one.expression) for one in plan.arguments}
    merged = all(
        one.argument is not None and arguments[one.argument] in NESTS.get(one.function, ()) for one in plan.aggregates
    )
    computed = [columns.get(one.name) for key in plan.keys for one in references(key.expression)]
    made = {reference.name for one in computed if one is not None for reference in references(one)}
    return merged and None not in computed and made.isdisjoint(functions)
