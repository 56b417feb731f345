"""Multicast down the trees of Scribe.

Only the root disseminates; a payload published elsewhere is first routed to it. Every node passes a message on
to its children once, and raises it once if it is subscribed, whoever of its neighbours in the tree it got it
from: while a node changes parents both may send it. It takes none from others.
"""

from collections.abc import Mapping

from overlay.events import MulticastReceived
from overlay.ids import Id
from overlay.messages import HOPS_MAX, Disseminate, GroupLeave, Publish
from overlay.outbox import Outbox
from overlay.peer import Peer
from overlay.recent import RecentIds
from overlay.scribe.group import Group


class Multicast:
    """One node's part in multicasts, over the groups as Scribe keeps them."""

    def __init__(self, peer: Peer, groups: Mapping[Id, Group], outbox: Outbox) -> None:
        self._peer = peer
        self._groups = groups
        self._outbox = outbox
        self._recent = RecentIds()

    def publish(self, message: Publish) -> None:
        """At the root: send a multicast down the tree."""
        if not self._recent.add(message.message_id):
            self._outbox.counters.duplicates += 1
        elif message.group not in self._groups:
            self._outbox.counters.dropped += 1
        else:
            self._spread(self._groups[message.group], message, hops=0, source=self._peer)

    def handle_disseminate(self, sender: Peer, message: Disseminate, _now: float) -> None:
        """Raise a multicast and pass it on; tell a sender that is not the parent so."""
        group = self._groups.get(message.group)
        if group is None or not (group.is_parent(sender) or group.is_candidate(sender)):
            self._outbox.send(sender, GroupLeave(group=message.group))
        if group is None or not group.may_disseminate(sender) or message.hops >= HOPS_MAX:
            self._outbox.counters.refused += 1
        elif not self._recent.add(message.message_id):
            self._outbox.counters.duplicates += 1
        else:
            self._spread(group, message, hops=message.hops, source=sender)

    def _spread(self, group: Group, message: Publish | Disseminate, hops: int, source: Peer) -> None:
        receivers = [child for child in group.children.values() if child.node_id != source.node_id]
        if receivers:
            onward = Disseminate(message_id=message.message_id, group=group.key, hops=hops + 1, payload=message.payload)
            self._outbox.send_all(receivers, onward)
        if group.subscribed:
            self._outbox.emit(MulticastReceived(group.key, message.payload))
