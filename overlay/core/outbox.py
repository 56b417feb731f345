"""Queues a node's messages and events until its shell fetches them."""

from collections.abc import Iterable

from overlay.core.events import Event
from overlay.core.statistics import Counters
from overlay.wire.codec import Codec
from overlay.wire.messages import Direct, OverlayMessage
from overlay.wire.peer import Peer
from overlay.wire.traffic import TRAFFIC

CODEC: Codec[OverlayMessage] = Codec(OverlayMessage)
_DIRECT = CODEC.encode(Direct(payload=b""))[:2]


def keeps_order(data: bytes) -> bool:
    """Say whether a message is a payload from owner to owner: these must arrive in the order they were sent."""
    return data.startswith(_DIRECT)


class Outbox:
    """The outgoing queues that all parts of one node share."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._messages: list[tuple[Peer, bytes]] = []
        self._events: list[Event] = []

    def send(self, peer: Peer, message: OverlayMessage) -> None:
        """Queue a message to one peer."""
        data = CODEC.encode(message)
        self._messages.append((peer, data))
        self.counters.count_sent(TRAFFIC[type(message)], 1, len(data))

    def send_all(self, peers: Iterable[Peer], message: OverlayMessage) -> None:
        """Queue one message to several peers; it is encoded once and its bytes are shared."""
        data = CODEC.encode(message)
        before = len(self._messages)
        self._messages.extend((peer, data) for peer in peers)
        count = len(self._messages) - before
        self.counters.count_sent(TRAFFIC[type(message)], count, count * len(data))

    def emit(self, event: Event) -> None:
        """Queue an event."""
        self._events.append(event)

    def drain_messages(self) -> list[tuple[Peer, bytes]]:
        """Return the queued messages in order and forget them."""
        messages, self._messages = self._messages, []
        return messages

    def drain_events(self) -> list[Event]:
        """Return the queued events in order and forget them."""
        events, self._events = self._events, []
        return events
