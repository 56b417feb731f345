"""The interface through which a transport reports messages and lost peers."""

from typing import Protocol

from overlay.wire.peer import Peer


class Receiver(Protocol):
    """Called synchronously in the trio thread. An exception raised here ends the transport."""

    def received(self, peer: Peer, data: bytes) -> None:
        """Take a message from this peer: short ones arrive in order, and long ones in theirs."""

    def unreachable(self, peer: Peer, reason: str) -> None:
        """Note that the peer could not be dialled and its queued messages are dropped. Once per attempt."""

    def disconnected(self, peer: Peer) -> None:
        """Note that the last link to this peer broke without a goodbye; messages sent or queued may be lost."""

    def restarted(self, peer: Peer) -> None:
        """Note that the peer is another process than before. A link to the new one is up."""
