"""A whole fleet in one process: real agents over the in-memory network, for bounded input.

The same cores as in production; only the network is a queue and the clock stands still between timers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.agent import Agent
from agent.master import Master
from agent.messages import Submit
from agent.parsing import Parsed, SourceColumn
from agent.result import Result
from overlay import MemoryNetwork, Node, Peer, RandomSource, group_id

TIMERS_MAX = 10_000
"""Timer rounds a fleet may take to join before that counts as a failure."""


class EmbeddedFleet:
    """`size` agents that all have the given streams, joined and ready."""

    def __init__(self, size: int, streams: Sequence[str], random: RandomSource) -> None:
        self._network = MemoryNetwork()
        self._agents: list[Agent] = []
        for number in range(size):
            name = f"agent-{number}"
            node = Node(Peer(group_id(f"embedded {name}"), name), random=random)
            self._network.add(node)
            self._agents.append(Agent(name, node, streams))
            if number == 0:
                node.start(self._network.now)
            else:
                node.join(self._agents[0].node.peer, self._network.now)
            self._until_active(node)
        for agent in self._agents:
            agent.subscribe_streams(self._network.now)
        self._settle()

    def __len__(self) -> int:
        return len(self._agents)

    def submit(self, job: Submit) -> Master:
        """Runs a job on every agent; returns its master once all have acknowledged it ("n of n")."""
        self._agents[0].submit(job, self._network.now)
        self._settle()
        master = self._find_master(int.from_bytes(job.app_id, "big"))
        assert len(master.roster) == len(self), "every embedded agent has every stream"
        assert master.everyone_runs()
        return master

    def needs(self, stream: str) -> Sequence[SourceColumn]:
        """The columns of a stream that the jobs here need decoded."""
        return self._agents[0].needs(stream)

    def insert(self, number: int, stream: str, parsed: Parsed) -> None:
        """Gives a parsed block to agent `number`."""
        self._agents[number].insert(stream, parsed)

    def end_of_input(self) -> Iterator[Result]:
        """Seals everything and yields the windows in order.

        The agent furthest behind always goes next, so that combiners hold little.
        """
        for agent in self._agents:
            agent.end_of_input()
        while behind := [agent for agent in self._agents if agent.sealed_upto() is not None]:
            min(behind, key=lambda agent: agent.sealed_upto() or 0).seal_next(self._network.now)
            yield from self._settle()

    def _until_active(self, node: Node) -> None:
        self._settle()
        for _ in range(TIMERS_MAX):
            if node.is_active:
                return
            self._network.advance()
            self._settle()
        raise AssertionError("an embedded agent never became active")

    def _settle(self) -> list[Result]:
        """Delivers messages until there are none; returns the results that came of it."""
        busy = True
        while busy:
            self._network.deliver_all(self._network.now)
            busy = sum(agent.process_events(self._network.now) for agent in self._agents) > 0
        return [result for agent in self._agents for result in agent.results()]

    def _find_master(self, app_id: int) -> Master:
        return next(master for agent in self._agents if (master := agent.master(app_id)) is not None)
