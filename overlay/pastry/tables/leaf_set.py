"""The leaf set of Pastry: the nodes whose ids are numerically nearest to the owner's."""

from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from itertools import pairwise

from overlay.wire.ids import ID_SPACE, clockwise, closer, closest, distance
from overlay.wire.messages import LEAF_SET_SIZE
from overlay.wire.peer import Peer


class LeafSet:
    """The `size // 2` nearest peers on either side of the owner, nearest first.

    In a ring of few nodes a peer may be in both halves; then the leaf set spans the whole ring and the owner can name
    the node closest to any key. Otherwise losing members leaves a half short.

    >>> leaves = LeafSet(Peer(100, "me"))
    >>> leaves.offer(Peer(90, "below")), leaves.offer(Peer(120, "above")), leaves.offer(Peer(120, "above"))
    (True, True, False)
    >>> leaves.closest(112).address
    'above'
    """

    def __init__(self, owner: Peer, size: int = LEAF_SET_SIZE) -> None:
        assert size >= 2
        assert size % 2 == 0
        self._owner = owner
        self._half = size // 2
        self._successors: list[tuple[int, Peer]] = []
        self._predecessors: list[tuple[int, Peer]] = []
        self.changes = 0
        """Grows with each change, so that others know when what they have made of it is old."""
        self._index()

    def offer(self, peer: Peer) -> bool:
        """Add the peer if it is near enough, or renew a known peer's address.

        Return whether the set of member ids changed. O(size).
        """
        identifier = peer.node_id
        known = self._members.get(identifier)
        if known == peer or not (known or self.admits(identifier)):
            return False
        before = self._members.keys()
        self._insert(peer)
        self._index()
        return before != self._members.keys()

    def remove(self, node_id: int) -> bool:
        """Forget a peer; return whether it was a member."""
        if node_id not in self._members:
            return False
        spanned_ring = self._spans_ring
        self._successors = [entry for entry in self._successors if entry[1].node_id != node_id]
        self._predecessors = [entry for entry in self._predecessors if entry[1].node_id != node_id]
        self._index()
        if spanned_ring:
            self.close_ring()
        return True

    def nearest(self, count: int) -> tuple[Peer, ...]:
        """Return the numerically nearest members, nearest first."""
        return self._nearest[:count]

    def close_ring(self) -> None:
        """Treat the members as the whole ring: each half that is short is filled from the other."""
        for peer in self.members:
            self._insert(peer)
        self._index()

    @property
    def is_short(self) -> bool:
        """Whether losses have left a half short, with peers beyond it that may be unknown."""
        return not self._spans_ring and min(len(self._successors), len(self._predecessors)) < self._half

    def admits(self, node_id: int) -> bool:
        """Say whether a peer of that id, not yet a member, would be added."""
        if node_id == self._owner.node_id or node_id in self._members:
            return False
        return (
            len(self._successors) < self._half
            or len(self._predecessors) < self._half
            or clockwise(self._owner.node_id, node_id) < self._successors[-1][0]
            or clockwise(node_id, self._owner.node_id) < self._predecessors[-1][0]
        )

    def sharers(self, node_id: int) -> tuple[Peer, ...]:
        """Return the members that should have the given one in their leaf sets, as far as this node can tell.
        O(size).
        """
        if node_id not in self._members:
            return ()
        order = [*self.predecessors[::-1], self._owner, *self.successors]
        place = next(place for place, peer in enumerate(order) if peer.node_id == node_id)
        near = order[max(0, place - self._half) : place + self._half + 1]
        sharers = self._members if self._spans_ring else {peer.node_id: peer for peer in near}
        return tuple(peer for peer in sharers.values() if peer.node_id not in (node_id, self._owner.node_id))

    def ring_size(self) -> float:
        """Estimate the number of nodes from their density around the owner."""
        if self._spans_ring:
            return len(self._members) + 1.0
        return (len(self._members) + 1) * ID_SPACE / clockwise(self._lowest, self._highest)

    def covers(self, key: int) -> bool:
        """Say whether the key lies in the leaf set's range, so that `closest` is the node to deliver at."""
        return self._spans_ring or clockwise(self._lowest, key) <= clockwise(self._lowest, self._highest)

    def closest(self, key: int, avoid: Container[int] = ()) -> Peer:
        """Return the member, or the owner, that is numerically closest to the key and not in `avoid`.

        The owner itself is never avoided. O(log size); O(size) when the closest is avoided.
        """
        place = bisect_left(self._ring, key)
        above = self._ring[place % len(self._ring)]
        below = self._ring[place - 1]
        best = above if closer(key, above, below) else below
        if best in avoid:
            allowed = [node_id for node_id in self._members if node_id not in avoid]
            best = closest(key, [*allowed, self._owner.node_id])
        return self._everyone[best]

    @property
    def successors(self) -> tuple[Peer, ...]:
        """The peers that follow the owner clockwise, nearest first."""
        return tuple(peer for _, peer in self._successors)

    @property
    def predecessors(self) -> tuple[Peer, ...]:
        """The peers that precede the owner, nearest first."""
        return tuple(peer for _, peer in self._predecessors)

    @property
    def members(self) -> tuple[Peer, ...]:
        """Every member once, in order of id."""
        return tuple(self._members[identifier] for identifier in self._ring if identifier in self._members)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._members

    def __iter__(self) -> Iterator[Peer]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self._members)

    def check(self) -> None:
        """Assert every invariant."""
        for half in (self._successors, self._predecessors):
            assert len(half) <= self._half
            assert all(near[0] < far[0] for near, far in pairwise(half))
        for gap, peer in self._successors:
            assert gap == clockwise(self._owner.node_id, peer.node_id) != 0
        for gap, peer in self._predecessors:
            assert gap == clockwise(peer.node_id, self._owner.node_id) != 0
        assert self._owner.node_id not in self._members
        assert self._spans_ring or not {*self.successors} & {*self.predecessors}
        assert self._ring == sorted({*self._members, self._owner.node_id})

    def _insert(self, peer: Peer) -> None:
        identifier = peer.node_id
        self._successors = self._inserted(self._successors, clockwise(self._owner.node_id, identifier), peer)
        self._predecessors = self._inserted(self._predecessors, clockwise(identifier, self._owner.node_id), peer)

    def _inserted(self, half: list[tuple[int, Peer]], gap: int, peer: Peer) -> list[tuple[int, Peer]]:
        others = [entry for entry in half if entry[0] != gap]
        insort(others, (gap, peer), key=_gap)
        return others[: self._half]

    def _index(self) -> None:
        """Rebuild the indices for lookups, which are far more frequent than changes."""
        self.changes += 1
        self._members = {peer.node_id: peer for _, peer in self._predecessors}
        self._members.update((peer.node_id, peer) for _, peer in self._successors)
        own_id = self._owner.node_id
        self._nearest = tuple(
            sorted(self._members.values(), key=lambda peer: (distance(own_id, peer.node_id), peer.node_id))
        )
        self._everyone = {**self._members, self._owner.node_id: self._owner}
        self._ring = sorted(self._everyone)
        # The halves of a leaf set that spans the whole ring meet or overlap on the far side.
        reach = sum(half[-1][0] for half in (self._successors, self._predecessors) if half)
        self._spans_ring = reach >= ID_SPACE or not self._members
        self._highest = self._successors[-1][1].node_id if self._successors else self._owner.node_id
        self._lowest = self._predecessors[-1][1].node_id if self._predecessors else self._owner.node_id


def _gap(entry: tuple[int, Peer]) -> int:
    return entry[0]
