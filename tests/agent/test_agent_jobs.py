"""A job's life across agents: who joins, who only forwards, what strangers can do, and what the result says."""

from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events
from seeds import seeds

import query
from agent import Submit
from agent.parsing import Parsed
from agent.runtime.messages.jobs import (
    CODEC,
    Acknowledgement,
    Announce,
    Commit,
    Enrol,
    Enrolled,
    Follow,
    Followed,
    JobEnded,
    Leave,
    NoJob,
    Ready,
    Replica,
    Replicated,
    Snapshot,
    SnapshotAck,
    Stop,
    StopAnswer,
    Stopped,
    Submitted,
    Unfollow,
    Update,
    Updated,
    WindowMessage,
)
from agent.runtime.messages.mastership import MasterAnswer, MasterQuestion
from agent.runtime.messages.versions import AbortVersion, ActivateVersion, PrepareVersion, Version, VersionPrepared
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message
from agent.runtime.model.panes import END, FIRST_PANE
from overlay import Id, Node, Peer, app_id, group_id


@pytest.mark.parametrize("salt", seeds(0, 9, slow=(*range(1, 9), 10, 11)))
def test_agents_without_the_stream_only_forward(salt: int) -> None:
    """Whichever ids they draw: bystanders may be master, lie on the way, or have no part; none contributes."""
    fleet = Fleet(size=24, bystanders=16, salt=str(salt))
    fleet.submit(by=23)
    for number in range(8):
        fleet.insert(number, events("a", f"own-{number}"))
    (result,) = fleet.finish()
    assert (result.contributors, result.expected, result.missing, result.events) == (8, 8, [], 16)
    assert result.rows[0] == {"product": "a", "n": 8}
    assert len(result.rows) == 9
    assert sum(agent.refused for agent in fleet.agents) == 0


@pytest.mark.parametrize("size", [6, pytest.param(12, marks=pytest.mark.slow)])
def test_many_jobs_have_masters_of_their_own(size: int) -> None:
    fleet = Fleet(size=size)
    names = [f"job-{number}" for number in range(12)]
    for name in names:
        fleet.submit(name=name)
    for number in range(size):
        fleet.insert(number, events("a"))
    results = fleet.finish()
    assert sorted(result.app for result in results) == sorted(names)
    assert all(result.rows == [{"product": "a", "n": size}] for result in results)
    masters = {
        number
        for number, agent in enumerate(fleet.agents)
        for name in names
        if agent.masters.state(app_id(name, b"")) is not None
    }
    assert len(masters) > 3


def test_windows_come_in_order_and_an_agent_without_events_still_contributes() -> None:
    fleet = Fleet(size=3)
    fleet.submit()
    fleet.insert(0, events("late", at_ms=5_000))
    fleet.insert(1, events("early", at_ms=1_000))
    results = fleet.finish()
    assert [result.window_start for result in results] == ["1970-01-01T00:00:01Z", "1970-01-01T00:00:05Z"]
    assert [(r.contributors, r.expected, r.events) for r in results] == [(3, 3, 1), (3, 3, 1)]


def test_counts_reach_the_result_by_window() -> None:
    fleet = Fleet(size=2)
    fleet.submit()
    coerced = pl.Series([2], dtype=pl.UInt32)
    fleet.insert(0, events("a", at_ms=1_000, **{"@coerced": coerced}))
    fleet.insert(1, events("a", at_ms=2_000))
    fleet.insert(1, Parsed((), malformed=3))
    first, second = fleet.finish()
    assert (first.coerced, first.malformed) == (2, 0)
    assert (second.coerced, second.malformed) == (0, 3)


def test_a_job_at_its_end_leaves_nothing_behind() -> None:
    fleet = Fleet(size=8)
    fleet.submit()
    fleet.insert(0, events("a"))
    fleet.finish()
    assert [agent.status().jobs for agent in fleet.agents] == [()] * 8
    assert [agent.directory.all() for agent in fleet.agents] == [[]] * 8
    assert [agent.ingest.feeds() for agent in fleet.agents] == [()] * 8


def test_a_job_submitted_twice_stays_the_first() -> None:
    fleet = Fleet(size=4)
    fleet.submit()
    fleet.submit(text=COUNT.replace("COUNT(*)", "COUNT(product)"))
    fleet.insert(0, events(None))
    (result,) = fleet.finish()
    assert result.rows == [{"product": None, "n": 1}]


EPOCH = JobEpoch(WALL_MS, 1, Id(77))
LATER = JobEpoch(WALL_MS + 10**6, 9, Id(78))


