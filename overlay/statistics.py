"""Counters of one node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a node has done since it was made. Counts, but for the bytes."""

    sent: int
    """Messages handed to the transport."""
    sent_bytes: int
    received: int
    """Messages taken from the transport, whatever became of them."""
    received_bytes: int
    malformed: int
    """Received bytes that were no message."""
    refused: int
    """Messages against the protocol or over a limit."""
    duplicates: int
    """Messages seen before, by message id."""
    dropped: int
    """Payloads given up: no room to hold them before the node was active, or a group without a tree."""
    routed: int
    """Routed messages passed on towards their key."""
    delivered: int
    """Routed messages delivered here."""
    delivered_hops: int
    """Hops those took, summed."""
    rerouted: int
    """Routed messages sent again, as the hop they were given to has failed."""
    failed: int
    """Times a peer was taken for failed."""
    returned: int
    """Times a peer that had failed or left was heard of again."""


class Counters:
    """The same counters while they count."""

    __slots__ = tuple(Statistics.__dataclass_fields__)

    def __init__(self) -> None:
        self.sent = self.sent_bytes = self.received = self.received_bytes = 0
        self.malformed = self.refused = self.duplicates = self.dropped = 0
        self.routed = self.delivered = self.delivered_hops = 0
        self.rerouted = self.failed = self.returned = 0

    def snapshot(self) -> Statistics:
        """Return the counts so far."""
        return Statistics(**{name: getattr(self, name) for name in self.__slots__})
