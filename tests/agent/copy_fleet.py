"""Fleets in memory whose agents hold copies of each other's runs, and links that lose messages of some kinds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memory_fleet import KEY, WALL_MS, Fleet, events

from agent import Agent, WindowResult
from agent.runtime.messages.jobs import CODEC, Snapshot, SnapshotPart
from agent.runtime.model.fields import Message
from agent.runtime.model.panes import FIRST_PANE

COUNT = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 0 SECONDS"
FIRST_SECOND = 2
"""The first second whose window has all agents."""


def lose(agent: Agent, *kinds: type[Message]) -> list[Message]:
    """From now on messages of these kinds that an agent sends to others get lost; returns the list of them."""
    send = agent.node.send
    lost: list[Message] = []

    def carry(peer: Any, payload: bytes, now: float) -> None:
        message = CODEC.decode(payload)
        if isinstance(message, kinds) and peer.node_id != agent.node.peer.node_id:
            lost.append(message)
        else:
            send(peer, payload, now)

    agent.node.send = carry  # type: ignore[method-assign]
    return lost


def keep_to_itself(agent: Agent) -> list[Message]:
    """From now on the runs that an agent sends up the trees get lost."""
    return lose(agent, Snapshot, SnapshotPart)


class CopyFleet(Fleet):
    """A fleet with one live job; everybody is in its last window. Agents log a number of events each second."""

    def __init__(self, size: int = 5, text: str = COUNT, **options: Any) -> None:
        super().__init__(size, **options)
        self.logged = {agent.name: 2 * (number + 1) for number, agent in enumerate(self.agents)}
        self.wait(0.5)
        self.submit(text, bounded=False)
        self.catch_up()
        self.second = FIRST_SECOND - 1
        for _ in range(2):
            self.go_on()

    def log(self, without: Agent | None = None) -> int:
        """All agents but one log the events of one more second; returns its pane."""
        self.second += 1
        at_ms = WALL_MS + self.second * 1000
        for number, agent in enumerate(self.agents):
            if agent is not without:
                self.insert(number, events(*["a", "b"] * (self.logged[agent.name] // 2), at_ms=at_ms))
        return at_ms

    def pass_second(self, without: Agent | None = None) -> None:
        """That second passes, and all agents but one seal its pane."""
        self.wait(max(0.0, self.second + 1.01 - self.now))
        self.catch_up(*(number for number, agent in enumerate(self.agents) if agent is not without))

    def go_on(self, without: Agent | None = None) -> int:
        """All agents but one log the events of a second and seal its pane, which is returned."""
        pane = self.log(without)
        self.pass_second(without)
        return pane

    @property
    def master(self) -> Agent:
        return next(agent for agent in self.agents if agent.masters.get(KEY) is not None)

    def workers(self) -> list[Agent]:
        """All agents but the one with the job's master."""
        return [agent for agent in self.agents if agent is not self.master]

    def leaf(self) -> Agent:
        """A worker without children."""
        return next(agent for agent in self.workers() if not agent.node.children(KEY))

    def crash(self, *agents: Agent) -> None:
        for agent in agents:
            self.agents.remove(agent)
            self.network.remove(agent.node)

    def holders(self, owner: Agent) -> list[Agent]:
        """The agents that hold runs of another one."""
        return [one for one in self.agents if list(one.copies.held.of(KEY, owner.node.peer.node_id, FIRST_PANE))]

    def result(self, pane: int) -> WindowResult | None:
        """The one result of a pane's window, if it is out."""
        found = [one for one in self.results if one.window_start is not None and begins_ms(one) == pane]
        assert len(found) <= 1, found
        return found[0] if found else None

    def wait_for(self, pane: int, patience_s: float = 20.0) -> WindowResult:
        """The result of a pane's window, once it is out."""
        end = self.now + patience_s
        while self.now < end:
            if (found := self.result(pane)) is not None:
                return found
            self.wait(0.25)
        raise AssertionError(f"no window of {pane}")

    def events_of(self, *agents: str) -> int:
        """Events that these agents log in a second."""
        return sum(self.logged[name] for name in agents)


def begins_ms(result: WindowResult) -> int:
    """The start of a window."""
    assert result.window_start is not None
    return round(datetime.fromisoformat(result.window_start).timestamp() * 1000)
