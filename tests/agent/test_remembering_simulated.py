"""Agents that remember where they were in their logs, through crashes at any instant: windows have all of what their
contributors logged, and nothing is counted twice."""

from __future__ import annotations

import random

import pytest
from recording_client import client_of
from remembering_fleet import RememberingFleet
from seeds import seeds
from simulated_fleet import SQL, Server, key_of, sql
from window_checks import check_windows

JOB = "one"


def begin(seed: int, size: int, text: str = SQL) -> tuple[RememberingFleet, Server]:
    fleet = RememberingFleet(seed)
    for _ in range(size):
        fleet.add("web")
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    fleet.keep_writing(fleet.now + 300.0)
    follower = fleet.random.choice(fleet.workers())
    fleet.submit(JOB, follower, text)
    client_of(follower.agent).follow(key_of(JOB), None, fleet.now)
    fleet.run(fleet.now + fleet.random.uniform(5, 8))
    return fleet, follower


def check_conservation(fleet: RememberingFleet) -> None:
    """What each window has of its contributors, and that no event counts twice."""
    check_windows(fleet)
    logged = sum(len(server.log) for server in fleet.servers.values())
    last = {window.pane: window.result for window in fleet.of(JOB)}
    counted = sum(result.events + result.late for result in last.values())
    assert counted <= logged, f"seed {fleet.seed}: {counted} of {logged}"


@pytest.mark.parametrize("seed", seeds(2, slow=(1, *range(3, 40))))
def test_crashes_at_any_instant(seed: int) -> None:
    source = random.Random(seed)
    fleet, follower = begin(seed, source.choice((2, 3, 4, 6)))
    away: list[str] = []
    for _ in range(3):
        one = source.choice([server for server in fleet.servers.values() if server.is_up and server is not follower])
        fleet.crash(one)
        away.append(one.name)
        fleet.at(fleet.now + source.choice((0.1, 0.6, 2.0, 6.0)), lambda one=one: fleet.restart(one))  # type: ignore[misc]
        fleet.run(fleet.now + source.uniform(8.0, 14.0))
    fleet.run(fleet.now + 15.0)
    check_conservation(fleet)
    last = fleet.of(JOB)[-1]
    assert last.result.missing == [], f"seed {seed}: {away}"


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 20)))
def test_an_agent_that_is_back_is_in_every_window_that_was_not_published_before(seed: int) -> None:
    """It has what it read of them before it was killed, and what was written meanwhile."""
    fleet, follower = begin(seed, 3, sql("abcde", 20))
    master = fleet.masters(JOB)[0][0]
    one = next(server for server in fleet.servers.values() if server not in (follower, master))
    fleet.run(fleet.now + 20.0 + (8_000 - fleet.wall_ms) % 20_000 / 1000)
    fleet.store(one)
    fleet.crash(one)
    fleet.run(fleet.now + 0.5)
    killed_ms = fleet.wall_ms
    fleet.restart(one)
    fleet.run(fleet.now + 60.0)
    check_conservation(fleet)
    window = next(window for window in fleet.of(JOB) if window.pane <= killed_ms < window.pane + 20_000)
    assert one.name in window.contributors - window.partial, "its first window is the one in which it was killed"
    assert all(one.name in later.contributors for later in fleet.of(JOB) if later.pane > window.pane)
