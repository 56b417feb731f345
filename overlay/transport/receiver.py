"""Who hears what a transport has to tell."""

from typing import Protocol

from overlay.wire.peer import Peer


class Receiver(Protocol):
    """Whom the transport tells, synchronously and in the trio thread. What these raise ends the transport."""

    def received(self, peer: Peer, data: bytes) -> None:
        """A message came from this peer: short ones in the order they were sent, and long ones in theirs."""

    def unreachable(self, peer: Peer, reason: str) -> None:
        """The peer could not be dialled; what waited for it is gone. Once per attempt."""

    def disconnected(self, peer: Peer) -> None:
        """The last link to this peer broke without a goodbye; what was on its way or waited may be lost."""

    def restarted(self, peer: Peer) -> None:
        """The peer is another process than the one known so far. A link to the new one is up."""
