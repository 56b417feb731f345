"""Routed messages that came while their node could not say whose they are, in bounded room."""

from overlay.core.outbox import Outbox
from overlay.wire.codec import WIRE_BYTES_MAX
from overlay.wire.messages import JoinRequest, Publish, Route
from overlay.wire.peer import Peer

HELD_MESSAGES_MAX = 1024
HELD_BYTES_MAX = WIRE_BYTES_MAX

Routed = JoinRequest | Route | Publish


class HeldMessages:
    """Keeps messages in the order they came, one request of each joiner; what finds no room is counted and gone."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._messages: list[tuple[Peer, Routed]] = []
        self._bytes = 0
        self._joiners: set[int] = set()

    def keep(self, sender: Peer, message: Routed, payload_bytes: int) -> bool:
        """Keep a message if there is room for it, and say whether there was."""
        if len(self._messages) >= HELD_MESSAGES_MAX or self._bytes + payload_bytes > HELD_BYTES_MAX:
            self._outbox.counters.dropped += 1
            return False
        if isinstance(message, JoinRequest):
            if message.joiner.node_id in self._joiners:
                self._outbox.counters.duplicates += 1
                return True
            self._joiners.add(message.joiner.node_id)
        self._messages.append((sender, message))
        self._bytes += payload_bytes
        return True

    def drain(self) -> list[tuple[Peer, Routed]]:
        """Return what was kept, and keep it no longer."""
        messages, self._messages, self._bytes = self._messages, [], 0
        self._joiners.clear()
        return messages

    def clear(self) -> None:
        """Give up what was kept."""
        self._outbox.counters.dropped += len(self.drain())

    def __len__(self) -> int:
        return len(self._messages)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._messages) <= HELD_MESSAGES_MAX
        assert self._bytes <= HELD_BYTES_MAX
        assert len(self._joiners) <= len(self._messages)