def strangers_messages(epoch: JobEpoch = EPOCH) -> list[Message]:
    """One of each kind, as a stranger would make them up."""
    plan = query.analyze(query.parse(COUNT), {"web": query.Schema({}, open=True)})
    job = Submit(KEY, "shop", "web", plan.to_wire(), COUNT)
    nobody = Peer(77, "nowhere")
    first, second = Version(1, FIRST_PANE, FIRST_PANE, plan.to_wire(), COUNT), Version(2, 0, 7, {"plan": "none"}, "")
    results = [(0, b"{}")]
    replica = Replica(KEY, epoch, 7, job, Id(5), [], 0, END, [0] * 6, b"", results, [first], take_over=1, leaving=True)
    return [
        job, Submit(KEY, "shop", "web", {}), Submitted(KEY, WALL_MS, None), Submitted(KEY, WALL_MS, "no"),
        Announce(KEY, epoch, nobody, "m", "shop", "web", COUNT, True, 1, FIRST_PANE, 0, 0),
        Enrol(KEY, epoch, "intruder", True), Enrolled(KEY, epoch, 3, [first], 7, 7, job),
        Enrolled(KEY, epoch, 3, [second], 7, 7, Submit(KEY, "shop", "web", {"plan": "none"})),
        Update(KEY, plan.to_wire(), COUNT, True, 5), Update(KEY, {"plan": "none"}, "", False, 6),
        Updated(KEY, 5, None), PrepareVersion(KEY, epoch, 2, plan.to_wire()), PrepareVersion(KEY, epoch, 3, {}),
        VersionPrepared(KEY, epoch, 0, 2, END), VersionPrepared(KEY, epoch, 9, 2, 0, "no"),
        ActivateVersion(KEY, epoch, [first, second]), ActivateVersion(KEY, epoch, [second, first]),
        AbortVersion(KEY, epoch, 2),
        Ready(KEY, epoch, 0, 1, FIRST_PANE), Ready(KEY, epoch, 60_000, 1, END, instead_of=FIRST_PANE),
        MasterQuestion(KEY, epoch, 7), MasterAnswer(KEY, follows=False),
        Leave(KEY, epoch, 0, FIRST_PANE), Snapshot(KEY, epoch, 1, FIRST_PANE, END, b"\x01", b"none", b"nor this"),
        Snapshot(KEY, epoch, 1, FIRST_PANE, END, b"\x01", b"none", b"nor this", detached=True),
        SnapshotAck(KEY, epoch, FIRST_PANE, END, b"\x01"), Commit(KEY, epoch, END), replica,
        Replicated(KEY, epoch, 2**40, END), Follow(KEY, 1, None), Follow(KEY, 2**60, END), Unfollow(KEY), NoJob(KEY),
        Followed(KEY, epoch, 1, 0, "shop", COUNT, "web", ["n"], False), Acknowledgement(KEY, epoch, END, 1, 1, 1, "m"),
        WindowMessage(KEY, epoch, FIRST_PANE, 0, b"{}"), JobEnded(KEY, epoch, 0, "finished"), StopAnswer(KEY, True),
        Stopped(KEY, epoch, "stopped"),
    ]  # fmt: skip


def test_what_a_stranger_sends_changes_nothing() -> None:
    """Every kind of message but Stop, sent straight to every agent by a node that has no part in the job's tree."""
    fleet = Fleet(size=6)
    fleet.submit()
    intruder = Node(Peer(group_id("intruder"), "intruder"), random=random.Random(99))
    fleet.network.add(intruder)
    intruder.join(fleet.agents[0].node.peer, fleet.now)
    fleet.settle()
    master = next(agent.masters.get(KEY) for agent in fleet.agents if agent.masters.state(KEY))
    assert master is not None
    for agent in fleet.agents:
        for message in strangers_messages() + strangers_messages(master.state.epoch):
            if not isinstance(message, Enrol | Replica):
                intruder.send(agent.node.peer, CODEC.encode(message), fleet.now)
        intruder.send(agent.node.peer, b"garbage", fleet.now)
    fleet.settle()
    for number in range(6):
        fleet.insert(number, events("a"))
    (result,) = fleet.finish()
    assert result.rows == [{"product": "a", "n": 6}]
    assert (result.contributors, result.expected) == (6, 6)
    assert all(agent.refused >= 7 for agent in fleet.agents)


@pytest.mark.fuzz
@given(st.data())
def test_no_bytes_harm_an_agent(data: st.DataObject) -> None:
    """Mutated job messages by route, by multicast and directly: counted, never raised, whatever time passes."""
    fleet = Fleet(size=3)
    fleet.submit()
    (master,) = [one for agent in fleet.agents if (one := agent.masters.get(KEY)) is not None]
    epochs = st.sampled_from([EPOCH, LATER, master.state.epoch, master.state.epoch.next(Id(5))])
    group = st.sampled_from([KEY, group_id("fleet")])
    for _ in range(data.draw(st.integers(1, 6))):
        sender, target = (data.draw(st.sampled_from(fleet.agents)) for _ in range(2))
        message = data.draw(st.sampled_from([*strangers_messages(data.draw(epochs)), Stop(KEY)]))
        payload = bytearray(CODEC.encode(message))
        for _ in range(data.draw(st.integers(0, 3))):
            payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
        match data.draw(st.sampled_from(["route", "multicast", "send"])):
            case "route":
                sender.node.route(KEY, bytes(payload), fleet.now)
            case "multicast":
                sender.node.multicast(data.draw(group), bytes(payload), fleet.now)
            case _:
                sender.node.send(target.node.peer, bytes(payload), fleet.now)
        fleet.settle()
        fleet.wait(data.draw(st.sampled_from([0.0, 1.0, 7.0, 40.0])))
        assert all(agent.status() for agent in fleet.agents)
    fleet.insert(0, events("a"))
    for result in fleet.finish():
        assert result.to_json()
