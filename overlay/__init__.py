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
    Event,
    Joined,
    LeafSetChanged,
    MessageReceived,
    MulticastReceived,
    ParentChanged,
    PeerFailed,
    PeerLeft,
    Requested,
    RequestFailed,
    Responded,
)
from overlay.ids import (
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
)
from overlay.node import PAYLOAD_BYTES_MAX, Node
from overlay.pastry.forwarding import OnForward
from overlay.pastry.join import ProtocolError
from overlay.peer import Peer
from overlay.random_source import RandomSource
from overlay.simulation.latency import Latency, LatencyMatrixError, MatrixLatency, PlaneLatency, UniformLatency
from overlay.simulation.memory import DeliveryLimitError, MemoryNetwork
from overlay.simulation.simulator import Simulator
from overlay.simulation.whole_ring import build_tables, route_path
from overlay.statistics import Statistics, Traffic
from overlay.transport.addresses import format_address, parse_address
from overlay.wire import WIRE_BYTES_MAX, Codec, WireError

if TYPE_CHECKING:
    from overlay.transport.authority import Authority, AuthorityError, Credentials
    from overlay.transport.identity import Identity, IdentityError
    from overlay.transport.limits import TransportLimits
    from overlay.transport.refusals import ConnectError, UnknownHostError
    from overlay.transport.sockets import ListenError
    from overlay.transport.statistics import Connection, TransportStatistics
    from overlay.transport.transport import Receiver, Transport
else:
    # Loaded when first used: only agents need TLS and trio, only `elf ca` the library that signs certificates.
    _HOMES = {
        "Authority": "overlay.transport.authority",
        "AuthorityError": "overlay.transport.authority",
        "ConnectError": "overlay.transport.refusals",
        "Connection": "overlay.transport.statistics",
        "Credentials": "overlay.transport.authority",
        "Identity": "overlay.transport.identity",
        "IdentityError": "overlay.transport.identity",
        "ListenError": "overlay.transport.sockets",
        "Receiver": "overlay.transport.transport",
        "Transport": "overlay.transport.transport",
        "TransportLimits": "overlay.transport.limits",
        "TransportStatistics": "overlay.transport.statistics",
        "UnknownHostError": "overlay.transport.refusals",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "ID_BITS",
    "ID_SPACE",
    "PAYLOAD_BYTES_MAX",
    "WIRE_BYTES_MAX",
    "Attached",
    "Authority",
    "AuthorityError",
    "ChildAdded",
    "ChildRemoved",
    "Codec",
    "ConnectError",
    "Connection",
    "Credentials",
    "Delivered",
    "DeliveryLimitError",
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
    "MulticastReceived",
    "Node",
    "OnForward",
    "ParentChanged",
    "Peer",
    "PeerFailed",
    "PeerLeft",
    "PlaneLatency",
    "ProtocolError",
    "RandomSource",
    "Receiver",
    "RequestFailed",
    "Requested",
    "Responded",
    "Simulator",
    "Statistics",
    "Traffic",
    "Transport",
    "TransportLimits",
    "TransportStatistics",
    "UniformLatency",
    "UnknownHostError",
    "WireError",
    "address_id",
    "app_id",
    "build_tables",
    "closer",
    "closest",
    "digit",
    "distance",
    "format_address",
    "format_id",
    "group_id",
    "parse_address",
    "parse_id",
    "route_path",
    "shared_prefix_length",
]
