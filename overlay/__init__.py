"""The overlay: Pastry routing and Scribe trees between agents, as objects that do no input or output.

A `Node` is one agent's place in the overlay. `MemoryNetwork` joins nodes inside one process, `Simulator`
runs many of them against a virtual clock. Payloads are opaque bytes throughout.
"""

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

__all__ = [
    "ID_BITS",
    "ID_SPACE",
    "PAYLOAD_BYTES_MAX",
    "WIRE_BYTES_MAX",
    "Attached",
    "ChildAdded",
    "ChildRemoved",
    "Codec",
    "Delivered",
    "DeliveryLimitError",
    "Event",
    "Id",
    "Joined",
    "Latency",
    "LeafSetChanged",
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
    "Simulator",
    "Statistics",
    "UniformLatency",
    "WireError",
    "app_id",
    "closer",
    "closest",
    "digit",
    "distance",
    "format_id",
    "group_id",
    "parse_id",
    "shared_prefix_length",
]
