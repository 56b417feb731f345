"""The overlay: Pastry routing and Scribe trees between agents, as objects that do no input or output.

A `Node` is one agent's place in the overlay. `MemoryNetwork` joins nodes inside one process, `Simulator`
runs many of them against a virtual clock. Payloads are opaque bytes throughout.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from overlay.events import (
    Attached,
    ChildAdded,
    ChildRemoved,
    Delivered,
    EpochTaken,
    Event,
    Joined,
    LeafSetChanged,
    MessageReceived,
    MulticastAcknowledged,
    MulticastReceived,
    ParentChanged,
    PeerFailed,
    PeerLeft,
    PeerRemoved,
    Requested,
    RequestFailed,
    Responded,
)
from overlay.node import PAYLOAD_BYTES_MAX, Node
from overlay.outbox import keeps_order
from overlay.pastry.forwarding.forwarding import OnForward
from overlay.pastry.membership.join import ProtocolError
from overlay.random_source import RandomSource
from overlay.simulation.churn import Churn, ParetoSessions, Sessions, WeibullSessions
from overlay.simulation.latency import Latency, LatencyMatrixError, MatrixLatency, PlaneLatency, UniformLatency
from overlay.simulation.memory import DeliveryLimitError, MemoryNetwork
from overlay.simulation.simulator import Simulator
from overlay.simulation.whole_ring import build_tables, route_path
from overlay.statistics import Statistics, Traffic
from overlay.transport.addresses import format_address, parse_address
from overlay.wire.codec import WIRE_BYTES_MAX, Codec, WireError
from overlay.wire.ids import (
    ID_BITS,
    ID_SPACE,
    Id,
    address_id,
    app_id,
    closer,
    closest,
    digit,
    distance,
    format_id,
    group_id,
    parse_id,
    shared_prefix_length,
    tree_id,
)
from overlay.wire.peer import Peer

if TYPE_CHECKING:
    from overlay.transport.identity.agent_files import AgentFiles
    from overlay.transport.identity.authority import Authority, Credentials, Revocation, certificate_uris
    from overlay.transport.identity.authority_directory import AuthorityDirectory
    from overlay.transport.identity.authority_files import AuthorityError
    from overlay.transport.identity.claims import AGENT_ROLE, CREATOR_ROLE
    from overlay.transport.identity.creator_files import Creator, CreatorFiles, read_public_key
    from overlay.transport.identity.creators import CreatorClaims, CreatorTrust, UntrustedCreatorError
    from overlay.transport.identity.identity import Identity, IdentityError
    from overlay.transport.identity.revocation import (
        RevocationError,
        Revocations,
        fingerprint,
        read_list,
        revocation_lists_of,
    )
    from overlay.transport.identity.secrets_on_disk import SecretFileError, read_password
    from overlay.transport.identity.trust import Trust
    from overlay.transport.limits import TransportLimits
    from overlay.transport.link.receiver import Receiver
    from overlay.transport.link.sockets import ListenError
    from overlay.transport.link.statistics import Connection, TransportStatistics
    from overlay.transport.refusals import ConnectError, UnknownHostError
    from overlay.transport.transport import Transport
else:
    # Loaded when first used: only agents need TLS and trio, only `elf ca` the library that signs certificates.
    _HOMES = {
        "AGENT_ROLE": "overlay.transport.identity.claims",
        "AgentFiles": "overlay.transport.identity.agent_files",
        "Authority": "overlay.transport.identity.authority",
        "AuthorityDirectory": "overlay.transport.identity.authority_directory",
        "AuthorityError": "overlay.transport.identity.authority_files",
        "ConnectError": "overlay.transport.refusals",
        "Connection": "overlay.transport.link.statistics",
        "CREATOR_ROLE": "overlay.transport.identity.claims",
        "Creator": "overlay.transport.identity.creator_files",
        "CreatorClaims": "overlay.transport.identity.creators",
        "CreatorFiles": "overlay.transport.identity.creator_files",
        "CreatorTrust": "overlay.transport.identity.creators",
        "Credentials": "overlay.transport.identity.authority",
        "Identity": "overlay.transport.identity.identity",
        "IdentityError": "overlay.transport.identity.identity",
        "ListenError": "overlay.transport.link.sockets",
        "Revocation": "overlay.transport.identity.authority",
        "RevocationError": "overlay.transport.identity.revocation",
        "Revocations": "overlay.transport.identity.revocation",
        "Receiver": "overlay.transport.link.receiver",
        "SecretFileError": "overlay.transport.identity.secrets_on_disk",
        "Transport": "overlay.transport.transport",
        "TransportLimits": "overlay.transport.limits",
        "TransportStatistics": "overlay.transport.link.statistics",
        "Trust": "overlay.transport.identity.trust",
        "UntrustedCreatorError": "overlay.transport.identity.creators",
        "UnknownHostError": "overlay.transport.refusals",
        "certificate_uris": "overlay.transport.identity.authority",
        "fingerprint": "overlay.transport.identity.revocation",
        "read_list": "overlay.transport.identity.revocation",
        "read_public_key": "overlay.transport.identity.creator_files",
        "read_password": "overlay.transport.identity.secrets_on_disk",
        "revocation_lists_of": "overlay.transport.identity.revocation",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "AGENT_ROLE",
    "CREATOR_ROLE",
    "ID_BITS",
    "ID_SPACE",
    "PAYLOAD_BYTES_MAX",
    "WIRE_BYTES_MAX",
    "AgentFiles",
    "Attached",
    "Authority",
    "AuthorityDirectory",
    "AuthorityError",
    "ChildAdded",
    "ChildRemoved",
    "Churn",
    "Codec",
    "ConnectError",
    "Connection",
    "Creator",
    "CreatorClaims",
    "CreatorFiles",
    "CreatorTrust",
    "Credentials",
    "Delivered",
    "DeliveryLimitError",
    "EpochTaken",
    "Event",
    "Id",
    "Identity",
    "IdentityError",
    "Joined",
    "Latency",
    "LatencyMatrixError",
    "LeafSetChanged",
    "ListenError",
    "MatrixLatency",
    "MemoryNetwork",
    "MessageReceived",
    "MulticastAcknowledged",
    "MulticastReceived",
    "Node",
    "OnForward",
    "ParentChanged",
    "ParetoSessions",
    "Peer",
    "PeerFailed",
    "PeerLeft",
    "PeerRemoved",
    "PlaneLatency",
    "ProtocolError",
    "RandomSource",
    "Receiver",
    "RequestFailed",
    "Requested",
    "Responded",
    "Revocation",
    "RevocationError",
    "Revocations",
    "SecretFileError",
    "Sessions",
    "Simulator",
    "Statistics",
    "Traffic",
    "Transport",
    "TransportLimits",
    "TransportStatistics",
    "Trust",
    "UniformLatency",
    "UnknownHostError",
    "UntrustedCreatorError",
    "WeibullSessions",
    "WireError",
    "address_id",
    "app_id",
    "build_tables",
    "certificate_uris",
    "closer",
    "closest",
    "digit",
    "distance",
    "fingerprint",
    "format_address",
    "format_id",
    "group_id",
    "keeps_order",
    "parse_address",
    "parse_id",
    "read_list",
    "read_password",
    "read_public_key",
    "revocation_lists_of",
    "route_path",
    "shared_prefix_length",
    "tree_id",
]
