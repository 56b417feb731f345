"""Jobs of a fleet in memory that begins again with the disks of the one before: code, logs, and hostile disks."""

from __future__ import annotations

import msgspec
import pytest
from memory_fleet import KEY, WALL_MS, Fleet, events
from program_fleet import TEN_LINES, Make, feed
from recording_client import client_of
from simulated_disk import SimulatedDisk

from agent.runtime.master.failover import descriptor_of
from agent.runtime.messages.job_records import RECORDS, DescriptorRecord
from agent.runtime.messages.jobs import CODEC, Answer, Stopped
from agent.runtime.reduce.straggler import TAKE_OVER_HOLDBACK_S
from overlay import Authority

BACK_S = 8.0


def disks(size: int = 3) -> dict[str, SimulatedDisk]:
    return {f"agent-{number}": SimulatedDisk() for number in range(size)}


def test_a_job_in_python_comes_back_with_its_code_and_its_log(fleet_of: Make) -> None:
    kept = disks()
    before = fleet_of(disks=kept)
    key = before.submit_code(TEN_LINES)
    before.catch_up()
    feed(before, 1.2, "a", "b", "a")
    feed(before, 8.5, "b")
    before.work()
    assert [text for _, text in before.log(key)] == ["a: 6", "b: 3"]
    fleet = fleet_of(disks=kept, authority=before.authority)
    fleet.wait_long(BACK_S)
    (master,) = [state for agent in fleet.agents if (state := agent.masters.state(key)) is not None]
    assert master.creator == "maria"
    assert [text for _, text in fleet.log(key)] == ["a: 6", "b: 3"]
    fleet.catch_up()
    feed(fleet, 20.2, "c")
    feed(fleet, 40.0, "d")
    fleet.wait_long(TAKE_OVER_HOLDBACK_S + 0.5)  # all have begun anew: the panes before lack everybody
    assert [text for _, text in fleet.log(key)] == ["a: 6", "b: 3", "c: 3"]
    assert fleet.results[-1].contributors == 3


def test_a_job_in_python_does_not_come_back_if_its_creator_is_no_longer_trusted(fleet_of: Make) -> None:
    kept = disks()
    key = fleet_of(disks=kept).submit_code(TEN_LINES)
    fleet = fleet_of(disks=kept, authority=Authority.create("shop"))
    fleet.wait_long(BACK_S)
    assert [agent.masters.state(key) for agent in fleet.agents] == [None] * 3
    assert fleet.turns == {}, "nor does its code run"


def live(fleet: Fleet) -> None:
    fleet.submit(bounded=False)
    fleet.catch_up()
    for number in range(len(fleet.agents)):
        fleet.insert(number, events("a", "b", at_ms=WALL_MS + 1200))
        fleet.insert(number, events("a", at_ms=WALL_MS + 8500))
    fleet.work()


def asked(fleet: Fleet) -> list[bytes]:
    """The last windows, as an agent is told."""
    client_of(fleet.agents[1]).ask(KEY, 10, fleet.now)
    fleet.settle()
    (answer,) = [one for one in fleet.notices(1) if isinstance(one, Answer)]
    return [json for _, json in answer.results]


def masters(fleet: Fleet) -> list[object]:
    return [agent.name for agent in fleet.agents if agent.masters.state(KEY) is not None]


def test_the_last_windows_can_be_asked_for_before_there_is_a_new_one() -> None:
    kept = disks()
    before = Fleet(3, disks=kept)
    live(before)
    assert len(before.results) == 1
    fleet = Fleet(3, disks=kept)
    fleet.wait_long(BACK_S)
    assert asked(fleet) == [before.results[0].to_json().encode()]
    assert [announce.name for announce in fleet.agents[2].directory.all()] == ["shop"]


def test_the_master_begins_again_with_what_an_agent_that_is_back_later_knows() -> None:
    """The first agents to be back have old disks: they miss the last window, which is not published again."""
    kept = disks(4)
    before = Fleet(4, disks=kept)
    live(before)
    for disk in list(kept.values())[:3]:
        records = [RECORDS.decode(one) for one in disk.durable]
        early = [one for one in records if not isinstance(one, DescriptorRecord) or one.frontier < WALL_MS]
        disk.durable = [RECORDS.encode(one) for one in early]
    held = [disk for disk in kept.values() if disk.durable]
    assert len(held) == 4, "three replicas and the master"
    fleet = Fleet(3, disks=kept)
    fleet.wait_long(BACK_S)
    (name,) = masters(fleet)
    master = next(agent for agent in fleet.agents if agent.name == name)
    state = master.masters.state(KEY)
    assert state is not None
    old_epoch = state.epoch
    assert len(asked(fleet)) == 0
    fleet.add("agent-3")
    fleet.wait_long(BACK_S)
    (name,) = masters(fleet)
    state = next(agent for agent in fleet.agents if agent.name == name).masters.state(KEY)
    assert state is not None
    assert state.epoch.counter > old_epoch.counter
    assert len(asked(fleet)) == 1
    assert fleet.results == [], "it is not published again"


