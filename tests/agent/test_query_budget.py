"""A query that takes too much of an agent is refused, or ends; the others go on."""

from __future__ import annotations

import random
from collections.abc import Mapping

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_fleet import WALL_MS, Fleet, events
from recording_client import RecordingClient, client_of

import query
from agent import Agent, Ended, StreamOptions, Submit
from agent.parsing import Parsed
from agent.runtime.embedded import EmbeddedFleet
from agent.runtime.function.job_function import JobFunction
from agent.runtime.messages.client_events import Accepted
from agent.runtime.messages.programs import Log
from agent.runtime.model.work_budget import DEBT_MAX_S, ROW_S, SHARE, OverBudgetError, WorkBudgets
from agent.runtime.requests.events import AgentObserver, SubmitRefused
from overlay import Id, Node, app_id

WINDOWS = "WINDOWING 1 SECOND"
FAST, SLOW = app_id("fast", b""), app_id("slow", b"")
BATCH_S = 3.0
"""Work of the slow query for each block, as measured with 100 large patterns."""


def likes(*patterns: str, stream: str = "web") -> str:
    tests = " OR ".join(f"REGEXP_LIKE(product, '{pattern}')" for pattern in patterns)
    return f"SELECT COUNT(*) AS n FROM {stream} WHERE {tests} {WINDOWS}"


def large(job: int, number: int = 5) -> list[str]:
    """Patterns that are nearly all that one query may have."""
    return [f"[a-z]{{128}}z{job}{one}" for one in range(number)]


def reply(fleet: Fleet, by: int = 0) -> object:
    return next(one for one in fleet.notices(by) if isinstance(one, SubmitRefused | Accepted))


def test_a_query_with_too_large_patterns_is_refused_and_not_compiled() -> None:
    fleet = Fleet(2, streams={"web": StreamOptions("end")})
    fleet.submit(likes(*[f"[a-z]{{131}}z{number}" for number in range(100)]), bounded=False)
    refused = reply(fleet)
    assert isinstance(refused, SubmitRefused)
    assert "regular expressions and LIKE patterns are too large together" in refused.reason
    assert "at most 10,000 is for one query. Use fewer or simpler ones" in refused.reason
    assert all(not agent.ingest.feeds() for agent in fleet.agents)


def test_an_unreadable_pattern_costs_nothing_to_measure() -> None:
    assert query.regex_size(["rlike", "a", ["value", "string", "a(" * 100_000]]) > 100_000
    assert query.regex_size({"where": ["or", *[["ilike", "a", ["value", "string", "x%"]]] * 1000]}) == 12


def test_dozens_of_simple_patterns_run() -> None:
    fleet = Fleet(2, streams={"web": StreamOptions("end")})
    simple = [rf"^/shop/{number}/[a-z]+(\?\w+=\d{{1,3}})?$" for number in range(60)]
    fleet.submit(likes(*simple), bounded=False, grace_ms=0)
    assert isinstance(reply(fleet), Accepted)
    fleet.catch_up()
    for number in range(2):
        fleet.insert(number, events("/shop/59/shoes?id=12", "/shop/60/shoes", at_ms=WALL_MS + 1500))
        fleet.insert(number, events("", at_ms=WALL_MS + 9000))
    fleet.work()
    fleet.wait_long(2.0)
    assert [(result.rows, result.contributors) for result in fleet.results] == [([{"n": 2}], 2)]


def test_all_queries_of_an_agent_together_have_a_budget() -> None:
    fleet = Fleet(1, streams={"web": StreamOptions("end")})
    for job in range(5):
        fleet.submit(likes(*large(job)), f"job{job}", bounded=False)
        assert isinstance(reply(fleet), Accepted)
    fleet.submit(likes(*large(5)), "job5", bounded=False)
    refused = reply(fleet)
    assert isinstance(refused, SubmitRefused)
    assert "too many regular expressions and LIKE patterns for one more with such ones: stop one" in refused.reason


def test_an_agent_without_room_says_so_in_the_log_of_the_job() -> None:
    fleet = Fleet(2, streams={"web": StreamOptions("end")})
    fleet.add("busy", streams={"web": StreamOptions("end"), "other": StreamOptions("end")})
    for job in range(5):
        fleet.streams = {"other": StreamOptions("end")}
        fleet.submit(likes(*large(job), stream="other"), f"job{job}", bounded=False)
    name = next(name for name in map(str, range(100)) if _closest(fleet, app_id(name, b"")) != "busy")
    key = fleet.submit(likes(*large(6)), name, bounded=False)
    fleet.wait_long(3.0)
    client_of(fleet.agents[0]).ask_log(key, 100, fleet.now)
    fleet.settle()
    log = next(one for one in fleet.notices(0) if isinstance(one, Log))
    assert [(line.agent, line.text) for line in log.lines] == [
        (
            "busy",
            "this agent cannot run the job: the regular expressions and LIKE patterns of its other queries leave no "
            "room for those of this one",
        )
    ]


