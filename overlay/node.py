"""One node of the overlay: Pastry and Scribe behind one object that does no input or output.

Works like a protocol library: bytes go in with `receive`, time with `handle_timer`; bytes to send come out of
`messages_to_send`, facts out of `events`. Drain both after every call. Time is in seconds on any clock of the caller's,
and randomness is an argument: the same calls with the same seed produce the same run.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from overlay.components import Components
from overlay.core.events import Event, LeafSetChanged, MessageReceived, Requested
from overlay.core.outbox import CODEC, Outbox
from overlay.core.random_source import RandomSource
from overlay.core.statistics import Statistics
from overlay.pastry.forwarding.forwarding import OnForward
from overlay.pastry.membership.join import ProtocolError
from overlay.pastry.tables.leaf_set import LeafSet
from overlay.pastry.tables.routing_table import RoutingTable
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.codec import WIRE_BYTES_MAX, WireError
from overlay.wire.ids import Id, checked_id
from overlay.wire.messages import (
    Absent,
    Direct,
    LeafSetProbe,
    Leaving,
    Ping,
    Publish,
    Route,
)
from overlay.wire.peer import Peer
from overlay.wire.tree_fields import (
    ACKNOWLEDGE_MS_MAX,
    Wanted,
)

PAYLOAD_BYTES_MAX = WIRE_BYTES_MAX - (1 << 12)

Handler = Callable[[Peer, Any, float], None]

_HEARD_WHEN_IDLE = (LeafSetProbe, Ping)
_GOODBYES = (Leaving, Absent)


class Node:
    """A node with its tables and trees.

    `random` is a seeded `random.Random` or compatible. `start_number` distinguishes the processes of one id; it grows
    from start to start. `on_forward` is called with every routed message that this node is about to forward, including
    its own (and once more when a message is rerouted): see `OnForward`. `epochs`: by group the highest counter of an
    `EpochTaken` event of earlier nodes of this id.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        random: RandomSource,
        start_number: int = 1,
        on_forward: OnForward | None = None,
        epochs: Mapping[Id, int] | None = None,
    ) -> None:
        self.peer = peer
        self._random = random
        self._outbox = Outbox()
        parts = Components(peer, self._outbox, random, start_number, on_forward, epochs or {})
        self._parts = parts
        self._tables, self._membership, self._detector = parts.tables, parts.membership, parts.detector
        self._presence, self._repair, self._table_maintenance = parts.presence, parts.repair, parts.table_maintenance
        self._requests, self._scribe, self._forwarding = parts.requests, parts.scribe, parts.forwarding
        self._timers = parts.timers()
        self._handlers = parts.handlers() | {Direct: self._handle_direct}
        # Revisions of the tables and trees that `_settle` has acted upon.
        self._settled_revision = (0, 0)
        self._leaf_set_revision = 0

    # Calls by the owner.

    def start(self, now: float) -> None:
        """Start a new overlay with this node as its first; ProtocolError if the node is in one already."""
        self._membership.start(now)
        self._settle(now)

    def join(self, contact: Peer, now: float) -> None:
        """Join the contact's overlay; `Joined` follows. ProtocolError if the node is in one already.

        May be called again before `Joined`, with another contact.
        """
        self._membership.join(contact, now)
        self._settle(now)

    def meet(self, peer: Peer, now: float) -> None:  # noqa: ARG002 - every call takes the time
        """Probe a peer that may be in another ring: if it answers, the two rings merge. Only when active."""
        self._repair.meet(peer)

    def leave(self, now: float) -> None:
        """Say goodbye to all known peers and leave the overlay and every tree. The node may join again."""
        if self._membership.is_idle:
            return
        known = {peer.node_id: peer for peer in chain(self.routing_table, self.leaf_set)} | self._scribe.neighbours()
        self._outbox.send_all(known.values(), Leaving())
        self._membership.leave()
        self._scribe.clear()
        self._detector.clear()
        self._tables.clear()
        self._forwarding.clear()
        self._requests.clear()
        self._settle(now)

    def route(self, key: int, payload: bytes, now: float) -> None:
        """Send a payload to the node numerically closest to the key, which emits `Delivered`."""
        self._begin(self._new_route(key, payload, wants_response=False), now)

    def request(self, key: int, payload: bytes, timeout_s: float, now: float) -> int:
        """Route a payload to the node closest to the key, which emits `Requested` and is expected to answer.

        Return a ticket: one `Responded` or `RequestFailed` with that ticket follows.
        """
        message = self._new_route(key, payload, wants_response=True)
        if self._requests.open(message, timeout_s, now):
            self._begin(message, now)
        return message.message_id

    def respond(self, requested: Requested, payload: bytes, now: float) -> None:  # noqa: ARG002 - as every call
        """Answer a request."""
        self._requests.respond(requested.origin, requested.ticket, _checked_payload(payload))

    def _begin(self, message: Route, now: float) -> None:
        self._presence.notice_time(now)
        self._forwarding.handle_route(self.peer, message, now)
        self._settle(now)

    def _new_route(self, key: int, payload: bytes, *, wants_response: bool) -> Route:
        return Route(
            message_id=self._random.getrandbits(64),
            key=checked_id(key),
            origin=self.peer,
            hops=0,
            payload=_checked_payload(payload),
            wants_response=wants_response,
        )

    def send(self, peer: Peer, payload: bytes, now: float) -> None:
        """Send a payload directly to a peer, which emits `MessageReceived`."""
        message = Direct(payload=_checked_payload(payload))
        if peer.node_id == self.peer.node_id:
            self._handle_direct(self.peer, message, now)
        else:
            self._outbox.send(peer, message)

    def subscribe(self, group: int, now: float) -> None:
        """Become a member of a group; `Attached` follows once there is a path to its root."""
        self._scribe.subscribe(checked_id(group), now)

    def unsubscribe(self, group: int, now: float) -> None:  # noqa: ARG002 - every call takes the time
        """Leave a group, and also its tree once no child needs this node."""
        self._scribe.unsubscribe(checked_id(group))

    def multicast(
        self, group: int, payload: bytes, now: float, *, acknowledged: bool = False, timeout_s: float = 5.0
    ) -> int:
        """Send a payload to every member of a group by way of its root; each emits `MulticastReceived`.

        Return the message id. If `acknowledged`, `MulticastAcknowledged` reports who has it, at the latest shortly
        after the timeout.
        """
        timeout_ms = min(max(1, round(timeout_s * 1000)), ACKNOWLEDGE_MS_MAX)
        message = Publish(
            message_id=self._random.getrandbits(64),
            group=checked_id(group),
            hops=0,
            wanted=Wanted(self.peer, timeout_ms) if acknowledged else None,
            payload=_checked_payload(payload),
        )
        self._presence.notice_time(now)
        self._scribe.acknowledgements.expect(message, now)
        self._forwarding.handle_publish(self.peer, message, now)
        self._settle(now)
        return message.message_id

    # Calls by the shell.

    def receive(self, sender: Peer, data: bytes, now: float) -> None:
        """Handle one message from the peer that the channel has authenticated. Never raises, whatever the bytes."""
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
        if self._membership.is_idle and not isinstance(message, _HEARD_WHEN_IDLE):
            counters.refused += 1
            return
        self._presence.notice_time(now)
        if not isinstance(message, _GOODBYES):
            self._presence.note_alive(sender, now)
        self._handlers[type(message)](sender, message, now)
        self._settle(now)

    def unreachable(self, peer: Peer, now: float) -> None:
        """Note that the transport could not connect to a peer: it has failed, unless its known address is
        another one.
        """
        if not self._membership.is_idle and peer.node_id != self.peer.node_id:
            self._presence.unreachable(peer, now)
            self._settle(now)

    def disconnected(self, peer: Peer, now: float) -> None:
        """Note that a link to a peer broke. A peer that matters is pinged, so the transport reconnects or reports
        `unreachable`.
        """
        if self.is_active:
            self._presence.check_alive(peer, now)

    def doubt(self, node_id: int, now: float) -> bool:
        """Ping a known peer at once if it has been silent for a moment: the owner waits for it in vain. Return whether
        it was pinged.
        """
        was_pinged = self.is_active and self._presence.doubt(node_id, now)
        if was_pinged:
            self._settle(now)
        return was_pinged

    def restarted(self, peer: Peer, now: float) -> None:
        """Note that another process answers for the peer, which shares nothing with this node yet.

        The new process says itself whether it is in the overlay.
        """
        if not self._membership.is_idle and peer.node_id != self.peer.node_id:
            self._presence.restarted(peer, now)
            self._settle(now)

    def stood_still(self, now: float) -> None:
        """Note that the process was suspended for seconds that its clock may not show."""
        self._presence.stood_still(now)
        self._settle(now)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due; None when it is not."""
        earliest = None
        for part_timer in self._timers:
            timer = part_timer()
            if timer is not None and (earliest is None or timer < earliest):
                earliest = timer
        return earliest

    def handle_timer(self, now: float) -> None:
        """Do everything that is due. Calling too early does nothing."""
        self._presence.notice_time(now)
        self._presence.handle_timer(now)
        self._forwarding.handle_timer(now)
        self._repair.handle_timer(now)
        self._table_maintenance.handle_timer(now)
        for message in self._requests.handle_timer(now):
            self._forwarding.handle_route(self.peer, message, now)
        self._scribe.handle_timer(now)
        self._settle(now)

    def messages_to_send(self) -> list[tuple[Peer, bytes]]:
        """Return the messages to send since the last call, in order."""
        self._scribe.flush()
        return self._outbox.drain_messages()

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        return self._outbox.drain_events()

    # State.

    @property
    def is_active(self) -> bool:
        """Whether the node has joined and delivers messages for the keys it owns."""
        return self._membership.is_active

    @property
    def leaf_set(self) -> LeafSet:
        """The numerically nearest peers."""
        return self._tables.leaf_set

    @property
    def routing_table(self) -> RoutingTable:
        """The peers by prefix."""
        return self._tables.routing_table

    @property
    def tables(self) -> PeerTables:
        """All tables of peers."""
        return self._tables

    @property
    def groups(self) -> tuple[Id, ...]:
        """The groups whose trees the node is in, as a member or forwarder."""
        return self._scribe.groups

    @property
    def epochs(self) -> Mapping[Id, int]:
        """Counters of the epochs this node took as a root, by group, for the next node of this id."""
        return self._scribe.epochs.taken

    def is_root(self, key: int) -> bool:
        """Say whether this node is the root for the key: active, closest, and certain that no other node is."""
        return self._membership.owns(key)

    def next_hop(self, key: int) -> Peer | None:
        """Return the peer that a message routed to the key goes to first; None when this node is the closest."""
        return self._tables.next_hop(checked_id(key))

    def closest(self, key: int) -> Peer:
        """Return the numerically closest known peer to the key; it may be this node."""
        return self._tables.closest(checked_id(key))

    def neighbours(self, count: int) -> tuple[Peer, ...]:
        """Return the numerically nearest peers of the leaf set, nearest first."""
        return self._tables.neighbours(count)

    def is_attached(self, group: int) -> bool:
        """Say whether the node has an acknowledged path to the group's root, or is the root."""
        return self._scribe.is_attached(group)

    def parent(self, group: int) -> Peer | None:
        """Return the parent in the group's tree; None at the root and outside the tree."""
        return self._scribe.parent(group)

    def depth(self, group: int) -> int | None:
        """Return the number of edges up to the group's root, None outside the tree or without a path to the root."""
        return self._scribe.depth(group)

    def round_trip_s(self, node_id: int) -> float | None:
        """Return the estimated round-trip time to a peer; None when it was never measured."""
        proximity = self._tables.proximity
        return proximity.round_trip_s(node_id) if node_id in proximity else None

    def children(self, group: int) -> tuple[Peer, ...]:
        """Return the children in the group's tree, in order of arrival."""
        return self._scribe.children(group)

    def statistics(self) -> Statistics:
        """Return the counters."""
        return self._outbox.counters.snapshot()

    def check(self) -> None:
        """Assert every invariant of every part."""
        pastry = (
            self._tables,
            self._membership,
            self._repair,
            self._table_maintenance,
            self._detector,
            self._forwarding,
        )
        for part in (*pastry, self._requests, self._scribe):
            part.check()
        if self.is_active:
            self._presence.check()

    def _handle_direct(self, sender: Peer, message: Direct, _now: float) -> None:
        self._outbox.emit(MessageReceived(sender, message.payload))

    def _settle(self, now: float) -> None:
        """Act upon changes of tables and trees: reconsider roots, release held messages, watch new neighbours."""
        self._presence.follow_neighbours(now)
        revision = (self._membership.revision, self._scribe.revision)
        if self._settled_revision == revision:
            return
        have_tables_changed = self._settled_revision[0] != revision[0]
        self._settled_revision = revision
        if have_tables_changed:
            self._repair.tables_changed(now)
            self._table_maintenance.tables_changed(now)
            self._scribe.tables_changed(now)
            if self.is_active:
                self._become_settled(now)
        self._presence.look_soon(now)

    def _become_settled(self, now: float) -> None:
        if self._leaf_set_revision != self._tables.leaf_set_revision:
            self._leaf_set_revision = self._tables.leaf_set_revision
            self._outbox.emit(LeafSetChanged())
        self._forwarding.release(now)


def _checked_payload(payload: bytes) -> bytes:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise ProtocolError(f"a payload of {len(payload)} bytes is over the limit of {PAYLOAD_BYTES_MAX}")
    return payload
