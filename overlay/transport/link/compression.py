"""Compresses the pieces of long payloads one by one with zstd: each can be decompressed alone in bounded memory.

A piece states its uncompressed length, which is checked before and enforced during decompression, so that no piece can
become larger than a piece.
"""

import zstandard

from overlay.transport.link.framing import PIECE_BYTES_MAX, Body

LEVEL = 1
WORTH_IT = 7 / 8
"""Largest ratio at which compression pays; above it, this piece and the rest of its payload are sent uncompressed."""

_compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False)
_decompressor = zstandard.ZstdDecompressor(max_window_size=PIECE_BYTES_MAX)


class BombError(Exception):
    """A compressed piece is malformed, or is or claims to be longer than a piece; one line."""


def compressed(piece: Body) -> bytes | None:
    """Return the piece compressed; None when that does not pay.

    >>> len(compressed(bytes(1000))) < 50, compressed(b"abc")
    (True, None)
    """
    packed = _compressor.compress(piece)
    return packed if len(packed) < WORTH_IT * len(piece) else None


def decompressed(packed: Body, bytes_max: int = PIECE_BYTES_MAX) -> bytes:
    """Return the decompressed piece; BombError unless it has 1 to `bytes_max` bytes."""
    try:
        size = zstandard.frame_content_size(packed)
        if not 0 < size <= bytes_max:
            raise BombError(f"a piece that says it has {size} bytes, of {bytes_max} at most")
        return _decompressor.decompress(packed, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BombError(str(error)) from error
