"""What masters keep of readers for whoever reads on: bounded, in order, and never trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_following_jobs import live
from test_reading_apps import TOP, read, write

from agent.runtime.master.results import reader_runs
from agent.runtime.master.results.reader_runs import ReaderRuns, ReadMark, decoded_runs, in_records
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Submit
from agent.runtime.messages.reading import GivenRuns
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, app_id
from query import Schema, analyze, parse

TEXT = "SELECT product, SUM(n) AS n FROM app('shop') GROUP BY product WINDOWING 4 SECONDS EVERY 1 SECOND"


def test_the_oldest_runs_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_runs, "BYTES_MAX", 1_000)
    runs = ReaderRuns(GivenRuns(tuple((pane, b"x" * 100) for pane in range(14))))
    assert [pane for pane, _ in runs.given().sealed] == list(range(4, 14))
    assert runs.mark.sealed_upto == 13


def test_runs_that_no_window_needs_are_freed_and_do_not_come_again() -> None:
    runs = ReaderRuns(GivenRuns(tuple((pane, b"x") for pane in range(5)), opened=((6, b"y"),), read_upto=6))
    runs.take(GivenRuns(((1, b"again"), (4, b"again"), (5, b"new")), freed=2))
    assert runs.given() == GivenRuns(((3, b"x"), (4, b"x"), (5, b"new")), 2, ((6, b"y"),), 6)
    assert runs.given(ReadMark(4, 6)) == GivenRuns(((5, b"new"),), 2, (), 6)
    runs.take(GivenRuns((), 6))
    assert runs.given() == GivenRuns((), 6, (), 6), "an open pane is of no use once it is sealed and free"


def test_for_a_disk_they_come_in_pieces_that_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_runs, "OPEN_BYTES_MAX", 250)
    whole = GivenRuns(tuple((pane, b"x" * 100) for pane in range(3, 8)), 2, ((9, b"y"),), 9)
    pieces, added = list(in_records(whole)), ReaderRuns()
    assert len(pieces) == 5
    for piece in pieces:
        added.take(piece)
    assert added.given() == whole
    assert list(in_records(GivenRuns())) == [GivenRuns()]


def test_open_panes_that_are_too_large_leave_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_runs, "OPEN_BYTES_MAX", 10)
    runs = ReaderRuns(GivenRuns(opened=((6, b"y"),), read_upto=6))
    fleet = live()
    read(fleet, "SELECT product, SUM(n) AS n FROM app('shop') GROUP BY product WINDOWING 10 SECONDS")
    write(fleet, 17)
    (job,) = [job for agent in fleet.agents for job in agent.jobs if job.app_id == TOP and job.root is not None]
    opened = job.pipeline.so_far()  # type: ignore[union-attr]
    assert opened
    assert not runs.note_opened(job, opened, 7)
    assert runs.given() == GivenRuns((), FIRST_PANE, ((6, b"y"),), 6)
    monkeypatch.undo()
    assert runs.note_opened(job, opened, 7)
    assert runs.mark.read_upto == 7


@given(st.lists(st.tuples(st.integers(-5, 5), st.binary(max_size=40))))
def test_whatever_a_peer_sends_for_runs_is_not_taken_for_one(runs: list[tuple[int, bytes]]) -> None:
    plan = analyze(parse(TEXT), {"web": Schema({}, open=True)})
    job = Submit(app_id("top", b""), "top", plan.stream, plan.to_wire(), TEXT, bounded=False)
    state = JobState(job, JobEpoch(1, 1, Id(1)), Id(1))
    assert list(decoded_runs(runs, state.versions)) == []
