"""Packs columns of elements for the pipe, and unpacks them, without a step of Python for each value."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import msgspec

from agent.programs.calls import SEPARATOR, PackedColumn
from agent.programs.element_graph import FieldType

_KINDS: dict[type, FieldType] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_decode_json = msgspec.json.Decoder().decode


def unpacked(column: PackedColumn) -> list[Any]:
    """The values of a column. O(n).

    >>> unpacked(PackedColumn("j", texts='1\\x1f"a"\\x1fnull'))
    [1, 'a', None]
    """
    match column.kind:
        case "q" | "d":
            return memoryview(column.numbers).cast(column.kind).tolist()
        case "b":
            return [*map(bool, column.numbers)]
        case "s":
            return column.texts.split(SEPARATOR)
        case "j":
            found: list[Any] = _decode_json(f"[{column.texts.replace(SEPARATOR, ',')}]")
            return found
    return column.values


def pieces(column: PackedColumn, rows: int, size: int) -> Iterator[list[Any]]:
    """The values of a column of so many rows, `size` at a time: the processor's cache holds what is made of them. O(n).

    >>> [*pieces(PackedColumn("s", texts='a\x1fb\x1fc'), 3, 2)]
    [['a', 'b'], ['c']]
    """
    if column.kind == "s":
        rest = column.texts
        for _ in range(size, rows, size):
            *values, rest = rest.split(SEPARATOR, size)
            yield values
        yield rest.split(SEPARATOR)
        return
    parts = memoryview(column.numbers).cast(column.kind) if column.kind in ("q", "d") else unpacked(column)
    for start in range(0, rows, size):
        part = parts[start : start + size]
        yield part if isinstance(part, list) else part.tolist()


def raw_texts(column: PackedColumn) -> list[Any]:
    """The values of a column, those of JSON as their texts."""
    return column.texts.split(SEPARATOR) if column.kind == "j" else unpacked(column)


def packed(values: list[Any], kind: FieldType) -> PackedColumn:
    """Packs values, as those of a field of this type where all of them are. O(n).

    >>> packed([1, 2], "integer").kind, packed([1, None], "integer").kind, packed(["a", "b"], "string").texts
    ('q', 'l', 'a\\x1fb')
    """
    try:
        if kind in ("integer", "timestamp"):
            return PackedColumn("q", array("q", values).tobytes())
        if kind == "number":
            return PackedColumn("d", array("d", values).tobytes())
        if kind == "boolean":
            if {*map(type, values)} == {bool}:
                return PackedColumn("b", bytes(values))
        elif kind == "string":
            texts = SEPARATOR.join(values)
            if texts.count(SEPARATOR) == len(values) - 1:
                return PackedColumn("s", texts=texts)
        elif (
            kind == "any"
            and len(kinds := {*map(type, values)}) == 1
            and (alike := _KINDS.get(next(iter(kinds)))) is not None
        ):
            return packed(values, alike)
    except (TypeError, OverflowError):
        pass  # a value that is none of the type, which the agent takes as it takes one of a log
    return PackedColumn("l", values=values)


def column_bytes(column: PackedColumn) -> int:
    """The size of a column, encoded. Raises ValueError or TypeError for what cannot be."""
    texts = len(column.texts) if column.texts.isascii() else len(column.texts.encode())
    return len(column.numbers) + texts + (len(msgspec.msgpack.encode(column.values)) if column.values else 0)
