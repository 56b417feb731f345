"""Moves HAVING's conditions on keys to WHERE, which agents test: groups that are not shown are not made.

GROUP BY status HAVING status >= 500 AND COUNT(*) > 9     ->     WHERE status >= 500 ... HAVING COUNT(*) > 9
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import references
from query.plan.walk import conjunction, conjuncts, with_references

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan

_THE_SAME_IN_EVENTS = frozenset(("string", "integer", "boolean", "timestamp"))
# A number may be an integer in an event and a double in a group it falls into.


def pushdown_having(plan: Plan) -> Plan:
    """The plan with HAVING's conditions on keys alone in WHERE."""
    keys = {key.name: key.expression for key in plan.keys if key.type in _THE_SAME_IN_EVENTS}
    of_keys: list[Expression] = []
    others: list[Expression] = []
    for condition in conjuncts(plan.having):
        names = {reference.name for reference in references(condition)}
        (of_keys if names and names <= keys.keys() else others).append(condition)
    if not of_keys:
        return plan
    moved = [with_references(condition, keys) for condition in of_keys]
    return replace(plan, where=conjunction([*conjuncts(plan.where), *moved]), having=conjunction(others))
