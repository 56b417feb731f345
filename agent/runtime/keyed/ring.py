"""Shows a job's core the overlay around its agent."""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain

from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Message
from overlay import Id, Node, Peer, distance


class OverlayRing:
    """The ring as one agent knows it: its leaf set, and further peers of its routing table."""

    def __init__(self, node: Node, sender: MessageSender, app_id: Id) -> None:
        self._node = node
        self._sender = sender
        self._app_id = app_id

    @property
    def me(self) -> Peer:
        return self._node.peer

    def is_root(self, key: Id) -> bool:
        """Whether no live agent is known that is closer to a key."""
        return self._node.is_root(key)

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        """The known agents closest to a key, with this one, the closest first."""
        node = self._node
        known = {peer.node_id: peer for peer in chain(node.routing_table, node.leaf_set, (node.peer,))}
        found = nsmallest(count, known, key=lambda node_id: (distance(key, node_id), node_id))
        return tuple(known[node_id] for node_id in found)

    def send(self, peer: Peer, message: Message, now: float) -> None:
        """Sends to one agent."""
        self._sender.send(peer, message, now)

    def route(self, key: Id, message: Message, now: float) -> None:
        """Sends to the root of a key."""
        self._sender.route_to(key, message, now)

    def multicast(self, message: Message, now: float) -> None:
        """Sends to every member of the job's group."""
        self._sender.multicast(self._app_id, message, now)
