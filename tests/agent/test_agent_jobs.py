"""A job's life across agents: who joins, who only forwards, what strangers can do, and what the result says."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import query
from agent import Agent, Result, Submit
from agent.messages import CODEC, Announce, Commit, Enrol, Enrolled, Installed, Message, NoMaster, Snapshot
from agent.panes import END, FIRST_PANE
from agent.parsing import Parsed
from overlay import MemoryNetwork, Node, Peer, app_id, group_id

COUNT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
APP_ID = app_id("shop", b"")
KEY = APP_ID.to_bytes(16, "big")


class Fleet:
    """Agents on an in-memory network; the last `bystanders` of them have no stream at all."""

    def __init__(self, size: int, bystanders: int = 0, salt: str = "") -> None:
        self.network = MemoryNetwork()
        self.agents: list[Agent] = []
        for number in range(size):
            name = f"agent-{number}"
            node = Node(Peer(group_id(f"{name} {salt}"), name), random=random.Random(number))
            self.network.add(node)
            streams = ["web"] if number < size - bystanders else []
            self.agents.append(Agent(name, node, streams))
            if number:
                node.join(self.agents[0].node.peer, self.network.now)
            else:
                node.start(self.network.now)
            self.settle()
            assert node.is_active
        for agent in self.agents:
            agent.subscribe_streams(self.network.now)
        self.settle()

    def settle(self) -> list[Result]:
        busy = True
        while busy:
            self.network.deliver_all(self.network.now)
            busy = sum(agent.process_events(self.network.now) for agent in self.agents) > 0
        return [result for agent in self.agents for result in agent.results()]

    def submit(self, text: str = COUNT, name: str = "shop", by: int = 0) -> None:
        plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)})
        key = app_id(name, b"").to_bytes(16, "big")
        self.agents[by].submit(Submit(key, name, plan.stream, plan.to_wire()), self.network.now)
        assert self.settle() == []

    def finish(self) -> list[Result]:
        for agent in self.agents:
            agent.end_of_input()
        results = []
        for agent in self.agents:
            while agent.sealed_upto() is not None:
                agent.seal_next(self.network.now)
                results += self.settle()
        return results


def events(*products: str | None, at_ms: int = 0, **columns: Any) -> Parsed:
    times = pl.Series([at_ms] * len(products), dtype=pl.Int64)
    names = pl.Series(products, dtype=pl.String)
    return Parsed((pl.DataFrame({"@time": times, "product": names, **columns}),), malformed=0)


@pytest.mark.parametrize("salt", [str(number) for number in range(12)])
def test_agents_without_the_stream_only_forward(salt: str) -> None:
    """Whichever ids they draw: bystanders may be master, lie on the way, or have no part; none contributes."""
    fleet = Fleet(size=24, bystanders=16, salt=salt)
    fleet.submit(by=23)
    for number, agent in enumerate(fleet.agents[:8]):
        agent.insert("web", events("a", f"own-{number}"))
    (result,) = fleet.finish()
    assert (result.contributors, result.expected, result.missing, result.events) == (8, 8, [], 16)
    assert result.rows[0] == {"product": "a", "n": 8}
    assert len(result.rows) == 9
    assert sum(agent.refused for agent in fleet.agents) == 0


def test_many_jobs_have_masters_of_their_own() -> None:
    fleet = Fleet(size=16)
    names = [f"job-{number}" for number in range(20)]
    for name in names:
        fleet.submit(name=name)
    for agent in fleet.agents:
        agent.insert("web", events("a"))
    results = fleet.finish()
    assert sorted(result.app for result in results) == sorted(names)
    assert all(result.rows == [{"product": "a", "n": 16}] for result in results)
    masters = {
        number
        for number, agent in enumerate(fleet.agents)
        for name in names
        if agent.master(app_id(name, b"")) is not None
    }
    assert len(masters) > 4


def test_windows_come_in_order_and_an_agent_without_events_still_contributes() -> None:
    fleet = Fleet(size=3)
    fleet.submit()
    fleet.agents[0].insert("web", events("late", at_ms=5_000))
    fleet.agents[1].insert("web", events("early", at_ms=1_000))
    results = fleet.finish()
    assert [result.window_start for result in results] == ["1970-01-01T00:00:01Z", "1970-01-01T00:00:05Z"]
    assert [(r.contributors, r.expected, r.events) for r in results] == [(3, 3, 1), (3, 3, 1)]


def test_counts_reach_the_result_by_window() -> None:
    fleet = Fleet(size=2)
    fleet.submit()
    coerced = pl.Series([2], dtype=pl.UInt32)
    fleet.agents[0].insert("web", events("a", at_ms=1_000, **{"@coerced": coerced}))
    fleet.agents[1].insert("web", events("a", at_ms=2_000))
    fleet.agents[1].insert("web", Parsed((), malformed=3))
    first, second = fleet.finish()
    assert (first.coerced, first.malformed) == (2, 0)
    assert (second.coerced, second.malformed) == (0, 3)


def test_state_is_kept_until_it_is_committed() -> None:
    fleet = Fleet(size=8)
    fleet.submit()
    fleet.agents[0].insert("web", events("a"))
    fleet.finish()
    parts = [part for agent in fleet.agents for part in agent._jobs.values()]
    assert [part.for_new_parent() for part in parts if len(part.for_new_parent()) > 1] == []


def test_a_job_submitted_twice_stays_the_first() -> None:
    fleet = Fleet(size=4)
    fleet.submit()
    fleet.submit(text=COUNT.replace("COUNT(*)", "COUNT(product)"))
    fleet.agents[0].insert("web", events(None))
    (result,) = fleet.finish()
    assert result.rows == [{"product": None, "n": 1}]


def strangers_messages() -> list[Message]:
    snapshot = Snapshot(KEY, KEY, 1, FIRST_PANE, END, b"\x01", b"not a frame", b"nor this")
    return [
        Announce(KEY), Enrol(KEY, "intruder", True), Enrolled(KEY, 3, 9, 7, {"plan": "none"}), NoMaster(KEY),
        Commit(KEY, KEY, END), Installed(KEY, KEY, 1, b"\xff"), snapshot, Submit(KEY, "shop", "web", {}),
    ]  # fmt: skip


def test_what_a_stranger_sends_changes_nothing() -> None:
    """Every kind of message, sent straight to every agent by a node that has no part in the job's tree."""
    fleet = Fleet(size=6)
    fleet.submit()
    intruder = Node(Peer(group_id("intruder"), "intruder"), random=random.Random(99))
    fleet.network.add(intruder)
    intruder.join(fleet.agents[0].node.peer, fleet.network.now)
    fleet.settle()
    for agent in fleet.agents:
        for message in strangers_messages():
            intruder.send(agent.node.peer, CODEC.encode(message), fleet.network.now)
        intruder.send(agent.node.peer, b"garbage", fleet.network.now)
    fleet.settle()
    for agent in fleet.agents:
        agent.insert("web", events("a"))
    (result,) = fleet.finish()
    assert result.rows == [{"product": "a", "n": 6}]
    assert (result.contributors, result.expected) == (6, 6)
    assert all(agent.refused >= 7 for agent in fleet.agents)


@pytest.mark.fuzz
@given(st.data())
def test_no_bytes_harm_an_agent(data: st.DataObject) -> None:
    """Mutated job messages by route, by multicast and directly from a child: counted, never raised."""
    fleet = Fleet(size=3)
    fleet.submit()
    now = fleet.network.now
    for _ in range(4):
        sender, target = (data.draw(st.sampled_from(fleet.agents)) for _ in range(2))
        payload = bytearray(CODEC.encode(data.draw(st.sampled_from(strangers_messages()))))
        for _ in range(data.draw(st.integers(0, 3))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        match data.draw(st.sampled_from(["route", "multicast", "send"])):
            case "route":
                sender.node.route(APP_ID, bytes(payload), now)
            case "multicast":
                sender.node.multicast(APP_ID, bytes(payload), now)
            case _:
                sender.node.send(target.node.peer, bytes(payload), now)
        fleet.settle()
    fleet.agents[0].insert("web", events("a"))
    fleet.finish()
