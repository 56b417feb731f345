"""Who is a job's master, through crashes, arrivals and partitions; and what becomes of those it had."""

from __future__ import annotations

import pytest
from lives import JOB, begin, check, crash_master, follow_elsewhere, leave
from recording_client import client_of
from seeds import seeds
from simulated_fleet import Server, key_of, published
from window_checks import check_windows

from agent.runtime.messages.client_events import Acknowledged
from agent.runtime.messages.jobs import Stopped
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.model.panes import FIRST_PANE
from overlay import distance

KEY = key_of(JOB)


def master_of(servers: list[Server]) -> Server:
    (master,) = [server for server in servers if server.is_up and server.agent.masters.state(KEY)]
    return master


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_a_closer_node_takes_over_from_a_living_master(seed: int) -> None:
    life = begin(seed, size=6)
    fleet = life.fleet
    before = master_of(list(fleet.servers.values()))
    closer = fleet.add("web", node_id=KEY)
    fleet.keep_writing(fleet.now + 60.0, servers=[closer])
    fleet.run(fleet.now + 15.0)
    assert master_of(list(fleet.servers.values())) is closer
    assert before.agent.masters.state(KEY) is None
    check(life, silence_max_s=5.0)
    windows = fleet.of(JOB)
    assert {window.epoch[1] for window in windows} == {1, 2}
    assert all(window.result.missing == [] for window in windows)
    assert windows[-1].contributors == set(fleet.servers)


@pytest.mark.parametrize("seed", seeds(1, slow=[2, 3]))
def test_a_restarted_agent_is_the_same_to_the_roster(seed: int) -> None:
    """It stays expected, is named while it is away, and contributes again under its name."""
    life = begin(seed, size=5)
    fleet = life.fleet
    away = next(one for one in life.alive() if not one.agent.masters.state(KEY))
    fleet.crash(away)
    fleet.run(fleet.now + 12.0)
    middle = fleet.of(JOB)[-1]
    assert (middle.result.contributors, middle.result.expected, middle.result.missing) == (4, 5, [away.name])
    before = len(life.follower.notices)
    fleet.restart(away)
    fleet.run(fleet.now + 12.0)
    last = fleet.of(JOB)[-1]
    assert (last.result.contributors, last.result.expected, last.result.missing) == (5, 5, [])
    told = [one for one in life.follower.notices[before:] if isinstance(one, Acknowledged)]
    assert [(one.agents, one.expected) for one in told] == [(5, 5)], "once it runs the job, it does so for good"
    check(life, silence_max_s=10.0)


@pytest.mark.slow
def test_one_master_after_another() -> None:
    """Every new master is killed as soon as it has published something."""
    life = begin(4, size=7)
    fleet = life.fleet
    for _ in range(4):
        follow_elsewhere(life)
        crash_master(life)
        count = len(fleet.of(JOB))
        for _ in range(30):
            fleet.run(fleet.now + 0.5)
            if len(fleet.of(JOB)) > count + 1:
                break
    fleet.run(fleet.now + 30.0)
    check(life, silence_max_s=25.0)
    epochs = [window.epoch[1] for window in fleet.of(JOB)]
    assert epochs == sorted(epochs)
    assert epochs[-1] >= 4


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_results_from_before_can_be_had_from_the_next_master(seed: int) -> None:
    life = begin(seed, size=6)
    fleet = life.fleet
    follow_elsewhere(life)
    old = master_of(list(fleet.servers.values()))
    before = [window.pane for window in fleet.of(JOB)]
    fleet.crash(old)
    fleet.run(fleet.now + 12.0)
    new = master_of(list(fleet.servers.values()))
    asks = next(one for one in fleet.servers.values() if one.is_up and one not in (new, life.follower))
    client_of(asks.agent).follow(KEY, FIRST_PANE, fleet.now)
    fleet.run(fleet.now + 3.0)
    assert set(before) <= set(published(asks, KEY)) | set(before[:2]), "the first may be older than the replicas"
    assert published(asks, KEY) == sorted(published(asks, KEY))


def test_a_job_that_was_stopped_stays_stopped() -> None:
    """Also if its master dies before everybody has heard of it."""
    life = begin(2, size=6)
    fleet = life.fleet
    master = master_of(list(fleet.servers.values()))
    client_of(life.follower.agent).stop(KEY, fleet.now)
    fleet.run(fleet.now + 0.7)
    fleet.crash(master)
    fleet.run(fleet.now + 40.0)
    assert fleet.masters(JOB) == []
    assert all(
        one.agent.directory.all() == [] and one.agent.ingest.feeds() == ()
        for one in fleet.servers.values()
        if one.is_up
    )
    assert all(one.agent.status().replicas == () for one in fleet.servers.values() if one.is_up)


