"""What the data of one job raises ends that job, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from memory_fleet import WALL_MS, Fleet, events
from recording_client import client_of

from agent import Ended, StreamOptions
from agent.runtime.job.local_job import LocalJob
from agent.runtime.requests.events import AgentObserver
from overlay import Id, app_id

GOOD, BAD = app_id("good", b""), app_id("bad", b"")
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Id, str]]:
    """Jobs that were contained, with the reason."""
    told: list[tuple[Id, str]] = []
    monkeypatch.setattr(
        AgentObserver,
        "job_contained",
        lambda _observer, key, error: told.append((key, f"{type(error).__name__}: {error}")),
    )
    return told


def live_fleet() -> Fleet:
    fleet = Fleet(3, streams={"web": StreamOptions("end")})
    for name in ("good", "bad"):
        fleet.submit(COUNT, name, bounded=False, grace_ms=0)
    client_of(fleet.agents[0]).follow(BAD, None, fleet.now)
    fleet.catch_up()
    return fleet


def feed(fleet: Fleet) -> None:
    for number in range(3):
        fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
        fleet.insert(number, events("a", at_ms=WALL_MS + 9000))
    fleet.work()
    for _ in range(10):
        fleet.wait(0.5)
        fleet.work()


@pytest.mark.parametrize("method", ["take_snapshot", "skip_stragglers"])
def test_the_other_job_goes_on(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    fleet = live_fleet()
    original: Any = getattr(LocalJob, method)

    def fail(job: LocalJob, *arguments: object) -> object:
        if job.app_id == BAD:
            raise KeyError("no such column")
        return original(job, *arguments)

    monkeypatch.setattr(LocalJob, method, fail)
    feed(fleet)
    assert {key for key, _ in told} == {BAD}
    assert told[0][1] == "KeyError: 'no such column'"
    good = [result for result in fleet.results if result.app == "good"]
    assert [(result.events, result.contributors) for result in good] == [(3, 3)]
    ended = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    assert [one.reason for one in ended] == ["failed"]
    assert "cannot go on: KeyError: 'no such column'" in ended[0].failure
    assert [agent.directory.get(BAD) for agent in fleet.agents] == [None] * 3
    assert all(agent.directory.get(GOOD) is not None for agent in fleet.agents)
