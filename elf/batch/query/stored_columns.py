"""The columns that a plan needs, as the segments of an archive store them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import query
from agent.archive.format.segments import PARSED, TIME, Segment
from elf.batch.table.layout import column as stored_column
from query.model.types import WINDOW_BOUNDS
from query.spark import NotExactError, Typed

_FITTING = {
    "any": ("integer", "number", "string", "boolean"),
    "number": ("integer", "number"),
    "integer": ("integer",),
    "string": ("string",),
    "boolean": ("boolean",),
}
"""The kinds of stored columns of which every value is one of a type."""


def stored_columns(plan: query.Plan, segments: Sequence[Segment]) -> dict[str, Typed]:
    """The columns of a plan's events by their names in the plan. Raises NotExactError where a segment has values that
    are not stored as what the plan takes them for.
    """
    if any(not segment.is_complete for segment in segments):
        raise NotExactError("some events have fields that no column stores")
    of_texts = {form.has_header_line for segment in segments for form in segment.formats}
    if len(of_texts) > 1:
        raise NotExactError("values are texts in some files, and typed in others")
    found = {column.name: _column(column, segments, of_texts == {True}) for column in plan.columns}
    if plan.windowing is not None and plan.windowing.is_tumbling and plan.window_ms is not None:
        time, size = stored_column(TIME), F.lit(plan.window_ms).cast("bigint")
        start = time - F.pmod(time, size)
        found |= dict(zip(WINDOW_BOUNDS, (Typed(start, "integer"), Typed(start + size, "integer")), strict=True))
    return found


def stored_names(plan: query.Plan, segments: Sequence[Segment]) -> list[str]:
    """What has to be read of them."""
    known = {name for segment in segments for name in segment.columns}
    return [f"{PARSED}{name}" for column in plan.columns if (name := ".".join(column.path)) in known]


def _column(column: query.Column, segments: Sequence[Segment], of_texts: bool) -> Typed:
    name = ".".join(column.path)
    kinds = {kind for segment in segments if (kind := segment.columns.get(name)) is not None}
    if not kinds:
        return Typed(F.lit(None), "null")
    if len(kinds) > 1:
        raise NotExactError(f"{name} is {' here and '.join(sorted(kinds))} there")
    kind = kinds.pop()
    type_ = "string" if of_texts and column.type == "any" else column.type
    stored = stored_column(f"{PARSED}{name}")
    if of_texts and type_ == "string" and kind == "integer":
        return Typed(stored.cast("string"), "string")
    if kind not in _FITTING.get(type_, ()):
        raise NotExactError(f"{name} is stored as {kind}, and needed as {type_}")
    return Typed(stored, kind)