def test_a_master_hears_what_the_one_before_had_published_since_it_handed_over() -> None:
    """The request to take over was on its way for long, to an agent that was busy and does not hold the job."""
    fleet = Fleet(8)
    fleet.submit(bounded=False)
    (name,) = masters(fleet)
    old = next(agent for agent in fleet.agents if agent.name == name)
    state = old.masters.state(KEY)
    assert state is not None
    request = msgspec.structs.replace(descriptor_of(state, 1), take_over=1, leaving=True)
    fleet.catch_up()
    for number in range(8):
        fleet.insert(number, events("a", "b", at_ms=WALL_MS + 1200))
        fleet.insert(number, events("a", at_ms=WALL_MS + 8500))
    fleet.work()
    before = [result.window_start for result in fleet.results]
    assert before
    new = next(agent for agent in fleet.agents if agent is not old and KEY not in agent.failover.jobs)
    old.masters.held[KEY]._appointed[1] = new.node.peer.node_id
    old.node.send(new.node.peer, CODEC.encode(request), fleet.now)
    fleet.settle()
    fleet.wait_long(BACK_S)
    (name,) = masters(fleet)
    master = next(agent for agent in fleet.agents if agent.name == name)
    current = master.masters.state(KEY)
    assert current is not None
    assert current.epoch.counter >= 3, "another has led the job"
    assert current.published_upto >= state.published_upto
    assert asked(fleet) == [result.to_json().encode() for result in fleet.results[: len(before)]]
    assert [result.window_start for result in fleet.results] == before, "nothing is published again"


def test_nobody_ends_a_job_that_does_not_come_from_a_disk_by_a_message_of_his_own() -> None:
    fleet = Fleet(3, disks=disks())
    live(fleet)
    (name,) = masters(fleet)
    master = next(agent for agent in fleet.agents if agent.name == name)
    other = next(agent for agent in fleet.agents if agent is not master)
    state = master.masters.state(KEY)
    assert state is not None
    other.node.send(master.node.peer, CODEC.encode(Stopped(KEY, state.epoch, "stopped")), fleet.now)
    fleet.settle()
    fleet.wait_long(2.0)
    assert masters(fleet) == [name]


def test_a_descriptor_from_the_future_silences_no_job() -> None:
    """A disk, or who claims to have one, says that windows are out which nobody can have computed yet."""
    kept = disks()
    live(Fleet(3, disks=kept))
    fleet = Fleet(3, disks=kept)
    fleet.wait_long(BACK_S)
    (name,) = masters(fleet)
    master = next(agent for agent in fleet.agents if agent.name == name)
    other = next(agent for agent in fleet.agents if agent is not master)
    held = other.failover._held[KEY]
    forged = msgspec.structs.replace(held.whole(), frontier=fleet.wall_ms + 10**9, restored=True)
    forged = msgspec.structs.replace(forged, revision=held.replica.revision + 1)
    other.node.send(master.node.peer, CODEC.encode(forged), fleet.now)
    fleet.settle()
    fleet.wait_long(1.0)
    state = master.masters.state(KEY)
    assert state is not None
    assert state.published_upto < fleet.wall_ms + 60_000


def test_an_attached_job_is_not_kept() -> None:
    kept = disks()
    Fleet(3, disks=kept).submit(bounded=False, attached=True)
    assert all(not disk.durable for disk in kept.values())


def stick(kept: dict[str, SimulatedDisk], *names: str, stuck: bool) -> None:
    for name in names or kept:
        kept[name].is_stuck = stuck


def test_no_epoch_is_announced_before_it_is_on_disk() -> None:
    kept = disks()
    fleet = Fleet(3, disks=kept)
    stick(kept, stuck=True)
    fleet.submit(bounded=False)
    fleet.wait_long(1.0)
    assert [agent.directory.all() for agent in fleet.agents] == [[]] * 3
    assert fleet.notices(0) == [], "whoever has submitted it waits"
    stick(kept, stuck=False)
    fleet.settle()
    assert [len(agent.directory.all()) for agent in fleet.agents] == [1] * 3
    assert [RECORDS.decode(disk.durable[0]).app_id for disk in kept.values() if disk.durable] == [KEY] * 3


@pytest.mark.parametrize("whose", ["the master's", "a replica's"])
def test_no_window_is_out_before_the_disks_have_it(whose: str) -> None:
    kept = disks()
    fleet = Fleet(3, disks=kept)
    fleet.submit(bounded=False)
    (name,) = masters(fleet)
    stuck = name if whose == "the master's" else next(other for other in kept if other != name)
    stick(kept, stuck, stuck=True)
    fleet.catch_up()
    for number in range(3):
        fleet.insert(number, events("a", "b", at_ms=WALL_MS + 1200))
        fleet.insert(number, events("a", at_ms=WALL_MS + 8500))
    fleet.work()
    assert fleet.results == []
    stick(kept, stuck, stuck=False)
    fleet.settle()
    assert len(fleet.results) == 1
