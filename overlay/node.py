"""One node of the overlay: Pastry and Scribe behind one object that does no input or output.

Like a protocol library: bytes go in with `receive`, time with `handle_timer`; bytes to send come out of
`messages_to_send`, facts out of `events`. Drain both after every call. Time is a number of seconds on
whatever clock the caller keeps, randomness is given: the same calls with the same seed make the same run.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from overlay.events import Delivered, Event, LeafSetChanged, MessageReceived, PeerFailed
from overlay.ids import Id, checked_id
from overlay.join import ProtocolError
from overlay.leaf_set import LeafSet
from overlay.membership import Membership
from overlay.messages import (
    HOPS_MAX,
    Announcement,
    Direct,
    Disseminate,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
    OverlayMessage,
    Publish,
    Route,
    RowAnswer,
    RowRequest,
)
from overlay.outbox import CODEC, Outbox
from overlay.peer import Peer
from overlay.random_source import RandomSource
from overlay.recent import RecentIds
from overlay.routing_table import RoutingTable
from overlay.scribe import Scribe
from overlay.statistics import Statistics
from overlay.wire import WIRE_BYTES_MAX, WireError

PAYLOAD_BYTES_MAX = WIRE_BYTES_MAX - (1 << 12)
HELD_MESSAGES_MAX = 1024
HELD_BYTES_MAX = WIRE_BYTES_MAX

Handler = Callable[[Peer, Any, float], None]


class Node:
    """A node: its tables, its trees, and what others may ask of them.

    `random` is a seeded `random.Random` or anything like it.
    """

    def __init__(self, peer: Peer, *, random: RandomSource) -> None:
        self.peer = peer
        self._random = random
        self._outbox = Outbox()
        self._membership = Membership(peer, self._outbox, random)
        self._scribe = Scribe(self._membership, self._outbox, random)
        self._recent = RecentIds()
        self._held: list[tuple[Peer, JoinRequest | Route | Publish]] = []
        self._held_bytes = 0
        self._revision = 0
        self._leaf_set_revision = 0
        self._handlers: dict[type[OverlayMessage], Handler] = {
            JoinRequest: self._handle_join_request,
            JoinReply: self._membership.handle_join_reply,
            LeafSetProbe: self._membership.handle_probe,
            LeafSetAnswer: self._membership.handle_answer,
            Announcement: self._membership.handle_announcement,
            RowRequest: self._membership.handle_row_request,
            RowAnswer: self._membership.handle_row_answer,
            Route: self._handle_route,
            Direct: self._handle_direct,
            Publish: self._handle_publish,
            Disseminate: self._scribe.handle_disseminate,
            GroupJoin: self._scribe.handle_join,
            GroupJoined: self._scribe.handle_joined,
            GroupRefused: self._scribe.handle_refused,
            GroupLeave: self._scribe.handle_leave,
            GroupDigest: self._scribe.handle_digest,
        }

    # The owner's calls.

    def start(self, now: float) -> None:
        """Begin a new overlay of which this is the first node; ProtocolError if it is in one already."""
        self._membership.start(now)
        self._settle(now)

    def join(self, contact: Peer, now: float) -> None:
        """Join the overlay the contact is in; `Joined` follows. ProtocolError if it is in one already."""
        self._membership.join(contact, now)
        self._settle(now)

    def route(self, key: int, payload: bytes, now: float) -> None:
        """Send a payload to the node numerically closest to the key, which raises `Delivered`."""
        message = Route(
            message_id=self._random.getrandbits(64),
            key=checked_id(key),
            origin=self.peer,
            hops=0,
            payload=_checked_payload(payload),
        )
        self._handle_route(self.peer, message, now)

    def send(self, peer: Peer, payload: bytes, now: float) -> None:
        """Send a payload straight to a peer, which raises `MessageReceived`."""
        message = Direct(payload=_checked_payload(payload))
        if peer.node_id == self.peer.node_id:
            self._handle_direct(self.peer, message, now)
        else:
            self._outbox.send(peer, message)

    def subscribe(self, group: int, now: float) -> None:
        """Become a member of a group; `Attached` follows once there is a path to its root."""
        self._scribe.subscribe(checked_id(group), now)

    def unsubscribe(self, group: int, now: float) -> None:  # noqa: ARG002 - every call takes the time
        """Leave a group, and its tree as well once no child needs this node."""
        self._scribe.unsubscribe(checked_id(group))

    def multicast(self, group: int, payload: bytes, now: float) -> None:
        """Send a payload to every member of a group, by way of its root; each raises `MulticastReceived`."""
        message = Publish(
            message_id=self._random.getrandbits(64),
            group=checked_id(group),
            hops=0,
            payload=_checked_payload(payload),
        )
        self._handle_publish(self.peer, message, now)

    # The shell's calls.

    def receive(self, sender: Peer, data: bytes, now: float) -> None:
        """Take in one message from the peer the channel says it is from. Never raises, whatever the bytes."""
        counters = self._outbox.counters
        counters.received += 1
        counters.received_bytes += len(data)
        if sender.node_id == self.peer.node_id:
            counters.refused += 1
            return
        try:
            message = CODEC.decode(data)
        except WireError:
            counters.malformed += 1
            return
        self._handlers[type(message)](sender, message, now)
        self._settle(now)

    def unreachable(self, peer: Peer, now: float) -> None:
        """The transport could not connect to a peer: it has failed."""
        known = self._scribe.forget(peer.node_id, now)
        known |= self._membership.forget(peer.node_id, now)
        if known:
            self._outbox.emit(PeerFailed(peer))
        self._settle(now)

    def disconnected(self, peer: Peer, now: float) -> None:
        """A link to a peer broke: it may have failed."""

    def restarted(self, peer: Peer, now: float) -> None:
        """Another process answers for the peer: what was shared with the one before is gone."""
        self._scribe.forget(peer.node_id, now)
        self._membership.renew(peer)
        self._settle(now)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` wants to be called; None: not at all."""
        membership, scribe = self._membership.next_timer(), self._scribe.next_timer()
        if membership is None or scribe is None:
            return scribe if membership is None else membership
        return min(membership, scribe)

    def handle_timer(self, now: float) -> None:
        """Do what is due. Calling too early does nothing."""
        self._membership.handle_timer(now)
        self._scribe.handle_timer(now)
        self._settle(now)

    def messages_to_send(self) -> list[tuple[Peer, bytes]]:
        """Return what has to be sent since the last call, in order."""
        return self._outbox.drain_messages()

    def events(self) -> list[Event]:
        """Return what has happened since the last call, in order."""
        return self._outbox.drain_events()

    # What can be asked.

    @property
    def is_active(self) -> bool:
        """Whether the node has joined, and delivers."""
        return self._membership.is_active

    @property
    def leaf_set(self) -> LeafSet:
        """The numerically nearest peers."""
        return self._membership.leaf_set

    @property
    def routing_table(self) -> RoutingTable:
        """The peers by prefix."""
        return self._membership.routing_table

    @property
    def groups(self) -> tuple[Id, ...]:
        """The groups whose trees the node is in, as a member or as a forwarder."""
        return self._scribe.groups

    def is_root(self, key: int) -> bool:
        """Say whether this node is active and the closest to the key it knows of: root of its group."""
        return self.is_active and self.leaf_set.closest(key).node_id == self.peer.node_id

    def is_attached(self, group: int) -> bool:
        """Say whether the node has an acknowledged path to the group's root, or is the root."""
        return self._scribe.is_attached(group)

    def parent(self, group: int) -> Peer | None:
        """Return the parent in the group's tree; None at its root and outside the tree."""
        return self._scribe.parent(group)

    def children(self, group: int) -> tuple[Peer, ...]:
        """Return the children in the group's tree, in the order they came."""
        return self._scribe.children(group)

    def statistics(self) -> Statistics:
        """Return the counters."""
        return self._outbox.counters.snapshot()

    def check(self) -> None:
        """Assert every invariant of every part."""
        self._membership.check()
        self._scribe.check()
        assert not self._held or not self.is_active
        assert len(self._held) <= HELD_MESSAGES_MAX
        assert self._held_bytes <= HELD_BYTES_MAX

    # Messages that are routed hop by hop.

    def _handle_join_request(self, sender: Peer, message: JoinRequest, now: float) -> None:
        if self.is_active:
            self._membership.handle_join_request(sender, message, now)
        else:
            self._hold(sender, message, 0)

    def _handle_route(self, sender: Peer, message: Route, _now: float) -> None:
        if not self.is_active:
            self._hold(sender, message, len(message.payload))
            return
        hop = self._membership.next_hop(message.key)
        if hop is not None:
            self._pass_on(hop, message)
        elif self._recent.add(message.message_id):
            self._outbox.counters.delivered += 1
            self._outbox.counters.delivered_hops += message.hops
            self._outbox.emit(Delivered(message.key, message.payload, message.origin))
        else:
            self._outbox.counters.duplicates += 1

    def _handle_publish(self, sender: Peer, message: Publish, _now: float) -> None:
        if not self.is_active:
            self._hold(sender, message, len(message.payload))
            return
        hop = self._membership.next_hop(message.group)
        if hop is not None:
            self._pass_on(hop, message)
        else:
            self._scribe.publish(message)

    def _pass_on(self, hop: Peer, message: Route | Publish) -> None:
        if message.hops >= HOPS_MAX:
            self._outbox.counters.refused += 1
            return
        self._outbox.counters.routed += 1
        self._outbox.send(hop, msgspec.structs.replace(message, hops=message.hops + 1))

    def _handle_direct(self, sender: Peer, message: Direct, _now: float) -> None:
        self._outbox.emit(MessageReceived(sender, message.payload))

    def _hold(self, sender: Peer, message: JoinRequest | Route | Publish, payload_bytes: int) -> None:
        """Keep a routed message until this node is active; what finds no room is counted and gone."""
        if len(self._held) >= HELD_MESSAGES_MAX or self._held_bytes + payload_bytes > HELD_BYTES_MAX:
            self._outbox.counters.dropped += 1
            return
        self._held.append((sender, message))
        self._held_bytes += payload_bytes

    def _settle(self, now: float) -> None:
        """After any change of the tables: trees may want other roots, held messages may now be handled."""
        if self._revision == self._membership.revision:
            return
        self._revision = self._membership.revision
        if self.is_active and self._leaf_set_revision != self._membership.leaf_set_revision:
            self._leaf_set_revision = self._membership.leaf_set_revision
            self._outbox.emit(LeafSetChanged())
        self._scribe.tables_changed(now)
        if self.is_active and self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            for sender, message in held:
                self._handlers[type(message)](sender, message, now)


def _checked_payload(payload: bytes) -> bytes:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ProtocolError(f"a payload of {len(payload)} bytes is over the limit of {PAYLOAD_BYTES_MAX}")
    return payload
