"""Random joins of two streams give the rows of all pairs, taken one by one: as elements, in any order of arrival."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_streams import CLICKS, JOINS, OPEN, QUERIES, SERVES, WITHIN_MS, expected
from query_pipeline import answered, homogeneous_frames

import query
from agent.runtime.keyed.elements import declared
from agent.runtime.keyed.event_columns import event_frames, field_columns
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.logical_nodes import nodes_of
from agent.runtime.model.panes import END


def as_elements(text, serves, clicks, randomness):
    """The answer of a query's sources, of its element on their rows in any order of arrival, and of its plan."""
    plan = query.analyze(query.parse(text), OPEN)
    join = query.stream_join(plan)
    sides = [rows_of(side, events) for side, events in ((join.left, serves), (join.right, clicks))]
    pairs = arriving(plan, join, sides, randomness)
    read = [frame for rows in pairs for frame in event_frames(rows, plan.columns)]
    return answered(replace(plan, elements=None), None, lambda _plan, _events: read)


def rows_of(side, events):
    """The events of a side as its source brings them."""
    stage = query.EventStage(side.plan)
    rows = [field_columns(stage.apply(frame), side.fields) for frame in homogeneous_frames(side.plan, events)]
    return pl.concat(rows) if rows else field_columns(stage.apply(nothing(side.plan)), side.fields)


def nothing(plan):
    schema = {"@time": pl.Int64} | {column.name: pl.Null for column in plan.columns}
    return pl.DataFrame(schema=schema)


def arriving(plan, join, sides, randomness):
    """What the element emits of rows that come in batches of any size, of either side, and as time goes on between."""
    graph = CheckedGraph.of(plan.elements)
    (element,) = graph.graph.elements
    runtime = declared.runtime_of(element, graph.types, None)
    emitted: list[pl.DataFrame] = []

    def take(found):
        emitted.extend(one.rows for one in found)

    waiting = [numbered(side, rows, randomness) for side, rows in zip((join.left, join.right), sides, strict=True)]
    while any(rows.height for rows in waiting):
        chosen = randomness.choice([number for number, rows in enumerate(waiting) if rows.height])
        count = randomness.randint(1, waiting[chosen].height)
        runtime.process((join.left, join.right)[chosen].type, waiting[chosen].head(count), take)
        waiting[chosen] = waiting[chosen].slice(count)
        times = [time for rows in waiting for time in rows["@time"]]
        if times and randomness.random() < 0.5:
            runtime.advance(min(times), take)
    runtime.advance(END, take)
    assert runtime.elements == 0
    return emitted


def numbered(side, rows, randomness):
    """Rows as a host gets them, in any order."""
    order = list(range(rows.height))
    randomness.shuffle(order)
    rows = rows[order] if order else rows
    places = pl.DataFrame({"@source": [-1] * rows.height, "@seq": order}, {"@source": pl.Int64, "@seq": pl.Int64})
    return rows.hstack(places).hstack([nodes_of([rows[name] for name in side.key])])


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("text", QUERIES)
@given(serves=SERVES, clicks=CLICKS, randomness=st.randoms(use_true_random=False))
def test_a_join_gives_the_rows_of_all_pairs(text, join, serves, clicks, randomness):
    text = text.format(join)
    found = as_elements(text, serves, clicks, randomness)
    assert shown(found) == shown(expected(text, serves, clicks, WITHIN_MS))


def shown(rows):
    return sorted(json.dumps(list(row.values())) for row in rows)
