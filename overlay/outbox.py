"""What a node has decided and its shell has not yet fetched: messages to send and events."""

from collections.abc import Iterable

from overlay.events import Event
from overlay.messages import OverlayMessage, Ping, Pong
from overlay.peer import Peer
from overlay.statistics import Counters
from overlay.wire import Codec

CODEC: Codec[OverlayMessage] = Codec(OverlayMessage)

# Most of what idle nodes say to each other is one of these few messages: they are written and read once.
_ENCODED = {message: CODEC.encode(message) for message in (Ping(wants_digest=False), Ping(wants_digest=True), Pong())}
_DECODED = {data: message for message, data in _ENCODED.items()}
_SHORT_BYTES_MAX = max(map(len, _DECODED))


def decode(data: bytes) -> OverlayMessage:
    """Read one message; WireError when it is none."""
    message = _DECODED.get(bytes(data)) if len(data) <= _SHORT_BYTES_MAX else None
    return CODEC.decode(data) if message is None else message


class Outbox:
    """Shared by the parts of one node; every part speaks through it alone."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._messages: list[tuple[Peer, bytes]] = []
        self._events: list[Event] = []

    def send(self, peer: Peer, message: OverlayMessage) -> None:
        """Queue a message to one peer."""
        self.send_all((peer,), message)

    def send_all(self, peers: Iterable[Peer], message: OverlayMessage) -> None:
        """Queue one message to several peers; it is encoded once and its bytes are shared."""
        data = _ENCODED[message] if isinstance(message, Ping | Pong) else CODEC.encode(message)
        for peer in peers:
            self._messages.append((peer, data))
            self.counters.sent += 1
            self.counters.sent_bytes += len(data)

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
