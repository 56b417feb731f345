"""The state of one node in one group's tree, and the limit on its children."""

import hashlib
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

FAN_OUT_MAX = 32
"""Most children of a node in a group. It refers further ones to a child, so that the tree grows downwards."""
REPAIR_SLOTS = 4
"""Places kept for nodes that were in the tree before."""


class Group:
    """One node's state in one tree.

    `attached`: it has a path to the root (`parent`, and `path` from the parent on), or is the root (no parent).
    `candidate`: the peer it has asked to be its parent, without an answer so far. `previous`: the parent before this
    one.

    `epoch`: the highest epoch it believes in; `heard`: the highest that children have reported; `base`: the epoch in
    which it joined the tree, from which on it misses nothing. `history`: None without multicasts. `downward` and
    `upward`: hashes of its edges to children and to the parent, kept by the index of edges. `replicated`: ids of the
    nodes that have this root's state.
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
        """Whether the node considers itself the root of the tree."""
        return self.attached and self.parent is None

    @property
    def is_needed(self) -> bool:
        """Whether the node has a reason to be in the tree."""
        return self.subscribed or bool(self.children)

    @property
    def frontier(self) -> Frontier:
        """Progress in the multicasts, by epoch."""
        return () if self.history is None else self.history.frontier

    @property
    def sequence(self) -> int:
        """Progress in the multicasts of the current epoch."""
        return 0 if self.history is None else self.history.frontiers.get(self.epoch, 0)

    @property
    def recent(self) -> Frontier:
        """Progress in the last two epochs with multicasts, which neighbours compare.

        A multicast of the previous epoch may reach a new root late. Of older epochs neighbours may know different ones.
        """
        return self.frontier[-2:]

    @property
    def status(self) -> TreeStatus:
        """Status for a prospective parent."""
        return TreeStatus(self.key, max(self.epoch, self.heard), self.frontier)

    @property
    def position(self) -> TreePosition:
        """Position for children."""
        return TreePosition(self.key, self.epoch, self.frontier, self.path)

    def upstream(self, node_id: int) -> bool:
        """Say whether a peer is on this node's path to the root, or may soon be."""
        asked = self.candidate is not None and self.candidate.node_id == node_id
        return asked or node_id in self.path

    def is_parent(self, peer: Peer) -> bool:
        """Say whether the peer is the parent."""
        return self.parent is not None and self.parent.node_id == peer.node_id

    def is_candidate(self, peer: Peer) -> bool:
        """Say whether the peer is the candidate."""
        return self.candidate is not None and self.candidate.node_id == peer.node_id

    def may_disseminate(self, peer: Peer) -> bool:
        """Say whether multicasts are accepted from the peer: while parents change, several may send them."""
        known = (self.parent, self.candidate, self.previous)
        return any(one is not None and one.node_id == peer.node_id for one in known)

    def is_neighbour(self, peer: Peer) -> bool:
        """Say whether the peer is, or may soon be, this node's neighbour in the tree."""
        return peer.node_id in self.children or self.is_parent(peer) or self.is_candidate(peer)

    def move_to(self, parent: Peer | None, path: tuple[Id, ...], *, attached: bool) -> Peer | None:
        """Set parent and path; return the previous parent if it differs."""
        left = None if parent is not None and self.is_parent(parent) else self.parent
        if left is not None:
            self.previous = left
        self.parent, self.path, self.attached = parent, path, attached
        self.checksum = path_checksum(path)
        return left

    def renew(self, peer: Peer) -> None:
        """Renew a peer's address."""
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


def next_down(group: Group, sender: Peer) -> Peer:
    """Return the child to send a peer to: for the same peer mostly the same one in all groups, to share heartbeats."""
    sender_id = id_to_bytes(sender.node_id)
    return max(
        group.children.values(),
        key=lambda child: hashlib.blake2b(sender_id + id_to_bytes(child.node_id), digest_size=8).digest(),
    )


def is_full_for(group: Group, sender: Peer, status: TreeStatus) -> bool:
    """Say whether there is no place for a peer that is no child yet."""
    room = FAN_OUT_MAX if status.epoch != NEVER else FAN_OUT_MAX - REPAIR_SLOTS
    return sender.node_id not in group.children and len(group.children) >= room


def path_checksum(path: tuple[Id, ...]) -> int:
    """Return a checksum by which two peers notice that they hold different paths."""
    return zlib.crc32(b"".join(map(id_to_bytes, path)))


def parents_checksum(group: Group) -> int:
    """Return the checksum of the path that the parent gave: the node's own without the parent."""
    return path_checksum(group.path[1:])
