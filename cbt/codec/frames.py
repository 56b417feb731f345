"""Frames as bytes, for the wire and for the tree's own buffers: an Arrow IPC stream, uncompressed, in one
zstd frame.
"""

import io
from functools import lru_cache

import polars as pl
import zstandard

from cbt.codec.arrow_stream import check_record_batches, schema_message_end

_LEVEL = 1
FAST = -7
"""Level of compression for rows on their way: half the time, and twice the bytes."""
_NEVER_NULL = ("pane", "hash")


class FrameError(Exception):
    """Bytes that should hold a frame do not; the message says what is wrong with them."""


def encode_frame(frame: pl.DataFrame, level: int = _LEVEL) -> bytes:
    """The frame as bytes; columns are String, Int8, Int64, Int128, UInt64, Float64 or Boolean. O(bytes).

    >>> frame = pl.DataFrame({"n": [1, 2]})
    >>> decode_frame(encode_frame(frame, FAST), frame.schema, bytes_max=1 << 10).equals(frame)
    True
    """
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
    return compressor.compress(_stream(frame))


def decode_frame(data: bytes, schema: pl.Schema, *, bytes_max: int) -> pl.DataFrame:
    """The frame that `encode_frame` wrote, from untrusted bytes. O(bytes), at most about `4·bytes_max` of memory.

    Raises FrameError if the frame is larger than `bytes_max` uncompressed, has another schema, is damaged in any way,
    or has a NULL `pane` or `hash`. The order of rows and the values are not verified: `Layout.combine` orders anew.
    """
    try:
        stream = _decompress(data, bytes_max)
        head = _schema_message(tuple(schema.items()))
        if not stream.startswith(head):
            raise FrameError("the frame's columns are not the expected ones")
        check_record_batches(stream, len(head), schema)
        frame = pl.read_ipc_stream(stream)
    except (FrameError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in native code arrives as a BaseException
        raise FrameError(
            f"the frame is damaged: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
        ) from error
    if any(frame[name].null_count() for name in _NEVER_NULL if name in schema):
        raise FrameError("the frame has a row without pane or hash")
    return frame


def frame_bytes(data: bytes) -> int:
    """The size of an encoded frame once it is decompressed, as its head says."""
    return zstandard.frame_content_size(data)


def _decompress(data: bytes, bytes_max: int) -> bytes:
    size = zstandard.frame_content_size(data)
    if not 0 <= size <= bytes_max:
        raise FrameError(f"the frame claims {size} bytes; the limit is {bytes_max}")
    # The decompressor allocates what the header says, which is within the limit now, and refuses to write
    # more.
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=bytes_max, allow_extra_data=False)


def _stream(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    # Strings are written as offsets and bytes, not as views: smaller, and only the bytes that the frame uses.
    frame.rechunk().write_ipc_stream(stream, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    return stream.getvalue()


@lru_cache(maxsize=256)
def _schema_message(columns: tuple[tuple[str, pl.DataType], ...]) -> bytes:
    stream = _stream(pl.DataFrame(schema=columns))
    return stream[: schema_message_end(stream)]
