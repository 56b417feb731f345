"""Holds routed messages, within a bound, while the node cannot tell who owns their keys."""

from overlay.core.outbox import Outbox
from overlay.wire.codec import WIRE_BYTES_MAX
from overlay.wire.messages import JoinRequest, Publish, Route
from overlay.wire.peer import Peer

HELD_MESSAGES_MAX = 1024
HELD_BYTES_MAX = WIRE_BYTES_MAX

Routed = JoinRequest | Route | Publish


class HeldMessages:
    """Keeps messages in order of arrival, one request per joiner; messages over the bound are counted and dropped."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._messages: list[tuple[Peer, Routed]] = []
        self._bytes = 0
        self._joiners: set[int] = set()

    def keep(self, sender: Peer, message: Routed, payload_bytes: int) -> bool:
        """Keep a message if there is room for it; return whether there was."""
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
        """Return the kept messages and forget them."""
        messages, self._messages, self._bytes = self._messages, [], 0
        self._joiners.clear()
        return messages

    def clear(self) -> None:
        """Drop the kept messages."""
        self._outbox.counters.dropped += len(self.drain())

    def __len__(self) -> int:
        return len(self._messages)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._messages) <= HELD_MESSAGES_MAX
        assert self._bytes <= HELD_BYTES_MAX
        assert len(self._joiners) <= len(self._messages)
