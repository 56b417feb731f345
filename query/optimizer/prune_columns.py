"""Removes columns that no expression reads any more: parsers decode only the columns of the plan.

SELECT COUNT(*) FROM web WHERE status = 200 OR TRUE     ->     reads no column
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import references
from query.plan.walk import event_expressions

if TYPE_CHECKING:
    from query.plan.plan import Plan


def prune_columns(plan: Plan) -> Plan:
    """The plan with the columns of events that its expressions, its JOIN, or its KEYED BY, read."""
    used = {reference.name for expression in event_expressions(plan) for reference in references(expression)}
    join = plan.join
    if join is not None:
        used |= {name for pair in join.keys for name in pair}
        join = replace(join, columns=tuple(column for column in join.columns if column.name in used))
    used |= set() if plan.keyed is None else set(plan.keyed.keys)
    kept = [place for place, column in enumerate(plan.columns) if column.name in used]
    branches = tuple(
        replace(branch, outputs=tuple(branch.outputs[place] for place in kept)) for branch in plan.branches
    )
    return replace(plan, columns=tuple(plan.columns[place] for place in kept), join=join, branches=branches)
