"""Compares the rows of two results: floats may differ by what the order of additions does to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

RELATIVE = 1e-9
Row = dict[str, Any]


def difference(live: Sequence[Row], offline: Sequence[Row], tolerance: float = RELATIVE) -> str | None:
    """The first difference in words; None where there is none. Rows that differ only in such floats may change
    places.
    """
    first = _first(live, offline, tolerance)
    if first is None or len(live) != len(offline) or not any(map(_has_floats, (*live, *offline))):
        return first
    ordered = sorted(live, key=_exact_part), sorted(offline, key=_exact_part)
    return None if _first(*ordered, tolerance) is None else first


def _first(live: Sequence[Row], offline: Sequence[Row], tolerance: float) -> str | None:
    for number, (mine, theirs) in enumerate(zip(live, offline, strict=False), 1):
        for text in _in_row(mine, theirs, tolerance):
            return f"row {number}: {text}"
    if len(live) != len(offline):
        return f"{len(live):,} rows live, {len(offline):,} offline"
    return None


def _in_row(live: Row, offline: Row, tolerance: float) -> Iterator[str]:
    for name in live.keys() | offline.keys():
        mine, theirs = live.get(name), offline.get(name)
        if not are_same(mine, theirs, tolerance):
            yield f"{name} is {_shown(mine)} live, {_shown(theirs)} offline"


def are_same(one: object, other: object, tolerance: float = RELATIVE) -> bool:
    """Whether two JSON values are equal, their numbers within a relative tolerance.

    >>> are_same([1, {"a": 0.1 + 0.2}], [1, {"a": 0.3}]), are_same(True, 1), are_same("a", "b")
    (True, False, False)
    """
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int) and tolerance == RELATIVE:
        return one == other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=0.0)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(are_same(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_same(one[key], other[key], tolerance) for key in one)
    return one == other


def _has_floats(row: Row) -> bool:
    return any(isinstance(value, float) for value in row.values())


def _exact_part(row: Row) -> bytes:
    return msgspec.json.encode([value for value in row.values() if not isinstance(value, float)])


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"
