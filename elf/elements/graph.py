"""Builds the graph of a job's elements from its class and the variables of its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from agent.programs.element_graph import (
    ELEMENTS_MAX,
    SPLITS,
    Element,
    ElementGraph,
    ElementInput,
    ElementSource,
    EventType,
    FieldType,
)
from elf.elements.declared import Declared, Key, SourceQuery, is_key, slide_of, value_names
from elf.elements.element import PE, check_settings
from elf.elements.emits import FileNames
from elf.elements.event import ElementError, event_options
from elf.elements.split import STATE, WORKERS_DEFAULT, every_s, is_combined, is_split, key_names, split_classes

Fields = list[tuple[str, FieldType]]


def element_graph(job: str, elements: object, variables: Mapping[str, Any]) -> ElementGraph:
    """The graph of the job class named `job`. `variables` are those of its file, which name sources and elements.

    Raises ElementError: one line that names the class and attribute.
    """
    if not isinstance(elements, list | tuple) or not all(_is_element(one) for one in elements):
        wrong = (
            next((one for one in elements if not _is_element(one)), elements)
            if isinstance(elements, list | tuple)
            else elements
        )
        raise ElementError(
            f"{job}.elements: holds classes that are an elf.PE, and what elf.top, elf.join and elf.aggregate return, "
            f"not {_shown(wrong)}"
        )
    if len(elements) > ELEMENTS_MAX:
        raise ElementError(f"{job}.elements: has {len(elements)} elements, a job may have {ELEMENTS_MAX}")
    return _Builder(job, elements, variables).graph()


def query_of(job: str, graph: ElementGraph) -> str:
    """The query of a job that has none of its own: the results of its last element. Raises ElementError."""
    last = graph.elements[-1]
    if last.kind != "aggregate" or "window" not in last.options:
        raise ElementError(
            f"{job}.query: is to be a query in ELF QL, as in 'SELECT ... FROM {last.output or 'Type'} ...': only where "
            "the last element is an elf.aggregate with a window, its results are those of the job"
        )
    keys = last.inputs[0].key or []
    values = [f"MAX({name}) AS {name}" for name in value_names(str(last.options["value"]))]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    slide = slide_of(str(last.options["window"]))
    return f"SELECT {', '.join([*keys, *values])} FROM {last.output}{grouped} WINDOWING {slide}"


class _Builder:
    def __init__(self, job: str, elements: Iterable[Any], variables: Mapping[str, Any]) -> None:
        self._job = job
        self._elements = list(elements)
        self._variables: dict[int, str] = {}
        for name, value in variables.items():
            if isinstance(value, SourceQuery | Declared):
                self._variables.setdefault(id(value), name)
        self._events = {name: value for name, value in variables.items() if event_options(value) is not None}
        self._files: dict[str, FileNames] = {}
        self._names: dict[int, str] = {}  # of types, by the object that stands for them
        self._types: dict[str, EventType] = {}
        self._sources: list[ElementSource] = []
        self._producers: set[int] = {id(one) for one in self._elements if isinstance(one, Declared)}

    def graph(self) -> ElementGraph:
        made: dict[str, Element] = {}
        for element in (made for one in self._elements for made in self._made_of(one)):
            if element.name in made:
                raise ElementError(f"{self._job}.elements: two are named {element.name}: give one another name")
            made[element.name] = element
        for one in self._events.values():
            self._type_of(one, self._job)
        return ElementGraph(self._sources, list(self._types.values()), list(made.values()))

    # Elements.

    def _made_of(self, one: Declared | type[PE]) -> list[Element]:
        """The element, or the two of them where its keys are split and its state is combined."""
        if isinstance(one, Declared):
            return [self._declared(one)]
        element = self._code(one)
        return self._split(one, element) if is_combined(one) else [element]

    def _split(self, kind: type[PE], element: Element) -> list[Element]:
        size = len(element.inputs[0].key or [])
        classes = split_classes(kind, size)
        guaranteed = self._types[element.inputs[0].type].guaranteed
        state = EventType(
            classes.state.__name__, [*((name, "any") for name in key_names(size)), (STATE, "string")], guaranteed
        )
        if state.name in self._types:
            raise ElementError(f"{kind.__name__}: a type is named {state.name}, as that of its parts is: rename one")
        self._types[state.name] = state
        emits = [*element.options["emits"], state.name]
        parts = replace(
            element,
            name=classes.parts.__name__,
            every_s=every_s(kind),
            ttl_s=None,
            options={**element.options, "emits": emits, SPLITS: True},
        )
        read = ElementInput(state.name, key_names(size))
        return [parts, replace(element, inputs=[read], grouping="", workers=0)]

    def _declared(self, one: Declared) -> Element:
        inputs = [self._input(self._name(one), type_, key) for type_, key in one.inputs]
        self._check_guarantee(self._name(one), [entry.type for entry in inputs])
        options = dict(one.options)
        if one.kind == "join":
            left, right = (entry.type for entry in inputs)
            options |= {"left": left, "right": right, "on": [[field, field] for field in inputs[0].key or []]}
            options["flag"] = options["flag"] or f"{right.lower()}ed"
        for option in ("of", "by") if one.kind == "top" else ():
            self._check_field(f"{self._name(one)}.{option}", inputs[0].type, str(options[option]))
        output = self._type_of(one, f"{self._job}.elements")
        return Element(output, one.kind, inputs, output, every_s=one.every_s, options=options)

    def _code(self, kind: type[PE]) -> Element:
        name = kind.__name__
        check_settings(kind)
        keys = kind.keys
        if not isinstance(keys, Mapping) or not keys:
            raise ElementError(
                f"{name}.keys: is to be a dict of fields by type of event, as in keys = {{Word: 'word'}}"
            )
        inputs = [self._input(f"{name}.keys", type_, key) for type_, key in keys.items()]
        self._check_guarantee(f"{name}.keys", [one.type for one in inputs])
        keyless = [one.type for one in inputs if one.key is None]
        if keyless and len(keyless) < len(inputs):
            keyed = next(one.type for one in inputs if one.key is not None)
            raise ElementError(
                f"{name}.keys: {keyless[0]} has no key and {keyed} has one: an element has both or neither"
            )
        sizes = {len(one.key or [None]) for one in inputs}
        if len(sizes) > 1:
            raise ElementError(f"{name}.keys: an element has one key, with as many fields in each of its types")
        if keyless:
            self._check_keyless(kind)
        else:
            self._check_attributes(kind)
        return Element(
            name,
            "code",
            inputs,
            every_s=None if kind.every_s is None else float(kind.every_s),
            every_n=kind.every_n,
            ttl_s=None if kind.ttl_s is None else float(kind.ttl_s),
            ordered=kind.ordered,
            options={
                "emits": self._emits(kind, inputs),
                "states": {state.name: state.kind for state in kind._elf_states},
                **({SPLITS: True} if is_split(kind) else {}),
            },
            grouping=kind.grouping,
            workers=(kind.workers or WORKERS_DEFAULT) if kind.grouping else 0,
        )

    def _emits(self, kind: type[PE], inputs: list[ElementInput]) -> list[str]:
        """The types of events that a class says it emits, or else those that its code uses."""
        used = self._text_of(kind).used_by(
            base.__name__ for base in kind.__mro__ if issubclass(base, PE) and base is not PE
        )
        found = list(kind.emits) or [one for name, one in self._events.items() if name in used]
        emitted = [self._type_of(one, kind.__name__) for one in found]
        for name in emitted:
            if self._types[name].guaranteed and not self._types[inputs[0].type].guaranteed:
                raise ElementError(
                    f"{kind.__name__}: emits {name}, which is guaranteed, and gets {inputs[0].type}, which is not: "
                    f"write @elf.event(guaranteed=False) for {name}"
                )
        return emitted

    def _text_of(self, kind: type[PE]) -> FileNames:
        """The text of the file that a class is written in."""
        file = getattr(getattr(kind.process_event, "__code__", None), "co_filename", "")
        if file not in self._files:
            self._files[file] = FileNames(file)
        return self._files[file]

    def _check_attributes(self, kind: type[PE]) -> None:
        """Checks that what an element sets is its state: anything else would be lost when it moves."""
        states = {state.name for state in kind._elf_states}
        for name, method in self._text_of(kind).set_by(kind.__name__):
            if name not in states and not isinstance(getattr(kind, name, None), property):
                raise ElementError(
                    f"{kind.__name__}.{name}: {method} sets it, and it is no state: write {name}: int = 0, or as its "
                    "values are, in the class"
                )

    def _check_guarantee(self, where: str, types: list[str]) -> None:
        lossy = [name for name in types if not self._types[name].guaranteed]
        if lossy and len(lossy) < len(types):
            safe = next(name for name in types if name not in lossy)
            raise ElementError(
                f"{where}: {safe} is guaranteed and {lossy[0]} is not: an element gets types of one kind; "
                f"write guaranteed=False for {safe} too"
            )

    @staticmethod
    def _check_keyless(kind: type[PE]) -> None:
        wrong = next((state.name for state in kind._elf_states), None)
        if wrong is not None:
            raise ElementError(
                f"{kind.__name__}.{wrong}: an element without key keeps no state, since it is beside every agent: "
                "give it a key, or write the attribute without annotation"
            )
        for attribute in ("every_s", "every_n", "ttl_s"):
            if getattr(kind, attribute) is not None:
                raise ElementError(f"{kind.__name__}.{attribute}: is for elements with a key")

    def _input(self, where: str, type_: object, key: object) -> ElementInput:
        name = self._type_of(type_, where)
        if key is None:
            return ElementInput(name, None)
        if not is_key(key):
            raise ElementError(
                f"{where}: the key of {name} is to be a field, a tuple of fields, a number or None, not {_shown(key)}"
            )
        if isinstance(key, int):
            return ElementInput(name, [], key)
        fields = [key] if isinstance(key, str) else list(key)  # type: ignore[call-overload]
        for field in fields:
            self._check_field(where, name, field)
        return ElementInput(name, fields)

    def _check_field(self, where: str, type_: str, field: str) -> None:
        """Checks a field of a type whose fields are known yet."""
        known = [name for name, _ in self._types[type_].fields]
        if known and field not in known:
            raise ElementError(f"{where}: {type_} has no field {field}: it has {', '.join(known)}")

    # Types.

    def _type_of(self, type_: object, where: str) -> str:
        """The name of a type, which is noted when it is met first."""
        if id(type_) in self._names:
            return self._names[id(type_)]
        options = event_options(type_)
        if options is not None:
            made = EventType(options.name, list(options.fields), options.guaranteed, options.shed)
        elif isinstance(type_, SourceQuery):
            made = EventType(self._name(type_), [], type_.guaranteed, type_.shed)
        elif isinstance(type_, Declared):
            if id(type_) not in self._producers:
                raise ElementError(f"{where}: {self._name(type_)} is not among {self._job}.elements: list it there")
            made = self._output_type(type_)
        else:
            hint = ": name the types of events it emits" if isinstance(type_, type) and issubclass(type_, PE) else ""
            raise ElementError(
                f"{where}: {_shown(type_)} is no type of events{hint}; those are elf.source, classes with @elf.event, "
                "elf.top, elf.join and elf.aggregate"
            )
        if made.name in self._types:
            raise ElementError(f"{where}: two types of events are named {made.name}: give one another name")
        self._names[id(type_)] = made.name
        self._types[made.name] = made
        if len(self._types) > ELEMENTS_MAX:
            raise ElementError(f"{self._job}.elements: there are over {ELEMENTS_MAX} types of events")
        if isinstance(type_, SourceQuery):
            self._sources.append(ElementSource(made.name, type_.query))
        return made.name

    def _output_type(self, one: Declared) -> EventType:
        """The type that a declared element emits: guaranteed if all that it reads is."""
        name = self._name(one)
        inputs = [self._types[self._type_of(type_, name)] for type_, _ in one.inputs]
        return EventType(name, [], all(type_.guaranteed for type_ in inputs))

    def _name(self, one: SourceQuery | Declared) -> str:
        """The given name, or that of the variable, or one made from what it reads."""
        name = one.name or self._variables.get(id(one))
        if name is not None:
            return name
        if isinstance(one, SourceQuery):
            raise ElementError(f"elf.source: {one.query[:60]!r} has no name: put it into a variable, or write name=")
        types = [self._short(type_) for type_, _ in one.inputs]
        if one.kind == "join":
            return "With".join(types)
        return f"{types[0]}{'Top' if one.kind == 'top' else ''}By{_title(one.inputs[0][1])}"

    def _short(self, type_: object) -> str:
        options = event_options(type_)
        return (
            options.name
            if options is not None
            else self._name(type_)
            if isinstance(type_, SourceQuery | Declared)
            else _shown(type_)
        )


def _title(key: Key) -> str:
    """A key as a part of a name.

    >>> _title(("user_id", "ad")), _title(1234)
    ('UserIdAd', '1234')
    """
    fields = [str(key)] if isinstance(key, str | int) else key
    return "".join(word[:1].upper() + word[1:] for field in fields for word in field.replace("-", "").split("_"))


def _is_element(one: object) -> bool:
    return isinstance(one, Declared) or (isinstance(one, type) and issubclass(one, PE) and one is not PE)


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)[:80]
