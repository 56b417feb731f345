"""The bounds of a transport."""

from dataclasses import dataclass

from overlay.transport.link.assembly import ROOM_BYTES
from overlay.transport.link.send_queues import ALL_BYTES_MAX, BYTES_MAX, MESSAGES_MAX


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """Seconds, counts and bytes; the defaults are meant for production."""

    handshake_s: float = 5.0
    """Time limit from the first byte to the peer's hello."""
    strangers: int = 64
    """Most inbound connections that have not said hello yet."""
    stranger_safe_s: float = 1.0
    """Time for which an inbound connection keeps its slot although others want it."""
    connections: int = 1024
    """Most connections: links that are up, inbound ones without a hello, and open dials."""
    spared_s: float = 5.0
    """Idle time after which the least used link may be closed for a new one when there are too many."""
    idle_s: float = 60.0
    """Idle time after which a link is closed unless the other side needs it."""
    stall_s: float = 30.0
    """Time after which a peer that takes none of its queued data loses its link."""
    goodbye_s: float = 5.0
    """Time limit for the answer to a goodbye, or to the question whether a link is needed."""
    sweep_s: float = 1.0
    """Period of checking all links."""
    queue_messages: int = MESSAGES_MAX
    """Most messages queued for one peer on one stream."""
    queue_bytes: int = BYTES_MAX
    all_queues_bytes: int = ALL_BYTES_MAX
    all_assemblies_bytes: int = ROOM_BYTES
    """Most bytes of long payloads being received at a time, from all peers."""
