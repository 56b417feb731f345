"""Frames survive encoding; bytes that are no frame are refused, whatever they are."""

import io
import struct

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt import FrameError, decode_frame, encode_frame
from cbt.codec.arrow_stream import schema_message_end

SCHEMA = pl.Schema(
    {
        "pane": pl.Int64(),
        "hash": pl.UInt64(),
        "path": pl.String(),
        "secure": pl.Boolean(),
        "rank": pl.Int8(),
        "total.hi": pl.Int128(),
        "total.wide": pl.Float64(),
    }
)
FRAME = pl.DataFrame(
    {
        "pane": [0, 0, 30_000] * 7,
        "hash": [1, 2**63 + 5, 2**64 - 1] * 7,
        "path": ["/a", None, "/é-longer-than-twelve-bytes"] * 7,
        "secure": [True, None, False] * 7,
        "rank": [-1, None, 3] * 7,
        "total.hi": [2**100, -(2**100), None] * 7,
        "total.wide": [0.0, float("inf"), None] * 7,
    },
    schema=SCHEMA,
)
LIMIT_BYTES = 10_000


def decode(data: bytes, bytes_max: int = LIMIT_BYTES) -> pl.DataFrame:
    return decode_frame(data, SCHEMA, bytes_max=bytes_max)


def stream_of(frame: pl.DataFrame, compression: str = "uncompressed", level: pl.CompatLevel | None = None) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc_stream(stream, compression=compression, compat_level=level or pl.CompatLevel.oldest())
    return stream.getvalue()


def packed(stream: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(stream)


@pytest.mark.parametrize("frame", [FRAME, FRAME.clear(), FRAME.slice(3, 1), pl.concat([FRAME, FRAME])])
def test_round_trip(frame: pl.DataFrame) -> None:
    decoded = decode(encode_frame(frame))
    assert decoded.schema == SCHEMA
    assert decoded.equals(frame)


def test_only_the_strings_of_a_slice_are_encoded() -> None:
    big = pl.DataFrame({"path": [f"/a-long-path-that-is-not-inlined/{n:09}" for n in range(10_000)]})
    assert len(encode_frame(big.slice(0, 1))) < 1000


def test_the_size_is_checked_before_anything_is_decompressed() -> None:
    bomb = packed(bytes(100_000_000))
    with pytest.raises(FrameError, match="claims 100000000 bytes; the limit is 10000"):
        decode(bomb)


def test_a_frame_without_a_declared_size_is_refused() -> None:
    undeclared = zstandard.ZstdCompressor(write_content_size=False).compress(stream_of(FRAME))
    with pytest.raises(FrameError, match="limit"):
        decode(undeclared)


def test_a_lie_about_the_size_is_refused() -> None:
    header = bytearray(zstandard.ZstdCompressor().compress(bytes(5000)))
    honest = struct.pack("<H", 5000 - 256)
    assert header.count(honest) == 1
    with pytest.raises(FrameError, match="damaged"):
        decode(bytes(header).replace(honest, struct.pack("<H", 100)))


def test_many_small_record_batches_are_refused() -> None:
    stream = stream_of(FRAME)
    batches = schema_message_end(stream)
    with pytest.raises(FrameError, match="more record batches"):
        decode(packed(stream[:batches] + stream[batches:-8] * 3 + stream[-8:]))
    with pytest.raises(FrameError, match="no end"):
        decode(packed(stream_of(FRAME) + b"more"))


def test_a_frame_of_several_record_batches() -> None:
    big = pl.DataFrame({"pane": range(600_000)})
    assert decode_frame(encode_frame(big), big.schema, bytes_max=10**7).equals(big)


def test_more_bytes_after_the_frame_are_refused() -> None:
    with pytest.raises(FrameError, match="damaged"):
        decode(encode_frame(FRAME) * 2)


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.drop("rank"),
        FRAME.rename({"path": "page"}),
        FRAME.select(reversed(FRAME.columns)),
        FRAME.with_columns(pl.col("pane").cast(pl.Float64)),
        FRAME.with_columns(pl.col("path").cast(pl.Categorical)),
    ],
)
def test_another_schema_is_refused(frame: pl.DataFrame) -> None:
    with pytest.raises(FrameError, match="columns"):
        decode(packed(stream_of(frame)))


@pytest.mark.parametrize("column", ["pane", "hash"])
def test_null_in_pane_or_hash_is_refused(column: str) -> None:
    frame = FRAME.with_columns(pl.lit(None, dtype=SCHEMA[column]).alias(column))
    with pytest.raises(FrameError, match="without pane or hash"):
        decode(encode_frame(frame))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_bodies_are_refused(compression: str) -> None:
    with pytest.raises(FrameError, match="compressed"):
        decode(packed(stream_of(FRAME, compression)))


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(FrameError):
        decode(data)


@pytest.mark.fuzz
@given(st.integers(0, len(encode_frame(FRAME)) - 1))
def test_truncated_bytes(length: int) -> None:
    with pytest.raises(FrameError):
        decode(encode_frame(FRAME)[:length])


STREAM = stream_of(FRAME)
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(STREAM) - 1),
        st.sampled_from(
            [b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff" * 4, b"\0\0\0\x7f", b"\0" * 8, b"\xff" * 8]
        ),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.fuzz
@settings(max_examples=settings.default.max_examples * 5)
@given(EDITS, st.integers(0, 40))
def test_an_edited_stream_is_refused_or_is_a_frame(edits: list[tuple[int, bytes]], cut: int) -> None:
    stream = bytearray(STREAM)
    for position, replacement in edits:
        stream[position : position + len(replacement)] = replacement
    try:
        frame = decode(packed(bytes(stream[: len(stream) - cut // 10])))
    except FrameError:
        return
    assert frame.schema == SCHEMA
    assert len(frame.rows()) == frame.height  # values can be read
    frame.sort("path", "total.hi")
