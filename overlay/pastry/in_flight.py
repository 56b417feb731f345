"""Routed messages that were handed to a hop which may have died before it passed them on."""

from collections import deque
from dataclasses import dataclass

from overlay.messages import Publish, Route

IN_FLIGHT_S = 12.0
CROSSING_S = 1.0
"""How long before it is heard a peer may have spoken: what was sent to it within that time may not have come."""
IN_FLIGHT_MAX = 256
IN_FLIGHT_BYTES_MAX = 4 << 20


@dataclass(frozen=True, slots=True)
class _Sent:
    hop_id: int
    at: float
    message: Route | Publish


class InFlight:
    """Keeps what was passed on for a while, in bounded room: the oldest goes first.

    Should the hop turn out to have failed, what it was given since it was last heard of can be sent another
    way. It may have passed it on all the same: receivers know a message they have seen by its id.
    """

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque()
        self._bytes = 0

    def add(self, hop_id: int, message: Route | Publish, now: float) -> None:
        """Keep a message that was just passed on."""
        self._sent.append(_Sent(hop_id, now, message))
        self._bytes += len(message.payload)
        while (
            len(self._sent) > IN_FLIGHT_MAX
            or self._bytes > IN_FLIGHT_BYTES_MAX
            or (self._sent and self._sent[0].at < now - IN_FLIGHT_S)
        ):
            self._bytes -= len(self._sent.popleft().message.payload)

    def take(self, hop_id: int, heard_at: float, now: float) -> list[Route | Publish]:
        """Return, in order, what a hop was given since it was heard of last, and keep it no longer."""
        if not any(sent.hop_id == hop_id for sent in self._sent):
            return []
        taken = [sent for sent in self._sent if sent.hop_id == hop_id]
        self._sent = deque(sent for sent in self._sent if sent.hop_id != hop_id)
        self._bytes -= sum(len(sent.message.payload) for sent in taken)
        return [sent.message for sent in taken if sent.at >= max(heard_at - CROSSING_S, now - IN_FLIGHT_S)]

    def clear(self) -> None:
        """Keep nothing."""
        self._sent.clear()
        self._bytes = 0

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._sent) <= IN_FLIGHT_MAX
        assert self._bytes == sum(len(sent.message.payload) for sent in self._sent) <= IN_FLIGHT_BYTES_MAX
