"""A fleet that is killed as a whole, and comes back at once: its job goes on as soon as the agents are together."""

from __future__ import annotations

import pytest
from memory_fleet import KEY, Fleet
from recording_client import client_of
from remembering_fleet import RememberingFleet
from seeds import seeds
from simulated_disk import SimulatedDisk
from simulated_fleet import SQL, Server, key_of
from test_remembering_simulated import JOB, check_conservation

from agent.runtime.master.failover import Failover
from agent.runtime.messages.mastership import MasterAnswer, MasterQuestion
from overlay import Peer

LED_S = 2.5
"""Time in which a fleet of agents that start at once has its master again."""
BACK_S = 6.0
"""Time in which it publishes again: a window of 2 s, its grace, and what reading takes."""
LISTENED_S = 7.0
"""Time after which a job is back whose agents listen for a master."""


def running(seed: int, size: int) -> RememberingFleet:
    """A fleet with both kinds of disks, and a live job whose windows come."""
    fleet = RememberingFleet(seed, disks=True)
    for _ in range(size):
        fleet.add("web")
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    fleet.keep_writing(fleet.now + 100.0, pause=0.3)
    follower = fleet.random.choice(fleet.workers())
    fleet.submit(JOB, follower, SQL)
    client_of(follower.agent).follow(key_of(JOB), None, fleet.now)
    fleet.run(fleet.now + fleet.random.uniform(6, 8))
    return fleet


def kill_all(fleet: RememberingFleet) -> list[Server]:
    for server in fleet.servers.values():
        fleet.crash(server)
    return list(fleet.servers.values())


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 40)))
def test_the_job_of_a_killed_fleet_goes_on_when_its_agents_are_together(seed: int) -> None:
    """It waits neither for a master that nobody follows, nor for a pane that lacks nobody."""
    fleet = running(seed, 3 + seed % 6)
    before = len(fleet.of(JOB))
    servers = kill_all(fleet)
    fleet.run(fleet.now + 0.5)
    for server in fleet.random.sample(servers, len(servers)):
        fleet.restart(server)
    began_at, began_ms = fleet.now, fleet.wall_ms
    fleet.run(fleet.now + LED_S)
    assert len(fleet.masters(JOB)) == 1, f"seed {seed}"
    fleet.run(fleet.now + 10.0)
    after = [window for window in fleet.of(JOB)[before:] if window.pane >= began_ms - 1000]
    assert after, f"seed {seed}: no window"
    assert after[0].at - began_at <= BACK_S, f"seed {seed}"
    assert [window.result.missing for window in fleet.of(JOB)[before:]] == [[]] * (len(fleet.of(JOB)) - before)
    check_conservation(fleet)


def disks(size: int) -> dict[str, SimulatedDisk]:
    return {f"agent-{number}": SimulatedDisk() for number in range(size)}


def masters(fleet: Fleet) -> list[str]:
    return [agent.name for agent in fleet.agents if agent.masters.state(KEY) is not None]


def test_it_waits_for_an_agent_that_may_become_its_master_right_after() -> None:
    kept = disks(4)
    before = Fleet(4, disks=kept)
    before.submit(bounded=False)
    (last,) = masters(before)
    names = [name for name in kept if name != last]
    fleet = Fleet(0, disks=kept)
    for name in names:
        fleet.add(name)
    fleet.wait_long(LED_S)
    assert masters(fleet) == [], "the nearest agent is not back"
    fleet.add(last)
    fleet.wait_long(LED_S)
    assert masters(fleet) == [last]


def test_agents_that_say_to_follow_a_master_delay_the_job_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = disks(3)
    before = Fleet(3, disks=kept)
    before.submit(bounded=False)

    def lie(self: Failover, question: MasterQuestion, sender: Peer, now: float) -> None:
        self._sender.send(sender, MasterAnswer(question.app_id, follows=True), now)

    monkeypatch.setattr(Failover, "_asked_for_master", lie)
    fleet = Fleet(3, disks=kept)
    fleet.wait_long(LED_S)
    assert masters(fleet) == []
    fleet.wait_long(LISTENED_S - LED_S)
    assert len(masters(fleet)) == 1


def test_an_agent_that_comes_back_to_its_running_fleet_takes_over_nothing() -> None:
    """The master of the job has it hand over, as those that follow it say that there is one."""
    kept = disks(4)
    fleet = Fleet(4, disks=kept)
    fleet.submit(bounded=False)
    (old,) = masters(fleet)
    master = next(agent for agent in fleet.agents if agent.name == old)
    fleet.network.remove(master.node)
    fleet.agents.remove(master)
    fleet.wait_long(20.0)
    (new,) = masters(fleet)
    state = next(state for agent in fleet.agents if (state := agent.masters.state(KEY)) is not None)
    epoch = state.epoch
    assert new != old
    back = fleet.add(old)
    assert back.failover.search.statistics() == {"searches": 0}
    fleet.wait_long(6.0)
    state = next(state for agent in fleet.agents if (state := agent.masters.state(KEY)) is not None)
    assert masters(fleet) == [old], "it was handed over"
    assert state.epoch.counter == epoch.counter + 1
