"""The base class of processing elements written in Python (S4, section II.B)."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args

import msgspec

from agent.programs.element_graph import WORKERS_MAX, GroupingName
from elf.elements.declared import SECONDS_MAX
from elf.elements.event import ElementError, event_options, text_of

StateKind = Literal["integer", "number", "string", "boolean", "json"]
_KINDS: dict[object, StateKind] = {int: "integer", float: "number", str: "string", bool: "boolean"}
_RESERVED = ("keys", "every_s", "every_n", "ttl_s", "ordered", "emits", "grouping", "workers")
_CALLS = ("emit", "log", "key", "time_ms", "process_event", "output", "combine", "priority")


class StateAttribute(NamedTuple):
    """An annotated attribute of an element. `kind`: how its values are kept; "json" for all that has parts."""

    name: str
    kind: StateKind
    default: Any


class ElementHost(Protocol):
    """Calls and properties that a program provides for its elements."""

    time_ms: int

    def log(self, text: str) -> None: ...
    def emit(self, event: object) -> None: ...
    def key_of(self, element: PE) -> Any: ...


class _NoHost:
    """Stands for the program until there is one: while a class is defined and configured."""

    time_ms = 0

    def log(self, text: str) -> None:
        raise ElementError(f"log works in process_event and output only: {text[:80]!r}")

    def emit(self, event: object) -> None:
        raise ElementError(f"emit works in process_event and output only: {str(event)[:80]}")

    def key_of(self, element: PE) -> Any:
        raise ElementError(f"{type(element).__name__}: its key is known in process_event and output only")


class PE:
    """Base of processing elements. Of each subclass, one element is made for each value of its key.

    `keys` names the types of events it gets, each with the field of their key, a tuple of fields, a number for one
    element in all, or None: an element without key is beside every agent and keeps no state. The annotated attributes
    with their defaults are its state, which each element has for itself: numbers, texts, booleans, None, and lists and
    dicts of them. `__init__` is called once, before the first event; what it sets is shared by all.

    `output` is called every `every_s` seconds of event time, or after every `every_n` events of an element. `ttl_s`:
    time after its last event from which an element may be removed. `ordered`: its events come by their time. `emits`:
    the types of events that it emits, where its code does not name them.

    `grouping`: "fish" splits keys among `workers` while they are hot; each worker's part of a key has a state, and
    `combine` puts them together before each `output`.
    """

    keys: ClassVar[Mapping[Any, Any]] = {}
    every_s: ClassVar[float | None] = None
    every_n: ClassVar[int | None] = None
    ttl_s: ClassVar[float | None] = None
    ordered: ClassVar[bool] = False
    emits: ClassVar[Sequence[Any]] = ()
    grouping: ClassVar[GroupingName] = ""
    workers: ClassVar[int] = 0

    _elf: ClassVar[ElementHost] = _NoHost()
    _elf_states: ClassVar[tuple[StateAttribute, ...]] = ()
    _elf_is_part: ClassVar[bool] = False
    _elf_key: Any
    _elf_node: int
    _elf_number: int
    _elf_seen: int
    _elf_due: int
    _elf_count: int

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "_elf_states" not in vars(cls):
            cls._elf_states = _states_of(cls)

    def process_event(self, event: Any) -> None:  # noqa: ARG002
        """Called for each event of the element's key. An exception ends the job."""
        raise ElementError(f"{type(self).__name__}: has no process_event")

    def output(self) -> None:
        """Called each `every_s` or `every_n`."""

    def combine(self, other: Any) -> None:  # noqa: ARG002
        """Adds the state of another part of the same key to this one's."""
        raise ElementError(f"{type(self).__name__}: has no combine")

    def priority(self) -> float:
        """Returns the element's importance: where memory is short, those of the least are removed first."""
        return 0.0

    def emit(self, event: object) -> None:
        """Emits an event, at the time of the event at hand, just before that of the output, or at its own `time_ms`."""
        self._elf.emit(event)

    def log(self, text: str) -> None:
        """Writes a line to the job's log; so does `print`."""
        self._elf.log(text)

    @property
    def key(self) -> Any:
        """The value of this element's key; a tuple where several fields are its key."""
        return self._elf.key_of(self)

    @property
    def time_ms(self) -> int:
        """In `output`: the event time (epoch ms) that it is called at."""
        return self._elf.time_ms


class StateError(ElementError):
    """A state of the element `clone` cannot be kept."""

    def __init__(self, reason: str, clone: PE) -> None:
        super().__init__(reason)
        self.clone = clone


def _states_of(kind: type[PE]) -> tuple[StateAttribute, ...]:
    try:
        hints = typing.get_type_hints(kind)
    except Exception as error:
        raise ElementError(f"{kind.__name__}: its annotations cannot be read: {error}") from None
    inherited = typing.get_type_hints(PE)
    own = vars(kind).get("__annotations__", {})
    for name in (*_RESERVED, *_CALLS):
        if name in own and typing.get_origin(hints[name]) is not ClassVar:
            raise ElementError(f"{kind.__name__}.{name}: is ELF's own; choose another name for a state")
    return tuple(
        _state(kind, name, hint)
        for name, hint in hints.items()
        if name not in inherited and typing.get_origin(hint) is not ClassVar and hint is not ClassVar
    )


