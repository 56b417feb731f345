"""Lowers KEYED BY to a keyed element: a source for the stream, an exchange by the key, and a plan over what it emits.

The graph has the shape that `agent.programs.element_graph` reads. What WHERE says of events is tested at the source.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from query.model.expression import references
from query.plan.walk import conjunction, conjuncts, event_expressions
from query.planner.planned_sources import columns_as_texts, planned_source, type_name

if TYPE_CHECKING:
    from query.model.expression import Expression
    from query.plan.plan import Plan

ELEMENT = "exchange"
"""The name of the element that emits events where they have travelled to, and its kind."""


def lower_keyed(plan: Plan) -> Plan:
    """The plan over the events of a stream that travel by key, with the elements that bring them; other plans as they
    are.
    """
    keyed = plan.keyed
    if keyed is None:
        return plan
    own, rest = _conditions(plan)
    above = replace(plan, where=rest, keyed=None)
    used = {reference.name for one in event_expressions(above) for reference in references(one)}
    used |= set() if plan.join is None else {ours for ours, _ in plan.join.keys}
    type_ = type_name(keyed.events, "events")
    source = planned_source(type_, plan.stream, plan.columns, own, {*used, *keyed.keys}, columns_as_texts(plan.columns))
    output = f"{type_}_by_key"
    emitted = [(column, field) for column, field in source.fields if column.name in used]
    element = {
        "name": ELEMENT,
        "kind": ELEMENT,
        "inputs": [{"type": type_, "key": source.names(keyed.keys)}],
        "output": output,
        "grouping": keyed.grouping,
        "workers": keyed.workers,
    }
    types = [source.event_type, {"name": output, "fields": [list(field) for _, field in emitted]}]
    return replace(
        above,
        stream=output,
        columns=tuple(replace(column, path=(name,)) for column, (name, _) in emitted),
        elements={"sources": [source.source], "types": types, "elements": [element]},
    )


def _conditions(plan: Plan) -> tuple[Expression | None, Expression | None]:
    """Takes WHERE apart: conditions on events alone, and those on joined rows too.

    A window that has no groups has a row for any event, kept or not: there WHERE is tested after events have travelled.
    """
    if plan.kind == "aggregate" and not plan.keys and plan.windowing is not None:
        return None, plan.where
    joined = set() if plan.join is None else {one.name for one in plan.join.columns}
    own: list[Expression] = []
    rest: list[Expression] = []
    for condition in conjuncts(plan.where):
        is_own = joined.isdisjoint(one.name for one in references(condition))
        (own if is_own else rest).append(condition)
    return conjunction(own), conjunction(rest)
