"""Columns that an aggregate reads of values of any type, which travel as canonical JSON texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

import query
from agent.parsing.columns import ParsedColumn, parsed
from agent.programs.element_graph import EventType
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME
from agent.runtime.keyed.event_columns import decoded

READABLE = ("any", "number", "integer", "string", "boolean")
"""The types that values of any type may be read as."""


class ReadColumns:
    """Reads values of any type as what a plan uses them as; others are NULL, and counted in `coerced`.

    Columns of `plan`, but for those that `kept` has as texts, as keys are.
    """

    def __init__(self, plan: query.Plan, kept: query.Plan, of: EventType) -> None:
        fields = dict(of.fields)
        self._columns = [
            own
            for own, text in zip(plan.columns, kept.columns, strict=True)
            if own == text and fields.get(own.path[0]) == "any"
        ]
        self.coerced = 0

    def frames(self, rows: pl.DataFrame) -> Sequence[pl.DataFrame]:
        """The rows with these columns, in frames in which each holds values of one type. O(n)."""
        if not self._columns:
            return [rows]
        read = self._read(rows)
        others = [ParsedColumn(one.name, (one,)) for one in rows.drop(read, strict=False) if one.name != EVENT_TIME]
        return parsed(rows[EVENT_TIME], [*others, *(replace(one, misfits=None) for one in read.values())], 0).frames

    def frame(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows in their order, with these columns, none of which is of any type. O(n)."""
        if not self._columns:
            return rows
        made = []
        for column, (name, read) in zip(self._columns, self._read(rows).items(), strict=True):
            first, *others = (variant.cast(DTYPES[column.type]) for variant in read.variants)
            for other in others:
                first = first.fill_null(other)
            made.append(first.alias(name))
        return rows.with_columns(made)

    def _read(self, rows: pl.DataFrame) -> dict[str, ParsedColumn]:
        read = {one.name: decoded(rows[one.path[0]], one) for one in self._columns}
        self.coerced += sum(int(one.misfits.sum()) for one in read.values() if one.misfits is not None)
        return read
