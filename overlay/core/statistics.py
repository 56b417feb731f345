"""Counters of one node."""

from dataclasses import dataclass

from overlay.wire.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counters of a node since it was made: numbers of occurrences, except for the bytes."""

    sent: int
    """Messages handed to the transport."""
    sent_bytes: int
    sent_join: int
    """Sent messages and bytes by purpose; see `Traffic`."""
    sent_join_bytes: int
    sent_detector: int
    sent_detector_bytes: int
    sent_repair: int
    sent_repair_bytes: int
    sent_tree: int
    sent_tree_bytes: int
    sent_route: int
    sent_route_bytes: int
    sent_multicast: int
    sent_multicast_bytes: int
    sent_direct: int
    sent_direct_bytes: int
    received: int
    """Messages taken from the transport, whether handled or refused."""
    received_bytes: int
    join_messages: int
    """Messages of `sent` and `received` that belong to this node's own joins: requests, replies, probes, answers,
    announcements.
    """
    malformed: int
    """Received bytes that are not a message."""
    refused: int
    """Messages that violate the protocol or exceed a limit."""
    duplicates: int
    """Messages seen before, by message id."""
    dropped: int
    """Payloads dropped: no room to hold them, a group without a tree, or no hop that acknowledged them."""
    missed: int
    """Multicasts given up at a member because no reachable node has them any more."""
    routed: int
    """Routed messages forwarded towards their key."""
    delivered: int
    """Routed messages delivered here."""
    delivered_hops: int
    """Sum of the hops of messages delivered here."""
    stopped: int
    """Routed messages that this node's owner stopped (`on_forward` returned None)."""
    rerouted: int
    """Routed messages sent again because their hop failed or did not acknowledge them."""
    unguarded: int
    """Routed messages no longer guarded by an acknowledgement because too many were in flight."""
    suspected: int
    """Times a peer was suspected."""
    refuted: int
    """Times this node was notified that it is suspected."""
    failed: int
    """Times a peer was considered failed."""
    removed: int
    """Times a suspicion was not refuted in time: the peer's membership ended."""
    returned: int
    """Times a failed or departed peer was heard from again."""


class Counters:
    """Mutable form of `Statistics`."""

    __slots__ = (
        "_bytes",
        "_messages",
        *(name for name in Statistics.__dataclass_fields__ if not name.startswith("sent")),
    )

    def __init__(self) -> None:
        self._messages = dict.fromkeys(Traffic, 0)
        self._bytes = dict.fromkeys(Traffic, 0)
        self.received = self.received_bytes = self.join_messages = 0
        self.malformed = self.refused = self.duplicates = self.dropped = self.missed = 0
        self.routed = self.delivered = self.delivered_hops = 0
        self.stopped = self.rerouted = self.unguarded = self.failed = self.returned = 0
        self.suspected = self.refuted = self.removed = 0

    def count_sent(self, traffic: Traffic, messages: int, size: int) -> None:
        """Count messages handed to the transport, and their bytes."""
        self._messages[traffic] += messages
        self._bytes[traffic] += size

    def snapshot(self) -> Statistics:
        """Return the counts so far."""
        sent = {f"sent_{traffic.value}": count for traffic, count in self._messages.items()}
        sent |= {f"sent_{traffic.value}_bytes": count for traffic, count in self._bytes.items()}
        others = {name: getattr(self, name) for name in self.__slots__ if not name.startswith("_")}
        return Statistics(sent=sum(self._messages.values()), sent_bytes=sum(self._bytes.values()), **sent, **others)
