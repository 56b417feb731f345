"""The bounds of a transport."""

from dataclasses import dataclass

from overlay.transport.link.assembly import ROOM_BYTES
from overlay.transport.link.send_queues import ALL_BYTES_MAX, BYTES_MAX, MESSAGES_MAX


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Seconds, counts and bytes; the defaults are meant for production."""

    handshake_s: float = 5.0
    """From the first byte to the peer's hello."""
    strangers: int = 64
    """Inbound connections that have not yet said hello."""
    stranger_safe_s: float = 1.0
    """A stranger keeps its place for so long even when others want it."""
    connections: int = 1024
    """Links that are up, strangers, dials under way."""
    spared_s: float = 5.0
    """Past that number the least used link gives way to a new one, if it has been idle for so long."""
    idle_s: float = 60.0
    """A link without messages is closed after so long, unless the other side needs it."""
    stall_s: float = 30.0
    """A peer that takes nothing of what waits for it for so long loses its link."""
    goodbye_s: float = 5.0
    """How long the answer to a goodbye may take, or to whether a link is needed."""
    sweep_s: float = 1.0
    """How often links are looked at."""
    queue_messages: int = MESSAGES_MAX
    """What may wait for one peer on one stream."""
    queue_bytes: int = BYTES_MAX
    all_queues_bytes: int = ALL_BYTES_MAX
    all_assemblies_bytes: int = ROOM_BYTES
    """The length of the long payloads that come in at a time, from all peers."""
