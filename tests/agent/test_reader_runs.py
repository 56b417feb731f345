"""What masters keep of readers for whoever reads on: bounded, in order, and never trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.runtime.master.results import reader_runs
from agent.runtime.master.results.reader_runs import ReaderRuns, decoded_runs
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, app_id
from query import Schema, analyze, parse

TEXT = "SELECT product, SUM(n) AS n FROM app('shop') GROUP BY product WINDOWING 4 SECONDS EVERY 1 SECOND"


def test_the_oldest_runs_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_runs, "BYTES_MAX", 1_000)
    runs = ReaderRuns((pane, b"x" * 100) for pane in range(14))
    assert [pane for pane, _ in runs.after(FIRST_PANE)] == list(range(4, 14))
    assert runs.last == 13


def test_runs_that_no_window_needs_are_freed_and_do_not_come_again() -> None:
    runs = ReaderRuns((pane, b"x") for pane in range(5))
    runs.free(2)
    runs.take([(1, b"again"), (4, b"again"), (5, b"new")])
    assert runs.after(FIRST_PANE) == [(3, b"x"), (4, b"x"), (5, b"new")]
    assert runs.after(4) == [(5, b"new")]


@given(st.lists(st.tuples(st.integers(-5, 5), st.binary(max_size=40))))
def test_whatever_a_peer_sends_for_runs_is_not_taken_for_one(runs: list[tuple[int, bytes]]) -> None:
    plan = analyze(parse(TEXT), {"web": Schema({}, open=True)})
    job = Submit(app_id("top", b""), "top", plan.stream, plan.to_wire(), TEXT, bounded=False)
    state = JobState(job, JobEpoch(1, 1, Id(1)), Id(1))
    assert list(decoded_runs(runs, state.versions)) == []
