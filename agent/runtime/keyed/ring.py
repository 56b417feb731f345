"""Shows a job's core the overlay around its agent."""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain

from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.fields import Message
from overlay import Id, Node, Peer, distance

NEAREST_MAX = 1 << 14
"""Keys whose nearest agents are remembered."""


class OverlayRing:
    """The ring as one agent knows it: its leaf set, and further peers of its routing table."""

    def __init__(self, node: Node, sender: MessageSender, app_id: Id) -> None:
        self._node = node
        self._sender = sender
        self._app_id = app_id
        self._nearest: dict[tuple[Id, int], tuple[Peer, ...]] = {}
        self._known: tuple[Peer, ...] = ()
        self._made_of: object = None

    @property
    def me(self) -> Peer:
        return self._node.peer

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        """The known agents closest to a key, with this one, the closest first."""
        node = self._node
        made_of = node.routing_table.changes, node.leaf_set.changes, node.peer
        if made_of != self._made_of or len(self._nearest) >= NEAREST_MAX:
            known = {peer.node_id: peer for peer in chain(node.routing_table, node.leaf_set, (node.peer,))}
            self._known, self._made_of, self._nearest = tuple(known.values()), made_of, {}
        found = self._nearest.get((key, count))
        if found is None:
            by_distance = nsmallest(count, self._known, key=lambda peer: (distance(key, peer.node_id), peer.node_id))
            found = self._nearest[key, count] = tuple(by_distance)
        return found

    def next_hop(self, node_id: Id) -> Peer | None:
        """The next hop of the overlay's routes to an agent, None if this one is the closest."""
        return self._node.next_hop(node_id)

    def send(self, peer: Peer, message: Message, now: float) -> None:
        """Sends to one agent."""
        self._sender.send(peer, message, now)

    def multicast(self, message: Message, now: float) -> None:
        """Sends to every member of the job's group."""
        self._sender.multicast(self._app_id, message, now)
