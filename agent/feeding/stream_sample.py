"""Samples the columns of a stream: their types and an example of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import polars as pl

from agent.configuration.config import StreamConfig
from agent.parsing import Format, SourceColumn, parser, schema, sniff
from agent.runtime.messages.views.descriptions import COLUMNS_MAX, EXAMPLE_CHARACTERS_MAX, ColumnType, DescribedColumn
from agent.sources import Block, Origin, SourceError

PARTS_MAX = 4
"""Upper bound on the files looked at, those that changed last."""
HEAD_BYTES = 64 << 10
_TYPES: dict[pl.DataType, ColumnType] = {
    pl.Int64(): "integer",
    pl.Float64(): "number",
    pl.String(): "string",
    pl.Boolean(): "boolean",
}


def sample(stream: StreamConfig) -> tuple[list[DescribedColumn], bool]:
    """The columns of a stream, and whether events may have others. Blocks: reads up to 64 KiB of a few files."""
    found: list[DescribedColumn] = []
    is_open = False
    for name, head in stream.source.heads(PARTS_MAX, HEAD_BYTES):
        try:
            form = sniff(head, name, stream.format, stream.time_field)
        except SourceError:
            continue
        is_open |= schema(form)[1]
        found += _columns(form, head, name)
    return united(found), is_open or not found


def united(columns: Iterable[DescribedColumn]) -> list[DescribedColumn]:
    """Each column once, in the order of their first appearance; at most COLUMNS_MAX."""
    return [merged(seen) for seen in by_name(columns).values()]


def by_name(columns: Iterable[DescribedColumn]) -> dict[str, list[DescribedColumn]]:
    """The descriptions of each column by its name, of at most COLUMNS_MAX columns."""
    found: dict[str, list[DescribedColumn]] = {}
    for column in columns:
        if column.name in found or len(found) < COLUMNS_MAX:
            found.setdefault(column.name, []).append(column)
    return found


def merged(every: Sequence[DescribedColumn]) -> DescribedColumn:
    """Merges descriptions of one column: their common type, and the first example."""
    types = {column.type for column in every}
    kind: ColumnType = "any"
    if len(types) == 1:
        kind = every[0].type
    elif types == {"integer", "number"}:
        kind = "number"
    return DescribedColumn(every[0].name, kind, next((column.example for column in every if column.example), ""))


def _columns(form: Format, head: bytes, path: str) -> Iterator[DescribedColumn]:
    declared, _ = schema(form)
    wanted = [
        SourceColumn(f"c{number}", (name,) if form.has_header_line else tuple(name.split(".")), "any")
        for number, name in enumerate(declared)
    ]
    frames = parser(form, wanted).parse(Block(head, Origin(path, 0), 0), 0).frames
    for column, (name, kind) in zip(wanted, declared.items(), strict=True):
        values = [frame[column.name].drop_nulls() for frame in frames]
        values = [one for one in values if one.len()]
        yield DescribedColumn(name[:255], _type(kind, values), _example(values))


def _type(declared: str, values: list[pl.Series]) -> ColumnType:
    """The declared type, or that of the values where the format declares none."""
    if declared != "any":
        known: ColumnType = msgspec.convert(declared, ColumnType)
        return known
    types = {_TYPES.get(one.dtype, "any") for one in values}
    if types == {"integer", "number"}:
        return "number"
    return types.pop() if len(types) == 1 else "any"


def _example(values: list[pl.Series]) -> str:
    if not values:
        return ""
    value = values[0][0]
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= EXAMPLE_CHARACTERS_MAX else f"{text[: EXAMPLE_CHARACTERS_MAX - 1]}…"
