"""What a transport tells about itself: plain data."""

from collections.abc import Mapping
from dataclasses import dataclass

from overlay.wire.peer import Peer


@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """What a transport has done since it was made; the first four numbers are of now."""

    connections: int
    """Links that are up."""
    strangers: int
    """Inbound connections that have not yet said who they are."""
    waiting_bytes: int
    """In the queues of all peers."""
    assembling_bytes: int
    """The length of the long messages that are coming in and need room."""
    frames_in: int
    frames_out: int
    bytes_in: int
    """Of frames, without what TLS adds."""
    bytes_out: int
    dropped: int
    """Messages given up: a full queue, a peer that could not be reached, a link that broke."""
    dialled: int
    """Attempts to connect."""
    broken: int
    """Links that ended without a goodbye."""
    refused: Mapping[str, int]
    """Connections refused here, by reason."""
    unreachable: Mapping[str, int]
    """Dials that failed, by reason."""


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """A link that is up."""

    peer: Peer
    name: str
    incarnation: int
