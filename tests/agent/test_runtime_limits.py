"""Everything that peers can make grow has a limit; past it things are refused and counted, and the rest goes on."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events
from recording_client import client_of
from test_combiner import run_of

import query
from agent import Submit
from agent.runtime.fleet import job_directory
from agent.runtime.master import failover, roster
from agent.runtime.master.results import subscribers
from agent.runtime.master.roster import Roster
from agent.runtime.messages.client_events import Ended
from agent.runtime.messages.jobs import CODEC, Enrol, Follow, MemberEntry, Replica, StopAnswer, Stopped
from agent.runtime.messages.versions import Version
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Message
from agent.runtime.model.panes import END, FIRST_PANE
from agent.runtime.reduce.combiner import Combiner
from agent.runtime.reduce.straggler import StragglerPolicy
from agent.runtime.requests import commands as requests
from agent.runtime.requests import following
from agent.runtime.requests.events import SubmitRefused
from overlay import Id, Node, Peer


def strangers(fleet: Fleet, count: int, message: Callable[[int], Message], to: int = 0) -> None:
    """So many nodes say something to one agent."""
    for number in range(count):
        node = Node(Peer(Id(1000 + number), f"stranger-{len(list(fleet.network.nodes))}"), random=random.Random(number))
        fleet.network.add(node)
        node.join(fleet.agents[0].node.peer, fleet.now)
        fleet.settle()
        node.send(fleet.agents[to].node.peer, CODEC.encode(message(number)), fleet.now)
    fleet.settle()


def live_master(fleet: Fleet) -> int:
    fleet.submit(bounded=False)
    return next(number for number, agent in enumerate(fleet.agents) if agent.masters.state(KEY))


def test_a_roster_is_full_at_some_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roster, "MEMBERS_MAX", 4)
    fleet = Fleet(2)
    number = live_master(fleet)
    master = fleet.agents[number].masters.state(KEY)
    assert master is not None
    before = fleet.agents[number].refused
    strangers(fleet, 5, lambda n: Enrol(KEY, master.epoch, f"stranger-{n}", True), to=number)
    assert (len(master.roster), fleet.agents[number].refused - before) == (4, 3)


def test_followers_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "SUBSCRIBERS_MAX", 2)
    fleet = Fleet(2)
    number = live_master(fleet)
    master = fleet.agents[number].masters.get(KEY)
    assert master is not None
    strangers(fleet, 5, lambda n: Follow(KEY, n, None), to=number)
    assert (len(master.subscribers), master.subscribers.refused) == (2, 3)


def replica_of(number: int) -> Replica:
    plan = query.analyze(query.parse(COUNT), {"web": query.Schema({}, open=True)})
    job = Submit(Id(number), "shop", "web", plan.to_wire(), COUNT, bounded=False)
    epoch = JobEpoch(5, 1, Id(1000 + number))
    return Replica(Id(number), epoch, 1, job, Id(7), [], 0, FIRST_PANE, [0] * 6, b"", [], versions_of(job))


def versions_of(job: Submit) -> list[Version]:
    return [Version(1, FIRST_PANE, FIRST_PANE, job.plan, job.text)]


def test_replicas_are_limited_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "REPLICAS_MAX", 3)
    fleet = Fleet(1)
    strangers(fleet, 5, replica_of)
    agent = fleet.agents[0]
    assert (len(agent.status().replicas), agent.refused) == (3, 2)
    fleet.wait_long(failover.FORGET_S + 10)
    assert agent.status().replicas == ()


def test_a_master_that_was_never_announced_hands_nothing_over() -> None:
    """Else any agent could make another one master of a job that it makes up."""
    fleet = Fleet(3)
    number = live_master(fleet)
    master = fleet.agents[number].masters.state(KEY)
    assert master is not None

    def usurpation(n: int) -> Replica:
        job = msgspec.structs.replace(replica_of(0).job, app_id=KEY)
        epoch = JobEpoch(master.epoch.born_ms, 7, Id(1000 + n))
        return Replica(KEY, epoch, 1, job, Id(7), [], 0, END, [0] * 6, b"", [], versions_of(job), True, True)

    strangers(fleet, 3, usurpation, to=(number + 1) % 3)
    fleet.wait_long(3.0)
    assert [agent.masters.state(KEY) is not None for agent in fleet.agents].count(True) == 1
    assert fleet.agents[number].masters.state(KEY) is master


def test_what_clients_ask_for_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FOLLOWED_MAX", 2)
    monkeypatch.setattr(requests, "OPEN_MAX", 2)
    fleet = Fleet(1)
    agent = fleet.agents[0]
    agent.node.leave(fleet.now)
    for number in range(4):
        client_of(agent).follow(number, None, fleet.now)
        client_of(agent).stop(100 + number, fleet.now)
        client_of(agent).submit(replica_of(200 + number).job, fleet.now, WALL_MS)
    told = client_of(agent).notices()
    assert [notice for notice in told if isinstance(notice, Ended)] == [Ended("lost"), Ended("lost")]
    assert [notice.app_id for notice in told if isinstance(notice, StopAnswer)] == [102, 103]
    assert [notice.app_id for notice in told if isinstance(notice, SubmitRefused)] == [202, 203]


def test_ended_jobs_are_remembered_in_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_directory, "ENDED_MAX", 3)
    known = job_directory.JobDirectory()
    for number in range(9):
        assert known.end(Stopped(Id(number), JobEpoch(5, 1, Id(1)), "stopped"))
    assert [known.is_over(Id(number), JobEpoch(5, 9, Id(2))) for number in (0, 5, 6, 8)] == [False, False, True, True]
    assert not known.is_over(Id(8), JobEpoch(6, 1, Id(2))), "a job born later is another one"


def test_a_source_that_stands_still_is_not_waited_for_for_ever() -> None:
    combiner = Combiner(lambda states, _upto: states[0])
    for source in "ab":
        combiner.add_source(source)
    combiner.add("a", run_of(FIRST_PANE, 5000, 1, {4000: 1}))
    combiner.add("b", run_of(FIRST_PANE, 1000, 2, {}))
    for now in (0.0, 30.0, 59.0):
        combiner.skip_stragglers(StragglerPolicy(60.0, 2000), now)
    assert [run.upto for run in combiner.ready()] == [1000]
    combiner.skip_stragglers(StragglerPolicy(60.0, 2000), 61.0)
    assert [(run.upto, run.contributors) for run in combiner.ready()] == [(5000, 1)]
    combiner.add("b", run_of(1000, 4000, 2, {4000: 9}))
    combiner.add("a", run_of(5000, 6000, 1, {6000: 1}))
    combiner.skip_stragglers(StragglerPolicy(60.0, 2000), 62.0)
    assert [(run.upto, run.contributors) for run in combiner.ready()] == [(6000, 1)], "it is not up yet"
    combiner.add("b", run_of(4000, 6500, 2, {6500: 1}))
    combiner.skip_stragglers(StragglerPolicy(60.0, 2000), 63.0)
    combiner.add("a", run_of(6000, 9000, 1, {7000: 1}))
    assert [(run.upto, run.contributors) for run in combiner.ready()] == [(6500, 3)], "it is waited for again"


def test_who_comes_back_after_a_farewell_has_a_new_number() -> None:
    members = Roster()
    first = members.enrol(7, "agent-7")
    assert first is not None
    members.begin(first.number, 1000)
    assert members.enrol(7, "agent-7") == members.member(0)
    members.leave(first.number, 3000)
    again = members.enrol(7, "agent-7")
    assert again is not None
    members.begin(again.number, 5000)
    assert [members.expected(pane) for pane in (0, 1000, 3000, 4000, 5000, 6000)] == [0, 1, 1, 0, 2, 2]
    assert (members.last_pane(7), members.present(), members.numbers_of(7)) == (3000, 0b10, 0b11)
    members.forget_left(3000)
    assert (members.known(), members.expected(1000)) == (0b10, 0)
    copy = Roster.of(members.entries(), members.next_number, FIRST_PANE)
    assert copy.enrol(7, "agent-7") == members.member(again.number)
    assert copy.entries() == [MemberEntry(1, "agent-7", Id(7), 5000, None)]


def test_an_agent_that_leaves_a_fleet_of_one_is_done_at_once() -> None:
    fleet = Fleet(1)
    fleet.submit(bounded=False)
    fleet.catch_up()
    fleet.insert(0, events("a", at_ms=WALL_MS + 1500))
    agent = fleet.agents[0]
    agent.drain.begin(fleet.now)
    fleet.work()
    assert agent.drain.is_complete
