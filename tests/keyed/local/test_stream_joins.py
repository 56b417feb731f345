"""Random joins of two streams give the rows of all pairs, taken one by one: as elements, in any order of arrival."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from paired_streams import CLICKS, JOINS, OPEN, QUERIES, SERVES, WITHIN_MS, expected
from query_pipeline import answered, homogeneous_frames

import query
from agent.runtime.keyed.event_columns import event_frames, field_columns


def as_elements(text, serves, clicks):
    """The answer of a query's sources, of a join of their rows, and of its plan over the pairs."""
    plan = query.analyze(query.parse(text), OPEN)
    join = query.stream_join(plan)
    sides = [rows_of(side, events) for side, events in ((join.left, serves), (join.right, clicks))]
    joined = joined_rows(join, *sides)
    return answered(replace(plan, elements=None), None, lambda read, _: event_frames(joined, read.columns))


def rows_of(side, events):
    """The events of a side as its source brings them."""
    stage = query.EventStage(side.plan)
    rows = [field_columns(stage.apply(frame), side.fields) for frame in homogeneous_frames(side.plan, events)]
    return pl.concat(rows) if rows else field_columns(stage.apply(nothing(side.plan)), side.fields)


def nothing(plan):
    schema = {"@time": pl.Int64} | {column.name: pl.Null for column in plan.columns}
    return pl.DataFrame(schema=schema)


def joined_rows(join, left, right):
    """All pairs, by Polars."""
    numbered = left.with_row_index("row")
    theirs = right.rename({"@time": "right.time"} | {name: f"right.{name}" for name, _ in join.right.fields})
    keys = [f"right.{name}" for name in join.right.key]
    theirs = theirs.with_columns(pl.col(keys).name.prefix("key."))
    pairs = numbered.join(theirs, left_on=list(join.left.key), right_on=[f"key.{key}" for key in keys])
    pairs = pairs.filter((pl.col("@time") - pl.col("right.time")).abs() <= join.within_ms)
    if join.outer:
        pairs = pl.concat([pairs, numbered.join(pairs, on="row", how="anti")], how="diagonal")
    names = [f"right.{name}" for name, _ in join.right.fields]
    shown = pairs.select("@time", *(name for name, _ in join.left.fields), *names)
    shown.columns = ["@time", *(name for name, _ in join.fields)]
    return shown


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("text", QUERIES)
@given(serves=SERVES, clicks=CLICKS)
def test_a_join_gives_the_rows_of_all_pairs(text, join, serves, clicks):
    text = text.format(join)
    found = as_elements(text, serves, clicks)
    assert shown(found) == shown(expected(text, serves, clicks, WITHIN_MS))


def shown(rows):
    return sorted(json.dumps(list(row.values())) for row in rows)
