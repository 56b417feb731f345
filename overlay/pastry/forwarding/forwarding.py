"""Forwards messages from hop to hop towards a key, and handles them at its owner.

Theory. Each hop acknowledges a message it has taken over: delivered, held or about to be forwarded. A hop that does not
acknowledge is pinged, and the message is sent by another route (`PeerTables.detour`), up to TRIES_MAX times. A route
ends only at a node that owns its key: while a closer peer is still a member, a message waits for that peer's answer or
for the end of its membership.
"""

from collections.abc import Callable

import msgspec

from overlay.core.events import Delivered
from overlay.core.outbox import Outbox
from overlay.core.recent_ids import RecentIds
from overlay.pastry.detection.watch import Watch
from overlay.pastry.forwarding.held import HeldMessages
from overlay.pastry.forwarding.in_flight import TRIES_MAX, InFlight, Routed, Sent, payload_bytes
from overlay.pastry.forwarding.requests import RequestTable
from overlay.pastry.membership.membership import Membership
from overlay.pastry.membership.table_maintenance import TableMaintenance
from overlay.pastry.tables.tables import PeerTables
from overlay.wire.ids import Id
from overlay.wire.messages import HOPS_MAX, HopAck, JoinRequest, Publish, Route
from overlay.wire.peer import Peer

OnForward = Callable[[Id, bytes, Peer], bytes | None]
"""Callback of the owner for a message about to be forwarded: takes its key, its payload and the next hop. Returns the
payload to forward, changed or not, or None to stop the message here.
"""

OnPublish = Callable[[Publish, float], None]
"""Called at the root with a multicast to send down its tree."""


