"""Jobs that join events with another job's latest result: JOIN app('bundles')."""

from __future__ import annotations

from collections import Counter
from typing import Any

import polars as pl
import pytest
from memory_fleet import Fleet
from recording_client import client_of
from test_reading_apps import changed, counted, ended, of, start_of

from agent import Feed, StreamOptions, Updated
from agent.parsing import Parsed
from agent.runtime.upstream.join_cache import TIMEOUT_S
from overlay import Id, app_id
from query.execution import join_stage as joining

BUNDLES = "SELECT product, MAX(rank) AS rank FROM deals GROUP BY product WINDOWING 1 SECOND"
CLICKS = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
JOINED = (
    "SELECT web.product, b.rank, COUNT(*) AS n FROM web {} app('bundles') AS b ON web.product = b.product "
    "GROUP BY web.product, b.rank WINDOWING 1 SECOND"
)
KEY = app_id("joined", b"")
ASKED_S = 6.0
"""So long after a result, all agents hold it."""


def block(at_ms: int, feed: Feed, ranks: dict[str, int]) -> Parsed:
    """Events with the columns that a feed wants."""
    frame = pl.DataFrame({"@time": [at_ms] * len(ranks), "product": list(ranks), "rank": list(ranks.values())})
    return Parsed((frame.select("@time", *(pl.col(one.field).alias(one.name) for one in feed.columns)),), 0)


def second(fleet: Fleet, stream: str = "web", number: int | None = None, **ranks: int) -> None:
    """Agents, or one, log these, a second passes, and their window closes."""
    for one in range(len(fleet.agents)) if number is None else (number,):
        for feed in fleet.agents[one].ingest.feeds():
            if feed.stream == stream:
                fleet.give(fleet.agents[one], feed.key, block(fleet.wall_ms, feed, ranks))
    idle(fleet, 1.0)


def idle(fleet: Fleet, seconds: float) -> None:
    for _ in range(round(seconds / 0.25)):
        fleet.wait(0.25)
        fleet.catch_up()


def begin(**ranks: int) -> Fleet:
    """A fleet with the job that is joined, which has these in its latest result."""
    fleet = Fleet(4, streams={"web": StreamOptions(), "deals": StreamOptions()})
    fleet.wait(0.5)
    fleet.submit(BUNDLES, "bundles", bounded=False, grace_ms=0)
    fleet.catch_up()
    fleet.wait(1.0)
    fleet.catch_up()
    if ranks:
        second(fleet, "deals", 1, **ranks)
        idle(fleet, 2.0)
        assert {row["product"]: row["rank"] for row in of(fleet, "bundles")[-1].rows} == ranks
    return fleet


def join(fleet: Fleet, text: str, **options: Any) -> Id:
    key = fleet.submit(text, "joined", **{"bounded": False, "grace_ms": 0, **options})
    idle(fleet, 3.0)
    return key


def shown(fleet: Fleet) -> list[Counter[tuple[str, int | None]]]:
    """What each window of the job counts, by product and rank."""
    return [Counter({(row["product"], row["rank"]): row["n"] for row in one.rows}) for one in of(fleet, "joined")]


@pytest.mark.parametrize(("kind", "unknown"), [("JOIN", {}), ("LEFT JOIN", {("c", None): 4})])
def test_every_agent_joins_its_events(kind: str, unknown: dict[tuple[str, None], int]) -> None:
    fleet = begin(a=1, b=2, d=3)
    join(fleet, JOINED.format(kind))
    for _ in range(4):
        second(fleet, a=0, b=0, c=0)
    assert len(shown(fleet)) >= 2
    assert all(counts == Counter({("a", 1): 4, ("b", 2): 4, **unknown}) for counts in shown(fleet))
    for result in of(fleet, "joined"):
        assert (result.contributors, result.expected, result.partial, result.dropped) == (4, 4, [], 0)


def test_before_the_first_result_there_is_nothing_to_join_with() -> None:
    fleet = begin()
    join(fleet, JOINED.format("LEFT JOIN"))
    fleet.submit(JOINED.format("JOIN"), "inner", bounded=False, grace_ms=0)
    idle(fleet, 3.0)
    for _ in range(4):
        second(fleet, a=0)
    assert len(shown(fleet)) >= 2
    assert all(counts == Counter({("a", None): 4}) for counts in shown(fleet))
    assert of(fleet, "inner")
    assert all(list(one.rows) == [] for one in of(fleet, "inner"))
    assert all(one.partial == [] for one in (*of(fleet, "joined"), *of(fleet, "inner"))), "nothing is lacking"


