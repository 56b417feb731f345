"""Whom one node knows: the three tables of Pastry, and those who are not there any more."""

from collections.abc import Iterable, Set
from itertools import chain

from overlay.ids import clockwise, closest, distance
from overlay.pastry.departed import Departed
from overlay.pastry.leaf_set import LeafSet
from overlay.pastry.neighbourhood import Neighbourhood
from overlay.pastry.routing import next_hop
from overlay.pastry.routing_table import RoutingTable
from overlay.peer import Peer


class Tables:
    """One node's tables.

    A peer enters the leaf set when it has spoken for itself, never on hearsay. Who has departed is in none.
    `suspects`: ids, kept up to date by whoever made the tables. `leaf_set_revision` grows whenever the members of
    the leaf set change, `losses` when one of them is dropped.
    """

    def __init__(self, peer: Peer, suspects: Set[int]) -> None:
        self.peer = peer
        self._suspects = suspects
        self.departed = Departed()
        self.leaf_set_revision = 0
        self.losses = 0
        self._create()

    def _create(self) -> None:
        self.leaf_set = LeafSet(self.peer)
        self.routing_table = RoutingTable(self.peer)
        self.neighbourhood = Neighbourhood()

    def next_hop(self, key: int, *, avoid: int | None = None) -> Peer | None:
        """Return where to pass a message for the key; None when this node is closest.

        Suspects are avoided where there is another way: never so that this node would be closest itself.
        """
        avoided = () if avoid is None else (avoid,)
        hop = next_hop(key, self.peer, self.leaf_set, self.routing_table, avoided)
        if hop is None or hop.node_id not in self._suspects or self.leaf_set.covers(key):
            return hop
        around = next_hop(key, self.peer, self.leaf_set, self.routing_table, {*avoided, *self._suspects})
        return around or hop

    def closest(self, key: int) -> Peer:
        """Return the peer, or this node, that is numerically closest to the key of all that are known."""
        known = {peer.node_id: peer for peer in chain(self.routing_table, self.leaf_set, (self.peer,))}
        return known[closest(key, known)]

    def replicas(self, count: int) -> tuple[Peer, ...]:
        """Return the numerically nearest peers, the nearest first."""
        own_id = self.peer.node_id
        return tuple(sorted(self.leaf_set, key=lambda peer: (distance(own_id, peer.node_id), peer.node_id))[:count])

    def known(self, node_id: int) -> Peer | None:
        """Return a peer as it stands in the leaf set or the routing table."""
        if node_id in self.leaf_set:
            return self.leaf_set.closest(node_id)
        cell = self.routing_table.next_hop(node_id)
        return cell if cell is not None and cell.node_id == node_id else None

    def beyond_leaf_set(self, count: int) -> list[Peer]:
        """Return the nearest peers of the routing table that are not in the leaf set, so many in each direction."""
        others = [peer for peer in self.routing_table if peer.node_id not in self.leaf_set]
        own_id = self.peer.node_id
        above = sorted(others, key=lambda peer: clockwise(own_id, peer.node_id))[:count]
        below = sorted(others, key=lambda peer: clockwise(peer.node_id, own_id))[:count]
        return [*above, *(peer for peer in below if peer not in above)]

    def meet(self, peer: Peer) -> None:
        """Take in a peer that has spoken for itself."""
        self.routing_table.offer(peer)
        if self.leaf_set.offer(peer):
            self.leaf_set_revision += 1

    def hear_of(self, peers: Iterable[Peer], now: float) -> None:
        """Fill empty cells of the routing table with peers that others named, if they are not known better here."""
        for peer in peers:
            empty = self.routing_table.next_hop(peer.node_id) is None
            departed = self.departed.is_gone(peer.node_id) or self.departed.is_buried(peer, now)
            if empty and not departed and peer.node_id != self.peer.node_id:
                self.routing_table.offer(peer)

    def forget(self, node_id: int) -> bool:
        """Take a peer out of every table; return whether it was in one that messages are routed by."""
        routed = self.routing_table.remove(node_id)
        self.neighbourhood.remove(node_id)
        if not self.leaf_set.remove(node_id):
            return routed
        self.leaf_set_revision += 1
        self.losses += 1
        return True

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date where it is known."""
        self.routing_table.renew(peer)
        self.neighbourhood.renew(peer)
        if peer.node_id in self.leaf_set:
            self.leaf_set.offer(peer)

    def close_ring(self) -> None:
        """Take the leaf set for the whole ring: keys that were others' to deliver may now be this node's."""
        self.leaf_set.close_ring()
        self.leaf_set_revision += 1

    def clear(self) -> None:
        """Know nobody."""
        self.departed.clear()
        self.leaf_set_revision += 1
        self._create()

    def check(self) -> None:
        """Assert every invariant."""
        self.leaf_set.check()
        self.routing_table.check()
        self.neighbourhood.check()
        self.departed.check()
        for peer in chain(self.leaf_set, self.routing_table, self.neighbourhood):
            assert not self.departed.is_gone(peer.node_id)
        for peer in self.leaf_set:
            assert peer.node_id not in self.departed
