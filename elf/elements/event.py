"""Event types that jobs declare: a decorated class becomes a fast record of typed fields."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, dataclass_transform, overload

import msgspec

from agent.programs.element_graph import FIELDS_MAX, NAME_CHARACTERS_MAX, FieldType
from elf.errors import ElfError

Class = TypeVar("Class", bound=type)
_FIELD_TYPES: dict[object, FieldType] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    object: "any",
    Any: "any",
}
_TYPES_TEXT = "str, int, float, bool or object"
TIME = "time_ms"
"""Field of each event with its time (epoch ms)."""


class ElementError(ElfError):
    """A declaration that cannot be used: one line that names class and attribute."""


class BaseEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base of all events. `time_ms` (epoch ms): None in one that is emitted at the time of the event at hand."""

    time_ms: int | None = None


class EventOptions(msgspec.Struct, frozen=True):
    """The declaration of an event type; `fields` in order, as in `EventType`."""

    name: str
    fields: tuple[tuple[str, FieldType], ...]
    guaranteed: bool
    shed: str


@overload
@dataclass_transform(frozen_default=True)
def event(kind: Class) -> Class: ...
@overload
@dataclass_transform(frozen_default=True)
def event(*, guaranteed: bool = True, shed: str = "") -> Callable[[Class], Class]: ...
def event(kind: type | None = None, *, guaranteed: bool = True, shed: str = "") -> Any:
    """Declares a class of typed fields as a type of events.

    `guaranteed`: each event is processed exactly once; else it may be lost with the host of its element. `shed`: the
    field by whose hash events are left out at the job's entry when hosts are too busy; not for guaranteed types. Raises
    ElementError.

    >>> @event
    ... class Word: word: str; n: int
    >>> Word("said", n=2)
    Word(word='said', n=2, time_ms=None)
    """
    if kind is None:
        return lambda decorated: _made(decorated, guaranteed, shed)
    return _made(kind, guaranteed, shed)


def event_options(kind: object) -> EventOptions | None:
    """The declaration of an event class; None for anything else."""
    found = getattr(kind, "__elf_event__", None) if isinstance(kind, type) else None
    return found if isinstance(found, EventOptions) else None


def received_class(name: str, fields: Sequence[str], kind: type[BaseEvent] | None) -> type[msgspec.Struct]:
    """A class of the events that come to elements, constructed from fields in order and the time. O(1) in C.

    >>> received_class("Quote", ["text"], None)("to be", 7)
    Quote(text='to be', time_ms=7)
    """
    hints = [*((field, Any) for field in fields), (TIME, Any)]
    return msgspec.defstruct(name, hints, bases=None if kind is None else (kind,), gc=False, frozen=True)


def _made(kind: type, guaranteed: bool, shed: str) -> type:
    if not isinstance(kind, type):
        raise ElementError(f"elf.event: decorates a class of typed fields, not {str(kind)[:80]!r}")
    name = kind.__name__
    if kind.__bases__ != (object,):
        raise ElementError(
            f"{name}: inherits from {kind.__bases__[0].__name__}: an event has its own fields and methods"
        )
    fields = _fields(kind)
    names = [field for field, _ in fields]
    check_delivery(name, guaranteed, shed)
    if shed and shed not in names:
        raise ElementError(f"{name}: shed={shed!r} is none of its fields: {', '.join(names)}")
    namespace = {
        attribute: value
        for attribute, value in vars(kind).items()
        if attribute not in (*names, "__dict__", "__weakref__", "__annotations__")
    }
    hints = [(field, Any, vars(kind)[field]) if field in vars(kind) else (field, Any) for field in names]
    namespace["__elf_event__"] = EventOptions(name, fields, guaranteed, shed)
    try:
        return msgspec.defstruct(
            name, hints, bases=(BaseEvent,), namespace=namespace, module=kind.__module__, gc=False, frozen=True
        )
    except TypeError as error:
        raise ElementError(f"{name}: {error}") from None


def check_delivery(name: str, guaranteed: object, shed: object) -> None:
    """Raises ElementError for options that no type of events can have."""
    if not isinstance(guaranteed, bool):
        raise ElementError(f"{name}: guaranteed is to be True or False, not {guaranteed!r}")
    if not isinstance(shed, str):
        raise ElementError(f"{name}: shed is to be the name of a field, not {shed!r}")
    if shed and guaranteed:
        raise ElementError(f"{name}: shed={shed!r} is for types with guaranteed=False: no guaranteed event is left out")


def _fields(kind: type) -> tuple[tuple[str, FieldType], ...]:
    name = kind.__name__
    try:
        hints = typing.get_type_hints(kind)
    except Exception as error:
        raise ElementError(f"{name}: its annotations cannot be read: {error}") from None
    if not hints:
        raise ElementError(f"{name}: has no fields: write them as in word: str")
    if len(hints) > FIELDS_MAX:
        raise ElementError(f"{name}: has {len(hints)} fields, an event may have {FIELDS_MAX}")
    fields = []
    for field, hint in hints.items():
        if field == TIME or field.startswith("_") or len(field) > NAME_CHARACTERS_MAX:
            wrong = (
                "is set by ELF"
                if field == TIME
                else f"is no name of a field: letters first, {NAME_CHARACTERS_MAX} at most"
            )
            raise ElementError(f"{name}.{field}: {wrong}; choose another name")
        found = _FIELD_TYPES.get(_without_none(hint))
        if found is None:
            raise ElementError(f"{name}.{field}: a field is {_TYPES_TEXT}, not {text_of(hint)}")
        fields.append((field, found))
    return tuple(fields)


def _without_none(hint: object) -> object:
    """The type T of T | None, since each field may hold None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def text_of(hint: object) -> str:
    """A type as people write it."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)[:80]