def test_a_newer_result_is_asked_for_when_it_is_out() -> None:
    fleet = begin(a=1)
    join(fleet, JOINED.format("LEFT JOIN"))
    second(fleet, a=0, b=0)
    second(fleet, "deals", 2, a=7, b=8)
    idle(fleet, ASKED_S)
    for _ in range(3):
        second(fleet, a=0, b=0)
    assert shown(fleet)[0] == Counter({("a", 1): 4, ("b", None): 4})
    assert shown(fleet)[-1] == Counter({("a", 7): 4, ("b", 8): 4})


def test_the_last_result_of_a_job_that_is_over_stays_in_use() -> None:
    fleet = begin(a=1)
    join(fleet, JOINED.format("JOIN"))
    client_of(fleet.agents[0]).stop(app_id("bundles", b""), fleet.now)
    idle(fleet, 50.0)
    assert [one.name for one in fleet.agents[0].directory.all()] == ["joined"]
    for _ in range(3):
        second(fleet, a=0)
    assert shown(fleet)[-1] == Counter({("a", 1): 4})
    assert of(fleet, "joined")[-1].partial == []


def test_a_job_over_what_logs_hold_waits_for_the_rows() -> None:
    fleet = begin(a=1, b=2)
    text = JOINED.format("JOIN").removesuffix(" WINDOWING 1 SECOND")
    fleet.submit(text, "joined")
    feeds = [feed for agent in fleet.agents for feed in agent.ingest.feeds() if feed.bounded]
    assert feeds == [], "nothing is read before there are rows to join with"
    fleet.wait_long(2.0)
    assert len([feed for agent in fleet.agents for feed in agent.ingest.feeds() if feed.bounded]) == 4
    for number in range(4):
        for feed in fleet.agents[number].ingest.feeds():
            if feed.bounded:
                parsed = block(1000, feed, {"a": 0, "b": 0, "c": 0})
                fleet.give(fleet.agents[number], feed.key, parsed)
                fleet.agents[number].ingest.end_of_feed(feed.key, fleet.now, fleet.wall_ms)
    fleet.work()
    idle(fleet, 3.0)
    assert shown(fleet) == [Counter({("a", 1): 4, ("b", 2): 4})]


def test_without_an_answer_a_job_goes_on_and_says_that_it_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = begin(a=1)
    master = next(master for agent in fleet.agents if (master := agent.masters.get(app_id("bundles", b""))))
    monkeypatch.setattr(type(master), "answer", lambda _self, _message: master.announcing.announcement())
    join(fleet, JOINED.format("LEFT JOIN"))
    idle(fleet, TIMEOUT_S)
    for _ in range(4):
        second(fleet, a=0)
    assert len(shown(fleet)) >= 2
    assert all(counts == Counter({("a", None): 4}) for counts in shown(fleet))
    assert all(len(one.partial) == 4 for one in of(fleet, "joined"))
    monkeypatch.undo()
    idle(fleet, ASKED_S)
    for _ in range(3):
        second(fleet, a=0)
    assert shown(fleet)[-1] == Counter({("a", 1): 4})
    assert of(fleet, "joined")[-1].partial == []


def test_a_result_that_is_too_large_is_not_joined_with_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = begin(a=1)
    join(fleet, JOINED.format("LEFT JOIN"))
    monkeypatch.setattr(joining, "TABLE_ROWS_MAX", 2)
    for _ in range(2):
        second(fleet, "deals", 1, a=5, b=6, c=7)
        idle(fleet, ASKED_S)
    told = [one for agent in fleet.agents for one in client_of(agent).notices() if isinstance(one, tuple)]
    assert told == [("bundles", "it has 3 rows: JOIN takes at most 2")] * 4, "once by each agent"
    before = len(of(fleet, "joined"))
    for _ in range(3):
        second(fleet, a=0)
    assert all(counts == Counter({("a", 1): 4}) for counts in shown(fleet)[before:]), "the one before stays"
    assert all(len(one.partial) == 4 for one in of(fleet, "joined")[before + 1 :])
    second(fleet, "deals", 1, a=9)
    idle(fleet, ASKED_S)
    for _ in range(3):
        second(fleet, a=0)
    assert shown(fleet)[-1] == Counter({("a", 9): 4})
    assert of(fleet, "joined")[-1].partial == []


