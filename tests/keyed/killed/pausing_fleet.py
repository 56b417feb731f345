"""Agents of an in-memory fleet that can be killed, and stopped for a while as by SIGSTOP."""

from __future__ import annotations

from collections import deque

from memory_fleet import Fleet

from agent import Agent
from overlay import MemoryNetwork, Node, Peer


class PausingNetwork(MemoryNetwork):
    """Holds back what is sent to nodes that are stopped, as sockets do."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped: dict[int, Node] = {}
        self._held: deque[tuple[Peer, Peer, bytes]] = deque()

    def pause(self, node: Node) -> None:
        self._fetch(node)
        self._stopped[node.peer.node_id] = self._nodes.pop(node.peer.node_id)

    def resume(self, node: Node) -> None:
        self._nodes[node.peer.node_id] = self._stopped.pop(node.peer.node_id)
        self._queue.extend(one for one in self._held if one[1] == node.peer)
        self._held = deque(one for one in self._held if one[1] != node.peer)

    def _fetch(self, node: Node) -> None:
        for receiver, data in node.messages_to_send():
            queue = self._held if receiver.node_id in self._stopped else self._queue
            queue.append((node.peer, receiver, data))


class PausingFleet(Fleet):
    """A fleet whose agents stand still between `pause` and `resume`."""

    def __init__(self, *arguments, **options) -> None:
        self._pausing = PausingNetwork()
        super().__init__(*arguments, **options)

    @property
    def network(self) -> PausingNetwork:
        return self._pausing

    @network.setter
    def network(self, _network: MemoryNetwork) -> None:
        """The one that holds back is there already."""

    def kill(self, agent: Agent) -> None:
        self.agents.remove(agent)
        self.network.remove(agent.node)

    def pause(self, agent: Agent) -> None:
        self.agents.remove(agent)
        self.network.pause(agent.node)

    def resume(self, agent: Agent) -> None:
        self.agents.append(agent)
        self.network.resume(agent.node)
        agent.handle_timer(self.now, self.wall_ms)
        self.settle()
