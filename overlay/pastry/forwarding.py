"""Messages that are passed on from hop to hop towards a key, and what is done with them at its end."""

from collections.abc import Callable

import msgspec

from overlay.events import Delivered
from overlay.ids import Id
from overlay.messages import HOPS_MAX, JoinRequest, Publish, Route
from overlay.outbox import Outbox
from overlay.pastry.held import Held
from overlay.pastry.in_flight import InFlight
from overlay.pastry.membership import Membership
from overlay.pastry.requests import Requests
from overlay.pastry.survey import Survey
from overlay.pastry.tables import Tables
from overlay.pastry.watch import Watch
from overlay.peer import Peer
from overlay.recent import RecentIds
from overlay.scribe.multicast import Multicast

OnForward = Callable[[Id, bytes, Peer], bytes | None]
"""The owner's word on a message that is about to be passed on: its key, its payload and the next hop. It returns the
payload to pass on, the same or another, or None to let the message end here."""


class Forwarding:
    """One node's part in routing. Until the node is active it knows too little, and holds what comes."""

    def __init__(
        self,
        tables: Tables,
        membership: Membership,
        survey: Survey,
        requests: Requests,
        watch: Watch,
        multicast: Multicast,
        outbox: Outbox,
        on_forward: OnForward | None,
    ) -> None:
        self._tables = tables
        self._membership = membership
        self._survey = survey
        self._requests = requests
        self._on_forward = on_forward
        self._watch = watch
        self._multicast = multicast
        self._outbox = outbox
        self._recent = RecentIds()
        self._held = Held(outbox)
        self._in_flight = InFlight()

    def handle_join_request(self, sender: Peer, message: JoinRequest, now: float) -> None:
        """Answer a joiner, or pass its request on."""
        if self._membership.is_active:
            self._membership.handle_join_request(sender, message, now)
        else:
            self._held.keep(sender, message, 0)

    def handle_route(self, sender: Peer, message: Route, now: float) -> None:
        """Deliver a payload if this node is closest to its key, once; else pass it on."""
        if not self._membership.is_active:
            self._held.keep(sender, message, len(message.payload))
            return
        hop = self._membership.next_hop(message.key)
        if hop is not None:
            self._forward(hop, message, now)
        elif message.wants_response:
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
        self._pass_on(hop, message.key, message, now)

    def handle_publish(self, sender: Peer, message: Publish, now: float) -> None:
        """Send a multicast down its tree if this node is the root; else pass it on."""
        if not self._membership.is_active:
            self._held.keep(sender, message, len(message.payload))
            return
        hop = self._membership.next_hop(message.group)
        if hop is not None:
            self._pass_on(hop, message.group, message, now)
        else:
            self._multicast.publish(message, now)

    def release(self, now: float) -> None:
        """Now that the node is active: look again at what was held."""
        handlers = {
            JoinRequest: self.handle_join_request,
            Route: self.handle_route,
            Publish: self.handle_publish,
        }
        for sender, message in self._held.drain():
            handlers[type(message)](sender, message, now)  # type: ignore[operator]

    def reroute(self, hop_id: int, heard_at: float, now: float) -> None:
        """Send another way what a failed hop was given since it was last heard of."""
        for message in self._in_flight.take(hop_id, heard_at, now):
            self._outbox.counters.rerouted += 1
            if isinstance(message, Route):
                self.handle_route(self._membership.peer, message, now)
            else:
                self.handle_publish(self._membership.peer, message, now)

    def clear(self) -> None:
        """Give up what was held."""
        self._held.clear()
        self._in_flight.clear()

    def _pass_on(self, hop: Peer, key: int, message: Route | Publish, now: float) -> None:
        if message.hops >= HOPS_MAX:
            self._outbox.counters.refused += 1
            return
        if self._tables.lacks_cell(key):
            self._survey.row_wanted(key, hop, now)
        self._outbox.counters.routed += 1
        self._watch.rely_on(hop, now)
        self._in_flight.add(hop.node_id, message, now)
        self._outbox.send(hop, msgspec.structs.replace(message, hops=message.hops + 1))

    def check(self) -> None:
        """Assert every invariant."""
        self._held.check()
        self._in_flight.check()
        assert not self._held or not self._membership.is_active
