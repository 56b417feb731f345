"""The overlay: Pastry routing and Scribe trees between agents, as objects that do no input or output.

A `Node` is one agent's place in the overlay. `MemoryNetwork` joins nodes inside one process, `Simulator`
runs many of them against a virtual clock. Payloads are opaque bytes throughout.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from overlay.addresses import format_address, parse_address
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
)
from overlay.ids import (
    ID_BITS,
    ID_SPACE,
    Id,
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
from overlay.join import ProtocolError
from overlay.latency import Latency, PlaneLatency, UniformLatency
from overlay.memory import DeliveryLimitError, MemoryNetwork
from overlay.node import PAYLOAD_BYTES_MAX, Node
from overlay.peer import Peer
from overlay.random_source import RandomSource
from overlay.simulator import Simulator
from overlay.statistics import Statistics
from overlay.wire import WIRE_BYTES_MAX, Codec, WireError

if TYPE_CHECKING:
    from overlay.authority import Authority, AuthorityError, Credentials
    from overlay.identity import Identity, IdentityError
    from overlay.sockets import ListenError
    from overlay.transport import ConnectError, Receiver, Transport
    from overlay.transport_limits import TransportLimits
    from overlay.transport_statistics import Connection, TransportStatistics
else:
    # Loaded when first used: only agents need TLS and trio, only `elf ca` the library that signs certificates.
    _HOMES = {
        "Authority": "overlay.authority",
        "AuthorityError": "overlay.authority",
        "ConnectError": "overlay.transport",
        "Connection": "overlay.transport_statistics",
        "Credentials": "overlay.authority",
        "Identity": "overlay.identity",
        "IdentityError": "overlay.identity",
        "ListenError": "overlay.sockets",
        "Receiver": "overlay.transport",
        "Transport": "overlay.transport",
        "TransportLimits": "overlay.transport_limits",
        "TransportStatistics": "overlay.transport_statistics",
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
    "LeafSetChanged",
    "ListenError",
    "MemoryNetwork",
    "MessageReceived",
    "MulticastReceived",
    "Node",
    "ParentChanged",
    "Peer",
    "PeerFailed",
    "PeerLeft",
    "PlaneLatency",
    "ProtocolError",
    "RandomSource",
    "Receiver",
    "Simulator",
    "Statistics",
    "Transport",
    "TransportLimits",
    "TransportStatistics",
    "UniformLatency",
    "WireError",
    "app_id",
    "closer",
    "closest",
    "digit",
    "distance",
    "format_address",
    "format_id",
    "group_id",
    "parse_address",
    "parse_id",
    "shared_prefix_length",
]
