"""Fuzz targets for hostile bytes: each takes any bytes and fails only when the overlay misbehaves.

Each has proper inputs as seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import msgspec

from overlay import Id, Node, Peer, WireError
from overlay.core.outbox import CODEC
from overlay.transport.link.assembly import AssemblyBudget
from overlay.transport.link.framing import CREDIT, LENGTH, FrameKind, FrameReader, FrameWriter, FramingError, fleet_tag
from overlay.transport.link.hello import HELLO_CODEC, Hello
from overlay.transport.link.incoming import BULK_WINDOW_BYTES, Incoming
from overlay.transport.link.refusals import ViolationError
from overlay.wire.messages import OverlayMessage

HERE, THERE = Peer(4, "here:1"), Peer(6, "there:1")
TAG = fleet_tag("shop")
_WRITER = FrameWriter(TAG)
_HELLO = HELLO_CODEC.encode(Hello(Id(4), "127.0.0.1:7", 1, "agent-4"))


def _sample(kind: msgspec.inspect.Type) -> Any:
    """Return a value of a type that messages have."""
    match kind:
        case msgspec.inspect.CustomType(cls=cls):
            return Id(5) if cls is Id else HERE
        case (
            msgspec.inspect.VarTupleType(item_type=item, min_length=length)
            | msgspec.inspect.ListType(item_type=item, min_length=length)
        ):
            return (_sample(item),) * max(1, length or 0)
        case msgspec.inspect.TupleType(item_types=items):
            return tuple(map(_sample, items))
        case msgspec.inspect.UnionType(types=types):
            return _sample(next(one for one in types if not isinstance(one, msgspec.inspect.NoneType)))
        case (
            msgspec.inspect.StructType(cls=cls, fields=fields) | msgspec.inspect.NamedTupleType(cls=cls, fields=fields)
        ):
            return cls(**{field.name: _sample(field.type) for field in fields})
        case msgspec.inspect.IntType(ge=least):
            return max(1, least or 0)
        case msgspec.inspect.BytesType(min_length=length):
            return bytes(length or 7)
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.FloatType():
            return 1.0
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.LiteralType(values=values):
            return values[0]
    raise NotImplementedError(f"a sample of {kind}")


MESSAGES = [CODEC.encode(_sample(msgspec.inspect.type_info(kind))) for kind in get_args(OverlayMessage)]
"""A proper message of every kind."""
FRAMES = _WRITER.frame(FrameKind.HELLO, _HELLO) + b"".join(
    _WRITER.frame(kind, body)
    for kind, body in (
        (FrameKind.MESSAGE, MESSAGES[0]),
        (FrameKind.OPEN, LENGTH.pack(300)),
        (FrameKind.PIECE, bytes(100)),
        (FrameKind.ZSTD_PIECE, b"\x28\xb5\x2f\xfd\x20\xc8" + bytes(10)),
        (FrameKind.CREDIT, CREDIT.pack(5, 5)),
        (FrameKind.ASK, b""),
        (FrameKind.GOODBYE, b""),
    )
)


def read_message(data: bytes) -> None:
    """Bytes are a message, which is encoded as it was decoded, or a WireError."""
    with suppress(WireError):
        message = CODEC.decode(data)
        assert CODEC.decode(CODEC.encode(message)) == message


def read_hello(data: bytes) -> None:
    """Bytes are a hello, or an error."""
    with suppress(WireError):
        hello = HELLO_CODEC.decode(data)
        assert HELLO_CODEC.decode(HELLO_CODEC.encode(hello)) == hello


def read_frames(data: bytes) -> None:
    """Bytes of a connection yield payloads, or end it; its reservations are released."""
    room = AssemblyBudget(1 << 20)
    reader, incoming = FrameReader(TAG), Incoming(room, lambda *_: None)
    middle = len(data) // 2
    with suppress(FramingError, ViolationError):
        for part in (data[:middle], data[middle:]):
            for kind, body in reader.feed(part):
                if kind == FrameKind.MESSAGE:
                    incoming.message(len(body))
                    incoming.message_taken(len(body))
                elif kind == FrameKind.OPEN:
                    incoming.open(bytes(body))
                elif kind in (FrameKind.PIECE, FrameKind.ZSTD_PIECE) and incoming.piece(kind, body) is not None:
                    incoming.payload_taken()
            assert incoming.held_bytes <= BULK_WINDOW_BYTES + (1 << 20)
    incoming.close()
    assert room.used == room.waiting == 0


def feed_node(data: bytes) -> None:
    """A node survives messages of any bytes, each prefixed with its length."""
    node = Node(Peer(5, "node:1"), random=random.Random(1))
    node.start(0.0)
    node.subscribe(5, 0.0)
    position, now = 0, 0.0
    while position < len(data) and now < 20.0:
        end = position + 1 + data[position]
        now += 0.3
        node.receive(HERE if end % 2 else THERE, data[position + 1 : end], now)
        node.handle_timer(now)
        position = end
    node.check()


def _in_a_row(messages: list[bytes]) -> bytes:
    return b"".join(bytes([len(message)]) + message for message in messages if len(message) < 256)


Target = Callable[[bytes], None]
TARGETS: dict[str, tuple[Target, list[bytes]]] = {
    "message": (read_message, MESSAGES),
    "hello": (read_hello, [_HELLO]),
    "frames": (read_frames, [FRAMES]),
    "node": (feed_node, [_in_a_row(MESSAGES), *map(_in_a_row, ([message] for message in MESSAGES))]),
}
"""By name: the target, and its seeds."""
