"""How much a link is used, as somebody sees it who looks now and then."""

import math

from overlay.transport.link.link import Link

HALF_LIFE_S = 60.0


class Steady:
    """Since when something has been what it is.

    >>> steady = Steady("a", 1.0)
    >>> steady.for_s("a", 3.0), steady.for_s("b", 4.0)
    (2.0, 0.0)
    """

    __slots__ = ("_since", "_value")

    def __init__(self, value: object, now: float) -> None:
        self._value = value
        self._since = now

    def for_s(self, value: object, now: float) -> float:
        """Return for how long it has been this value."""
        if value != self._value:
            self._value, self._since = value, now
        return now - self._since


class LinkUsage:
    """What the transport has seen of one link. The times are as exact as the looks are frequent."""

    __slots__ = ("_activity", "_bulk", "_link", "_looked_at", "_messages", "_sent", "_urgent", "_used", "rate")

    def __init__(self, link: Link, now: float) -> None:
        self._link = link
        self._activity, self._messages, self._sent = Steady(0, now), Steady(0, now), Steady(0, now)
        self._urgent, self._bulk = Steady(None, now), Steady(None, now)
        self._used = 0
        self._looked_at = now
        self.rate = 0.0
        """Messages, those of a minute ago counted half: the least used link is the one where it is least."""

    def look(self, now: float) -> None:
        """Bring the rate up to now."""
        messages = self._link.messages
        self.rate = self.rate * 0.5 ** ((now - self._looked_at) / HALF_LIFE_S) + messages - self._used
        self._used, self._looked_at = messages, now

    def quiet_s(self, now: float) -> float:
        """Return how long nothing at all has gone over the link."""
        return self._activity.for_s(self._link.activity, now)

    def idle_s(self, now: float) -> float:
        """Return how long no message, nor a part of one, has gone over the link."""
        return self._messages.for_s((self._link.messages, self._link.pieces), now)

    def unused_here_s(self, now: float) -> float:
        """Return how long this side has sent no message; for ever if it never has."""
        sent = self._link.outgoing.urgent_written + self._link.outgoing.bulk_written
        return self._sent.for_s(sent, now) if sent else math.inf

    def stuck_s(self, now: float) -> float:
        """Return how long the peer has taken nothing of what waits for it on one of the streams."""
        outgoing = self._link.outgoing
        if outgoing.queues is None:
            return 0.0
        written = self._link.activity if self._link.is_mid_frame else 0
        urgent = (outgoing.urgent_written, bool(outgoing.queues.urgent), written)
        bulk = (outgoing.bulk_written, bool(outgoing.queues.bulk), written)
        urgent_s, bulk_s = self._urgent.for_s(urgent, now), self._bulk.for_s(bulk, now)
        return max(urgent_s if outgoing.queues.urgent else 0.0, bulk_s if outgoing.queues.bulk else 0.0)
