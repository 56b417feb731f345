"""Chooses the agents that hold copies: the nearest ones, of other racks than this agent's where racks are known."""

from __future__ import annotations

from agent.runtime.messages.copies import RackAnnouncement
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from overlay import Node, Peer

CANDIDATES = 8
"""Number of the nearest neighbours of which the holders are chosen."""
TELL_S = 30.0
"""Interval at which agents tell their neighbours their rack; new neighbours are told at once."""


class Racks:
    """The racks of the agents near this one, which is in `own`; "" means that nobody has said."""

    def __init__(self, node: Node, sender: MessageSender, own: str) -> None:
        self._node = node
        self._sender = sender
        self._own = own
        self._of: dict[int, str] = {}
        self._told_at: dict[int, float] = {}

    def told(self, message: RackAnnouncement, sender: Peer, _now: float) -> bool:
        """Notes the rack of an agent that is near; False if it is not."""
        if sender.node_id not in self._node.leaf_set:
            return False
        self._of[sender.node_id] = message.rack
        return True

    def choose(self, count: int) -> tuple[Peer, ...]:
        """The agents to hold copies, the nearest first in each kind: of another rack, of an unknown one, of the same.

        As long as there are several other racks, the holders are in different ones.
        """
        if not self._own:
            return self._node.neighbours(count)
        near = self._node.neighbours(CANDIDATES)
        taken = {self._own}
        chosen: list[Peer] = []
        while len(chosen) < min(count, len(near)):
            left = [peer for peer in near if peer not in chosen]
            best = min(left, key=lambda peer: self._distance(peer, taken))
            chosen.append(best)
            taken.add(self._of.get(best.node_id, ""))
        return tuple(chosen)

    def _distance(self, peer: Peer, taken: set[str]) -> int:
        rack = self._of.get(peer.node_id, "")
        if not rack:
            return 1
        return 3 if rack == self._own else 2 if rack in taken else 0

    def tick(self, now: float) -> None:
        """Tells neighbours this agent's rack; forgets those that are near no more."""
        if self._own:
            near = self._node.neighbours(CANDIDATES)
            for peer in near:
                if now - self._told_at.get(peer.node_id, now - TELL_S) >= TELL_S:
                    self._told_at[peer.node_id] = now
                    self._sender.send(peer, RackAnnouncement(FLEET_GROUP, self._own), now)
            ids = {peer.node_id for peer in near}
            self._told_at = {node_id: at for node_id, at in self._told_at.items() if node_id in ids}
        if self._of:
            self._of = {node_id: rack for node_id, rack in self._of.items() if node_id in self._node.leaf_set}
