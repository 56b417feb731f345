"""Frames come out as they went in however the bytes are cut; what is no frame is refused before anything is kept."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.framing import (
    FRAME_BYTES_MAX,
    HEADER,
    HELLO_BYTES_MAX,
    PIECE_BYTES,
    VERSION,
    FrameReader,
    FrameWriter,
    FramingError,
    fleet_tag,
)

TAG = fleet_tag("shop")
WRITER = FrameWriter(TAG)


def frame(payload: bytes) -> bytes:
    return b"".join(WRITER.pieces(payload))


@pytest.mark.fuzz
@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_frames_come_out_as_they_went_in(payloads: list[bytes], cuts: list[int]) -> None:
    data = b"".join(frame(payload) for payload in payloads)
    reader, received, position, turn = FrameReader(TAG), [], 0, 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        received += reader.feed(data[position : position + size])
        position, turn = position + size, turn + 1
    assert received == payloads


@pytest.mark.fuzz
@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waits_for_more(data: bytes) -> None:
    try:
        received = FrameReader(TAG).feed(data)
    except FramingError:
        return
    assert received == []


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - HEADER.size, PIECE_BYTES - HEADER.size + 1, 3 * PIECE_BYTES + 5])
def test_long_frames_are_written_in_pieces(size: int) -> None:
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    pieces = list(WRITER.pieces(payload))
    assert max(len(piece) for piece in pieces) <= PIECE_BYTES
    assert FrameReader(TAG).feed(b"".join(pieces)) == [payload]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (HEADER.pack(1 << 30, VERSION, TAG), "frame too long"),
        (HEADER.pack(FRAME_BYTES_MAX + 1, VERSION, TAG), "frame too long"),
        (HEADER.pack(5, VERSION + 1, TAG), "not our protocol"),
        (HEADER.pack(5, VERSION, fleet_tag("zoo")), "another fleet"),
        (b"GET / HTTP/1.1\r\n\r\n", "not our protocol"),
    ],
)
def test_what_is_no_frame_is_refused_by_its_header(header: bytes, reason: str) -> None:
    with pytest.raises(FramingError) as caught:
        FrameReader(TAG).feed(header)
    assert caught.value.reason == reason


def test_the_first_frame_has_a_limit_of_its_own() -> None:
    reader = FrameReader(TAG, first_limit=HELLO_BYTES_MAX)
    assert len(reader.feed(frame(bytes(HELLO_BYTES_MAX)) + frame(bytes(HELLO_BYTES_MAX + 1)))) == 2
    with pytest.raises(FramingError, match="over the limit"):
        FrameReader(TAG, first_limit=HELLO_BYTES_MAX).feed(frame(bytes(HELLO_BYTES_MAX + 1)))


def test_a_frame_takes_the_memory_of_what_has_come_of_it() -> None:
    announced = HEADER.pack(FRAME_BYTES_MAX, VERSION, TAG)
    tracemalloc.start()
    try:
        reader = FrameReader(TAG)
        reader.feed(announced + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_long_frame_is_not_copied_whole() -> None:
    size = 16 << 20
    record = bytes(1 << 14)
    reader = FrameReader(TAG)
    tracemalloc.start()
    try:
        received = reader.feed(HEADER.pack(size, VERSION, TAG))
        for _ in range(size // len(record)):
            received += reader.feed(record)
        assert tracemalloc.get_traced_memory()[1] < 1.3 * size
    finally:
        tracemalloc.stop()
    assert [len(payload) for payload in received] == [size]
