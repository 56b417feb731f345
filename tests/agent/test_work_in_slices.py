"""Long work of an agent is done in pieces where results of some job have to be out in time."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from memory_fleet import Fleet, as_read, events
from recording_client import client_of

from agent import Agent
from agent.runtime.ingest import operator, operator_pool
from overlay import app_id


@pytest.mark.parametrize("miss", ["LATE", "PARTIAL"])
def test_slices_are_a_tenth_of_the_shortest_limit_of_the_jobs_present(miss: str) -> None:
    fleet = Fleet(1)
    ingest = fleet.agents[0].ingest
    long = ingest.slice_s()
    for name, limit_ms in (("slower", 800), ("quick", 400)):
        within = f"WITHIN {limit_ms} MILLISECONDS ELSE {miss}"
        fleet.submit(f"SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND {within}", name, bounded=False, grace_ms=0)
    fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", "patient", bounded=False, grace_ms=0)
    assert ingest.slice_s() == pytest.approx(0.04)
    client_of(fleet.agents[0]).stop(app_id("quick", b""), fleet.now)
    fleet.settle()
    assert ingest.slice_s() == pytest.approx(0.08)
    client_of(fleet.agents[0]).stop(app_id("slower", b""), fleet.now)
    fleet.settle()
    assert ingest.slice_s() == long


def test_jobs_insert_batches_one_after_the_other_the_most_urgent_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "ROWS_PER_BATCH", 100)
    monkeypatch.setattr(operator_pool, "ROWS_PER_BATCH", 100)
    fleet, (agent,) = two_jobs("WITHIN 400 MILLISECONDS")
    block = events(*["a"] * 150, at_ms=fleet.wall_ms)
    (feed,) = agent.ingest.feeds()
    fleet.give(agent, feed.key, as_read(block, feed))
    waiting = {one.consumers[0].app_id: one for one in agent.ingest}
    timed, patient = waiting[app_id("timed", b"")], waiting[app_id("patient", b"")]
    assert [timed.waiting_rows, patient.waiting_rows] == [150, 150], "nothing holds the loop for all of them"
    agent.work(fleet.now, fleet.wall_ms)
    assert [timed.waiting_rows, patient.waiting_rows] == [0, 150]
    fleet.give(agent, feed.key, as_read(block, feed))
    assert [timed.waiting_rows, patient.waiting_rows] == [150, 150], "no more than two batches wait"
    agent.work(fleet.now, fleet.wall_ms)
    agent.work(fleet.now, fleet.wall_ms)
    assert [timed.waiting_rows, patient.waiting_rows] == [0, 0]
    assert not agent.has_work


def test_others_have_turns_between_the_batches_of_a_pane_and_its_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (operator, operator_pool):
        monkeypatch.setattr(module, "ROWS_PER_BATCH", 100)
    fleet, (agent,) = two_jobs("WITHIN 400 MILLISECONDS")
    (feed,) = agent.ingest.feeds()
    for _ in range(3):
        fleet.give(agent, feed.key, as_read(events(*["a"] * 110, at_ms=fleet.wall_ms), feed))
    fleet.network.deliver_all(fleet.now + 2.0)
    agent.ingest.caught_up(feed.key, fleet.now, fleet.wall_ms)
    seen = [state(agent)]
    while any(rows for rows, _ in seen[-1]):
        agent.work(fleet.now, fleet.wall_ms)
        seen.append(state(agent))
    steps = [list(zip(before, after, strict=True)) for before, after in pairwise(seen)]
    assert [rows for rows, _ in seen[0]] == [110, 110]
    for step in steps:
        inserted = [(before, after) for before, after in step if after[0] < before[0]]
        assert len(inserted) <= 1
        assert all(before[1] == after[1] for before, after in inserted), "it seals in another step"
    fleet.settle()
    assert {one.app: one.events for one in fleet.results if one.events} == {"patient": 330, "timed": 330}


def state(agent: Agent) -> list[tuple[int, int]]:
    """The events that wait for each operator, and the last pane that it has sealed."""
    return [(one.waiting_rows, one.frontier) for one in agent.ingest]


def test_without_limits_batches_are_inserted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "ROWS_PER_BATCH", 100)
    fleet, (agent,) = two_jobs("")
    (feed,) = agent.ingest.feeds()
    fleet.give(agent, feed.key, as_read(events(*["a"] * 150, at_ms=fleet.wall_ms), feed))
    assert [one.waiting_rows for one in agent.ingest] == [0, 0]
    assert not agent.has_work


def two_jobs(clause: str, text: str = "SELECT MAX(product) AS n FROM web") -> tuple[Fleet, list[Agent]]:
    """An agent with a job that waits for nothing, and with one that has a clause."""
    fleet = Fleet(1)
    fleet.submit(f"{text} WINDOWING 1 SECOND", "patient", bounded=False, grace_ms=0)
    fleet.submit(f"SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND {clause}", "timed", bounded=False)
    for _ in range(8):
        fleet.wait(0.25)
        fleet.catch_up()
    return fleet, fleet.agents


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_the_same_beside_a_job_with_a_limit(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whenever batches have their turns, and though some events are late and a run is sealed in pieces."""
    for module in (operator, operator_pool):
        monkeypatch.setattr(module, "ROWS_PER_BATCH", 8)
    alone, beside = lived("", seed), lived("WITHIN 400 MILLISECONDS", seed)
    assert alone == beside
    assert sum(one[1] for one in alone) > 100
    assert any(one[2] for one in alone), "some are late"


def lived(clause: str, seed: int) -> list[tuple[list[Any], int, int]]:
    """What the job is told that waits for nothing: rows, events and late ones of each window."""
    rng = random.Random(seed)
    fleet, (agent,) = two_jobs(clause, "SELECT product, COUNT(*) AS n, AVG(price) AS p FROM web GROUP BY product")
    (feed,) = agent.ingest.feeds()
    for _ in range(40):
        count, at_ms = rng.randrange(30), fleet.wall_ms - rng.choice((0, 0, 0, 900, 2500))
        products, prices = rng.choices("abcde", k=count), [rng.random() for _ in range(count)]
        block = events(*products, at_ms=at_ms, price=pl.Series(prices, dtype=pl.Float64).cast(pl.String))
        fleet.give(agent, feed.key, as_read(block, feed))
        for _ in range(rng.randrange(4)):
            agent.work(fleet.now, fleet.wall_ms)
        fleet.network.deliver_all(fleet.now + rng.choice((0.0, 0.1, 0.3)))
    for _ in range(12):
        fleet.wait(0.25)
        fleet.catch_up()
    return [(list(one.rows), one.events, one.late) for one in fleet.results if one.app == "patient"]
