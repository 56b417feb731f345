"""Makes two classes of one whose keys are split among workers: parts, and the whole that combines them (FISH).

Parts take the events, each beside one worker. At each boundary of `every_s` a part emits its state and is gone; the
whole, of which each key has one, combines these states with its own, and has `output`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from elf.elements.element import PE, StateError
from elf.elements.event import BaseEvent, event

PARTS, STATE = "parts", "state"
"""Endings of the names of the element of parts and of the type of their states; that type's field."""
GROUPINGS = ("fish", "shuffle", "pkg", "dchoices", "wchoices")
"""The groupings that split keys."""
WORKERS_DEFAULT = 64
"""Workers where a class does not say how many."""
COMBINED_S = 1.0
"""Time between two states of a part, where nothing says when output is called."""


class SplitClasses(NamedTuple):
    """The two classes, and the type of events between them."""

    parts: type[PE]
    state: type[BaseEvent]
    whole: type[PE]


def is_split(kind: type[PE]) -> bool:
    """Whether events of one key go to several workers."""
    return kind.grouping in GROUPINGS


def is_combined(kind: type[PE]) -> bool:
    """Whether what workers have of one key is to be combined: it has a state."""
    return is_split(kind) and bool(kind._elf_states)


def every_s(kind: type[PE]) -> float:
    """The time between two states of a part."""
    return COMBINED_S if kind.every_s is None else float(kind.every_s)


def key_names(size: int) -> list[str]:
    """The fields of a key in the type of states."""
    return [f"key{place}" for place in range(size)]


def split_classes(kind: type[PE], key_size: int) -> SplitClasses:
    """The classes for one whose key has so many fields."""
    fields = key_names(key_size)
    state: type[Any] = event(
        type(f"{kind.__name__}_{STATE}", (), {"__annotations__": dict.fromkeys(fields, object) | {STATE: str}})
    )
    names = [one.name for one in kind._elf_states]

    def tell(part: PE) -> None:
        key = part.key if key_size > 1 else (part.key,)
        try:
            told = json.dumps({name: getattr(part, name) for name in names})
        except (TypeError, ValueError, RecursionError) as error:
            raise StateError(f"its state cannot be kept: {error}", part) from None
        part.emit(state(*key, told))

    def take(whole: PE, told: Any) -> None:
        other: Any = object.__new__(type(whole))
        other._elf_key = whole._elf_key
        for name, value in json.loads(told.state).items():
            setattr(other, name, value)
        whole.combine(other)

    about = {"_elf_states": kind._elf_states, "__module__": kind.__module__, "__doc__": kind.__doc__}
    parts = type(f"{kind.__name__}_{PARTS}", (kind,), {**about, "output": tell, "_elf_is_part": True})
    whole = type(kind.__name__, (kind,), {**about, "process_event": take})
    return SplitClasses(parts, state, whole)
