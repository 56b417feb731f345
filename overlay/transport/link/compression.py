"""Pieces of long payloads, compressed one by one with zstd: no piece needs another, nor more memory than itself.

A piece says how long it is when unpacked. That is checked before it is unpacked, and held to while it is, so no piece
can become more than a piece.
"""

import zstandard

from overlay.transport.link.framing import PIECE_BYTES_MAX, Body

LEVEL = 1
WORTH_IT = 7 / 8
"""A piece that keeps more than this share of its length is sent as it is, and so is the rest of its payload."""

_compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
_decompressor = zstandard.ZstdDecompressor(max_window_size=PIECE_BYTES_MAX)


class BombError(Exception):
    """A compressed piece is malformed, or is or says it is longer than a piece; one line."""


def compressed(piece: Body) -> bytes | None:
    """Return the piece compressed; None when that is not worth it.

    >>> len(compressed(bytes(1000))) < 50, compressed(b"abc")
    (True, None)
    """
    packed = _compressor.compress(piece)
    return packed if len(packed) < WORTH_IT * len(piece) else None


def decompressed(packed: Body, bytes_max: int = PIECE_BYTES_MAX) -> bytes:
    """Return the piece; BombError when it is none of 1 to `bytes_max` bytes."""
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 < size <= bytes_max:
            raise BombError(f"a piece that says it has {size} bytes, of {bytes_max} at most")
        return _decompressor.decompress(packed, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BombError(str(error)) from error
