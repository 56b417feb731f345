"""Measures the use of a link by periodic sampling."""

import math

from overlay.transport.link.link import Link

HALF_LIFE_S = 60.0


class Steady:
    """Measures how long a value has been unchanged.

    >>> steady = Steady("a", 1.0)
    >>> steady.for_s("a", 3.0), steady.for_s("b", 4.0)
    (2.0, 0.0)
    """

    __slots__ = ("_since", "_value")

    def __init__(self, value: object, now: float) -> None:
        self._value = value
        self._since = now

    def for_s(self, value: object, now: float) -> float:
        """Return how long the value has been unchanged."""
        if value != self._value:
            self._value, self._since = value, now
        return now - self._since


class LinkUsage:
    """Use of one link. The times are as exact as the samples are frequent."""

    __slots__ = ("_activity", "_bulk", "_link", "_messages", "_sent", "_updated_at", "_urgent", "_used", "rate")

    def __init__(self, link: Link, now: float) -> None:
        self._link = link
        self._activity, self._messages, self._sent = Steady(0, now), Steady(0, now), Steady(0, now)
        self._urgent, self._bulk = Steady(None, now), Steady(None, now)
        self._used = 0
        self._updated_at = now
        self.rate = 0.0
        """Messages with a half-life of HALF_LIFE_S: the least used link has the lowest rate."""

    def update(self, now: float) -> None:
        """Update the rate."""
        messages = self._link.messages
        self.rate = self.rate * 0.5 ** ((now - self._updated_at) / HALF_LIFE_S) + messages - self._used
        self._used, self._updated_at = messages, now

    def quiet_s(self, now: float) -> float:
        """Return how long no bytes have gone over the link."""
        return self._activity.for_s(self._link.activity, now)

    def idle_s(self, now: float) -> float:
        """Return how long no message or piece has gone over the link."""
        return self._messages.for_s((self._link.messages, self._link.pieces), now)

    def unused_here_s(self, now: float) -> float:
        """Return how long this side has sent no message; infinity if it never has."""
        sent = self._link.outgoing.urgent_written + self._link.outgoing.bulk_written
        return self._sent.for_s(sent, now) if sent else math.inf

    def stuck_s(self, now: float) -> float:
        """Return how long the peer has taken nothing of the queued data of one of the streams."""
        outgoing = self._link.outgoing
        if outgoing.queues is None:
            return 0.0
        written = self._link.activity if self._link.is_mid_frame else 0
        urgent = (outgoing.urgent_written, bool(outgoing.queues.urgent), written)
        bulk = (outgoing.bulk_written, bool(outgoing.queues.bulk), written)
        urgent_s, bulk_s = self._urgent.for_s(urgent, now), self._bulk.for_s(bulk, now)
        return max(urgent_s if outgoing.queues.urgent else 0.0, bulk_s if outgoing.queues.bulk else 0.0)
