"""Counting events by pane, merging many rows, and writing rows: the quick ways say what the plain ones do."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cbt
import query
from agent.runtime.function import job_function
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest import event_batch
from agent.runtime.ingest.event_batch import EventBatch
from query.execution import rows as result_rows
from query.execution.rows import ResultRows, ResultTable

PANES = st.lists(st.tuples(st.sampled_from((-(1 << 62), -30, 0, 30, 1 << 62)), st.integers(0, 3)), max_size=60)


@given(PANES, st.sampled_from((0, 3, 256)), st.booleans())
def test_events_are_counted_by_pane_however_they_lie(
    events: list[tuple[int, int]], stretches_max: int, is_coerced: bool
) -> None:
    frame = pl.DataFrame(events, schema={"pane": pl.Int64, "@coerced": pl.UInt32}, orient="row")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_batch, "_STRETCHES_MAX", stretches_max)
        counted = EventBatch(frame if is_coerced else frame.drop("@coerced")).counted
    assert {pane: counts.events for pane, counts in counted.items()} == Counter(pane for pane, _ in events)
    for pane, counts in counted.items():
        assert counts.coerced == sum(coerced for other, coerced in events if other == pane and is_coerced)


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc")), max_size=20), max_size=4), st.integers(1, 9)
)
def test_states_merge_to_the_same_some_panes_at_a_time(states: list[list[tuple[int, str]]], rows: int) -> None:
    text = "SELECT k, COUNT(*) AS n FROM web GROUP BY k WINDOWING 1 SECOND"
    function = JobFunction(query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}, max_groups=2))
    layout = cbt.Layout([cbt.Key("k0", "any")], [cbt.Aggregate("a0", "count", None, "any")])
    frames = [
        layout.lift(pl.DataFrame(state, schema={"pane": pl.Int64, "k0": pl.String}, orient="row")) for state in states
    ]
    whole = function.combine(frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_function, "MERGED_ROWS", rows)
        parts = function.combine(frames)
    assert parts.equals(whole)
    assert all(before <= after for before, after in pairwise(parts["pane"]))


@pytest.mark.parametrize("name", ["clicks", "pro duct", 'a "b"', "back\\slash", "line\nend", "", "ü", "f0"])
def test_rows_are_written_as_objects_whatever_their_columns_are_called(name: str) -> None:
    table = ResultTable(pl.DataFrame({"v0": ["x", None], "v1": [1, 2]}), [("v1", "string"), (name, "integer")])
    rows = ResultRows(table, 0, 2)
    assert msgspec.json.encode(rows.to_encode()) == msgspec.json.encode(list(rows))


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_windows_are_written_alike_in_any_order(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(result_rows, "_ROWS_PASSING", at_once)
    frame = pl.DataFrame({"v0": [None, "a", "b", "c", "d", "e"], "v1": ["1.5", "true", '"x"', None, "2", "1e400"]})
    table = ResultTable(frame, [("k", "string"), ("n", "any")])
    windows = [ResultRows(table, start, rows) for start, rows in ((0, 2), (2, 0), (2, 3), (5, 1), (1, 4), (0, 6))]
    for window in (*windows, *reversed(windows)):
        assert msgspec.json.encode(window.to_encode()) == msgspec.json.encode(list(window))
