"""Sources of events, and elements that need no code: they are computed on columns by the agents themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.programs.element_graph import Kind
from elf.elements.event import ElementError, check_delivery

K_MAX = 10_000
"""Upper bound on the rows of a list that `top` keeps."""
SECONDS_MAX = 366 * 86_400
_ALIAS = re.compile(r"\bAS\s+([A-Za-z_][A-Za-z0-9_]*)\s*$", re.IGNORECASE)
_WINDOW = re.compile(r"\s*\d+\s*[A-Za-z]+\s*(?:\bEVERY\s+(\d+\s*[A-Za-z]+)\s*)?$", re.IGNORECASE)

Key = str | int | tuple[str, ...]
"""A key as people write it: a field, several, or a number for one element that gets all events."""


@dataclass(frozen=True, eq=False)
class SourceQuery:
    """Brings events of one type: the rows of a query over a stream of logs. `name` "": that of its variable."""

    query: str
    guaranteed: bool
    shed: str
    name: str = ""


@dataclass(frozen=True, eq=False)
class Declared:
    """An element that needs no code, and the type of the events that it emits. `inputs`: types with their keys."""

    kind: Kind
    inputs: tuple[tuple[object, Key], ...]
    options: dict[str, object]
    every_s: float | None = None
    name: str = ""


def source(query: str, *, guaranteed: bool = True, shed: str = "", name: str = "") -> SourceQuery:
    """Brings the rows of an ELF QL query over logs, without groups, as events. Raises ElementError.

    `guaranteed`, `shed`: as for `elf.event`. The type is named as the variable it is put into, or `name`.
    """
    if not isinstance(query, str) or not query.strip():
        raise ElementError("elf.source: needs a query in ELF QL, as in elf.source('SELECT text FROM quotes')")
    check_delivery("elf.source", guaranteed, shed)
    _check_name("source", name)
    return SourceQuery(query, guaranteed, shed, name)


def top(events: object, *, key: Key, of: str, by: str, k: int = 10, every_s: float = 1.0, name: str = "") -> Declared:
    """Keeps, for each key, the latest `by` of each `of`, and emits the k largest each `every_s` if any has changed.

    Ties go by `of`, ascending. The events that it emits have the fields of the key, `of` and `by`. Raises ElementError.
    """
    _check_key("top", key)
    for option, value in (("of", of), ("by", by)):
        if not isinstance(value, str) or not value:
            raise ElementError(f"elf.top: {option} is to be the name of a field, not {value!r}")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= K_MAX:
        raise ElementError(f"elf.top: k is to be a number from 1 to {K_MAX:,}, not {k!r}")
    _check_name("top", name)
    return Declared(
        "top", ((events, key),), {"of": of, "by": by, "k": k}, _checked_seconds("elf.top: every_s", every_s), name
    )


def aggregate(events: object, *, key: Key, value: str, window: str | None = None, name: str = "") -> Declared:
    """Aggregates the events of each key, in windows or else running, by the aggregates of ELF QL. Raises ElementError.

    `value`: as after SELECT, each with a name, as in "COUNT(*) AS n, AVG(clicked) AS ctr". `window`: as after
    WINDOWING, as in "24 HOURS EVERY 1 HOUR"; without it, each event is followed by its key's values so far.
    """
    _check_key("aggregate", key)
    if not isinstance(value, str) or not value.strip():
        raise ElementError(f"elf.aggregate: value is to be aggregates in ELF QL with names, not {value!r}")
    value_names(value)
    if window is not None and (not isinstance(window, str) or not _WINDOW.match(window)):
        raise ElementError(f"elf.aggregate: window is to be as in '24 HOURS EVERY 1 HOUR', not {window!r}")
    _check_name("aggregate", name)
    options: dict[str, object] = {"value": value} if window is None else {"value": value, "window": window}
    return Declared("aggregate", ((events, key),), options, None, name)


def join(
    left: object, right: object, *, on: str | tuple[str, ...], within_s: float, as_: str = "", name: str = ""
) -> Declared:
    """Emits each event of `left` once, with a field that is 1 if an event of `right` with the same fields `on` is at
    most `within_s` away in time, else 0. Raises ElementError.

    The field is named `as_`, or as `right` is: `clicked` for Click.
    """
    fields = (on,) if isinstance(on, str) else on
    if not isinstance(fields, tuple | list) or not fields or not all(isinstance(one, str) and one for one in fields):
        raise ElementError(f"elf.join: on is to be the name of a field or a tuple of names, not {on!r}")
    if not isinstance(as_, str):
        raise ElementError(f"elf.join: as_ is to be the name of a field, not {as_!r}")
    if left is right:
        raise ElementError("elf.join: joins two types of events, not one with itself")
    within_ms = round(_checked_seconds("elf.join: within_s", within_s) * 1000)
    _check_name("join", name)
    key = tuple(fields)
    options: dict[str, object] = {"within_ms": within_ms, "flag": as_, "mode": "first"}
    return Declared("join", ((left, key), (right, key)), options, None, name)


def value_names(value: str) -> list[str]:
    """The names of the aggregates of `elf.aggregate`. Raises ElementError.

    >>> value_names("COUNT(*) AS n, MAX(IF(a, b, 1)) as most")
    ['n', 'most']
    """
    names = []
    for part in _split(value):
        named = _ALIAS.search(part)
        if named is None:
            part = part.strip()[:80]
            raise ElementError(
                f"elf.aggregate: value: {part or 'an aggregate'} has no name: write {part or 'COUNT(*)'} AS name"
            )
        names.append(named[1])
    if len(set(names)) < len(names):
        raise ElementError(f"elf.aggregate: value: two aggregates have one name: {', '.join(names)}")
    return names


def slide_of(window: str) -> str:
    """Returns the time from one window of `elf.aggregate` to the next.

    >>> slide_of("24 HOURS EVERY 1 HOUR"), slide_of("5 MINUTES")
    ('1 HOUR', '5 MINUTES')
    """
    found = _WINDOW.match(window)
    return (found[1] if found is not None and found[1] else window).strip()


def _split(value: str) -> list[str]:
    """The parts between commas that are in no parentheses and no quotes."""
    parts, start, depth, quote = [], 0, 0, ""
    for place, character in enumerate(value):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(value[start:place])
            start = place + 1
    return [*parts, value[start:]]


def is_key(key: object) -> bool:
    """Whether it is a field, a tuple of fields, or a number."""
    if isinstance(key, tuple):
        return bool(key) and len(key) <= 16 and all(isinstance(one, str) and one for one in key)
    return (isinstance(key, str) and bool(key)) or (
        isinstance(key, int) and not isinstance(key, bool) and abs(key) < 2**63
    )


def _check_key(what: str, key: object) -> None:
    if not is_key(key):
        raise ElementError(
            f"elf.{what}: key is to be a field, a tuple of fields, or a number for one element in all, not {key!r}"
        )


def _checked_seconds(what: str, seconds: object) -> float:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0.001 <= seconds <= SECONDS_MAX:
        raise ElementError(f"{what} is to be seconds, from 0.001 to {SECONDS_MAX:,}, not {seconds!r}")
    return float(seconds)


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or (name and not name.isidentifier()):
        raise ElementError(f"elf.{what}: name is to be a word of letters and digits, not {name!r}")
