"""Statistics of a transport: plain data."""

from collections.abc import Mapping
from dataclasses import dataclass

from overlay.wire.peer import Peer


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """Counters since the transport was made; the first four fields are current values."""

    connections: int
    """Links that are up."""
    strangers: int
    """Inbound connections that have not said hello yet."""
    waiting_bytes: int
    """Bytes in the queues of all peers."""
    assembling_bytes: int
    """Total length of the long messages being received that need room."""
    frames_in: int
    frames_out: int
    bytes_in: int
    """Bytes of frames, without TLS overhead."""
    bytes_out: int
    dropped: int
    """Messages dropped: a full queue, an unreachable peer, a broken link."""
    dialled: int
    """Attempts to connect."""
    broken: int
    """Links that ended without a goodbye."""
    refused: Mapping[str, int]
    """Connections refused here, by reason."""
    twins: Mapping[str, int]
    """Times that two agents were seen to have one certificate, by their name and addresses."""
    unreachable: Mapping[str, int]
    """Failed dials, by reason."""


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """A link that is up."""

    peer: Peer
    name: str
    incarnation: int
