"""Fleets that are killed as a whole and started again: their jobs come back from the disks, as they were."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from lives import JOB, Life, begin, crash, crash_master, leave, stall
from recording_client import client_of
from seeds import seeds
from simulated_fleet import Server, SimulatedFleet, key_of, sql
from test_hopping_simulated import HOPPING
from test_hopping_simulated import check_windows as check_hopping
from window_checks import check_windows

from agent.runtime.messages.jobs import Answer

KEY = key_of(JOB)
AGAIN_S = 40.0
"""Time in which a fleet that is started again, one agent after another, publishes."""


def kill_all(fleet: SimulatedFleet) -> list[Server]:
    """All agents at one instant, whatever they are at."""
    servers = [server for server in fleet.servers.values() if server.is_up]
    for server in servers:
        fleet.crash(server)
    return servers


def start_again(fleet: SimulatedFleet, servers: list[Server], *, pause_s: float = 1.0) -> None:
    """One after another, in any order."""
    for server in fleet.random.sample(servers, len(servers)):
        if not server.is_up:
            fleet.restart(server)
        fleet.run(fleet.now + fleet.random.uniform(0, 2) * pause_s)


def panes(fleet: SimulatedFleet) -> list[int]:
    return [window.pane for window in fleet.of(JOB)]


def answer(fleet: SimulatedFleet, server: Server) -> Answer:
    server.notices.clear()
    client_of(server.agent).ask(KEY, 64, fleet.now)
    fleet.run(fleet.now + 3.0)
    (said,) = [notice for notice in server.notices if isinstance(notice, Answer)]
    return said


def check_once(life: Life) -> None:
    """No window was published twice, no epoch used twice, and each window is what logs and contributors say."""
    fleet = life.fleet
    check_windows(fleet)
    twice = {pane: count for pane, count in Counter(panes(fleet)).items() if count > 1}
    assert not twice, f"{life.about()}: {twice}"
    counters = [window.epoch[1] for window in fleet.of(JOB)]
    assert counters == sorted(counters), life.about()


@pytest.mark.parametrize("seed", seeds(4, slow=range(5, 40)))
def test_a_killed_fleet_has_its_jobs_when_it_is_back(seed: int) -> None:
    life = begin(seed, size=3 + seed % 4, disks=True)
    fleet = life.fleet
    fleet.run(fleet.now + fleet.random.uniform(5, 9))
    before = fleet.of(JOB)
    ((_, state),) = fleet.masters(JOB)
    epoch = state.epoch
    servers = kill_all(fleet)
    fleet.run(fleet.now + fleet.random.choice((0.5, 20.0, 100.0)))
    start_again(fleet, servers)
    fleet.run(fleet.now + AGAIN_S)
    ((_, state),) = fleet.masters(JOB)
    assert (state.text, state.version, state.epoch.born_ms) == (before[-1].version.text, 1, epoch.born_ms)
    assert state.epoch > epoch
    after = fleet.of(JOB)[len(before) :]
    assert len(after) > 3, life.about()
    assert after[-1].contributors == set(fleet.servers)
    assert after[-1].result.missing == []
    check_once(life)
    said = answer(fleet, fleet.random.choice(servers))
    known = {json.loads(result)["window_start"] for _, result in said.results}
    assert {window.result.window_start for window in before[2:]} <= known, "also what was published before the end"


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 12)))
def test_a_fleet_that_is_killed_again_and_again_uses_no_epoch_twice(seed: int) -> None:
    life = begin(seed, size=4, disks=True)
    fleet, epochs = life.fleet, []
    for _ in range(4):
        start_again(fleet, kill_all(fleet), pause_s=0.3)
        fleet.run(fleet.now + fleet.random.uniform(4.0, 14.0))
        epochs += [state.epoch for _, state in fleet.masters(JOB)]
    start_again(fleet, kill_all(fleet))
    fleet.run(fleet.now + AGAIN_S)
    ((_, state),) = fleet.masters(JOB)
    assert state.epoch > max(epochs)
    assert len(set(epochs)) == len(epochs)
    check_once(life)


@pytest.mark.parametrize("seed", seeds(2, slow=range(3, 12)))
def test_the_job_comes_back_although_its_master_and_another_have_lost_their_disks(seed: int) -> None:
    life = begin(seed, size=5, disks=True)
    fleet = life.fleet
    fleet.run(fleet.now + 5.0)
    ((master, _),) = fleet.masters(JOB)
    other = next(server for server in fleet.servers.values() if server is not master)
    servers = kill_all(fleet)
    for server in (master, other):
        assert server.disk is not None
        server.disk.durable.clear()
    start_again(fleet, servers)
    fleet.run(fleet.now + AGAIN_S)
    assert fleet.of(JOB)[-1].contributors == set(fleet.servers)
    check_once(life)


@pytest.mark.parametrize("seed", seeds(slow=range(5, 30)))
def test_faults_before_and_after_the_fleet_is_killed(seed: int) -> None:
    """Agents crash, return with what their disks had then, stand still and leave; disks are of different age."""
    life = begin(seed, size=4 + seed % 3, disks=True)
    fleet = life.fleet
    acts = fleet.random.choices((crash, crash_master, stall, leave), k=3)
    for act in acts:
        fleet.at(fleet.now + fleet.random.uniform(0, 8), lambda act=act: act(life))  # type: ignore[misc]
    fleet.run(fleet.now + fleet.random.uniform(8, 14))
    kill_all(fleet)
    down = [server for server in fleet.servers.values() if server.writes]
    life.note("all are killed")
    start_again(fleet, down)
    for act in fleet.random.choices((crash, crash_master, stall), k=2):
        fleet.at(fleet.now + fleet.random.uniform(0, 12), lambda act=act: act(life))  # type: ignore[misc]
    fleet.run(fleet.now + 20.0)
    for server in down:
        if not server.is_up:
            fleet.restart(server)
    fleet.run(fleet.now + AGAIN_S)
    assert len(fleet.masters(JOB)) == 1, life.about()
    assert fleet.of(JOB)[-1].contributors == {server.name for server in down}, life.about()
    check_once(life)


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 12)))
def test_windows_of_several_panes_are_out_once_and_honest_after_a_restart(seed: int) -> None:
    life = begin(seed, size=4, sql=HOPPING, disks=True)
    fleet = life.fleet
    fleet.run(fleet.now + fleet.random.uniform(9, 15))
    before = len(fleet.of(JOB))
    start_again(fleet, kill_all(fleet))
    fleet.run(fleet.now + AGAIN_S)
    assert before < len(fleet.of(JOB)) - 3
    check_hopping(life)
    assert fleet.of(JOB)[-1].result.missing == []


def test_the_version_in_force_comes_back() -> None:
    life = begin(3, size=4, disks=True)
    fleet = life.fleet
    text = sql("ab", 2)
    fleet.update(JOB, life.follower, text)
    fleet.run(fleet.now + 12.0)
    assert fleet.of(JOB)[-1].version.number == 2
    start_again(fleet, kill_all(fleet))
    fleet.run(fleet.now + AGAIN_S)
    ((_, state),) = fleet.masters(JOB)
    assert (state.version, state.text, fleet.of(JOB)[-1].version.text) == (2, text, text)
    check_once(life)


@pytest.mark.parametrize("seed", seeds(2, slow=range(3, 12)))
def test_a_job_that_was_stopped_while_an_agent_was_down_stays_stopped(seed: int) -> None:
    """Although the agent was its master; and although all are killed before it is back."""
    life = begin(seed, size=5, disks=True)
    fleet = life.fleet
    fleet.run(fleet.now + 3.0)
    ((old, _),) = fleet.masters(JOB)
    fleet.crash(old)
    fleet.run(fleet.now + 25.0)
    asked = next(server for server in fleet.servers.values() if server.is_up)
    client_of(asked.agent).stop(KEY, fleet.now)
    fleet.run(fleet.now + 40.0)
    assert fleet.masters(JOB) == []
    if seed % 2:
        start_again(fleet, kill_all(fleet))
        fleet.run(fleet.now + 5.0)
    fleet.restart(old)
    fleet.run(fleet.now + 40.0)
    assert fleet.masters(JOB) == []
    assert all(server.agent.directory.all() == [] for server in fleet.servers.values())
    start_again(fleet, kill_all(fleet))
    fleet.run(fleet.now + AGAIN_S)
    assert fleet.masters(JOB) == [], "nor does any disk have it now"


def test_an_attached_job_ends_with_the_fleet() -> None:
    """Its reader is gone."""
    life = begin(1, size=3, disks=True)
    fleet = life.fleet
    fleet.submit("attached", life.follower, attached=True)
    client_of(life.follower.agent).follow(key_of("attached"), None, fleet.now)
    fleet.run(fleet.now + 8.0)
    assert fleet.masters("attached")
    start_again(fleet, kill_all(fleet))
    fleet.run(fleet.now + AGAIN_S)
    assert fleet.masters("attached") == []
    assert fleet.masters(JOB) != []


def test_windows_come_although_disks_are_stuck() -> None:
    """Each is late by what replication may take, and no more."""
    life = begin(2, size=4, disks=True)
    fleet = life.fleet
    for server in fleet.servers.values():
        assert server.disk is not None
        server.disk.is_stuck = True
    since = fleet.now
    fleet.run(fleet.now + 30.0)
    assert fleet.longest_silence(JOB, since, fleet.now) < 5.0
    fleet.submit("another", life.follower)
    fleet.run(fleet.now + 12.0)
    assert fleet.of("another") != []
    check_once(life)


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 12)))
def test_a_fleet_that_is_stopped_in_good_order_has_its_jobs_again(seed: int) -> None:
    """All agents get SIGTERM, at once or one after another: they hand over to agents that leave themselves."""
    life = begin(seed, size=4, disks=True)
    fleet = life.fleet
    servers = list(fleet.servers.values())
    for server in servers:
        fleet.leave(server)
        fleet.run(fleet.now + fleet.random.choice((0.0, 0.2, 3.0)))
    fleet.run(fleet.now + 10.0)
    assert not any(server.is_up for server in servers)
    start_again(fleet, servers)
    for server in servers:
        server.writes = True
    fleet.run(fleet.now + AGAIN_S)
    assert len(fleet.masters(JOB)) == 1
    assert fleet.of(JOB)[-1].contributors == set(fleet.servers)
    twice = [pane for pane, count in Counter(panes(fleet)).items() if count > 1]
    assert twice == [], life.about()
