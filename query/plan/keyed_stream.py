"""Reads KEYED BY back from the elements of a plan, to compute the plan without any event travelling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from query.model.expression import Reference, references
from query.plan.plan import Plan, PlanBranch, PlanColumn
from query.plan.walk import conjunction, conjuncts
from query.plan.wire import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class KeyedStream:
    """A stream whose events travel by key: the plan of its source, and which of its columns each field is."""

    source: Plan
    fields: Mapping[str, PlanColumn]


def keyed_stream(plan: Plan) -> KeyedStream | None:
    """The stream whose events the elements of a plan bring by key, as the planner makes them; None for other elements,
    and for none."""
    if plan.elements is None:
        return None
    try:
        found = _read(plan.elements, plan.stream)
    except (KeyError, TypeError, ValueError, PlanError):
        return None
    return found if found is not None and all(one.path[0] in found.fields for one in plan.columns) else None


def without_keys(plan: Plan, *, counts_kept: bool = False) -> Plan:
    """The plan as its query is without KEYED BY; other plans as they are.

    `counts_kept`: the events of its results are those that WHERE keeps, as where events travel, and not all.
    """
    found = keyed_stream(plan)
    if found is None:
        return plan
    source = found.source
    if counts_kept and source.where is not None:
        outputs = tuple(Reference(one.name, one.type) for one in plan.columns)
        branch = PlanBranch(source.stream, source.columns, source.where, outputs)
        read = tuple(replace(one, path=(one.name,)) for one in plan.columns)
        return replace(plan, stream=source.stream, columns=read, elements=None, branches=(branch,))
    where = conjunction((*conjuncts(source.where), *conjuncts(plan.where)))
    return replace(plan, stream=source.stream, columns=_columns(source, plan), where=where, elements=None)


def _columns(source: Plan, plan: Plan) -> tuple[PlanColumn, ...]:
    """The columns of the source that the plan or its WHERE reads."""
    used = {one.name for one in plan.columns}
    if source.where is not None:
        used |= {one.name for one in references(source.where)}
    return tuple(one for one in source.columns if one.name in used)


def _read(elements: Mapping[str, Any], stream: str) -> KeyedStream | None:
    (element,), (source,) = elements["elements"], elements["sources"]
    (read,) = element["inputs"]
    if element["kind"] != "exchange" or element["output"] != stream or read["type"] != source["type"]:
        return None
    plan = Plan.from_wire(source["plan"])
    columns = {one.name: one for one in plan.columns}
    given = ((one.name, one.expression) for one in plan.output)
    return KeyedStream(plan, {name: columns[one.name] for name, one in given if isinstance(one, Reference)})
