"""Turns selected columns of events into the fields of an event type, and rows of a type back into events of a query.

A field of type `any` is canonical JSON text, whatever its values: rows go back into frames in which every column has
one physical type, as parsers make them.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

import cbt
import query
from agent.parsing import SourceColumn
from agent.parsing.columns import ParsedColumn, column_of_kinds, null_column, parsed
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME
from query.model.canonical import kind_of, physical

_KINDS = {"string": str, "boolean": bool, "integer": int, "double": float}


def field_columns(selected: pl.DataFrame, fields: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """The event time and the fields of a type, from the columns that a plan of rows selects (c0, c1, ...). O(n)."""
    columns = [selected[EVENT_TIME]]
    for number, (name, kind) in enumerate(fields):
        column = selected[f"c{number}"].rename(name)
        columns.append(cbt.canonical_json(column) if kind == "any" else column.cast(DTYPES[kind], strict=False))
    return pl.DataFrame(columns)


def event_frames(rows: pl.DataFrame, columns: Sequence[query.PlanColumn | SourceColumn]) -> tuple[pl.DataFrame, ...]:
    """Rows of a type as events: their time, and the columns that a plan reads of them. O(n).

    A value that a column does not take is NULL, and counted in `@coerced`.
    """
    made = [_column(rows, one) for one in columns]
    return parsed(rows[EVENT_TIME], made, 0).frames


def _column(rows: pl.DataFrame, column: query.PlanColumn | SourceColumn) -> ParsedColumn:
    (name,) = column.path
    if name not in rows.columns:
        return null_column(column.name, rows.height)
    values = rows[name].rename(column.name)
    if column.type == "timestamp":
        return ParsedColumn(column.name, (values.cast(pl.Datetime("ms", "UTC")),))
    if values.dtype != pl.String or column.type == "string":
        return ParsedColumn(column.name, (values,))
    return decoded(values, column)


def decoded(texts: pl.Series, column: query.PlanColumn | SourceColumn) -> ParsedColumn:
    """The values of canonical JSON texts as a column of a plan takes them, which is none of times. O(n)."""
    return column_of_kinds(column.name, column.type, _of_kinds(texts), len(texts))


def _of_kinds(texts: pl.Series) -> dict[type, pl.Series]:
    """The values of canonical JSON texts, as one series for each kind that there is."""
    kinds = texts.to_frame("text").select(kind_of(pl.col("text")).alias("kind"))["kind"]
    found = {}
    for kind, type_ in _KINDS.items():
        are = kinds == kind
        if are.any():
            own = (
                texts if are.all() else texts.to_frame().select(pl.when(are).then(texts).alias(texts.name))[texts.name]
            )
            found[type_] = physical(own, kind)
    return found