def _state(kind: type[PE], name: str, hint: object) -> StateAttribute:
    where = f"{kind.__name__}.{name}"
    if name.startswith(("_elf", "@")):
        raise ElementError(f"{where}: names that begin with _elf are ELF's own; choose another")
    if not _is_json_type(hint):
        raise ElementError(
            f"{where}: {text_of(hint)} is no type of a state: use int, float, str, bool, None, list[...] and "
            "dict[str, ...]"
        )
    if not hasattr(kind, name):
        raise ElementError(
            f"{where}: has no default, from which each element starts: write {name}: {text_of(hint)} = ..."
        )
    default = getattr(kind, name)
    if not is_json(default):
        raise ElementError(f"{where}: its default is not what JSON can hold: {str(default)[:80]!r}")
    return StateAttribute(name, _kind_of(hint), default)


def _kind_of(hint: object) -> StateKind:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [one for one in typing.get_args(hint) if one is not type(None)]
        return _kind_of(rest[0]) if len(rest) == 1 else "json"
    return _KINDS.get(hint, "json")


def _is_json_type(hint: object) -> bool:
    if hint in (int, float, str, bool, type(None), None, list, dict, object, Any):
        return True
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list or origin in (typing.Union, types.UnionType):
        return all(map(_is_json_type, arguments))
    if origin is dict:
        return arguments[0] is str and _is_json_type(arguments[1])
    return origin is Literal


def is_json(value: object) -> bool:
    """Whether JSON holds a value as it is. A number may be infinite, if it is the whole value."""
    if isinstance(value, float):
        return True
    try:
        return type(value) in (int, str, bool, type(None), list, dict) and bool(
            msgspec.json.decode(msgspec.json.encode(value)) == value
        )
    except (TypeError, ValueError, RecursionError, OverflowError):
        return False


def check_settings(kind: type[PE]) -> None:
    """Raises ElementError for attributes of a class with which its elements cannot run."""
    name = kind.__name__
    for attribute in ("every_s", "ttl_s"):
        seconds = getattr(kind, attribute)
        if seconds is None:
            continue
        if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0.001 <= seconds <= SECONDS_MAX:
            raise ElementError(
                f"{name}.{attribute}: is to be None or seconds, from 0.001 to {SECONDS_MAX:,}, not {seconds!r}"
            )
    if kind.every_n is not None and not (type(kind.every_n) is int and 1 <= kind.every_n <= 2**53):
        raise ElementError(f"{name}.every_n: is to be None or a number of events, not {kind.every_n!r}")
    if not isinstance(kind.ordered, bool):
        raise ElementError(f"{name}.ordered: is to be True or False, not {kind.ordered!r}")
    if not isinstance(kind.emits, list | tuple) or any(event_options(one) is None for one in kind.emits):
        raise ElementError(f"{name}.emits: is to be a list of classes with @elf.event, not {kind.emits!r}")
    _check_grouping(kind)
    if kind.process_event is PE.process_event:
        raise ElementError(f"{name}: has no process_event(self, event)")
    if kind.output is PE.output and (kind.every_s is not None or kind.every_n is not None):
        raise ElementError(f"{name}: has every_s or every_n, and no output(self) that they call")


def _check_grouping(kind: type[PE]) -> None:
    """Raises ElementError for keys that cannot be split as the class says."""
    name = kind.__name__
    if kind.grouping not in get_args(GroupingName):
        known = ", ".join(one for one in get_args(GroupingName) if one)
        raise ElementError(f"{name}.grouping: there is no {kind.grouping!r}: it is one of {known}")
    if type(kind.workers) is not int or not 0 <= kind.workers <= WORKERS_MAX:
        raise ElementError(f"{name}.workers: is to be a number of workers, 1 to {WORKERS_MAX:,}, not {kind.workers!r}")
    if kind.workers and not kind.grouping:
        raise ElementError(f'{name}.workers: workers have a grouping: write grouping = "fish", or leave workers out')
    if kind.grouping in ("", "fields"):
        return
    instead = 'leave grouping out, or write grouping = "fields"'
    if not all(isinstance(key, str | tuple | list) for key in kind.keys.values()):
        raise ElementError(f"{name}.grouping: splits the values of a key that is fields: {instead}")
    if kind.ordered or kind.every_n is not None:
        which = "ordered" if kind.ordered else "every_n"
        raise ElementError(f"{name}.{which}: needs all events of a key in one place, and its keys are split: {instead}")
    if kind._elf_states and kind.combine is PE.combine:
        raise ElementError(
            f"{name}.grouping: splits keys, and nothing says how the states of their parts go together: write"
            f" combine(self, other), or {instead}"
        )
    if not kind._elf_states and kind.every_s is not None:
        raise ElementError(f"{name}.every_s: has output of keys that are split, and no state to combine: {instead}")