def _closest(fleet: Fleet, key: Id) -> str:
    nodes = [agent.node.peer for agent in fleet.agents]
    return min(nodes, key=lambda peer: min((peer.node_id - key) % 2**128, (key - peer.node_id) % 2**128)).address


def test_a_local_query_may_have_patterns_of_any_size() -> None:
    text = likes(*[f"[a-z]{{131}}z{number}" for number in range(100)])
    plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
    fleet = EmbeddedFleet(2, ["web"], random.Random(1))
    fleet.submit(Submit(FAST, "fast", plan.stream, plan.to_wire(), text))
    fleet.insert(0, "web", events("a" * 131 + "z99", "b", at_ms=1500))
    assert [result.rows for result in fleet.end_of_input() if result.events] == [[{"n": 1}]]


# The time of evaluation.


class WorkingFleet(Fleet):
    """Agents that share one clock of work, which moves by `BATCH_S` for each block of the slow query."""

    worked_s = 0.0

    def new_agent(self, name: str, node: Node, streams: Mapping[str, StreamOptions]) -> Agent:
        return Agent(name, node, streams, observer=RecordingClient(), clock=lambda: self.worked_s)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(AgentObserver, "job_contained", lambda _observer, _key, _error: None)
    fleet = WorkingFleet(3, streams={"web": StreamOptions("end")})
    select = JobFunction.select

    def measured(function: JobFunction, frame: pl.DataFrame) -> pl.DataFrame:
        if function.plan.where is not None:
            fleet.worked_s += BATCH_S
        return select(function, frame)

    monkeypatch.setattr(JobFunction, "select", measured)
    for name, where in (("fast", ""), ("slow", "WHERE product > ''")):
        fleet.submit(f"SELECT COUNT(*) AS n FROM web {where} {WINDOWS}", name, bounded=False, grace_ms=0)
    client_of(fleet.agents[0]).follow(SLOW, None, fleet.now)
    fleet.catch_up()
    fleet.notices(0)
    return fleet


def read(fleet: Fleet, seconds: int) -> None:
    """Each agent reads three events in each second."""
    for _ in range(seconds):
        fleet.wait(1.0)
        for number in range(3):
            fleet.insert(number, three(at_ms=fleet.wall_ms))
        fleet.catch_up()


def three(at_ms: int) -> Parsed:
    return events("a", "b", "c", at_ms=at_ms)


def test_a_query_that_takes_too_long_ends_and_the_others_go_on(fleet: Fleet) -> None:
    read(fleet, 20)
    ended = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    assert [one.reason for one in ended] == ["failed"]
    assert "its expressions take too long: its last block of events took 3.0 s of work" in ended[0].failure
    assert "Use fewer or simpler ones" in ended[0].failure
    assert [agent.directory.get(SLOW) for agent in fleet.agents] == [None] * 3
    windows = [result for result in fleet.results if result.app == "fast"]
    assert len(windows) >= 15
    assert {(result.contributors, result.expected) for result in windows} == {(3, 3)}
    client_of(fleet.agents[1]).ask_log(SLOW, 100, fleet.now)
    fleet.settle()
    log = next(one for one in fleet.notices(1) if isinstance(one, Log))
    assert "this ends the job: " in log.lines[-1].text
    assert "its expressions take too long" in log.lines[-1].text


def test_a_moment_of_slowness_is_forgiven(fleet: Fleet) -> None:
    read(fleet, 2)
    fleet.wait_long(15.0)
    read(fleet, 2)
    assert [notice for notice in fleet.notices(0) if isinstance(notice, Ended)] == []


@given(st.lists(st.tuples(st.floats(0.01, 60), st.integers(0, 1 << 19), st.floats(0, 1)), max_size=50))
def test_work_within_the_budget_is_never_too_long(steps: list[tuple[float, int, float]]) -> None:
    budgets, now = WorkBudgets(), 0.0
    for seconds, rows, part in steps:
        now += seconds
        budgets.charge(FAST, part * min(DEBT_MAX_S, SHARE * seconds + rows * ROW_S), rows, now)


def test_work_beyond_the_budget_ends() -> None:
    budgets = WorkBudgets()
    for second in range(10):
        budgets.charge(SLOW, 1.0, 3, float(second))
    with pytest.raises(OverBudgetError, match=r"took 1.5 s of work, and it owes 9 s, of which a query may owe 8"):
        budgets.charge(SLOW, 1.5, 3, 10.0)
