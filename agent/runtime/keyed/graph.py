"""Checks the graph of a job's elements, as every agent does before it hosts any.

What is checked is consistent: names exist, keys are fields, plans of sources run, and promises are kept along the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import msgspec

from agent.programs.element_graph import SPLITS, UNSPLIT, Element, ElementGraph, ElementInput, EventType
from query import Plan, PlanError

_NAME = re.compile(r"[^\W\d]\w*")
_FAMILIES = {"integer": "number"}
EMITS = "emits"
"""The option of code that names the types it may emit."""


class EventRoute(NamedTuple):
    """The events of a type by the value of a key, or of one constant, in one grouping over workers; elements that read
    a type so share it."""

    type: str
    key: tuple[str, ...]
    constant: str | int | None = None
    grouping: str = ""
    workers: int = 0

    @property
    def text(self) -> str:
        """The route as people read it."""
        over = f" over {self.workers:,} workers by {self.grouping}" if self.grouping else ""
        return f"{self.type} by {', '.join(self.key) or repr(self.constant)}{over}"


@dataclass(frozen=True, slots=True)
class CheckedSource:
    """A source of events: the type it brings, and its plan over one event of a stream."""

    type: str
    plan: Plan


class CheckedGraph:
    """The elements of a job, checked. Make it with `of`."""

    def __init__(self, graph: ElementGraph, sources: Sequence[CheckedSource]) -> None:
        self.graph = graph
        self.sources = tuple(sources)
        self.types: Mapping[str, EventType] = {one.name: one for one in graph.types}
        self.elements: Mapping[str, Element] = {one.name: one for one in graph.elements}
        self._brought = {one.type for one in sources} | {one.output for one in graph.elements if one.output}
        self._check()

    @classmethod
    def of(cls, data: object) -> CheckedGraph:
        """The graph from plain data that a peer sent. Raises `query.PlanError` with one line."""
        try:
            graph = msgspec.convert(data, ElementGraph, strict=True)
        except (msgspec.ValidationError, RecursionError) as error:
            raise PlanError(f"not the elements of a job: {error}") from None
        _check_names("source", (one.type for one in graph.sources))
        sources = [CheckedSource(one.type, source_plan(one.type, one.plan)) for one in graph.sources]
        types = {one.type: _with_fields(graph, one) for one in sources}
        every = [types.get(one.name, one) for one in graph.types]
        return cls(msgspec.structs.replace(graph, types=every), sources)

    # Routes.

    @cached_property
    def routes(self) -> tuple[EventRoute, ...]:
        """Every distinct key of every type, in the order of elements; its place in this order names it on the wire."""
        found = (
            _route(element, read) for element in self.graph.elements for read in element.inputs if read.key is not None
        )
        return tuple(dict.fromkeys(found))

    def routes_of(self, type_: str) -> tuple[EventRoute, ...]:
        """The routes that an event of a type takes, once each."""
        return self._routes_of.get(type_, ())

    @cached_property
    def _routes_of(self) -> dict[str, tuple[EventRoute, ...]]:
        return {name: tuple(route for route in self.routes if route.type == name) for name in self.types}

    def consumers(self, route: EventRoute) -> tuple[Element, ...]:
        """The elements at the end of a route."""
        return self._consumers.get(route, ())

    @cached_property
    def _consumers(self) -> dict[EventRoute, tuple[Element, ...]]:
        found: dict[EventRoute, list[Element]] = {}
        for element in self.graph.elements:
            for read in element.inputs:
                if read.key is not None:
                    found.setdefault(_route(element, read), []).append(element)
        return {route: tuple(elements) for route, elements in found.items()}

    def keyless_of(self, type_: str) -> tuple[Element, ...]:
        """The elements without a key that consume a type beside every agent."""
        return tuple(one for one in self.graph.elements if _is_keyless(one) and type_ in _read_by(one))

    def index(self, element: str) -> int:
        """The place of an element in the graph, as channels have it."""
        return self._indices[element]

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {one.name: place for place, one in enumerate(self.graph.elements)}

    def emits(self, element: Element) -> tuple[str, ...]:
        """The types that an element may emit: code that does not say so may emit each that nothing else brings."""
        if element.output:
            return (element.output,)
        if EMITS in element.options:
            return tuple(element.options[EMITS])
        return tuple(name for name in self.types if name not in self._brought)

    def emitters(self, type_: str) -> tuple[Element, ...]:
        """The elements that may emit a type."""
        return tuple(one for one in self.graph.elements if type_ in self.emits(one))

    # Promises and time.

    def is_guaranteed(self, element: Element) -> bool:
        """Whether an element processes each event exactly once."""
        return all(self.types[read.type].guaranteed for read in element.inputs)

    @cached_property
    def cycle(self) -> tuple[str, ...]:
        """A circle in which events may go round, as the names of elements and the types between them; () for none."""
        try:
            TopologicalSorter(self._follows).prepare()
        except CycleError as error:
            return tuple(reversed(error.args[1]))
        return ()

    @cached_property
    def cyclic_types(self) -> frozenset[str]:
        """The types whose events may lead to others of the same type: their event time is the wall clock."""
        return frozenset(name for name in self.types if name in self._reached_from(name))

    @cached_property
    def from_circles(self) -> frozenset[str]:
        """The types of circles, and those whose events may come from one."""
        return self.cyclic_types.union(*map(self._reached_from, self.cyclic_types)) & self.types.keys()

    @cached_property
    def order(self) -> tuple[str, ...]:
        """All types, each after those that events of it may come from; those of circles come last."""
        cyclic = self.cyclic_types
        before = {name: self._types_before(name) - cyclic for name in self.types if name not in cyclic}
        return (*TopologicalSorter(before).static_order(), *(name for name in self.types if name in cyclic))

    def _types_before(self, type_: str) -> set[str]:
        return {read.type for element in self.emitters(type_) for read in element.inputs}

    @cached_property
    def _follows(self) -> dict[str, list[str]]:
        """The nodes directly after each type and element."""
        follows: dict[str, list[str]] = {name: [] for name in self.types}
        for element in self.graph.elements:
            node = f"element {element.name}"
            follows[node] = list(self.emits(element))
            for name in _read_by(element):
                follows[name].append(node)
        return follows

    def _reached_from(self, start: str) -> set[str]:
        found: set[str] = set()
        pending = list(self._follows[start])
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending.extend(self._follows[name])
        return found

    # Checks.

    def _check(self) -> None:
        graph = self.graph
        _check_names("type", (one.name for one in graph.types))
        _check_names("element", (one.name for one in graph.elements))
        _require(bool(graph.elements), "a job with elements has at least one")
        for type_ in graph.types:
            self._check_type(type_)
        outputs = [one.output for one in graph.elements if one.output]
        _check_names("output", outputs)
        for name in outputs:
            _require(name in self.types, f"the output {name} is no type of the job")
            _require(all(one.type != name for one in self.sources), f"the type {name} is brought by a source, too")
        for element in graph.elements:
            self._check_element(element)

    def _check_type(self, type_: EventType) -> None:
        names = [name for name, _ in type_.fields]
        for name in names:
            _require(_NAME.fullmatch(name) is not None, f"type {type_.name}: {name!r} is no name of a field")
        _require(len(set(names)) == len(names), f"type {type_.name}: two fields have one name")
        if type_.shed:
            _require(type_.shed in names, f"type {type_.name}: shed={type_.shed!r} is no field of it")
            _require(not type_.guaranteed, f"type {type_.name}: what is guaranteed is not shed: guaranteed=False")
            is_entry = any(one.type == type_.name for one in self.sources)
            _require(is_entry, f"type {type_.name}: events are shed where they come in, and no source brings this type")

    def _check_element(self, element: Element) -> None:
        read = _read_by(element)
        _require(len(set(read)) == len(read), f"element {element.name}: reads a type twice; make two elements of it")
        for one in element.inputs:
            self._check_input(element, one)
        shapes = {None if one.key is None else len(one.key) for one in element.inputs}
        _require(len(shapes) == 1, f"element {element.name}: its keys have different numbers of fields")
        constants = {one.constant for one in element.inputs}
        _require(len(constants) == 1, f"element {element.name}: has two constants for its key")
        kinds = {tuple(self._families(one)) for one in element.inputs}
        _require(len(kinds) == 1, f"element {element.name}: its keys have different types of values")
        is_code = element.kind == "code"
        if not is_code:
            _require(bool(element.output), f"element {element.name}: a {element.kind} has an output")
            _require(not _is_keyless(element), f"element {element.name}: a {element.kind} has a key")
            count = 2 if element.kind == "join" else 1
            _require(
                len(read) == count, f"element {element.name}: a {element.kind} reads {count} types, not {len(read)}"
            )
        _require(not (is_code and element.output), f"element {element.name}: code emits what it likes")
        if _is_keyless(element):
            _require(
                element.every_s is None and element.every_n is None and element.ttl_s is None and not element.ordered,
                f"element {element.name}: without a key it has no state, time or order",
            )
        self._check_grouping(element)
        self._check_promises(element)

    def _check_grouping(self, element: Element) -> None:
        both = bool(element.grouping) == bool(element.workers)
        _require(both, f"element {element.name}: a grouping is over workers, and workers have a grouping")
        if element.kind == "exchange" or element.grouping:
            by_fields = all(read.key for read in element.inputs)
            _require(by_fields, f"element {element.name}: events go to workers by the fields of a key")
        in_one_place = element.grouping == "" or (element.grouping == "fields" and element.kind == "code")
        if in_one_place or element.kind not in UNSPLIT or _splits(element):
            return
        instead = "its grouping is fields" if element.kind == "code" else "it has none of the groupings"
        raise PlanError(f"element {element.name}: its keys cannot be split, since {UNSPLIT[element.kind]}: {instead}")

    def _check_input(self, element: Element, read: ElementInput) -> None:
        _require(read.type in self.types, f"element {element.name}: reads {read.type}, which is no type of the job")
        if read.key is None:
            _require(read.constant is None, f"element {element.name}: has a constant and no key")
            return
        _require(
            bool(read.key) != (read.constant is not None), f"element {element.name}: its key is fields or a constant"
        )
        fields = {name for name, _ in self.types[read.type].fields}
        for name in read.key:
            has = ", ".join(sorted(fields)) or "none"
            _require(name in fields, f"element {element.name}: {read.type} has no field {name!r}; it has {has}")

    def _families(self, read: ElementInput) -> Iterator[str]:
        fields = dict(self.types[read.type].fields)
        return (_FAMILIES.get(fields[name], fields[name]) for name in read.key or ())

    def _check_promises(self, element: Element) -> None:
        kept = {one.type: self.types[one.type].guaranteed for one in element.inputs}
        some = next((name for name, is_kept in kept.items() if is_kept), None)
        other = next((name for name, is_kept in kept.items() if not is_kept), None)
        if some is not None and other is not None:
            raise PlanError(
                f"element {element.name}: reads {some}, which is guaranteed, and {other}, which is not: give both the"
                " same guarantee"
            )
        if EMITS in element.options or element.output:
            emitted = element.options.get(EMITS, [element.output])
            is_list = isinstance(emitted, list) and all(isinstance(name, str) for name in emitted)
            _require(is_list, f"element {element.name}: what it emits are names of types")
            for name in emitted:
                _require(name in self.types, f"element {element.name}: emits {name}, which is no type of the job")
                _require(
                    not (other and self.types[name].guaranteed),
                    f"element {element.name}: reads {other}, which is not guaranteed, so that {name}, which it emits,"
                    " cannot be: guaranteed=False",
                )


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise PlanError(problem)


def _check_names(kind: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        _require(_NAME.fullmatch(name) is not None, f"{name!r} is no name of a {kind}")
        _require(name not in seen, f"two {kind}s have the name {name}")
        seen.add(name)


def _read_by(element: Element) -> list[str]:
    return [read.type for read in element.inputs]


def _is_keyless(element: Element) -> bool:
    return element.inputs[0].key is None


def _splits(element: Element) -> bool:
    """Whether an element is code whose states of parts of a key can be combined."""
    return element.kind == "code" and element.options.get(SPLITS) is True


def _route(element: Element, read: ElementInput) -> EventRoute:
    return EventRoute(read.type, tuple(read.key or ()), read.constant, element.grouping, element.workers)


def source_plan(name: str, data: object) -> Plan:
    """The plan of a source: a row for each event of streams, of its own columns alone."""
    try:
        plan = Plan.from_wire(data)
    except PlanError as error:
        raise PlanError(f"source {name}: {error}") from None
    is_plain = plan.kind == "rows" and plan.windowing is None and not plan.order
    _require(is_plain, f"source {name}: a source has no groups, windows or order: it is computed for each event alone")
    is_one = not (plan.reads_rows or plan.branches or plan.outer is not None)
    _require(is_one, f"source {name}: a source reads logs alone, without JOIN, UNION ALL, app() or sub-queries")
    _require(plan.elements is None, f"source {name}: a source has no elements")
    return plan


def _with_fields(graph: ElementGraph, source: CheckedSource) -> EventType:
    """The type of a source with the columns of its plan for fields; it may have come with them."""
    type_ = next((one for one in graph.types if one.name == source.type), None)
    if type_ is None:
        raise PlanError(f"source {source.type}: is no type of the job")
    fields = [(output.name, output.type) for output in source.plan.output]
    given = type_.fields or fields
    # Values of any type travel as texts: so may others, which then stay what they are, integers among numbers too.
    alike = [name for name, _ in given] == [name for name, _ in fields] and all(
        kind in ("any", own) for (_, kind), (_, own) in zip(given, fields, strict=True)
    )
    _require(alike, f"source {source.type}: its fields are not the columns of its plan")
    return msgspec.structs.replace(type_, fields=given)
