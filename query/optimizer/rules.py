"""Applies the rewrite rules in their order, and records which of them changed a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from query.model.limits import DEPTH_MAX, NODES_MAX, OPERANDS_MAX
from query.optimizer.aggregates import each_aggregate_once
from query.optimizer.averages import averages_of_sums
from query.optimizer.folding import fold_constants
from query.optimizer.hoist_filters import hoist_filters
from query.optimizer.logic import simplify
from query.optimizer.order_predicates import order_predicates
from query.optimizer.prune_columns import prune_columns
from query.optimizer.pushdown_having import pushdown_having
from query.plan.walk import expressions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from query.model.expression import Expression
    from query.plan.plan import Plan

_PASSES_MAX = 4


@dataclass(frozen=True, slots=True)
class Rule:
    """A function from a plan to an equivalent one; `description` is EXPLAIN's text if it changed something."""

    name: str
    description: str
    apply: Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A rewritten plan and the rules that changed it."""

    plan: Plan
    fired: tuple[Rule, ...]


RULES = (
    Rule("fold_constants", "what is made of constants is computed once, here", fold_constants),
    Rule("simplify", "conditions whose outcome is known are left out", simplify),
    Rule("hoist_filters", "the FILTER of all aggregates is tested as WHERE", hoist_filters),
    Rule("pushdown_having", "HAVING's conditions on keys are tested in the agents, before grouping", pushdown_having),
    Rule("averages", "AVG is made of a SUM and a COUNT that are there anyway", averages_of_sums),
    Rule("each_aggregate_once", "aggregates that are equal, or not needed, are left out", each_aggregate_once),
    Rule("order_predicates", "cheap conditions are tested before costly ones", order_predicates),
    Rule("prune_columns", "columns that no rule left a use for are not read", prune_columns),
)
"""The rules in the order in which they are tried, again until none changes the plan."""


def rewrite(plan: Plan, rules: Sequence[Rule] = RULES) -> Rewriting:
    """The plan after all rules, which gives the same results. Linear in the plan's size for each pass.

    A change is not made if its plan would exceed the limits of plans on the wire.
    """
    fired: dict[str, Rule] = {}
    for _ in range(_PASSES_MAX):
        before = plan
        for rule in rules:
            changed = rule.apply(plan)
            if changed != plan and _fits(changed):
                plan, fired[rule.name] = changed, rule
        if plan is before:
            break
    return Rewriting(plan, tuple(rule for rule in rules if rule.name in fired))


def _fits(plan: Plan) -> bool:
    nodes = 0
    pending: list[tuple[Expression, int]] = [(expression, 1) for expression in expressions_of(plan)]
    while pending:
        expression, depth = pending.pop()
        operands = getattr(expression, "operands", ())
        nodes += 1
        if nodes > NODES_MAX or depth > 2 * DEPTH_MAX or len(operands) > OPERANDS_MAX:
            return False
        pending.extend((operand, depth + 1) for operand in operands)
    return True
