"""Finds every fault of a document that should have the shape of a msgspec Struct, in words for people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from agent.configuration.toml_lines import KeyPath
from agent.sources.options import RULE

_EXPECTED = re.compile(r"Expected `([^`]*)`, got `(\w+)`")
_LENGTH = re.compile(r"Expected `(\w+)` of length (<=|>=) (\d+)")
Rule = Callable[[Any], object]
_NAMES = {
    "str": "text in quotes", "int": "a whole number", "float": "a number", "bool": "true or false",
    "array": "a list", "object": "a table", "datetime": "a time", "date": "a date", "time": "a time of day",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a key."""

    key: KeyPath
    message: str


def struct_faults(document: Mapping[str, Any], *kinds: type[msgspec.Struct], path: KeyPath = ()) -> list[Fault]:
    """All faults of a table that has the keys of these structs: unknown and missing keys, and values of the wrong type,
    length or choice.
    """
    fields = {field.encode_name: field for kind in kinds for field in msgspec.structs.fields(kind)}
    faults = [Fault((*path, key), _unknown(key, fields)) for key in document if key not in fields]
    for name, field in fields.items():
        if name in document:
            faults += _value_faults(document[name], field.type, (*path, name))
        elif field.required:
            faults.append(Fault((*path, name), "is missing"))
    return faults


def spelled(key: KeyPath) -> str:
    """A key's path as it is written in sentences."""
    text = ""
    for part in key:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        shown = part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else repr(part[:80])
        text += f".{shown}" if text else shown
    return text


def _unknown(key: str, fields: Mapping[str, object]) -> str:
    close = get_close_matches(key[:100], fields, n=1, cutoff=0.6)
    return f"unknown key (did you mean {close[0]}?)" if close else f"unknown key (there are {', '.join(fields)})"


def _value_faults(value: Any, kind: Any, path: KeyPath) -> list[Fault]:
    inmost = bare(kind)
    if isinstance(value, dict) and is_struct(inmost):
        return struct_faults(value, inmost, path=path)
    if isinstance(value, dict) and get_origin(inmost) is dict:
        named, inner = get_args(inmost)
        faults = [fault for key in value for fault in _own_faults(key, named, (*path, key))]
        faults += [fault for key, one in value.items() for fault in _value_faults(one, inner, (*path, key))]
        return faults or _own_faults(value, kind, path)
    if isinstance(value, list) and get_origin(inmost) is list:
        # One by one: msgspec tells of the first fault only.
        (inner,) = get_args(inmost)
        faults = [fault for at, element in enumerate(value) for fault in _value_faults(element, inner, (*path, at))]
        return faults or _own_faults(value, kind, path)
    return _own_faults(value, kind, path)


def _own_faults(value: Any, kind: Any, path: KeyPath) -> list[Fault]:
    try:
        msgspec.convert(value, kind)
        for rule in _rules(kind):
            rule(value)
    except msgspec.ValidationError as error:
        return [Fault(path, _in_words(str(error), value, kind))]
    except ValueError as error:
        return [Fault(path, str(error))]
    return []


def _in_words(message: str, value: Any, kind: Any) -> str:
    choices = _choices(kind)
    if choices and isinstance(value, str):
        return f"{value[:80]!r} is none of {', '.join(choices)}"
    if match := _LENGTH.match(message):
        what, bound, length = match.groups()
        if bound == ">=":
            return "must not be empty"
        return f"may have at most {int(length):,} {'characters' if what == 'str' else 'entries'}"
    if match := _EXPECTED.match(message):
        wanted = [_NAMES.get(name.strip(), name) for name in match[1].split("|") if name.strip() != "null"]
        return f"must be {' or '.join(wanted)}, not {_NAMES.get(match[2], match[2])}"
    return message[:1].lower() + message[1:]


def _choices(kind: Any) -> tuple[str, ...]:
    kind = bare(kind)
    return get_args(kind) if get_origin(kind) is Literal else ()


def bare(kind: Any) -> Any:
    """A type without its constraints and without None."""
    return _taken_apart(kind)[0]


def is_struct(kind: Any) -> bool:
    """Whether a bare type is that of a table with keys of its own."""
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def metas(kind: Any) -> list[msgspec.Meta]:
    """The constraints and descriptions of a type."""
    return _taken_apart(kind)[1]


def _rules(kind: Any) -> list[Rule]:
    return [meta.extra[RULE] for meta in metas(kind) if meta.extra and RULE in meta.extra]


def _taken_apart(kind: Any) -> tuple[Any, list[msgspec.Meta]]:
    metas: list[msgspec.Meta] = []
    while True:
        if get_origin(kind) is Annotated:
            kind, *more = get_args(kind)
            metas += [meta for meta in more if isinstance(meta, msgspec.Meta)]
        elif get_origin(kind) in (Union, UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        else:
            return kind, metas
