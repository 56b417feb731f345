"""Agents of an in-memory fleet with logs on disk, which are killed and started again with what their disks hold."""

from __future__ import annotations

from kept_choices import KeptChoicesOfJobs
from keyed_jobs import words
from memory_fleet import FollowedClock
from pausing_fleet import PausingFleet
from recording_client import RecordingClient

from agent import Agent
from agent.runtime.durable.records import Place
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.reading_progress import KeptPlace
from overlay import Node

STORE_S = 0.5


class RestartingFleet(PausingFleet):
    """Each agent has a log of words; a place in it is the number of its lines before it."""

    def __init__(self, *arguments, **options) -> None:
        self.logs: dict[str, list[tuple[list[str], int]]] = {}
        self._read: dict[tuple[Agent, FeedKey], int] = {}
        self._disks: dict[str, list[KeptPlace]] = {}
        self._choices: dict[str, KeptChoicesOfJobs] = {}
        self._starts: dict[str, int] = {}
        self._stored_at = 0.0
        super().__init__(*arguments, **options)

    def new_agent(self, name, node: Node, streams) -> Agent:
        self._starts[name] = self._starts.get(name, 0) + 1
        options = KeyedOptions(incarnation=self._starts[name])
        agent = Agent(name, node, streams, observer=RecordingClient(), keyed=options)
        agent.ingest.clock = FollowedClock()
        agent.keyed.resume(self._disks.get(name, []), self._choices.setdefault(name, KeptChoicesOfJobs()))
        return agent

    def restart(self, name: str) -> Agent:
        """Starts a killed agent again."""
        agent = self.add(name, streams=self.streams)
        for other in self.agents:
            if other is not agent:
                other.node.restarted(agent.node.peer, self.now)
        self.settle()
        return agent

    def write(self, name: str, *line: str) -> None:
        """Writes a line of words into an agent's log."""
        self.logs.setdefault(name, []).append((list(line), self.wall_ms))

    def read(self) -> None:
        """Lets all agents read on, as far as they have room, and store their places now and then."""
        for agent in self.agents:
            for feed in agent.ingest.feeds():
                self._read_feed(agent, feed.key)
        if self.now >= self._stored_at + STORE_S:
            self._stored_at = self.now
            for agent in self.agents:
                self._disks[agent.name] = agent.keyed.places()
                agent.keyed.stored(self._disks[agent.name])

    def _read_feed(self, agent: Agent, key: FeedKey) -> None:
        log = self.logs.get(agent.name, [])
        if (agent, key) not in self._read:
            self._read[agent, key] = agent.ingest.kept_place(key) or 0
            agent.ingest.began(key, self._read[agent, key])
        while self._read[agent, key] < len(log) and agent.ingest.has_room(key):
            line, at_ms = log[self._read[agent, key]]
            self._read[agent, key] += 1
            place = Place(self._read[agent, key], self._read[agent, key], file="log")
            agent.ingest.insert(key, words(*line, at_ms=at_ms), self.now, self.wall_ms, place)
        self.settle()
