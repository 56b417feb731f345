"""All peers one node knows: the three tables of Pastry, and the departed peers."""

from collections.abc import Container, Iterable, Set
from heapq import nsmallest
from itertools import chain

from overlay.core.random_source import RandomSource, shuffled
from overlay.pastry.tables.candidates import Candidates
from overlay.pastry.tables.departed import Departed
from overlay.pastry.tables.leaf_set import LeafSet
from overlay.pastry.tables.neighbourhood import Neighbourhood
from overlay.pastry.tables.proximity import Proximity
from overlay.pastry.tables.routing_table import RoutingTable
from overlay.wire.ids import clockwise, closer, closest, shared_prefix_length
from overlay.wire.peer import Peer


def next_hop(
    key: int, owner: Peer, leaf_set: LeafSet, routing_table: RoutingTable, avoid: Container[int] = ()
) -> Peer | None:
    """Return the next hop for a message to `key`, not in `avoid`; None when the owner itself is closest.

    The leaf set decides if the key lies in its range; otherwise the routing table; in the rare case that the cell is
    empty, any known peer with no shorter prefix that is numerically closer than the owner.
    """
    if leaf_set.covers(key):
        nearest = leaf_set.closest(key, avoid)
        return None if nearest.node_id == owner.node_id else nearest
    hop = routing_table.next_hop(key, avoid)
    if hop is not None:
        return hop
    shared = shared_prefix_length(owner.node_id, key)
    nearer = {
        peer.node_id: peer
        for peer in chain(leaf_set, routing_table)
        if peer.node_id not in avoid
        and shared_prefix_length(peer.node_id, key) >= shared
        and closer(key, peer.node_id, owner.node_id)
    }
    return nearer[closest(key, nearer)] if nearer else None


