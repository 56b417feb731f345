"""Thirty-two agents, each on a host of its own, and what happens to networks and machines.

A query runs all the time. After each fault every agent has the right neighbours again, and the query's windows are
complete again and count what the logs hold, to the event. How long that takes is printed at the end; the limits here
are generous: what is asserted is that it happens.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from known_logs import KnownLogs
from net_fleet import NetAgent, NetFleet, wait_until
from recoveries import Recoveries, Recovery
from watching import Came, Watch, submit

import elf
from benchmarks.networks import SUBNET, Network
from elf.client import Result

pytestmark = pytest.mark.net
AGENTS = 32
NAMES = [f"agent-{number}" for number in range(1, AGENTS + 1)]
OBSERVER = NAMES[-1]
"""The query is asked and watched here; nothing happens to this agent but what happens to all."""
APP = "per-agent"
QUESTION = "SELECT agent, COUNT(*) AS events FROM web GROUP BY agent"
QUERY = f"{QUESTION} WINDOWING 2 SECONDS"
TICK_S = 0.5
WHOLE_S = 90.0
FAULT_S = 6.0
STOPPED_S = 5.0
WRITING_MS = 1000
"""An event is in its log at most this long after its time."""
LOSS_PERCENT = 20
SMALL_MTU = 600


@dataclass(frozen=True)
class Moment:
    monotonic_s: float
    wall_ms: int

    @classmethod
    def now(cls) -> Moment:
        return cls(time.monotonic(), time.time_ns() // 1_000_000)


@dataclass(frozen=True)
class Stage:
    """The network, its fleet, and a running query."""

    network: Network
    fleet: NetFleet
    logs: KnownLogs
    watch: Watch
    recoveries: Recoveries

    def ring(self) -> list[NetAgent]:
        """All agents in the order of their ids, from the observer on."""
        return [self.fleet[name] for name in self.fleet.ring_from(OBSERVER)]

    def endure(self) -> None:
        """Lets a fault last, until there was a window that began in it."""
        begun = Moment.now()
        time.sleep(FAULT_S)
        self.window(begun, "a window in spite of the fault", NAMES, lacking=AGENTS)

    def recovered(
        self, what: str, since: Moment, names: Sequence[str] = NAMES, parts: Sequence[Sequence[NetAgent]] = ()
    ) -> None:
        """Waits until these agents, or each part of them by itself, are a whole fleet again, and notes when."""
        overlay_s = self.fleet.wait_for_right_leaf_sets(WHOLE_S, parts)
        came = self.window(since, f"a complete window: {what}", names)
        wait_until(lambda: self.ask(names), WHOLE_S, lambda: f"a complete answer: {what}")
        moments = (overlay_s, came.at_s, time.monotonic())
        self.recoveries.rows.append(Recovery(what, *(moment - since.monotonic_s for moment in moments)))

    def window(self, since: Moment, what: str, names: Sequence[str], lacking: int = 0) -> Came:
        """The first window that began since then and in which all of these agents are, but for so many."""

        def condition(came: Came) -> bool:
            result = came.result
            return came.start_ms >= since.wall_ms and len(names) - lacking <= result.contributors <= len(names)

        came = self.watch.wait_for(what, condition, WHOLE_S)
        self.check(came)
        return came

    def check(self, came: Came) -> None:
        """It counts what was written, of everyone who is wholly in it, and names the others."""
        result = came.result
        counted = {row["agent"]: row["events"] for row in result.rows}
        assert sum(counted.values()) == result.events
        for name in NAMES:
            written = self.logs.count(name, came.start_ms, came.end_ms)
            if result.contributors == AGENTS and name not in result.partial:
                assert counted.get(name, 0) == written, (name, result)
            assert counted.get(name, 0) <= written, (name, result)

    def ask(self, names: Sequence[str]) -> bool:
        """Asks once over all logs: whether all of these answer, and nobody else. What they say is what was written."""
        before = Moment.now()
        with elf.connect_sync(self.fleet[OBSERVER].socket) as client, client.query(QUESTION, once=True) as job:
            result = next((update for update in job.updates() if isinstance(update, Result)), None)
        after = Moment.now()
        if result is None:  # whoever was its master is gone
            return False
        counted = {row["agent"]: row["events"] for row in result.rows}
        for name in counted.keys() - result.partial:
            at_least = self.logs.count(name, 0, before.wall_ms - WRITING_MS)
            assert at_least <= counted[name] <= self.logs.count(name, 0, after.wall_ms + 1), result
        assert result.contributors == len(counted), result
        return counted.keys() == set(names) and not result.partial


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, recoveries: Recoveries) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("net")
    with (
        Network(AGENTS) as network,
        KnownLogs(folder / "logs", NAMES, tick_s=TICK_S) as logs,
        NetFleet(network, folder / "agents", folder / "logs") as fleet,
    ):
        since = Moment.now()
        start(*fleet.agents.values())
        submit(fleet[OBSERVER].socket, QUERY, APP, AGENTS)
        with Watch(fleet[OBSERVER].socket, APP) as watch:
            stage = Stage(network, fleet, logs, watch, recoveries)
            stage.recovered(f"{AGENTS} agents start at once, from 3 seeds", since)
            yield stage
        assert fleet.faults() == []


def start(*agents: NetAgent) -> None:
    """Starts them at once, and waits until all say that they are members."""
    for agent in agents:
        agent.launch()

    def missing() -> list[str]:
        return [agent.name for agent in agents if not agent.is_ready()]

    wait_until(lambda: not missing(), WHOLE_S, lambda: f"all are ready; not so {missing()}")


def test_at_rest(stage: Stage) -> None:
    stage.recovered("nothing, for comparison", Moment.now())


def test_a_fifth_of_all_packets_is_lost(stage: Stage) -> None:
    for host in stage.network.hosts:
        host.lose(LOSS_PERCENT)
    stage.endure()
    stage.network.heal()
    stage.recovered(f"{LOSS_PERCENT}% of all packets lost for a while", Moment.now())


def test_one_neighbour_does_not_hear_the_other(stage: Stage) -> None:
    _, _, speaker, deaf, *_ = stage.ring()
    deaf.host.ignore([speaker.host])
    stage.endure()
    stage.network.heal()
    stage.recovered("one-way cut between ring neighbours", Moment.now())


def test_one_agent_hears_nobody(stage: Stage) -> None:
    _, _, _, _, deaf, *_ = stage.ring()
    deaf.host.ignore(stage.network.hosts)
    stage.endure()
    stage.network.heal()
    stage.recovered("one agent hears nobody for a while", Moment.now())


def test_an_agent_stands_still(stage: Stage) -> None:
    agent = stage.ring()[5]
    os.kill(agent.pid, signal.SIGSTOP)
    time.sleep(STOPPED_S)
    os.kill(agent.pid, signal.SIGCONT)
    stage.recovered(f"SIGSTOP of one agent for {STOPPED_S:g} s", Moment.now())


def test_three_agents_are_killed_at_once(stage: Stage) -> None:
    with elf.connect_sync(stage.fleet[OBSERVER].socket) as client:
        master = next(job.master for job in client.jobs() if job.app == APP)
    others = [agent for agent in stage.ring()[1:] if agent.name != master]
    victims = [others[0], others[1], stage.fleet[master] if master != OBSERVER else others[2]]
    since = Moment.now()
    for victim in victims:
        victim.kill()
    survivors = [agent.name for agent in stage.fleet.live]
    stage.recovered("SIGKILL of three agents, one the master", since, survivors)
    since = Moment.now()
    start(*victims)
    stage.recovered("the three start again", since)


def test_an_agent_starts_again_at_another_address(stage: Stage) -> None:
    agent = stage.ring()[-2]
    agent.kill()
    agent.host.move(f"{SUBNET}.200")
    since = Moment.now()
    start(agent)
    stage.recovered("an agent starts again at another address", since)


def test_some_links_take_only_small_packets(stage: Stage) -> None:
    since = Moment.now()
    for host in stage.network.hosts[:4]:
        host.set_mtu(SMALL_MTU)
    stage.endure()
    stage.recovered(f"MTU of four hosts falls to {SMALL_MTU}", since)


def test_the_network_is_cut_in_two(stage: Stage) -> None:
    hosts, agents = stage.network.hosts, list(stage.fleet.agents.values())
    half = AGENTS // 2
    since = Moment.now()
    for one, other in ((hosts[:half], hosts[half:]), (hosts[half:], hosts[:half])):
        for host in one:
            host.ignore(other)
    stage.recovered("a network in two halves", since, NAMES[half:], [agents[:half], agents[half:]])
    stage.network.heal()
    stage.recovered("the halves are one again", Moment.now())
