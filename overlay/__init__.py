"""Pastry routing and Scribe multicast trees between agents.

A `Node` is one agent's place in the overlay. It takes received bytes, the owner's calls and the time, and returns bytes
to send and events; it does no input or output. `MemoryNetwork` joins nodes inside one process, `Simulator` runs many of
them against a virtual clock, `Transport` carries their messages over TLS. Payloads are opaque bytes throughout. The
overlay imports no other room.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from overlay.core.events import (
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
from overlay.core.outbox import keeps_order
from overlay.core.random_source import RandomSource
from overlay.core.statistics import Statistics
from overlay.node import PAYLOAD_BYTES_MAX, Node
from overlay.pastry.forwarding.forwarding import OnForward
from overlay.pastry.membership.join import ProtocolError
from overlay.simulation.churn import Churn, ParetoSessions, Sessions, WeibullSessions
from overlay.simulation.latency import Latency, LatencyMatrixError, MatrixLatency, PlaneLatency, UniformLatency
from overlay.simulation.memory import DeliveryLimitError, MemoryNetwork
from overlay.simulation.simulator import Simulator
from overlay.simulation.whole_ring import build_tables, route_path
from overlay.transport.identity.authority_files import AuthorityError
from overlay.transport.identity.authority_files import replace as replace_file
from overlay.transport.identity.creator_claims import CreatorClaims, UntrustedCreatorError
from overlay.transport.identity.revocation import (
    RevocationError,
    Revocations,
    fingerprint,
    read_list,
    revocation_lists_of,
)
from overlay.transport.identity.secrets_on_disk import SecretFileError, read_password
from overlay.transport.limits import TransportLimits
from overlay.transport.receiver import Receiver
from overlay.transport.statistics import LinkInfo, TransportStatistics
from overlay.wire.addresses import format_address, parse_address
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
    is_app_id,
    parse_id,
    shared_prefix_length,
    stage_id,
    tree_id,
)
from overlay.wire.peer import Peer
from overlay.wire.traffic import Traffic

if TYPE_CHECKING:
    from overlay.transport.identity.agent_files import AgentFiles
    from overlay.transport.identity.authority import (
        Authority,
        Credentials,
        Revocation,
        certificate_uris,
        key_pem,
        requested_key,
        signing_request,
    )
    from overlay.transport.identity.authority_directory import AuthorityDirectory
    from overlay.transport.identity.claims import (
        AGENT_ROLE,
        CREATOR_ROLE,
        ENROLMENT_ROLE,
        creator_id,
        read_claims,
        read_uri,
        uris,
    )
    from overlay.transport.identity.creator_files import Creator, CreatorFiles, read_public_key
    from overlay.transport.identity.creators import CreatorTrust
    from overlay.transport.identity.identity import Identity, IdentityError, client_context
    from overlay.transport.identity.trust import Trust
    from overlay.transport.link.refusals import ConnectError, UnknownHostError
    from overlay.transport.link.sockets import ListenError
    from overlay.transport.transport import Transport
else:
    # Loaded on first use: only agents need TLS and trio, only `elf ca` the library that signs certificates.
    _LAZY = {
        "overlay.transport.identity.agent_files": "AgentFiles",
        "overlay.transport.identity.authority": (
            "Authority Credentials Revocation certificate_uris key_pem requested_key signing_request"
        ),
        "overlay.transport.identity.authority_directory": "AuthorityDirectory",
        "overlay.transport.identity.claims": (
            "AGENT_ROLE CREATOR_ROLE ENROLMENT_ROLE creator_id read_claims read_uri uris"
        ),
        "overlay.transport.identity.creator_files": "Creator CreatorFiles read_public_key",
        "overlay.transport.identity.creators": "CreatorTrust",
        "overlay.transport.identity.identity": "Identity IdentityError client_context",
        "overlay.transport.identity.trust": "Trust",
        "overlay.transport.link.refusals": "ConnectError UnknownHostError",
        "overlay.transport.link.sockets": "ListenError",
        "overlay.transport.transport": "Transport",
    }
    _HOMES = {name: module for module, names in _LAZY.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "AGENT_ROLE",
    "CREATOR_ROLE",
    "ENROLMENT_ROLE",
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
    "LinkInfo",
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
    "client_context",
    "closer",
    "closest",
    "creator_id",
    "digit",
    "distance",
    "fingerprint",
    "format_address",
    "format_id",
    "group_id",
    "is_app_id",
    "keeps_order",
    "key_pem",
    "parse_address",
    "parse_id",
    "read_claims",
    "read_list",
    "read_password",
    "read_public_key",
    "read_uri",
    "replace_file",
    "requested_key",
    "revocation_lists_of",
    "route_path",
    "shared_prefix_length",
    "signing_request",
    "stage_id",
    "tree_id",
    "uris",
]
