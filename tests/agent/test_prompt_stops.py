"""A stop does not wait for the work of other jobs, however many there are."""

from __future__ import annotations

import polars as pl
import pytest
from memory_fleet import WALL_MS, Fleet, events
from recording_client import client_of

from agent import StreamOptions
from agent.runtime.function.job_function import JobFunction
from agent.runtime.messages.jobs import StopAnswer
from overlay import app_id


@pytest.mark.parametrize("jobs", [4, 40])
def test_a_stop_overtakes_the_work_of_all_jobs(monkeypatch: pytest.MonkeyPatch, jobs: int) -> None:
    fleet = Fleet(3, streams={"web": StreamOptions("end")})
    for job in range(jobs):
        query = f"SELECT COUNT(*) AS n FROM web WHERE product <> '{job}' WINDOWING 1 SECOND"
        fleet.submit(query, f"job{job}", bounded=False, grace_ms=0)
    fleet.catch_up()
    fleet.notices(0)
    evaluated = _count_evaluations(monkeypatch)

    for number in range(3):  # now the same pane of every job is over, everywhere
        fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
        fleet.insert(number, events("a", at_ms=WALL_MS + 9000))
    client_of(fleet.agents[0]).stop(app_id("job0", b""), fleet.now)
    _deliver(fleet)
    assert [one.found for one in fleet.notices(0) if isinstance(one, StopAnswer)] == [True]
    assert [agent.directory.get(app_id("job0", b"")) for agent in fleet.agents] == [None] * 3
    assert evaluated == [], "no query was computed meanwhile"

    fleet.agents[0].work(fleet.now, fleet.wall_ms)
    assert len(evaluated) <= 1, "one query is computed at a time"
    fleet.work()
    fleet.wait_long(2.0)
    assert sorted(result.app for result in fleet.results) == sorted(f"job{job}" for job in range(1, jobs))
    assert {(result.events, result.contributors) for result in fleet.results} == {(3, 3)}


def _count_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[JobFunction]:
    evaluated: list[JobFunction] = []
    select = JobFunction.select

    def counted(function: JobFunction, frame: pl.DataFrame) -> pl.DataFrame:
        evaluated.append(function)
        return select(function, frame)

    monkeypatch.setattr(JobFunction, "select", counted)
    return evaluated


def _deliver(fleet: Fleet) -> None:
    """Agents act on messages, and do no other work."""
    busy = True
    while busy:
        fleet.network.deliver_all(fleet.now)
        busy = sum(agent.process_events(fleet.now, fleet.wall_ms) for agent in fleet.agents) > 0
