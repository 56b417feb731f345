"""Tracks forwarded messages that the next hop has not acknowledged yet.

Theory. A hop that takes over a message acknowledges it (HopAck) and is responsible for it from then on. Until then the
message is kept; when the acknowledgement is late, the message is sent again, by another route if there is one. The
timeout follows from recent acknowledgement times and grows from try to try. The hop may have taken over the message all
the same: receivers recognise a message they have seen by its id.
"""

from dataclasses import dataclass

from overlay.core.outbox import Outbox
from overlay.wire.messages import JoinRequest, Publish, Route

ACKNOWLEDGE_S = 0.3
ROUND_TRIPS = 4.0
BACKOFF = 1.5
PAUSE_MAX_S = 2.0
TRIES_MAX = 10
SMOOTHING = 0.125
IN_FLIGHT_MAX = 1024
IN_FLIGHT_BYTES_MAX = 16 << 20

Routed = JoinRequest | Route | Publish


def payload_bytes(message: Routed) -> int:
    """Return the size of a message's variable part."""
    return 0 if isinstance(message, JoinRequest) else len(message.payload)


@dataclass(slots=True)
class Sent:
    """A message, the hop it was last sent to, and earlier hops that did not acknowledge it."""

    message: Routed
    hop_id: int
    at: float
    due_at: float
    tried: frozenset[int]
    tries: int


class InFlight:
    """Keeps forwarded messages until they are acknowledged, within a bound; messages beyond it are not guarded."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._sent: dict[int, Sent] = {}
        self._bytes = 0
        self._round_trip_s = 0.0
        self._due_at: float | None = None

    def add(self, hop_id: int, message: Routed, now: float, before: Sent | None = None) -> None:
        """Wait for the acknowledgement of a message just sent, for the first time or again."""
        self._remove(message.message_id)
        tries = 1 if before is None else before.tries + 1
        pause_s = max(ACKNOWLEDGE_S, ROUND_TRIPS * self._round_trip_s) * BACKOFF ** (tries - 1)
        due_at = now + min(PAUSE_MAX_S, pause_s)
        tried = frozenset() if before is None else before.tried | {before.hop_id}
        self._sent[message.message_id] = Sent(message, hop_id, now, due_at, tried, tries)
        self._bytes += payload_bytes(message)
        self._due_at = due_at if self._due_at is None else min(self._due_at, due_at)
        while len(self._sent) > IN_FLIGHT_MAX or self._bytes > IN_FLIGHT_BYTES_MAX:
            self._outbox.counters.unguarded += 1
            self._remove(next(iter(self._sent)))

    def acknowledged(self, hop_id: int, message_id: int, now: float) -> None:
        """Forget a message that a hop has taken over, whichever try it was."""
        sent = self._sent.get(message_id)
        if sent is None or (sent.hop_id != hop_id and hop_id not in sent.tried):
            return
        if sent.tries == 1:
            self._round_trip_s += SMOOTHING * (now - sent.at - self._round_trip_s)
        self._remove(message_id)

    def take_hop(self, hop_id: int) -> list[Sent]:
        """Return, in order, the messages last sent to a failed hop, and forget them."""
        return self._take([sent for sent in self._sent.values() if sent.hop_id == hop_id])

    def take_due(self, now: float) -> list[Sent]:
        """Return the messages whose acknowledgement is overdue, and forget them."""
        due = self._take([sent for sent in self._sent.values() if now >= sent.due_at])
        self._due_at = min((sent.due_at for sent in self._sent.values()), default=None)
        return due

    def next_timer(self) -> float | None:
        """Return when a message may be due."""
        return self._due_at

    def clear(self) -> None:
        """Forget all messages."""
        self._sent.clear()
        self._bytes = 0
        self._due_at = None

    def _take(self, taken: list[Sent]) -> list[Sent]:
        for sent in taken:
            self._remove(sent.message.message_id)
        return taken

    def _remove(self, message_id: int) -> None:
        sent = self._sent.pop(message_id, None)
        if sent is not None:
            self._bytes -= payload_bytes(sent.message)

    def __len__(self) -> int:
        return len(self._sent)

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._sent) <= IN_FLIGHT_MAX
        assert self._bytes == sum(payload_bytes(sent.message) for sent in self._sent.values()) <= IN_FLIGHT_BYTES_MAX
        assert all(message_id == sent.message.message_id for message_id, sent in self._sent.items())
        assert all(sent.tries <= TRIES_MAX for sent in self._sent.values())
        assert self._due_at is not None or not self._sent
