"""What one node knows of one group's tree."""

import zlib

from overlay.scribe.history import History
from overlay.wire.epoch import NEVER
from overlay.wire.ids import Id, id_to_bytes
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    PATH_LENGTH_MAX,
    Frontier,
    TreePosition,
    TreeStatus,
)


class Group:
    """One node's place in one tree.

    `attached`: it has a path to the root (`parent`, and `path` from the parent on), or is the root (no
    parent). `candidate`: whom it has asked to be its parent, and not yet heard from.
    `previous`: the parent before this one.

    `epoch`: the highest of a root that it believes in; `heard`: the highest that children spoke of; `base`: that in
    which it came into the tree, from which on it misses nothing. `history`: None where there were no multicasts.
    `downward` and `upward`: hashes of its edges to children and to the parent, kept by the index of edges.
    `replicated`: the ids of those who have the state of this root.
    """

    __slots__ = (
        "asked_at",
        "attached",
        "base",
        "candidate",
        "checksum",
        "children",
        "downward",
        "epoch",
        "heard",
        "history",
        "key",
        "parent",
        "path",
        "previous",
        "redirects",
        "replicated",
        "subscribed",
        "upward",
    )

    def __init__(self, key: Id) -> None:
        self.key = key
        self.subscribed = False
        self.attached = False
        self.parent: Peer | None = None
        self.previous: Peer | None = None
        self.path: tuple[Id, ...] = ()
        self.checksum = 0
        self.children: dict[int, Peer] = {}
        self.candidate: Peer | None = None
        self.asked_at = 0.0
        self.redirects = 0
        self.epoch = self.heard = self.base = NEVER
        self.history: History | None = None
        self.downward = self.upward = 0
        self.replicated: tuple[Id, ...] = ()

    @property
    def is_root(self) -> bool:
        """Whether the node takes itself for the root of the tree."""
        return self.attached and self.parent is None

    @property
    def is_needed(self) -> bool:
        """Whether the node has a reason to be in the tree."""
        return self.subscribed or bool(self.children)

    @property
    def frontier(self) -> Frontier:
        """How far it is in the multicasts."""
        return () if self.history is None else self.history.frontier

    @property
    def sequence(self) -> int:
        """How far it is in those of the epoch that counts."""
        return 0 if self.history is None else self.history.frontiers.get(self.epoch, 0)

    @property
    def recent(self) -> Frontier:
        """How far it is in the last two epochs in which there were multicasts: neighbours compare that.

        A multicast of the epoch before may come late to a new root. Of older epochs neighbours may know different ones.
        """
        return self.frontier[-2:]

    @property
    def status(self) -> TreeStatus:
        """What it says of itself to whom it asks to be its parent."""
        return TreeStatus(self.key, max(self.epoch, self.heard), self.frontier)

    @property
    def position(self) -> TreePosition:
        """What it says of itself to its children."""
        return TreePosition(self.key, self.epoch, self.frontier, self.path)

    def upstream(self, node_id: int) -> bool:
        """Say whether a peer is on this node's way to the root, or may soon be."""
        asked = self.candidate is not None and self.candidate.node_id == node_id
        return asked or node_id in self.path

    def is_parent(self, peer: Peer) -> bool:
        """Say whether the peer is the parent."""
        return self.parent is not None and self.parent.node_id == peer.node_id

    def is_candidate(self, peer: Peer) -> bool:
        """Say whether the peer is the one that was asked last."""
        return self.candidate is not None and self.candidate.node_id == peer.node_id

    def may_disseminate(self, peer: Peer) -> bool:
        """Say whether multicasts are taken from the peer: while parents change, several may send them."""
        known = (self.parent, self.candidate, self.previous)
        return any(one is not None and one.node_id == peer.node_id for one in known)

    def is_neighbour(self, peer: Peer) -> bool:
        """Say whether the peer is next to this node in the tree, or may soon be."""
        return peer.node_id in self.children or self.is_parent(peer) or self.is_candidate(peer)

    def move_to(self, parent: Peer | None, path: tuple[Id, ...], *, attached: bool) -> Peer | None:
        """Take another place in the tree; return the parent that is left by it, if any."""
        left = None if parent is not None and self.is_parent(parent) else self.parent
        if left is not None:
            self.previous = left
        self.parent, self.path, self.attached = parent, path, attached
        self.checksum = path_checksum(path)
        return left

    def renew(self, peer: Peer) -> None:
        """Bring a peer's address up to date."""
        if peer.node_id in self.children:
            self.children[peer.node_id] = peer
        if self.is_parent(peer):
            self.parent = peer
        if self.is_candidate(peer):
            self.candidate = peer

    def check(self, own_id: int) -> None:
        """Assert every invariant."""
        assert own_id not in self.children
        assert own_id not in self.path
        assert len(self.path) <= PATH_LENGTH_MAX
        assert bool(self.path) == (self.parent is not None)
        if self.parent is not None:
            assert self.attached
            assert self.path[0] == self.parent.node_id
        assert not self.path or not set(self.path) & set(self.children)
        assert all(node_id == child.node_id for node_id, child in self.children.items())
        assert self.base <= self.epoch
        assert not self.is_root or self.epoch.root == own_id
        if self.history is not None:
            self.history.check()


def path_checksum(path: tuple[Id, ...]) -> int:
    """Return a checksum by which two peers notice that they hold different paths."""
    return zlib.crc32(b"".join(map(id_to_bytes, path)))


def parents_checksum(group: Group) -> int:
    """Return the checksum of the path that the parent gave: the node's own without the parent."""
    return path_checksum(group.path[1:])