class PeerTables:
    """One node's tables.

    A peer enters the leaf set when it has itself sent a message, never on hearsay. Departed peers are in no table.
    `suspects`: ids, kept up to date by the creator of the tables. `leaf_set_revision` grows whenever the members of the
    leaf set change, `losses` when one of them is dropped.
    """

    def __init__(self, peer: Peer, suspects: Set[int], random: RandomSource) -> None:
        self.peer = peer
        self._suspects = suspects
        self._random = random
        self.departed = Departed()
        self.leaf_set_revision = 0
        self.losses = 0
        self._create()

    def _create(self) -> None:
        self.leaf_set = LeafSet(self.peer)
        self.proximity = Proximity()
        self.routing_table = RoutingTable(self.peer, self.proximity, self._random)
        self.neighbourhood = Neighbourhood()
        self.candidates = Candidates()

    def next_hop(self, key: int, *, avoid: int | None = None) -> Peer | None:
        """Return the next hop for a message to the key; None when this node is closest.

        Suspects are avoided where there is another way, but never so that this node itself would be closest.
        """
        avoided = () if avoid is None else (avoid,)
        hop = next_hop(key, self.peer, self.leaf_set, self.routing_table, avoided)
        if hop is None or hop.node_id not in self._suspects or self.leaf_set.covers(key):
            return hop
        around = next_hop(key, self.peer, self.leaf_set, self.routing_table, {*avoided, *self._suspects})
        return around or hop

    def lacks_cell(self, key: int) -> bool:
        """Say whether the routing table has no peer for a key beyond the leaf set."""
        return not self.leaf_set.covers(key) and not self.routing_table.cell(key)

    def detour(self, key: int, tried: Set[int], *, avoid: int | None = None) -> Peer | None:
        """Return the next hop for a message that some peers have not acknowledged; None when this node is closest.

        When the closest node itself did not acknowledge, another member of the leaf set may reach it. A suspected
        closest node is waited for: when it has failed, another node is closest.
        """
        hop = self.next_hop(key, avoid=avoid)
        if hop is None or hop.node_id not in tried:
            return hop
        avoided = {*tried, *self._suspects, *(() if avoid is None else (avoid,))}
        if not self.leaf_set.covers(key):
            return next_hop(key, self.peer, self.leaf_set, self.routing_table, avoided) or hop
        others = {peer.node_id: peer for peer in self.leaf_set if peer.node_id not in avoided}
        return hop if hop.node_id in self._suspects or not others else others[closest(key, others)]

    @property
    def trusted_leaves(self) -> tuple[Peer, ...]:
        """The members of the leaf set that are not suspected, which other nodes may take into theirs."""
        return tuple(peer for peer in self.leaf_set.members if peer.node_id not in self._suspects)

    def closest(self, key: int) -> Peer:
        """Return the known peer, or this node, that is numerically closest to the key."""
        known = {peer.node_id: peer for peer in chain(self.routing_table, self.leaf_set, (self.peer,))}
        return known[closest(key, known)]

    def neighbours(self, count: int) -> tuple[Peer, ...]:
        """Return the numerically nearest peers, nearest first."""
        return self.leaf_set.nearest(count)

    def nearest(self, peers: Iterable[Peer], count: int) -> list[Peer]:
        """Return the nearest of some peers by round-trip time; unmeasured peers come last."""
        return nsmallest(count, peers, key=lambda peer: self.proximity.round_trip_s(peer.node_id))

    def known(self, node_id: int) -> Peer | None:
        """Return the peer of this id in the leaf set or the routing table."""
        if node_id in self.leaf_set:
            return self.leaf_set.closest(node_id)
        return self.routing_table.find(node_id)

    def beyond_leaf_set(self, count: int) -> list[Peer]:
        """Return the nearest peers of the routing table beyond the leaf set, `count` in each direction."""
        others = [peer for peer in self.routing_table if peer.node_id not in self.leaf_set]
        own_id = self.peer.node_id
        above = sorted(others, key=lambda peer: clockwise(own_id, peer.node_id))[:count]
        below = sorted(others, key=lambda peer: clockwise(peer.node_id, own_id))[:count]
        return [*above, *(peer for peer in below if peer not in above)]

    def meet(self, peer: Peer, *, is_new: bool = False) -> None:
        """Add a peer that has itself sent a message; a newcomer to the overlay may replace others."""
        self.routing_table.offer(peer, by_chance=is_new)
        self._consider(peer)
        if self.leaf_set.offer(peer):
            self.leaf_set_revision += 1

    def learn_peers(self, peers: Iterable[Peer], now: float) -> None:
        """Offer named peers to the routing table in random order; keep the others as candidates to measure."""
        for peer in shuffled(peers, self._random):
            departed = self.departed.is_gone(peer.node_id) or self.departed.has_tombstone(peer, now)
            if departed or peer.node_id in self._suspects or peer.node_id == self.peer.node_id:
                continue
            if self.known(peer.node_id) is None:
                self.routing_table.offer(peer)
                self._consider(peer)

    def _consider(self, peer: Peer) -> None:
        if peer.node_id not in self.proximity:
            self.candidates.add(peer)

    def next_candidate(self, now: float) -> Peer | None:
        """Return a peer to measure, None when there is none."""
        while (peer := self.candidates.pop()) is not None:
            departed = self.departed.is_gone(peer.node_id) or self.departed.has_tombstone(peer, now)
            if not departed and peer.node_id not in self._suspects:
                return peer
        return None

    def observe(self, peer: Peer, round_trip_s: float) -> None:
        """Record the round-trip time just measured to a peer, which has itself sent a message."""
        is_first = peer.node_id not in self.proximity
        self.neighbourhood.observe(peer, self.proximity.observe(peer, round_trip_s))
        self.candidates.remove(peer.node_id)
        self.routing_table.offer(peer, by_chance=is_first)

    def forget(self, node_id: int) -> bool:
        """Remove a peer from every table; return whether it was in one used for routing."""
        routed = self.routing_table.remove(node_id)
        self.neighbourhood.remove(node_id)
        self.proximity.forget(node_id)
        self.candidates.remove(node_id)
        if not self.leaf_set.remove(node_id):
            return routed
        self.leaf_set_revision += 1
        self.losses += 1
        return True

    def renew(self, peer: Peer) -> None:
        """Renew a peer's address where it is known."""
        self.routing_table.renew(peer)
        self.neighbourhood.renew(peer)
        if peer.node_id in self.leaf_set:
            self.leaf_set.offer(peer)

    def close_ring(self) -> None:
        """Treat the leaf set as the whole ring: this node may now own keys that others owned."""
        self.leaf_set.close_ring()
        self.leaf_set_revision += 1

    def clear(self) -> None:
        """Forget every peer."""
        self.departed.clear()
        self.leaf_set_revision += 1
        self._create()

    def check(self) -> None:
        """Assert every invariant."""
        self.leaf_set.check()
        self.routing_table.check()
        self.neighbourhood.check()
        self.proximity.check()
        self.candidates.check()
        self.departed.check()
        for peer in chain(self.leaf_set, self.routing_table, self.neighbourhood):
            assert not self.departed.is_gone(peer.node_id)
        for peer in self.leaf_set:
            assert peer.node_id not in self.departed
