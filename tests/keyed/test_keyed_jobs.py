"""Jobs with keyed elements on agents of an in-memory fleet, from logs to the results of their queries."""

from __future__ import annotations

import pytest
from keyed_jobs import counting, keyed_job, words
from memory_fleet import Fleet
from recording_client import client_of

from agent import StreamOptions

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
