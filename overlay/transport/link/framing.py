"""Splits a connection's bytes into frames. No input or output.

A frame is 4 bytes of body length (big-endian), 1 byte of version, 1 byte of kind, 8 bytes of fleet tag, and the body.
The version is that of all that agents send each other; these 14 bytes are the same in every version. Each kind has its
own bounds on the length, checked before any of the body is kept. The first frame each way, and only the first, is a
`Hello`.
"""

import hashlib
import struct
from enum import IntEnum
from typing import NamedTuple

from overlay.wire.codec import WIRE_BYTES_MAX

VERSION = 2
HEADER = struct.Struct("!IBB8s")
PAYLOAD_BYTES_MAX = WIRE_BYTES_MAX + (1 << 12)
"""Length of the longest payload: any message of the overlay, and a margin."""
HELLO_BYTES_MAX = 2048
URGENT_BYTES_MAX = 1 << 14
"""Longest payload of the urgent stream; longer ones use the bulk stream, in pieces."""
PIECE_BYTES_MAX = 1 << 16
CREDIT = struct.Struct("!II")
"""Additional bytes that may be sent: on the urgent stream, on the bulk stream."""
LENGTH = struct.Struct("!I")
Body = bytes | memoryview


class FrameKind(IntEnum):
    """Type of a frame."""

    HELLO = 0
    MESSAGE = 1
    """A whole payload of the urgent stream."""
    OPEN = 2
    """The start of a payload of the bulk stream, with its length."""
    PIECE = 3
    """The next bytes of a payload of the bulk stream."""
    ZSTD_PIECE = 4
    """The next bytes of a payload of the bulk stream, compressed."""
    CREDIT = 5
    """Credit: the receiver has consumed this many bytes and accepts as many more."""
    ASK = 6
    """Question whether the receiver still needs this link; the sender does not."""
    STAY = 7
    """The answer to `ASK` of a side that needs the link. A side that does not says goodbye."""
    GOODBYE = 8
    """The sender sends no more messages on this link."""
    GOODBYE_ACK = 9
    """The answer to `GOODBYE`: everything before it has been received."""


_LENGTHS = {
    FrameKind.HELLO: (1, HELLO_BYTES_MAX),
    FrameKind.MESSAGE: (1, URGENT_BYTES_MAX),
    FrameKind.OPEN: (LENGTH.size, LENGTH.size),
    FrameKind.PIECE: (1, PIECE_BYTES_MAX),
    FrameKind.ZSTD_PIECE: (1, PIECE_BYTES_MAX),
    FrameKind.CREDIT: (CREDIT.size, CREDIT.size),
    FrameKind.ASK: (0, 0),
    FrameKind.STAY: (0, 0),
    FrameKind.GOODBYE: (0, 0),
    FrameKind.GOODBYE_ACK: (0, 0),
}
_PIECES = (FrameKind.PIECE, FrameKind.ZSTD_PIECE)
_BOUNDS = tuple(_LENGTHS[kind] for kind in FrameKind)


class FramingError(Exception):
    """The bytes are not a frame of this fleet; `reason` is a few fixed words to count it under."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def fleet_tag(fleet: str) -> bytes:
    """Return the 8 bytes that mark the frames of a fleet, so that another fleet at the same address is noticed at once.

    >>> len(fleet_tag("shop")), fleet_tag("shop") == fleet_tag("shops")
    (8, False)
    """
    return hashlib.blake2b(fleet.encode(), digest_size=8, person=b"elf fleet").digest()


def _other_version(version: int) -> str:
    elder = "this agent" if version > VERSION else "the other agent"
    return f"the agents' protocol is of version {version} there, and {VERSION} here: upgrade {elder}"


class Frame(NamedTuple):
    """A received frame."""

    kind: int
    body: Body
    """A view for pieces, which are copied only once, to their destination."""


class FrameWriter:
    """Encodes bodies as frames.

    >>> len(FrameWriter(fleet_tag("shop")).frame(FrameKind.MESSAGE, b"abc"))
    17
    """

    def __init__(self, tag: bytes) -> None:
        self._tag = tag

    def frame(self, kind: int, body: Body = b"") -> bytes:
        """Return the bytes of a frame. The caller checks the length."""
        return HEADER.pack(len(body), VERSION, kind, self._tag) + body


class FrameReader:
    """Decodes received bytes into frames. Holds no more of a frame than has arrived.

    >>> tag = fleet_tag("shop")
    >>> reader, writer = FrameReader(tag), FrameWriter(tag)
    >>> hello, sent = writer.frame(FrameKind.HELLO, b"I am 5"), writer.frame(FrameKind.MESSAGE, b"abc")
    >>> [len(reader.feed(part)) for part in (hello[:3], hello[3:] + sent[:5], sent[5:] + sent)]
    [0, 1, 2]
    """

    def __init__(self, tag: bytes) -> None:
        self._tag = tag
        self._parts: list[bytes] = []
        """Parts of the incomplete frame."""
        self._missing = 0
        """Least number of bytes that the incomplete frame still lacks."""
        self._is_greeted = False

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, return the frames that are complete now. O(bytes).

        FramingError when the bytes are not frames of this fleet and version, or have a length that their kind never
        has; the connection is unusable after that.
        """
        if self._parts:
            if len(data) < self._missing:
                self._missing -= len(data)
                self._parts.append(data)
                return []
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts = []
        frames: list[Frame] = []
        position = 0
        while (rest := len(data) - position) >= HEADER.size:
            length, kind = self._read_header(data, position)
            end = position + HEADER.size + length
            if end > len(data):
                self._keep(data[position:], end - len(data))
                return frames
            body: Body = memoryview(data) if kind in _PIECES else data
            frames.append(Frame(kind, body[position + HEADER.size : end]))
            self._is_greeted = True
            position = end
        if rest:
            self._keep(data[position:], HEADER.size - rest)
        return frames

    def _keep(self, part: bytes, missing: int) -> None:
        if part:
            self._parts.append(part)
            self._missing = missing

    def _read_header(self, data: bytes, position: int) -> tuple[int, int]:
        length, version, kind, tag = HEADER.unpack_from(data, position)
        if version != VERSION and tag == self._tag:
            raise FramingError("another version of ELF", _other_version(version))
        if version != VERSION:
            raise FramingError("not our protocol", f"frames of version {version}, not {VERSION}")
        if tag != self._tag:
            raise FramingError("another fleet", "frames of another fleet")
        if kind >= len(_BOUNDS):
            raise FramingError("not our protocol", f"a frame of kind {kind}")
        if (kind == FrameKind.HELLO) is self._is_greeted:
            raise FramingError("no hello" if kind else "second hello", f"{FrameKind(kind).name} is not what comes now")
        least, most = _BOUNDS[kind]
        if length > most:
            raise FramingError("frame too long", f"{FrameKind(kind).name} of {length} bytes, over the limit of {most}")
        if length < least:
            raise FramingError("frame too short", f"{FrameKind(kind).name} of {length} bytes")
        return length, kind
