"""Whom one node knows: the three tables of Pastry, and those who are not there any more."""

from collections.abc import Iterable, Set
from heapq import nsmallest
from itertools import chain

from overlay.core.random_source import RandomSource, shuffled
from overlay.pastry.tables.candidates import Candidates
from overlay.pastry.tables.departed import Departed
from overlay.pastry.tables.leaf_set import LeafSet
from overlay.pastry.tables.neighbourhood import Neighbourhood
from overlay.pastry.tables.proximity import Proximity
from overlay.pastry.tables.routing import next_hop
from overlay.pastry.tables.routing_table import RoutingTable
from overlay.wire.ids import clockwise, closest
from overlay.wire.peer import Peer


class PeerTables:
    """One node's tables.

    A peer enters the leaf set when it has spoken for itself, never on hearsay. Who has departed is in none.
    `suspects`: ids, kept up to date by whoever made the tables. `leaf_set_revision` grows whenever the members of
    the leaf set change, `losses` when one of them is dropped.
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
        """Return where to pass a message for the key; None when this node is closest.

        Suspects are avoided where there is another way: never so that this node would be closest itself.
        """
        avoided = () if avoid is None else (avoid,)
        hop = next_hop(key, self.peer, self.leaf_set, self.routing_table, avoided)
        if hop is None or hop.node_id not in self._suspects or self.leaf_set.covers(key):
            return hop
        around = next_hop(key, self.peer, self.leaf_set, self.routing_table, {*avoided, *self._suspects})
        return around or hop

    def lacks_cell(self, key: int) -> bool:
        """Say whether the routing table has nobody for a key that is beyond the leaf set."""
        return not self.leaf_set.covers(key) and not self.routing_table.cell(key)

    def detour(self, key: int, tried: Set[int], *, avoid: int | None = None) -> Peer | None:
        """Return where to pass a message that some peers have not acknowledged; None when this node is closest.

        Where the closest node itself did not, another of the leaf set may reach it. One that is suspected is waited
        for: when it has failed, somebody else is closest.
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
        """The members of the leaf set that others may take into theirs: those that are not suspected."""
        return tuple(peer for peer in self.leaf_set.members if peer.node_id not in self._suspects)

    def closest(self, key: int) -> Peer:
        """Return the peer, or this node, that is numerically closest to the key of all that are known."""
        known = {peer.node_id: peer for peer in chain(self.routing_table, self.leaf_set, (self.peer,))}
        return known[closest(key, known)]

    def neighbours(self, count: int) -> tuple[Peer, ...]:
        """Return the numerically nearest peers, the nearest first."""
        return self.leaf_set.nearest(count)

    def nearest(self, peers: Iterable[Peer], count: int) -> list[Peer]:
        """Return the nearest of some peers by round-trip time, those not measured after all others."""
        return nsmallest(count, peers, key=lambda peer: self.proximity.round_trip_s(peer.node_id))

    def known(self, node_id: int) -> Peer | None:
        """Return a peer as it stands in the leaf set or the routing table."""
        if node_id in self.leaf_set:
            return self.leaf_set.closest(node_id)
        return self.routing_table.find(node_id)

    def beyond_leaf_set(self, count: int) -> list[Peer]:
        """Return the nearest peers of the routing table that are not in the leaf set, so many in each direction."""
        others = [peer for peer in self.routing_table if peer.node_id not in self.leaf_set]
        own_id = self.peer.node_id
        above = sorted(others, key=lambda peer: clockwise(own_id, peer.node_id))[:count]
        below = sorted(others, key=lambda peer: clockwise(peer.node_id, own_id))[:count]
        return [*above, *(peer for peer in below if peer not in above)]

    def meet(self, peer: Peer, *, is_new: bool = False) -> None:
        """Take in a peer that has spoken for itself; a newcomer to the overlay also in place of others."""
        self.routing_table.offer(peer, by_chance=is_new)
        self._consider(peer)
        if self.leaf_set.offer(peer):
            self.leaf_set_revision += 1

    def hear_of(self, peers: Iterable[Peer], now: float) -> None:
        """Give room in the routing table to peers that others named, in random order; the rest are to be measured."""
        for peer in shuffled(peers, self._random):
            departed = self.departed.is_gone(peer.node_id) or self.departed.is_buried(peer, now)
            if departed or peer.node_id in self._suspects or peer.node_id == self.peer.node_id:
                continue
            if self.known(peer.node_id) is None:
                self.routing_table.offer(peer)
                self._consider(peer)

    def _consider(self, peer: Peer) -> None:
        if peer.node_id not in self.proximity:
            self.candidates.add(peer)

    def next_candidate(self, now: float) -> Peer | None:
        """Return a peer that should be measured, None when there is none."""
        while (peer := self.candidates.pop()) is not None:
            departed = self.departed.is_gone(peer.node_id) or self.departed.is_buried(peer, now)
            if not departed and peer.node_id not in self._suspects:
                return peer
        return None

    def observe(self, peer: Peer, round_trip_s: float) -> None:
        """Note the round-trip time just measured to a peer, which has spoken for itself."""
        is_first = peer.node_id not in self.proximity
        self.neighbourhood.observe(peer, self.proximity.observe(peer, round_trip_s))
        self.candidates.remove(peer.node_id)
        self.routing_table.offer(peer, by_chance=is_first)

    def forget(self, node_id: int) -> bool:
        """Take a peer out of every table; return whether it was in one that messages are routed by."""
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
        self.proximity.check()
        self.candidates.check()
        self.departed.check()
        for peer in chain(self.leaf_set, self.routing_table, self.neighbourhood):
            assert not self.departed.is_gone(peer.node_id)
        for peer in self.leaf_set:
            assert peer.node_id not in self.departed
