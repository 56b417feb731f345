"""Finds the columns a plan needs among those that an archive's segments store."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - its usual name

import query
from agent.archive.format.segments import PARSED, TIME, Segment
from elf.batch.table.layout import column as stored_column
from query.model.types import WINDOW_BOUNDS
from query.spark import NotExactError, SparkColumn

_FITTING = {
    "any": ("integer", "number", "string", "boolean"),
    "number": ("integer", "number"),
    "integer": ("integer",),
    "string": ("string",),
    "boolean": ("boolean",),
}
"""Type → kinds of stored columns whose values all have that type."""


def stored_columns(plan: query.Plan, segments: Sequence[Segment]) -> dict[str, SparkColumn]:
    """The columns of a plan's events by their names in the plan. Raises NotExactError where a segment stores values as
    another type than the plan needs.
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
        found |= dict(
            zip(WINDOW_BOUNDS, (SparkColumn(start, "integer"), SparkColumn(start + size, "integer")), strict=True)
        )
    return found


def stored_names(plan: query.Plan, segments: Sequence[Segment]) -> list[str]:
    """Names of the stored columns to read."""
    known = {name for segment in segments for name in segment.columns}
    return [f"{PARSED}{name}" for column in plan.columns if (name := ".".join(column.path)) in known]


def _column(column: query.PlanColumn, segments: Sequence[Segment], of_texts: bool) -> SparkColumn:
    name = ".".join(column.path)
    kinds = {kind for segment in segments if (kind := segment.columns.get(name)) is not None}
    if not kinds:
        return SparkColumn(F.lit(None), "null")
    if len(kinds) > 1:
        raise NotExactError(f"{name} is {' here and '.join(sorted(kinds))} there")
    kind = kinds.pop()
    type_ = "string" if of_texts and column.type == "any" else column.type
    stored = stored_column(f"{PARSED}{name}")
    if of_texts and type_ == "string" and kind == "integer":
        return SparkColumn(stored.cast("string"), "string")
    if kind not in _FITTING.get(type_, ()):
        raise NotExactError(f"{name} is stored as {kind}, and needed as {type_}")
    return SparkColumn(stored, kind)