def test_old_epochs_are_refused() -> None:
    life = begin(1, size=5)
    fleet = life.fleet
    master = master_of(list(fleet.servers.values())).agent.masters.get(KEY)
    assert master is not None
    old = master.state.epoch
    follow_elsewhere(life)
    crash_master(life)
    fleet.run(fleet.now + 15.0)
    windows, stranger = len(fleet.of(JOB)), fleet.random.choice(life.alive() or [life.follower])
    for message in (Stopped(KEY, old, "stopped"), master.announcing.announcement()):
        stranger.agent.masters._sender.multicast(FLEET_GROUP, message, fleet.now)
    fleet.run(fleet.now + 10.0)
    assert len(fleet.of(JOB)) > windows + 2
    check_windows(fleet)


@pytest.mark.parametrize("seed", seeds(3, slow=[8, *range(10, 54)]))
def test_several_leave_at_once(seed: int) -> None:
    """What they hand in may be lost with a master that leaves as well: then they are named."""
    life = begin(seed, size=7)
    for _ in range(4):
        leave(life)
        life.fleet.run(life.fleet.now + life.fleet.random.uniform(0.0, 0.5))
    life.fleet.run(life.fleet.now + 25.0)
    check(life, silence_max_s=10.0)
    assert len(life.fleet.of(JOB)[-1].expected) == 3


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_a_master_hands_over_its_last_results_too(seed: int) -> None:
    """To a closer node that has just come, and has not held any descriptor before."""
    life = begin(seed, size=5)
    fleet = life.fleet
    before = [window.pane for window in fleet.of(JOB)]
    closer = fleet.add("web", node_id=KEY)
    fleet.run(fleet.now + 6.0)
    assert master_of(list(fleet.servers.values())) is closer
    client_of(closer.agent).follow(KEY, FIRST_PANE, fleet.now)
    fleet.run(fleet.now + 2.0)
    assert published(closer, KEY)[: len(before)] == before


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_results_reach_a_master_that_has_just_come_when_the_old_one_dies(seed: int) -> None:
    """It never held a descriptor: those that do pass theirs on, with all results they have."""
    life = begin(seed, size=6)
    fleet = life.fleet
    follow_elsewhere(life)
    before = [window.pane for window in fleet.of(JOB)]
    fleet.crash(master_of(list(fleet.servers.values())))
    closer = fleet.add("web", node_id=KEY)
    fleet.run(fleet.now + 12.0)
    assert master_of(list(fleet.servers.values())) is closer
    client_of(closer.agent).follow(KEY, FIRST_PANE, fleet.now)
    fleet.run(fleet.now + 2.0)
    assert published(closer, KEY)[: len(before)] == before


@pytest.mark.parametrize("seed", seeds(55, slow=[1, 2]))
def test_an_heir_that_stands_still_takes_over_without_a_window_twice(seed: int) -> None:
    """Whatever it takes, the master says nothing while the successor may be the master already."""
    life = begin(seed, size=5)
    fleet = life.fleet
    closer = fleet.add("web", node_id=KEY)
    fleet.run(fleet.now + fleet.random.uniform(0.2, 2.5))
    fleet.stall(closer, fleet.random.choice((2.0, 4.0, 6.0)))
    fleet.run(fleet.now + 25.0)
    assert master_of(list(fleet.servers.values())) is closer
    panes = [window.pane for window in fleet.of(JOB)]
    assert len(panes) == len(set(panes))
    check_windows(fleet)


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 20)))
def test_an_heir_that_has_stood_still_through_an_epoch_takes_it_over_from_others(seed: int) -> None:
    """It has not heard of the last epoch, and those who have pass on their descriptors."""
    life = begin(seed, size=6)
    fleet, ((master, state),) = life.fleet, life.fleet.masters(JOB)
    nearest = sorted(fleet.servers.values(), key=lambda one: distance(KEY, one.node.peer.node_id))
    heir = next(one for one in nearest if one is not master)
    fleet.stall(heir, 7.0)
    fleet.run(fleet.now + 2.0)
    master.agent.masters.outdo(KEY, state.epoch, fleet.now)
    fleet.run(fleet.now + 4.5)
    before = {window.pane for window in fleet.of(JOB)}
    fleet.crash(master)
    fleet.run(fleet.now + 25.0)
    assert master_of(list(fleet.servers.values())) is heir
    panes = [window.pane for window in fleet.of(JOB)]
    assert len(panes) == len(set(panes)), f"seed {seed}"
    assert set(panes) > before
    check_windows(fleet)
