"""Finds one processing element by the values of its key as people write them, and its state among those of its node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

import query
from agent.programs.element_graph import Element, ElementInput, EventType, FieldType
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.elements.code import KEY, state_of
from agent.runtime.keyed.elements.runtime import DTYPES, NODE, Tables
from agent.runtime.keyed.elements.slots import GONE

ROWS_SHOWN = 1000
"""Upper bound on the rows of one table of a state that are shown."""
_TRUTH = {"true": True, "false": False}


class KeyMismatchError(Exception):
    """No element of this prototype can have such a key; the message says why."""


def keyed_input(element: Element) -> ElementInput | None:
    """The first input by which an element is keyed; None: it has no key, and no state."""
    return next((one for one in element.inputs if one.key is not None), None)


def key_columns(types: Mapping[str, EventType], element: Element, texts: Sequence[str]) -> list[pl.Series]:
    """The one row of an element's key, as its type has it. Raises KeyMismatchError."""
    found = keyed_input(element)
    if found is None or found.key is None:
        raise KeyMismatchError(f"{element.name} has no key: it runs beside every agent, and keeps no state")
    if found.constant is not None:
        if list(texts) not in ([], [str(found.constant)]):
            raise KeyMismatchError(f"{element.name} has one key in the whole fleet, {found.constant}")
        return [pl.Series("constant", [found.constant])]
    if len(texts) != len(found.key):
        fields = ", ".join(found.key)
        one = "1 value" if len(found.key) == 1 else f"{len(found.key)} values"
        raise KeyMismatchError(f"the key of {element.name} is ({fields}): {one}, not {len(texts)}")
    fields_of = dict(types[found.type].fields) if found.type in types else {}
    return [
        pl.Series(field, [_value(field, fields_of.get(field, "string"), text)], DTYPES[fields_of.get(field, "string")])
        for field, text in zip(found.key, texts, strict=True)
    ]


def _value(field: str, kind: FieldType, text: str) -> str | int | float | bool:
    try:
        match kind:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return _TRUTH[text.lower()]
            case "timestamp":
                return _time_ms(text)
            case "any":
                return _json_text(text)
            case _:
                return text
    except (ValueError, KeyError):
        raise KeyMismatchError(f"{field} is of type {kind}, and {text[:100]!r} is not") from None


def _json_text(text: str) -> str:
    """A value that may be any, as its canonical JSON text: as it is, or else as a text.

    >>> _json_text("7"), _json_text("shoes")
    ('7', '"shoes"')
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        value = text
    return msgspec.json.encode(value, order="sorted").decode()


def _time_ms(text: str) -> int:
    """Epoch milliseconds as a number, or a time as it is shown."""
    found = int(text) if text.lstrip("-").isdigit() else query.parse_timestamp(text)
    if found is None:
        raise ValueError(text)
    return found


def state_of_key(element: Element, key: Sequence[pl.Series], tables: Tables) -> bytes | None:
    """The state of one key, of the tables of its logical node, as JSON; None where the node has no such element."""
    if element.kind == "code":
        return _code_state(element, key, tables)
    is_constant = getattr(keyed_input(element), "constant", None) is not None
    found = {
        name: rows
        for name, table in declared.shown(element, tables).items()
        if (rows := _rows(table if is_constant else _of_key(element, key, table)))
    }
    return msgspec.json.encode(found) if found else None


def _code_state(element: Element, key: Sequence[pl.Series], tables: Tables) -> bytes | None:
    """The attributes of the last row of a key, unless it says that the element has gone."""
    has_fields = bool((keyed_input(element) or element.inputs[0]).key)
    for table in tables.values():
        matches = [pl.col(f"{KEY}{place}").eq(column[0]) for place, column in enumerate(key)] if has_fields else []
        rows = table.filter(matches) if matches else table
        if rows.height and not rows[GONE][-1]:
            return state_of(rows.row(-1, named=True), element)
    return None


def _of_key(element: Element, key: Sequence[pl.Series], table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table with this key, by the names that any input gives to its fields."""
    for one in element.inputs:
        names = one.key or []
        if names and set(names) <= set(table.columns):
            matches = [pl.col(name).eq_missing(column[0]) for name, column in zip(names, key, strict=True)]
            return table.filter(matches)
    return table.clear()


def _rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    kept = table.filter(~pl.col(GONE).fill_null(False)) if GONE in table.columns else table
    shown = kept.drop(NODE, GONE, strict=False).head(ROWS_SHOWN)
    return [{name: _plain(value) for name, value in row.items()} for row in shown.iter_rows(named=True)]


def _plain(value: object) -> object:
    return f"{len(value):,} bytes" if isinstance(value, bytes) else value
