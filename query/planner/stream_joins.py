"""Lowers a join of two streams to keyed elements: a source for each side, an element that joins them, and a plan over
the pairs.

The graph has the shape that `agent.programs.element_graph` reads. What WHERE says of one side alone goes to its source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import Constant, references
from query.optimizer.folding import fold_constants
from query.plan.walk import conjunction, conjuncts, event_expressions, with_references
from query.planner.planned_sources import columns_as_texts, planned_source, type_name

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan, PlanJoin

ELEMENT = "join"
"""The name of the element that joins."""


def lower_join(plan: Plan) -> Plan:
    """The plan over the pairs of two joined streams, with the elements that make them; other plans as they are."""
    join = plan.join
    if join is None or join.stream is None:
        return plan
    ours, theirs, rest, outer = _conditions(plan, join)
    above = replace(plan, where=rest, join=None)
    used = {reference.name for one in event_expressions(above) for reference in references(one)}
    texts = _as_texts(plan, join)
    type_ = type_name(join.events, "left")
    other = type_name(join.alias, "right")
    other = f"{other}_2" if other == type_ else other
    prefix = f"{other}_"
    left_keys, right_keys = zip(*join.keys, strict=True)
    right = planned_source(other, join.stream, join.columns, theirs, {*used, *right_keys}, texts)
    left = planned_source(type_, plan.stream, plan.columns, ours, {*used, *left_keys}, texts, prefix=prefix)
    keys = (left.names(left_keys), right.names(right_keys))
    output = f"{type_}_join_{other}"
    joined = [(column, field) for column, field in left.fields]
    joined += [(column, (f"{prefix}{name}", kind)) for column, (name, kind) in right.fields]
    element = {
        "name": ELEMENT,
        "kind": "join",
        "inputs": [{"type": side.type, "key": key} for side, key in zip((left, right), keys, strict=True)],
        "output": output,
        "options": {
            "left": left.type,
            "right": right.type,
            "on": [list(pair) for pair in zip(*keys, strict=True)],
            "within_ms": join.within_ms,
            "mode": "all",
            "outer": outer,
            "prefix": prefix,
        },
    }
    types = [left.event_type, right.event_type, {"name": output, "fields": [list(field) for _, field in joined]}]
    return replace(
        above,
        stream=output,
        columns=tuple(replace(column, path=(name,)) for column, (name, _) in joined if column.name in used),
        elements={"sources": [left.source, right.source], "types": types, "elements": [element]},
    )


def _as_texts(plan: Plan, join: PlanJoin) -> set[str]:
    """The columns whose values travel as canonical JSON, also those that are compared with another type's."""
    columns = (*plan.columns, *join.columns)
    types = {column.name: column.type for column in columns}
    return columns_as_texts(columns) | {name for pair in join.keys if types[pair[0]] != types[pair[1]] for name in pair}


def _conditions(plan: Plan, join: PlanJoin) -> tuple[Expression | None, Expression | None, Expression | None, bool]:
    """Takes WHERE apart: conditions on the left side alone, on the right side alone, and on both, and whether events
    without a match are kept.

    A condition on the right side that NULL does not meet drops what LEFT would add: then the join is an inner one, and
    the condition can be tested before it.
    """
    ours, theirs = {one.name for one in plan.columns}, {one.name for one in join.columns}
    left: list[Expression] = []
    right: list[Expression] = []
    rest: list[Expression] = []
    for condition in conjuncts(plan.where):
        names = {one.name for one in references(condition)}
        side = left if names and names <= ours else right if names and names <= theirs else rest
        side.append(condition)
    outer = join.outer and not any(_rejects_null(plan, one) for one in right)
    if outer:
        right, rest = [], [*right, *rest]
    return conjunction(left), conjunction(right), conjunction(rest), outer


def _rejects_null(plan: Plan, condition: Expression) -> bool:
    """Whether a condition is not TRUE where all of its columns are NULL."""
    nulls = {one.name: Constant(None, one.type) for one in references(condition)}
    alone = replace(
        plan,
        where=with_references(condition, nulls),
        keys=(),
        arguments=(),
        aggregates=(),
        output=(),
        order=(),
        having=None,
    )
    where = fold_constants(alone).where
    return isinstance(where, Constant) and where.value is not True
