"""The fields of the events that declared elements emit, for those who build a graph, check it and run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from agent.programs.element_graph import Element, EventType, FieldType
from query import Plan, PlanError

Named = TypeVar("Named", bound=Any)
Fields = list[tuple[str, FieldType]]
BOUNDS: Fields = [("window_start", "timestamp"), ("window_end", "timestamp")]
"""The fields that windows of aggregates add."""


def output_fields(element: Element, types: Mapping[str, EventType]) -> Fields:
    """The fields of what a declared element emits, in order. Raises PlanError if its options do not say.

    >>> from agent.programs.element_graph import ElementInput
    >>> word = EventType("Word", [("sort", "integer"), ("word", "string"), ("n", "integer")])
    >>> options = {"of": "word", "by": "n", "k": 3}
    >>> output_fields(Element("Best", "top", [ElementInput("Word", ["sort"])], options=options), {"Word": word})
    [('sort', 'integer'), ('word', 'string'), ('n', 'integer')]
    """
    if element.kind == "aggregate":
        fields = _of_aggregate(element)
    elif element.kind == "join":
        fields = _of_join(element, types)
    elif element.kind == "top":
        fields = _of_top(element, types)
    elif element.kind == "exchange":
        fields = _of_exchange(element, types)
    else:
        raise refusal(element, f"is {element.kind}: the types it emits are declared, not derived")
    names = [name for name, _ in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise refusal(element, f"emits two fields called {twice[0]}: give one of them another name")
    return fields


def refusal(element: Element, problem: str) -> PlanError:
    """The error that says what is wrong with an element."""
    return PlanError(f"element {element.name}: it {problem}")


def plan_of(element: Element) -> Plan:
    """The query that an aggregate computes. Raises PlanError."""
    plan = element.options.get("plan")
    if not isinstance(plan, dict):
        raise refusal(element, "has no plan in its options: submit the job again")
    return Plan.from_wire(plan)


def with_text_keys(plan: Plan) -> Plan:
    """The plan with keys of type `any` as what they are in the fields of events: JSON texts, which are taken as they
    are."""
    texts = {key.name for key in plan.keys if key.expression.type == "any"}
    fields = {getattr(key.expression, "name", "") for key in plan.keys if key.name in texts}
    if not texts:
        return plan
    return replace(
        plan,
        columns=tuple(replace(one, type="string") if one.name in fields else one for one in plan.columns),
        keys=tuple(_as_text(one) if one.name in texts else one for one in plan.keys),
        output=tuple(_as_text(one) if getattr(one.expression, "name", "") in texts else one for one in plan.output),
    )


def _as_text(named: Named) -> Named:
    return replace(named, expression=replace(named.expression, type="string"))


def event_type(element: Element, types: Mapping[str, EventType], name: object) -> EventType:
    """A type that an element names."""
    if not isinstance(name, str) or name not in types:
        raise refusal(element, f"reads the type {name!r}, which the job does not have")
    return types[name]


def field_type(element: Element, of: EventType, name: object) -> FieldType:
    """The type of a field that an element names."""
    fields = dict(of.fields)
    if not isinstance(name, str) or name not in fields:
        known = ", ".join(fields) or "none"
        raise refusal(element, f"names the field {name!r}, and the fields of {of.name} are {known}")
    return fields[name]


def join_keys(element: Element) -> tuple[list[str], list[str]]:
    """The fields that a join compares, of the left and of the right events."""
    given = element.options.get("on")
    if isinstance(given, str):
        given = [given]
    pairs: list[Sequence[Any]] = []
    for one in given if isinstance(given, list | tuple) else []:
        pair = [one, one] if isinstance(one, str) else one
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise refusal(element, f"joins on {one!r}: name a field, or one of the left and one of the right")
        pairs.append(pair)
    if not pairs:
        raise refusal(element, "joins on no field: give `on`")
    return [left for left, _ in pairs], [right for _, right in pairs]


def join_prefix(element: Element) -> str:
    """The prefix of the names of the right events' fields, where a join emits pairs."""
    return str(element.options.get("prefix", f"{element.options.get('right')}_"))


def _of_aggregate(element: Element) -> Fields:
    plan = plan_of(element)
    fields = [(output.name, cast(FieldType, output.type)) for output in plan.output]
    return [*fields, *BOUNDS] if plan.windowing is not None else fields


def _of_join(element: Element, types: Mapping[str, EventType]) -> Fields:
    options = element.options
    left = event_type(element, types, options.get("left"))
    right = event_type(element, types, options.get("right"))
    if options.get("mode", "first") == "all":
        prefix = join_prefix(element)
        return [*left.fields, *((prefix + name, type_) for name, type_ in right.fields)]
    flag = options.get("flag")
    if not isinstance(flag, str) or not flag:
        raise refusal(element, "has no name for its flag: give `as_`")
    return [*left.fields, (flag, "integer")]


def _of_exchange(element: Element, types: Mapping[str, EventType]) -> Fields:
    fields = event_type(element, types, element.output).fields
    of = event_type(element, types, element.inputs[0].type)
    for name, type_ in fields:
        if field_type(element, of, name) != type_:
            raise refusal(element, f"emits {name} as {type_}, which {of.name} has not")
    return fields


def _of_top(element: Element, types: Mapping[str, EventType]) -> Fields:
    options, (read, *_) = element.options, element.inputs
    of = event_type(element, types, read.type)
    names = [*(read.key or []), options.get("of"), options.get("by")]
    return [(str(name), field_type(element, of, name)) for name in names]
