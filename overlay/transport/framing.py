"""Frames: how messages are told apart on a connection. No input or output.

A frame is 4 bytes of payload length (big-endian), 1 byte of version, 8 bytes of fleet tag, and the payload. The
first frame each way is a `Hello`; an empty frame is a goodbye: its sender sends nothing more on this connection.
"""

import hashlib
import io
import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec

from overlay.ids import Id
from overlay.wire import WIRE_BYTES_MAX, Codec

VERSION = 1
HEADER = struct.Struct("!IB8s")
FRAME_BYTES_MAX = WIRE_BYTES_MAX + (1 << 12)
"""The longest payload of a frame: any message of the overlay, and a little."""
HELLO_BYTES_MAX = 2048
PIECE_BYTES = 1 << 16
GOODBYE = b""
Piece = bytes | memoryview


class FramingError(Exception):
    """The bytes are no frame of this fleet; `reason` is one of a few words to count it under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Who speaks: the first frame each way, believed only as far as the certificate says the same."""

    node_id: Id
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=255)]
    """Where the sender is dialled."""
    incarnation: Annotated[int, msgspec.Meta(ge=0)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


HELLO_CODEC: Codec[Hello] = Codec(Hello)


def fleet_tag(fleet: str) -> bytes:
    """Return the 8 bytes that mark the frames of a fleet: two fleets on one address are told apart at once.

    >>> len(fleet_tag("shop")), fleet_tag("shop") == fleet_tag("shops")
    (8, False)
    """
    return hashlib.blake2b(fleet.encode(), digest_size=8, person=b"elf fleet").digest()


class FrameWriter:
    """Turns payloads into bytes in pieces, so that a long payload is never copied whole.

    >>> writer = FrameWriter(fleet_tag("shop"))
    >>> [len(piece) for piece in writer.pieces(b"abc")]
    [16]
    """

    def __init__(self, tag: bytes) -> None:
        self._tag = tag

    def pieces(self, payload: bytes) -> Iterator[Piece]:
        """Yield the frame's bytes in order, at most 64 KiB a piece (whole TLS records)."""
        header = HEADER.pack(len(payload), VERSION, self._tag)
        if len(payload) <= PIECE_BYTES - HEADER.size:
            yield header + payload
            return
        view = memoryview(payload)
        first = PIECE_BYTES - HEADER.size
        yield header + view[:first]
        for start in range(first, len(payload), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


class FrameReader:
    """Turns received bytes into payloads.

    `limit` is the longest payload it takes (`first_limit` for the first one), checked before anything is kept of it.
    What it holds of a frame is what has arrived of it, and little more.

    >>> tag = fleet_tag("shop")
    >>> reader = FrameReader(tag, limit=10)
    >>> sent = b"".join(FrameWriter(tag).pieces(b"abc"))
    >>> reader.feed(sent[:5]), reader.feed(sent[5:] + sent)
    ([], [b'abc', b'abc'])
    """

    def __init__(self, tag: bytes, limit: int = FRAME_BYTES_MAX, first_limit: int | None = None) -> None:
        self._limit = limit
        self._limit_now = limit if first_limit is None else first_limit
        self._tag = tag
        self._rest = b""
        """Less than a header."""
        self._body: io.BytesIO | None = None
        self._missing = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, return the payloads that are complete now. O(bytes).

        FramingError when they are no frames of this fleet and version, or one is over the limit; the connection is
        of no use after that.
        """
        position = 0
        payloads: list[bytes] = []
        if self._body is not None:
            position = self._fill(data, 0, payloads)
        elif self._rest:
            data, self._rest = self._rest + data, b""
        while len(data) - position >= HEADER.size:
            length = self._read_header(data, position)
            position += HEADER.size
            if length <= len(data) - position:
                payloads.append(data[position : position + length])
                position += length
            else:
                self._body, self._missing = io.BytesIO(), length
                position = self._fill(data, position, payloads)
        self._rest = data[position:]
        return payloads

    def _read_header(self, data: bytes, position: int) -> int:
        length, version, tag = HEADER.unpack_from(data, position)
        if version != VERSION:
            raise FramingError("not our protocol", f"frames of version {version}, not {VERSION}")
        if tag != self._tag:
            raise FramingError("another fleet", "frames of another fleet")
        if length > self._limit_now:
            raise FramingError("frame too long", f"a frame of {length} bytes, over the limit of {self._limit_now}")
        self._limit_now = self._limit
        checked: int = length
        return checked

    def _fill(self, data: bytes, position: int, payloads: list[bytes]) -> int:
        """Add bytes to the frame under way; return where its bytes end. (BytesIO gives its bytes without a copy.)"""
        body = self._body
        assert body is not None
        part = memoryview(data)[position : position + self._missing]
        body.write(part)
        self._missing -= len(part)
        if not self._missing:
            payloads.append(body.getvalue())
            self._body = None
        return position + len(part)
