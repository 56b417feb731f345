"""Tells where aggregates nest, so that an operator can merge states of the one before it, not its rows (Figure 5.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from query.model.expression import Reference, references
from query.model.types import WINDOW_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    >>> from query import Schema, analyze, parse
    >>> text = "SELECT {}(n) FROM (SELECT host, COUNT(*) AS n FROM web GROUP BY host)"
    >>> plans = [analyze(parse(text.format(one)), {"web": Schema({}, open=True)}) for one in ("SUM", "AVG")]
    >>> [takes_states(plan.outer, plan) for plan in plans]
    [True, False]
    """
    return _nested_aggregates(plan, below) is not None


MAY_NEST = NESTS | {"sum": ("count", "sum")}
"""NESTS with those of which only values tell: sums that are whole numbers, none of them too large, are not
rounded."""
STORED_AS_SHOWN = frozenset(("any", "string", "integer", "boolean"))
"""The types of keys that a reader of their rows may store as they are stored; of type any, only strings are."""


@dataclass(frozen=True, slots=True)
class NestedPlans:
    """The way from states of a plan to those of one over its rows. `aggregates`: those of the reader, each with the one
    of which it is the merged state. `keys`: the reader's plan with its keys alone; `rows`: the other one with those
    columns alone of which these are made. `same_keys`: of each of the reader's keys the one that it is, where all are
    some, in their order, and none is left out.
    """

    aggregates: dict[str, str]
    keys: Plan
    rows: Plan
    same_keys: tuple[str, ...] | None


def nested_plans(plan: Plan, below: Plan) -> NestedPlans | None:
    """The way from states of windows of a plan to those of one that reads their rows, not those of a query over them;
    None where the rows are needed. The states may still tell, window by window, that they are: where a number is shown
    otherwise than it is.

    >>> from query import Schema, analyze, parse
    >>> counts = analyze(parse("SELECT host, COUNT(*) AS n FROM web GROUP BY host"), {"web": Schema({}, open=True)})
    >>> text = "SELECT host, SUM(n) FROM app('counts') GROUP BY host WINDOWING 1 MINUTE"
    >>> nested = nested_plans(analyze(parse(text), {}), counts)
    >>> nested.aggregates, nested.same_keys
    ({'a0': 'a0'}, ('k0',))
    """
    aggregates = _nested_aggregates(plan, below, MAY_NEST)
    if aggregates is None or plan.join is not None or plan.branches or not below.keys:
        return None
    read = {one.name for key in plan.keys for one in references(key.expression)}
    columns = tuple(one for one in plan.columns if one.name in read)
    named = {".".join(one.path) for one in columns}
    output = tuple(one for one in below.output if one.name in named)
    made_of = {one.name for shown in output for one in references(shown.expression)}
    if not made_of <= {key.name for key in below.keys} or not named.isdisjoint(WINDOW_BOUNDS):
        return None
    keys = replace(plan, columns=columns, arguments=(), aggregates=(), output=(), order=(), having=None, outer=None)
    rows = replace(below, output=output, order=())
    return NestedPlans(aggregates, keys, rows, _same_keys(plan, below))


def _same_keys(plan: Plan, below: Plan) -> tuple[str, ...] | None:
    """The keys of a plan, as far as they are those of the plan whose rows it reads, in their order."""
    shown = {one.name: one.expression for one in below.output}
    columns = {one.name: shown.get(".".join(one.path)) for one in plan.columns}
    types = {one.name: one.type for one in below.keys}
    found = []
    for key in plan.keys:
        column = columns.get(key.expression.name) if isinstance(key.expression, Reference) else None
        if not isinstance(column, Reference) or types.get(column.name) != key.type or key.type not in STORED_AS_SHOWN:
            return None
        found.append(column.name)
    return tuple(found) if found == list(types) else None


def _nested_aggregates(plan: Plan, below: Plan, nests: Mapping[str, tuple[str, ...]] = NESTS) -> dict[str, str] | None:
    """The aggregates of a plan over the rows of another one, each with that one's aggregate of which it is the merged
    state, by their names; None where some are none.

    Not where rows are left out between them: WHERE, HAVING and LIMIT read values, which states are not yet.
    """
    if "rows" in (plan.kind, below.kind) or not plan.aggregates:
        return None
    if plan.where is not None or below.having is not None or below.limit is not None:
        return None
    shown = {one.name: one.expression for one in below.output}
    columns = {one.name: shown.get(".".join(one.path)) for one in plan.columns}
    functions = {one.name: one.function for one in below.aggregates}

    def aggregate_of(expression: Expression) -> str:
        """The aggregate that an expression over the rows is the value of, "" for none."""
        column = columns.get(expression.name) if isinstance(expression, Reference) else None
        return column.name if isinstance(column, Reference) and column.name in functions else ""

    arguments = {one.name: aggregate_of(one.expression) for one in plan.arguments}
    found = {one.name: arguments.get(one.argument or "", "") for one in plan.aggregates}
    merged = all(functions.get(found[one.name]) in nests.get(one.function, ()) for one in plan.aggregates)
    computed = [columns.get(one.name) for key in plan.keys for one in references(key.expression)]
    made = {reference.name for one in computed if one is not None for reference in references(one)}
    return found if merged and None not in computed and made.isdisjoint(functions) else None
