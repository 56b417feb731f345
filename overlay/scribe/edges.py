"""Indexes a node's tree edges by peer, with a digest of the edges for each peer.

Theory. A digest is the XOR of a hash of every edge, so changing one edge costs two XORs, however many there are. The
hash covers everything both ends should agree upon: the group, which end is the parent, the path it gave, the epoch, the
frontier of its multicasts. When all is well both ends have the same digest, and a heartbeat of constant size proves it.
An edge to a parent that has no path itself does not count.

A node's hash is the same for all its children in a group: it is computed once per change.
"""

import hashlib
from collections.abc import Iterable, Iterator

from overlay.scribe.group import Group, parents_checksum
from overlay.wire.epoch import TreeEpoch
from overlay.wire.ids import Id, id_to_bytes
from overlay.wire.messages import EDGE_BUCKETS
from overlay.wire.peer import Peer


class _Shared:
    """Edges shared with one peer: groups in which it is a child, the parent, or the candidate."""

    __slots__ = ("above", "asked", "below", "digest", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.digest = 0
        self.below: dict[Id, Group] = {}
        self.above: dict[Id, Group] = {}
        self.asked: dict[Id, Group] = {}

    def __bool__(self) -> bool:
        return bool(self.below or self.above or self.asked)


class EdgeIndex:
    """The index of edges, updated with every change of a group. `revision` grows when a neighbour is gained or lost."""

    def __init__(self, own: Peer) -> None:
        self.revision = 0
        self._own = own
        self._shared: dict[int, _Shared] = {}

    # Changes.

    def add_child(self, group: Group, child: Peer) -> None:
        """Add a child to a group."""
        group.children[child.node_id] = child
        shared = self._with(child)
        shared.below[group.key] = group
        shared.digest ^= group.downward

    def remove_child(self, group: Group, node_id: int) -> Peer:
        """Remove a child from a group; return it."""
        child = group.children.pop(node_id)
        shared = self._shared[node_id]
        del shared.below[group.key]
        shared.digest ^= group.downward
        self._tidy(node_id, shared)
        return child

    def ask(self, group: Group, candidate: Peer | None) -> None:
        """Set the candidate for a group's parent."""
        before, group.candidate = group.candidate, candidate
        if candidate is not None:
            self._with(candidate).asked[group.key] = group
        if before is not None and (candidate is None or before.node_id != candidate.node_id):
            shared = self._shared[before.node_id]
            del shared.asked[group.key]
            self._tidy(before.node_id, shared)

    def move(self, group: Group, parent: Peer | None, path: tuple[Id, ...], *, attached: bool) -> Peer | None:
        """Set a group's parent and path; return the previous parent if it differs."""
        before = group.parent
        if before is not None:
            shared = self._shared[before.node_id]
            del shared.above[group.key]
            shared.digest ^= group.upward
            group.upward = 0
            if parent is None or parent.node_id != before.node_id:
                self._tidy(before.node_id, shared)
        left = group.move_to(parent, path, attached=attached)
        if parent is not None:
            self._with(parent).above[group.key] = group
        self.refresh(group)
        return left

    def refresh(self, group: Group) -> None:
        """Update the digests after a change of path, epoch or frontier. O(children)."""
        downward = _edge_hash(group, self._own.node_id, group.checksum) if group.attached else 0
        if downward != group.downward:
            for node_id in group.children:
                self._shared[node_id].digest ^= group.downward ^ downward
            group.downward = downward
        if group.parent is not None:
            upward = _edge_hash(group, group.parent.node_id, parents_checksum(group))
            self._shared[group.parent.node_id].digest ^= group.upward ^ upward
            group.upward = upward

    def renew(self, peer: Peer) -> None:
        """Renew a peer's address. O(edges with it)."""
        shared = self._shared.get(peer.node_id)
        if shared is not None:
            shared.peer = peer
            self.revision += 1
            for group in (*shared.below.values(), *shared.above.values(), *shared.asked.values()):
                group.renew(peer)

    def clear(self) -> None:
        """Forget all edges."""
        self._shared.clear()
        self.revision += 1

    def _with(self, peer: Peer) -> _Shared:
        shared = self._shared.get(peer.node_id)
        if shared is None:
            shared = self._shared[peer.node_id] = _Shared(peer)
            self.revision += 1
        return shared

    def _tidy(self, node_id: int, shared: _Shared) -> None:
        if not shared:
            del self._shared[node_id]
            self.revision += 1

    # Queries.

    def neighbours(self) -> dict[int, Peer]:
        """Return this node's neighbours and candidates in all trees. O(neighbours)."""
        return {node_id: shared.peer for node_id, shared in self._shared.items()}

    def digest(self, node_id: int) -> int:
        """Return the digest of the edges shared with a peer; 0 when there are none."""
        shared = self._shared.get(node_id)
        return 0 if shared is None else shared.digest

    def below(self, node_id: int) -> list[Group]:
        """Return the groups in which a peer is a child."""
        shared = self._shared.get(node_id)
        return [] if shared is None else list(shared.below.values())

    def above(self, node_id: int) -> list[Group]:
        """Return the groups in which a peer is the parent."""
        shared = self._shared.get(node_id)
        return [] if shared is None else list(shared.above.values())

    def asked(self, node_id: int) -> list[Group]:
        """Return the groups in which a peer is the candidate."""
        shared = self._shared.get(node_id)
        return [] if shared is None else list(shared.asked.values())

    def buckets(self, node_id: int) -> tuple[int, ...]:
        """Return the digest of a peer in parts, by group. O(edges with it)."""
        digests = [0] * EDGE_BUCKETS
        for group in self.below(node_id):
            digests[bucket(group.key)] ^= group.downward
        for group in self.above(node_id):
            digests[bucket(group.key)] ^= group.upward
        return tuple(digests)

    def check(self, groups: dict[Id, Group]) -> None:
        """Assert every invariant."""
        edges = set(_edges(groups.values()))
        indexed = {
            (kind, node_id, group.key)
            for node_id, shared in self._shared.items()
            for kind, part in (("below", shared.below), ("above", shared.above), ("asked", shared.asked))
            for group in part.values()
        }
        assert edges == indexed
        for node_id, shared in self._shared.items():
            assert shared
            digest = 0
            for part in self.buckets(node_id):
                digest ^= part
            assert digest == shared.digest


def _edges(groups: Iterable[Group]) -> Iterator[tuple[str, int, Id]]:
    for group in groups:
        yield from (("below", node_id, group.key) for node_id in group.children)
        if group.parent is not None:
            yield "above", group.parent.node_id, group.key
        if group.candidate is not None:
            yield "asked", group.candidate.node_id, group.key


def bucket(key: Id) -> int:
    """Return the part of the digests in which a group counts."""
    return key % EDGE_BUCKETS


def _to_bytes(epoch: TreeEpoch, sequence: int) -> bytes:
    return epoch.counter.to_bytes(8, "big") + id_to_bytes(epoch.root) + sequence.to_bytes(8, "big")


def _edge_hash(group: Group, parent_id: int, checksum: int) -> int:
    hashed = hashlib.blake2b(
        b"".join(
            (
                id_to_bytes(group.key),
                id_to_bytes(parent_id),
                checksum.to_bytes(4, "big"),
                _to_bytes(group.epoch, 0),
                *(_to_bytes(epoch, sequence) for epoch, sequence in group.recent),
            )
        ),
        digest_size=8,
    )
    return int.from_bytes(hashed.digest(), "big")
