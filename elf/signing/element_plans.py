"""Completes the graph of a job's elements: plans of its sources and aggregates, and the fields of its types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

import query
from agent.programs.element_graph import Element, ElementGraph, ElementSource, EventType, FieldType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.outputs import output_fields
from agent.runtime.keyed.graph import CheckedGraph, source_plan
from elf.client.errors import QueryRefusedError
from elf.errors import UsageError

Fields = list[tuple[str, FieldType]]
Plan = Callable[[str, Mapping[str, Fields] | None], dict[str, Any]]
"""Plans a query over streams, or over types of events with these fields; raises QueryRefusedError."""


def completed(graph: ElementGraph, plan: Plan) -> ElementGraph:
    """The graph as agents take it. Raises UsageError, or QueryRefusedError for a query in it: one line."""
    types = {one.name: one for one in graph.types}
    elements: dict[str, Element] = {}
    try:
        sources = [_planned(one, types, plan) for one in graph.sources]
        while waiting := [one for one in graph.elements if one.name not in elements]:
            known = [one for one in waiting if one.kind == "code" or _is_known(one, types)]
            if not known:
                raise UsageError(f"{waiting[0].name}: the fields of what it gets are not known")
            for one in known:
                elements[one.name] = _with_output(one, types, plan)
        whole = ElementGraph(sources, list(types.values()), [elements[one.name] for one in graph.elements])
        _check(whole)
    except query.PlanError as error:
        raise UsageError(str(error)) from None
    return whole


def _is_known(element: Element, types: Mapping[str, EventType]) -> bool:
    """Whether the fields of all that an element gets are known."""
    return all(types[read.type].fields for read in element.inputs)


def _planned(source: ElementSource, types: dict[str, EventType], plan: Plan) -> ElementSource:
    """A source with its plan; its type gets the columns of that for fields."""
    try:
        made = plan(source.query, None)
    except (QueryRefusedError, query.QueryError) as error:
        raise QueryRefusedError(f"source {source.type}: {error}") from None
    output = source_plan(source.type, made).output
    fields: Fields = [(one.name, cast(FieldType, one.type)) for one in output]
    shed = types[source.type].shed
    for name in ("time_ms", *(name for name, _ in fields if not name.isidentifier())):
        if name in dict(fields):
            raise UsageError(f"source {source.type}: {name} is no name of a field: write {name} AS another_name")
    if shed and shed not in dict(fields):
        raise UsageError(f"source {source.type}: shed={shed!r} is none of its columns: {', '.join(dict(fields))}")
    types[source.type] = msgspec.structs.replace(types[source.type], fields=fields)
    return msgspec.structs.replace(source, plan=made)


def _with_output(element: Element, types: dict[str, EventType], plan: Plan) -> Element:
    """An element with its plan; the type that it emits gets its fields."""
    if element.kind == "code":
        return element
    if element.kind == "aggregate":
        read, options = element.inputs[0], element.options
        of, keys = types[read.type], ", ".join(read.key or [])
        text = f"SELECT {f'{keys}, ' if keys else ''}{options['value']} FROM {of.name}"
        text += f" GROUP BY {keys}" if keys else ""
        text += f" WINDOWING {options['window']}" if "window" in options else ""
        try:
            made = plan(text, {of.name: of.fields})
        except (QueryRefusedError, query.QueryError) as error:
            raise QueryRefusedError(f"element {element.name}: {error}") from None
        element = msgspec.structs.replace(element, options={**options, "plan": made})
    fields = output_fields(element, types)
    types[element.output] = msgspec.structs.replace(types[element.output], fields=fields)
    return element


def _check(graph: ElementGraph) -> None:
    """Checks a graph as each agent does. Raises PlanError."""
    checked = CheckedGraph.of(msgspec.to_builtins(graph))
    for element in graph.elements:
        if element.kind != "code":
            declared.check(element, checked.types)