def test_what_the_joined_result_lacked_shows() -> None:
    fleet = begin(a=1)
    join(fleet, JOINED.format("JOIN"))
    for feed in fleet.agents[3].ingest.feeds():
        if feed.stream == "deals":
            fleet.agents[3].ingest.lacks(feed.key, True)
    second(fleet, "deals", 1, a=2)
    idle(fleet, ASKED_S)
    assert of(fleet, "bundles")[-1].partial == ["agent-3"]
    for _ in range(3):
        second(fleet, a=0)
    assert shown(fleet)[-1] == Counter({("a", 2): 4})
    assert len(of(fleet, "joined")[-1].partial) == 4, "nobody knows what their rows should have been"


def test_rows_beyond_those_an_event_can_meet_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "FANOUT_MAX", 2)
    fleet = begin(a=1, b=2, c=3)
    fleet.submit("SELECT product, rank FROM deals WINDOWING 1 SECOND", "all", bounded=False, grace_ms=0)
    idle(fleet, 2.0)
    second(fleet, "deals", 1, a=7, b=7, c=7, d=7, e=7)
    idle(fleet, 2.0)
    join(fleet, "SELECT COUNT(*) AS n FROM web JOIN app('all') AS b ON web.rank = b.rank WINDOWING 1 SECOND")
    for _ in range(3):
        second(fleet, a=7, b=7, c=1)
    result = of(fleet, "joined")[-1]
    assert list(result.rows) == [{"n": 2 * 2 * 4}]
    assert (result.events, result.dropped) == (3 * 4, 3 * 2 * 4)


def test_a_running_job_begins_to_join() -> None:
    """Its new version has no window that was joined with less than others."""
    fleet = begin(a=1)
    join(fleet, CLICKS)
    for _ in range(2):
        second(fleet, a=0, b=0)
    answer = changed(fleet, KEY, JOINED.format("LEFT JOIN"), lambda: second(fleet, a=0, b=0))
    assert isinstance(answer, Updated)
    assert (answer.version, answer.agents, answer.expected) == (2, 4, 4)
    for _ in range(4):
        second(fleet, a=0, b=0)
    news = [one for one in of(fleet, "joined") if one.version == 2]
    assert len(news) >= 2
    for one in news:
        counts = {(row["product"], row["rank"]): row["n"] for row in one.rows}
        assert counts == {("a", 1): counts[("a", 1)], ("b", None): counts[("a", 1)]}
        assert (one.contributors, one.partial) == (4, [])
    starts = [start_of(one) for one in of(fleet, "joined")]
    assert starts == sorted(set(starts))


def test_results_are_joined_with_results() -> None:
    fleet = begin(a=1, c=3)
    fleet.submit(CLICKS, "clicks", bounded=False, grace_ms=0)
    idle(fleet, 2.0)
    join(
        fleet,
        "SELECT c.product, b.rank, SUM(c.n) AS n FROM app('clicks') AS c JOIN app('bundles') AS b "
        "ON c.product = b.product GROUP BY c.product, b.rank WINDOWING 2 SECONDS",
    )
    for _ in range(8):
        second(fleet, a=0, b=0, c=0)
    assert len(shown(fleet)) >= 2
    expected = counted(of(fleet, "clicks"), 2000)
    for one, counts in zip(of(fleet, "joined"), shown(fleet), strict=True):
        clicks = expected[start_of(one)]
        assert counts == Counter({("a", 1): clicks["a"], ("c", 3): clicks["c"]})
        assert (one.contributors, one.expected) == (1, 1)


def test_the_rows_of_an_ended_query_can_still_be_had() -> None:
    """Who asks for a job that is just over gets its last result from the master that lingers."""
    fleet = begin(a=1)
    join(fleet, JOINED.format("JOIN"))
    second(fleet, "deals", 1, a=4)
    client_of(fleet.agents[0]).follow(app_id("bundles", b""), None, fleet.now)
    fleet.settle()
    client_of(fleet.agents[0]).stop(app_id("bundles", b""), fleet.now)
    assert ended(fleet, 0, app_id("bundles", b"")).reason == "stopped"
    idle(fleet, ASKED_S)
    for _ in range(3):
        second(fleet, a=0)
    assert shown(fleet)[-1] == Counter({("a", 4): 4})
