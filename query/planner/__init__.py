"""The pass after the optimizer: chooses how a plan is executed, on which its results do not depend.

In comes an optimized plan, out the same plan with its execution chosen. What a query states stays as it states it. A
setting that is chosen here is a field of the plan and travels with it, so that every agent executes a job alike.
Imports `query.plan` and what lies below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.planner.keyed_streams import lower_keyed
from query.planner.stream_joins import lower_join

if TYPE_CHECKING:
    from query.plan.plan import Plan

GROUPS_PER_TREE = 1_000_000
"""Groups that a single tree keeps; a query that may keep more is computed by several trees."""
TREES_CHOSEN_MAX = 16
"""Upper bound on trees chosen here. A query may state more."""


def plan_execution(plan: Plan) -> Plan:
    """The plan with each setting of its execution that the query leaves open, and with a join of streams, or KEYED BY,
    as elements."""
    plan = lower_keyed(lower_join(plan))
    return plan if plan.trees_stated else replace(plan, trees=_trees(plan))


def _trees(plan: Plan) -> int:
    """One tree for each GROUPS_PER_TREE groups; one where several are of no use."""
    if not plan.gains_by_trees:
        return 1
    return min(TREES_CHOSEN_MAX, -(-plan.max_groups // GROUPS_PER_TREE))
