"""Jobs with keyed elements on agents of an in-memory fleet, from logs to the results of their queries."""

from __future__ import annotations

import polars as pl
import pytest
from keyed_jobs import counting, keyed_job, words
from memory_fleet import Fleet
from recording_client import client_of

from agent import StreamOptions
from agent.parsing import Parsed

STREAMS = {"words": StreamOptions()}


def submitted(fleet, job):
    client_of(fleet.agents[0]).submit(job, fleet.now, fleet.wall_ms)
    fleet.settle()
    fleet.wait_long(2.0)
    return job.app_id


def insert(fleet, number, parsed):
    agent = fleet.agents[number]
    for feed in agent.ingest.feeds():
        fleet.give(agent, feed.key, parsed)
    fleet.settle()


@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_events_of_a_key_meet_from_logs_of_all_agents(size, guaranteed):
    fleet = Fleet(size, streams=STREAMS)
    submitted(fleet, keyed_job(counting(guaranteed=guaranteed), bounded=False))
    for number in range(size):
        insert(fleet, number, words("a", "b", "a", at_ms=fleet.wall_ms))
    for _ in range(60):
        fleet.catch_up()
        fleet.wait(0.05)
    rows = [row for result in fleet.results for row in result.rows]
    assert {row["word"]: row["total"] for row in rows} == {"a": 2 * size, "b": size}


@pytest.mark.parametrize("guaranteed", [True, False])
def test_agents_whose_elements_are_waited_for_are_not_idle(guaranteed):
    """Timers of idle agents may be a fifth of a second late: an event would stand still that long at each element."""
    fleet = Fleet(2, streams=STREAMS)
    app = submitted(fleet, keyed_job(counting(guaranteed=guaranteed), bounded=False))
    fleet.wait_long(20.0)
    fleet.wait(0.05)
    assert all(agent.is_idle for agent in fleet.agents)
    insert(fleet, 0, words("a", "b", "c", at_ms=fleet.wall_ms))
    waiting = []
    for _ in range(100):
        fleet.wait(0.005)
        busy = [agent for agent in fleet.agents if agent.keyed.get(app).statistics()["unacknowledged"]]
        waiting += [agent.is_idle for agent in busy]
    assert waiting
    assert not any(waiting)


def totals(fleet):
    rows = [row for result in fleet.results for row in result.rows]
    return {word: max(row["total"] for row in rows if row["word"] == word) for word in {row["word"] for row in rows}}


def let_run(fleet, seconds):
    for _ in range(round(seconds / 0.05)):
        fleet.catch_up()
        fleet.wait(0.05)


@pytest.mark.parametrize("guaranteed", [True, False])
def test_an_agent_that_leaves_hands_over_the_elements_that_it_hosts(guaranteed):
    fleet = Fleet(4, streams=STREAMS)
    app = submitted(fleet, keyed_job(counting(guaranteed=guaranteed), bounded=False))
    found = [f"word-{number}" for number in range(40)]
    for number in range(4):
        insert(fleet, number, words(*found, at_ms=fleet.wall_ms))
    let_run(fleet, 2.0)
    leaving = next(agent for agent in fleet.agents if agent.masters.state(app) is None)
    assert leaving.keyed.get(app).statistics()["hosted"] > 0
    leaving.drain.begin(fleet.now)
    let_run(fleet, 5.0)
    assert leaving.drain.is_complete
    leaving.node.leave(fleet.now)
    fleet.agents.remove(leaving)
    let_run(fleet, 2.0)
    for number in range(3):
        insert(fleet, number, words(*found, at_ms=fleet.wall_ms))
    let_run(fleet, 3.0)
    assert totals(fleet) == dict.fromkeys(found, 7)


def test_what_did_not_fit_in_logs_is_counted_with_the_windows():
    fleet = Fleet(3, streams=STREAMS)
    submitted(fleet, keyed_job(counting(), bounded=False))
    for number in range(3):
        (frame,) = words("a", "b", at_ms=fleet.wall_ms).frames
        misfits = pl.Series("@coerced", [0, number], dtype=pl.UInt32)
        insert(fleet, number, Parsed((frame.with_columns(misfits),), malformed=2))
    let_run(fleet, 4.0)
    assert sum(result.coerced for result in fleet.results) == 3
    assert sum(result.malformed for result in fleet.results) == 6


def test_events_of_the_far_future_are_malformed_and_close_no_window():
    fleet = Fleet(3, streams=STREAMS)
    submitted(fleet, keyed_job(counting(), bounded=False))
    insert(fleet, 1, words("never", at_ms=fleet.wall_ms + 3_600_000))
    insert(fleet, 1, words("a", at_ms=fleet.wall_ms))
    insert(fleet, 2, words("a", "b", at_ms=fleet.wall_ms))
    let_run(fleet, 4.0)
    assert totals(fleet) == {"a": 2, "b": 1}
    assert sum(result.malformed for result in fleet.results) == 1
    assert sum(result.late for result in fleet.results) == 0


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["a host", "the master"])
def test_guaranteed_elements_go_on_with_their_state_when_a_host_dies(victim):
    fleet = Fleet(5, streams=STREAMS)
    app = submitted(fleet, keyed_job(counting(), bounded=False))
    found = [f"word-{number}" for number in range(40)]
    for number in range(5):
        insert(fleet, number, words(*found, at_ms=fleet.wall_ms))
    let_run(fleet, 2.0)
    dead = next(agent for agent in fleet.agents if (agent.masters.state(app) is None) == (victim == "a host"))
    assert dead.keyed.get(app).statistics()["hosted"] > 0
    fleet.agents.remove(dead)
    fleet.network.remove(dead.node)
    for number in range(4):
        insert(fleet, number, words(*found, at_ms=fleet.wall_ms))
    let_run(fleet, 25.0)
    for number in range(4):
        insert(fleet, number, words(*found, at_ms=fleet.wall_ms))
    let_run(fleet, 10.0)
    assert totals(fleet) == dict.fromkeys(found, 13)
