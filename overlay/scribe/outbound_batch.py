"""Batches tree messages: one message per peer about many groups instead of one per group.

A batch waits until the node's messages are fetched, or until another kind of message to the same peer is due, so that
the order of messages to a peer is kept.
"""

from collections.abc import Iterable
from typing import Any

from overlay.core.outbox import Outbox
from overlay.scribe.group import Group
from overlay.wire.ids import Id
from overlay.wire.messages import (
    GROUPS_PER_MESSAGE_MAX,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    OverlayMessage,
    Replicate,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    GroupRefusal,
    RootState,
)

_Batched = type[GroupJoin] | type[GroupJoined] | type[GroupRefused] | type[GroupLeave] | type[Replicate]


class OutboundBatches:
    """Batches and sends tree messages by peer."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._batches: dict[Peer, tuple[_Batched, list[Any]]] = {}

    def join(self, peer: Peer, group: Group) -> None:
        """Ask a peer to be the parent."""
        self._add(peer, GroupJoin, group.status)

    def send_position(self, peers: Iterable[Peer], group: Group) -> None:
        """Send children this node's position, if it has a path to the root."""
        if not group.attached:
            return
        position = group.position
        for peer in peers:
            self._add(peer, GroupJoined, position)

    def refuse(self, peer: Peer, key: Id, redirect: Peer | None) -> None:
        """Refuse a peer, naming another to ask."""
        self._add(peer, GroupRefused, GroupRefusal(key, redirect))

    def leave(self, peer: Peer, key: Id) -> None:
        """Tell a peer that this node is not its child."""
        self._add(peer, GroupLeave, key)

    def replicate(self, peer: Peer, state: RootState) -> None:
        """Send a root's state to a peer."""
        self._add(peer, Replicate, state)
        if state.entries:
            self._flush(peer)

    def send(self, peer: Peer, message: OverlayMessage) -> None:
        """Send any other message, after the peer's batch."""
        self._flush(peer)
        self._outbox.send(peer, message)

    def send_all(self, peers: Iterable[Peer], message: OverlayMessage) -> None:
        """Send any other message to several peers, after their batches."""
        peers = list(peers)
        for peer in peers:
            self._flush(peer)
        self._outbox.send_all(peers, message)

    def flush(self) -> None:
        """Send all batches."""
        for peer in list(self._batches):
            self._flush(peer)

    def clear(self) -> None:
        """Drop all batches."""
        self._batches.clear()

    def _add(self, peer: Peer, kind: _Batched, item: object) -> None:
        batch = self._batches.get(peer)
        if batch is None or batch[0] is not kind or len(batch[1]) >= GROUPS_PER_MESSAGE_MAX:
            self._flush(peer)
            batch = self._batches[peer] = (kind, [])
        batch[1].append(item)

    def _flush(self, peer: Peer) -> None:
        batch = self._batches.pop(peer, None)
        if batch is not None:
            kind, items = batch
            self._outbox.send(peer, kind(tuple(items)))
