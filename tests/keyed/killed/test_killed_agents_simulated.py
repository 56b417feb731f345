"""Agents of an in-memory fleet are killed and start again with what is on their disks: each word counts once."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from keyed_jobs import counting, keyed_job
from recording_client import client_of
from restarting_fleet import RestartingFleet

from agent import Agent, StreamOptions
from overlay import distance

WORDS = [f"word-{number}" for number in range(40)]
ROUNDS = 900
"""Twentieths of a second in which a fleet has to come to rest: a node of which one copy is left waits for half a
minute."""


class CountedWords:
    """Four agents that count the words of their logs."""

    def __init__(self, seed: int, late_s: float = 0.0) -> None:
        """`late_s`: the time that one of them takes to hear of the job."""
        self.chance = random.Random(seed)
        self.fleet = RestartingFleet(4, streams={"words": StreamOptions()})
        self.names = [agent.name for agent in self.fleet.agents]
        self.written: Counter[str] = Counter()
        job = keyed_job(counting(), bounded=False)
        self.app = job.app_id
        late = self.by_distance()[-1:] if late_s else []
        for agent in late:
            self.fleet.pause(agent)
        client_of(self.fleet.agents[0]).submit(job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.write(late_s)
        self.known_early = self.members()
        """What agents took for the number of those who take part, before that one had heard of the job."""
        for agent in late:
            self.fleet.resume(agent)
        self.fleet.wait_long(3.0)

    def write(self, seconds: float) -> None:
        """Words come to all logs, also to those of agents that do not run."""
        end = self.fleet.now + seconds
        while self.fleet.now < end:
            for name in self.names:
                found = self.chance.choices(WORDS, k=3)
                self.fleet.write(name, *found)
                self.written.update(found)
            self._go_on(self.chance.uniform(0.05, 0.1))

    def _go_on(self, seconds: float) -> None:
        self.fleet.read()
        self.fleet.catch_up()
        self.fleet.wait(seconds)

    @property
    def master(self) -> Agent:
        """The agent where the job's master is."""
        return next(agent for agent in self.fleet.agents if agent.masters.leads(self.app))

    def by_distance(self) -> list[Agent]:
        """The agents, those that would lead the job first."""
        return sorted(self.fleet.agents, key=lambda agent: distance(agent.node.peer.node_id, self.app))

    def members(self) -> list[int]:
        """The number of agents that each takes for those who take part, where it knows any."""
        cores = filter(None, (agent.keyed.get(self.app) for agent in self.fleet.agents))
        return [len(roster) for core in cores if (roster := core._membership._places.roster)]

    def kill(self, down_s: float, *victims: Agent, agents: int = 1) -> None:
        """Kills agents at once, which are back after a while: these, or so many others."""
        victims = victims or tuple(self.chance.sample(self.fleet.agents, agents))
        for victim in victims:
            self.fleet.kill(victim)
        self.write(down_s)
        for victim in victims:
            self.fleet.restart(victim.name)

    def counted(self) -> dict[str, list[int]]:
        """The count of each word, at each agent that hosts it."""
        found: dict[str, list[int]] = {}
        for core in filter(None, (agent.keyed.get(self.app) for agent in self.fleet.agents)):
            for node in range(1024):
                core.state_of("Counts", node, lambda tables: _note(found, tables))
        return found

    def assert_exact(self) -> None:
        """Comes to rest with each word counted once."""
        expected = {word: [count] for word, count in self.written.items()}
        for _ in range(ROUNDS):
            if self.counted() == expected:
                return
            self._go_on(0.05)
        assert self.counted() == expected


def _note(found, tables) -> None:
    for table in tables.values():
        for row in table.iter_rows(named=True):
            found.setdefault(row["word"], []).append(row["a0.n"])


def test_an_agent_that_dies_before_it_has_stored_a_place_counts_its_log_once() -> None:
    world = CountedWords(seed=7)
    world.write(0.3)
    world.kill(down_s=0.2)
    world.write(1.0)
    world.assert_exact()


def test_nodes_begin_once_agents_that_enrol_a_little_late_are_known() -> None:
    """Else they would begin with fewer copies than they are to have."""
    world = CountedWords(seed=4, late_s=0.7)
    assert world.known_early == []
    assert world.members() == [4] * 4
    world.assert_exact()


@pytest.mark.slow
def test_a_new_master_takes_those_for_members_who_took_part_before_and_are_back() -> None:
    """Else it would have nodes decided on as if it were alone, and there would be one copy of each."""
    world = CountedWords(seed=3)
    world.write(1.0)
    before = world.master
    others = [agent.name for agent in world.by_distance() if agent is not before]
    for name in others:
        world.kill(4.0, *(agent for agent in world.fleet.agents if agent.name == name))
        world.write(3.0)
    assert world.members() == [4] * 4
    world.fleet.kill(before)
    successor, *slow = world.by_distance()
    while before.node.peer.node_id not in successor.failover._failed:
        world.write(0.05)
    for agent in slow:
        world.fleet.pause(agent)  # they enrol late
    world.write(1.5)
    assert world.master is successor
    assert world.members() == [3]
    for agent in slow:
        world.fleet.resume(agent)
    world.write(2.0)
    assert world.members() == [3] * 3
    world.fleet.restart(before.name)
    world.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_each_word_counts_once_when_agents_are_killed_and_come_back(seed: int) -> None:
    world = CountedWords(seed)
    world.write(1.0 + world.chance.random())
    for _ in range(4):
        world.kill(down_s=world.chance.choice([0.1, 0.5, 1.0, 4.0]))
        world.write(world.chance.uniform(4.0, 6.0))
    world.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_each_word_counts_once_when_two_of_three_that_have_it_are_killed_at_once(seed: int) -> None:
    world = CountedWords(seed)
    world.write(1.5)
    world.kill(down_s=world.chance.choice([0.3, 1.5]), agents=2)
    world.write(4.0)
    world.assert_exact()
    assert not any(agent.keyed.get(world.app).lost_nodes() for agent in world.fleet.agents)
