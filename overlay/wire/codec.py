"""Encodes typed messages as msgpack, with a limit on everything a hostile peer could make large.

Decoding has three steps: the length of the frame, the number of tokens in it (a megabyte of empty lists would otherwise
become sixty megabytes of objects), then the types, strictly. Ids are 16 raw bytes, peers are [id, address]. A failure
at any step is a WireError, never another exception.

A short frame cannot hold a container over the limit, so msgspec decodes it directly into its types, twenty to a hundred
times as fast as by way of plain lists. Longer frames are first unpacked by msgpack, which checks every length before it
allocates. Peers recur in many messages: recently decoded ones are cached and shared.
"""

from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgpack
import msgspec

from overlay.wire.ids import Id, id_from_bytes, id_to_bytes
from overlay.wire.peer import Peer

WIRE_BYTES_MAX = 64 << 20
CONTAINER_LENGTH_MAX = 4096
TOKENS_MAX = 1 << 16
SHORT_FRAME_BYTES_MAX = CONTAINER_LENGTH_MAX
PEERS_KEPT_MAX = 1 << 14

Message = TypeVar("Message")


class WireError(Exception):
    """The bytes are not a message of the expected types within the limits."""


class Codec(Generic[Message]):
    """Encodes and decodes messages of one union of tagged msgspec structs.

    Fields may be ids (`Id`), peers (`Peer`) and whatever msgspec can convert strictly.

    >>> class Ping(msgspec.Struct, tag=1, array_like=True, frozen=True):
    ...     target: Id
    >>> codec = Codec(Ping)
    >>> codec.decode(codec.encode(Ping(Id(5))))
    Ping(target=5)
    """

    def __init__(self, message_type: Any) -> None:
        self._type = message_type
        self._decoder = msgspec.msgpack.Decoder(message_type, strict=True, dec_hook=_decode_custom)

    def encode(self, message: Message) -> bytes:
        """Return the bytes of a message. The decoder's limits are not checked."""
        return _ENCODER.encode(message)

    def decode(self, data: bytes | bytearray, bytes_max: int = WIRE_BYTES_MAX) -> Message:
        """Decode one message; WireError when the frame is over a limit, malformed or of other types."""
        if len(data) > bytes_max:
            raise WireError(f"a frame of {len(data)} bytes is over the limit of {bytes_max}")
        if len(data) > TOKENS_MAX:
            _check_token_count(data)
        try:
            message: Message = (
                self._decoder.decode(data) if len(data) <= SHORT_FRAME_BYTES_MAX else self._decode_long(data)
            )
        except (ValueError, msgpack.UnpackException, msgspec.MsgspecError, RecursionError) as error:
            raise WireError(f"not a message: {str(error) or type(error).__name__}") from error
        return message

    def _decode_long(self, data: bytes | bytearray) -> Any:
        unpacked = msgpack.unpackb(
            data,
            strict_map_key=True,
            max_str_len=len(data),
            max_bin_len=len(data),
            max_array_len=CONTAINER_LENGTH_MAX,
            max_map_len=CONTAINER_LENGTH_MAX,
            max_ext_len=0,
        )
        return msgspec.convert(unpacked, self._type, strict=True, dec_hook=_decode_custom)


def _encode_custom(value: object) -> object:
    if isinstance(value, Id):
        return id_to_bytes(value)
    if isinstance(value, Peer):
        return (id_to_bytes(value.node_id), value.address)
    raise NotImplementedError(f"{type(value).__name__} has no wire form")


def _decode_custom(expected: type, value: object) -> object:
    if expected is Id and isinstance(value, bytes):
        return id_from_bytes(value)
    if expected is Peer and isinstance(value, list) and len(value) == 2:
        node_id, address = value
        if isinstance(node_id, bytes) and isinstance(address, str):
            return _peer(node_id, address)
    raise ValueError(f"a value of type {type(value).__name__} is not a {expected.__name__}")


@lru_cache(maxsize=PEERS_KEPT_MAX)
def _peer(node_id: bytes, address: str) -> Peer:
    return Peer(id_from_bytes(node_id), address)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_custom)

# Bytes after the first byte of a msgpack token: a fixed number, or a length field of this size followed by the data
# (and one type byte for extensions). Other tokens stand alone or carry their length.
_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8} | {
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4
}  # fmt: skip
_LENGTH_FIELD = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}


def _check_token_count(data: bytes | bytearray) -> None:
    """Refuse a frame of more than TOKENS_MAX values before objects are made of them. O(tokens)."""
    position, tokens = 0, 0
    while position < len(data):
        first = data[position]
        position += 1
        if first in _LENGTH_FIELD:
            field_end = position + _LENGTH_FIELD[first]
            position = field_end + int.from_bytes(data[position:field_end], "big") + (0xC7 <= first <= 0xC9)
        elif 0xA0 <= first <= 0xBF:
            position += first & 0x1F
        else:
            position += _FIXED.get(first, 0)
        tokens += 1
        if tokens > TOKENS_MAX:
            raise WireError(f"a frame of more than {TOKENS_MAX} values")