class Forwarding:
    """Routes one node's messages. Holds them while the node is not active or may not own a key."""

    def __init__(
        self,
        tables: PeerTables,
        membership: Membership,
        table_maintenance: TableMaintenance,
        requests: RequestTable,
        watch: Watch,
        outbox: Outbox,
        on_forward: OnForward | None,
        on_publish: OnPublish,
    ) -> None:
        self._tables = tables
        self._membership = membership
        self._table_maintenance = table_maintenance
        self._requests = requests
        self._on_forward = on_forward
        self._watch = watch
        self._on_publish = on_publish
        self._outbox = outbox
        self._recent = RecentIds()
        self._held = HeldMessages(outbox)
        self._in_flight = InFlight(outbox)

    def handle_join_request(self, sender: Peer, message: JoinRequest, now: float) -> None:
        """Answer a joiner, or forward its request."""
        if not self._membership.is_active:
            self._hold(sender, message)
            return
        self._acknowledge(sender, message)
        gathered = self._membership.gather(message, now)
        if gathered is None:
            return
        hop = self._tables.next_hop(message.joiner.node_id, avoid=message.joiner.node_id)
        if hop is None:
            self._membership.welcome(gathered)
        else:
            self._pass_on(hop, gathered, now)

    def handle_route(self, sender: Peer, message: Route, now: float) -> None:
        """Deliver a payload, once, if this node owns its key; otherwise forward it."""
        if not self._is_mine(sender, message, now):
            return
        if message.wants_response:
            self._requests.arrived(message)
        elif self._recent.add(message.message_id):
            self._outbox.counters.delivered += 1
            self._outbox.counters.delivered_hops += message.hops
            self._outbox.emit(Delivered(message.key, message.payload, message.origin))
        else:
            self._outbox.counters.duplicates += 1

    def _forward(self, hop: Peer, message: Route, now: float) -> None:
        payload = message.payload if self._on_forward is None else self._on_forward(message.key, message.payload, hop)
        if payload is None:
            self._outbox.counters.stopped += 1
            return
        if payload is not message.payload:
            message = msgspec.structs.replace(message, payload=payload)
        self._pass_on(hop, message, now)

    def handle_publish(self, sender: Peer, message: Publish, now: float) -> None:
        """Send a multicast down its tree if this node is the root; otherwise forward it."""
        if self._is_mine(sender, message, now):
            self._on_publish(message, now)

    def _is_mine(self, sender: Peer, message: Route | Publish, now: float) -> bool:
        """Say whether this node owns the message's key; if not, hold or forward the message."""
        key = _key(message)
        hop = self._tables.next_hop(key) if self._membership.is_active else None
        if hop is not None:
            self._acknowledge(sender, message)
            if isinstance(message, Route):
                self._forward(hop, message, now)
            else:
                self._pass_on(hop, message, now)
            return False
        if not self._membership.owns(key):
            self._hold(sender, message)
            return False
        self._acknowledge(sender, message)
        return True

    def _hold(self, sender: Peer, message: Routed) -> None:
        if self._held.keep(sender, message, payload_bytes(message)):
            self._acknowledge(sender, message)

    def _acknowledge(self, sender: Peer, message: Routed) -> None:
        if sender.node_id != self._membership.peer.node_id:
            self._outbox.send(sender, HopAck(message_id=message.message_id))

    def handle_hop_ack(self, sender: Peer, message: HopAck, now: float) -> None:
        """Note that a hop has taken over a message."""
        self._in_flight.acknowledged(sender.node_id, message.message_id, now)

    def release(self, now: float) -> None:
        """Handle held messages again: the node is active, or its neighbours or leases have changed."""
        for _, message in self._held.drain():
            self._handle(message, now)

    def _handle(self, message: Routed, now: float) -> None:
        """Handle a message as if it originated here."""
        own = self._membership.peer
        if isinstance(message, Route):
            self.handle_route(own, message, now)
        elif isinstance(message, Publish):
            self.handle_publish(own, message, now)
        else:
            self.handle_join_request(own, message, now)

    def reroute(self, hop_id: int, now: float) -> None:
        """Reroute messages that a failed hop has not acknowledged."""
        for sent in self._in_flight.take_hop(hop_id):
            self._send_again(sent, now)

    def next_timer(self) -> float | None:
        """Return when `handle_timer` is due."""
        return self._in_flight.next_timer()

    def handle_timer(self, now: float) -> None:
        """Reroute messages that were not acknowledged in time, and ping their hops."""
        due_at = self._in_flight.next_timer()
        if due_at is None or now < due_at:
            return
        for sent in self._in_flight.take_due(now):
            known = self._tables.known(sent.hop_id)
            if known is not None:
                self._watch.ask(known, now)
            self._send_again(sent, now)

    def _send_again(self, sent: Sent, now: float) -> None:
        if sent.tries >= TRIES_MAX:
            self._outbox.counters.dropped += 1
            return
        self._outbox.counters.rerouted += 1
        message = sent.message
        avoid = message.joiner.node_id if isinstance(message, JoinRequest) else None
        hop = self._tables.detour(_key(message), sent.tried | {sent.hop_id}, avoid=avoid)
        if hop is not None and self._membership.is_active:
            self._pass_on(hop, message, now, before=sent)
        elif isinstance(message, JoinRequest):
            self._membership.welcome(message)
        else:
            self._handle(message, now)

    def _pass_on(self, hop: Peer, message: Routed, now: float, before: Sent | None = None) -> None:
        if message.hops >= HOPS_MAX:
            self._outbox.counters.refused += 1
            return
        if self._tables.lacks_cell(_key(message)):
            self._table_maintenance.row_wanted(_key(message), hop, now)
        self._outbox.counters.routed += 1
        self._in_flight.add(hop.node_id, message, now, before)
        self._outbox.send(hop, msgspec.structs.replace(message, hops=message.hops + 1))

    def clear(self) -> None:
        """Drop all messages."""
        self._held.clear()
        self._in_flight.clear()

    def check(self) -> None:
        """Assert every invariant."""
        self._held.check()
        self._in_flight.check()


def _key(message: Routed) -> int:
    """Return the key a message is routed to."""
    if isinstance(message, JoinRequest):
        return message.joiner.node_id
    return message.key if isinstance(message, Route) else message.group
