"""Frames come out as they went in however the bytes are cut; what is no frame is refused before anything is kept."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.link.framing import (
    HEADER,
    HELLO_BYTES_MAX,
    PIECE_BYTES_MAX,
    URGENT_BYTES_MAX,
    VERSION,
    FrameKind,
    FrameReader,
    FrameWriter,
    FramingError,
    fleet_tag,
)

TAG = fleet_tag("shop")
WRITER = FrameWriter(TAG)
HELLO = WRITER.frame(FrameKind.HELLO, b"hello")
LENGTHS = {
    FrameKind.OPEN: 4,
    FrameKind.CREDIT: 8,
    FrameKind.ASK: 0,
    FrameKind.STAY: 0,
    FrameKind.GOODBYE: 0,
    FrameKind.GOODBYE_ACK: 0,
}
FRAMES = st.sampled_from([kind for kind in FrameKind if kind != FrameKind.HELLO]).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.binary(min_size=LENGTHS[kind], max_size=LENGTHS[kind]) if kind in LENGTHS else BODIES
    )
)
BODIES = st.binary(min_size=1, max_size=300)


def greeted() -> FrameReader:
    """A reader that has had its hello."""
    reader = FrameReader(TAG)
    assert len(reader.feed(HELLO)) == 1
    return reader


@pytest.mark.fuzz
@given(st.lists(FRAMES, max_size=8), st.lists(st.integers(1, 500), min_size=1, max_size=20))
def test_frames_come_out_as_they_went_in(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = HELLO + b"".join(WRITER.frame(kind, body) for kind, body in frames)
    reader, received, position, turn = FrameReader(TAG), [], 0, 0
    while position < len(data):
        size = cuts[turn % len(cuts)]
        received += [(kind, bytes(body)) for kind, body in reader.feed(data[position : position + size])]
        position, turn = position + size, turn + 1
    assert received == [(FrameKind.HELLO, b"hello"), *frames]


@pytest.mark.fuzz
@given(st.binary(max_size=200), st.booleans())
def test_garbage_is_refused_or_waits_for_more(data: bytes, is_greeted: bool) -> None:
    reader = greeted() if is_greeted else FrameReader(TAG)
    try:
        received = reader.feed(data)
    except FramingError:
        return
    assert received == []


@pytest.mark.fuzz
@given(st.lists(FRAMES, max_size=4), st.data())
def test_mutated_frames_are_frames_or_refused(frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
    whole = bytearray(HELLO + b"".join(WRITER.frame(kind, body) for kind, body in frames))
    for _ in range(data.draw(st.integers(1, 5))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        received = FrameReader(TAG).feed(bytes(whole))
    except FramingError:
        return
    assert sum(HEADER.size + len(frame.body) for frame in received) <= len(whole)


@pytest.mark.parametrize("kind", [FrameKind.MESSAGE, FrameKind.PIECE, FrameKind.ZSTD_PIECE])
def test_the_longest_frame_of_a_kind_is_read_in_any_parts(kind: FrameKind) -> None:
    body = bytes(range(256)) * ((URGENT_BYTES_MAX if kind == FrameKind.MESSAGE else PIECE_BYTES_MAX) // 256)
    data = WRITER.frame(kind, body) * 2
    for size in (1000, 1 << 14, len(data)):
        reader, received = greeted(), []
        for start in range(0, len(data), size):
            received += reader.feed(data[start : start + size])
        assert [(frame.kind, bytes(frame.body)) for frame in received] == [(kind, body)] * 2
    with pytest.raises(FramingError, match="over the limit"):
        greeted().feed(WRITER.frame(kind, body + b"x"))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (HEADER.pack(1 << 30, VERSION, FrameKind.PIECE, TAG), "frame too long"),
        (HEADER.pack(0xFFFFFFFF, VERSION, FrameKind.MESSAGE, TAG), "frame too long"),
        (HEADER.pack(1, VERSION, FrameKind.GOODBYE, TAG), "frame too long"),
        (HEADER.pack(0, VERSION, FrameKind.PIECE, TAG), "frame too short"),
        (HEADER.pack(7, VERSION, FrameKind.CREDIT, TAG), "frame too short"),
        (HEADER.pack(5, VERSION + 1, FrameKind.MESSAGE, TAG), "another version of ELF"),
        (HEADER.pack(5, VERSION + 1, FrameKind.MESSAGE, fleet_tag("zoo")), "not our protocol"),
        (HEADER.pack(5, VERSION, len(FrameKind), TAG), "not our protocol"),
        (HEADER.pack(5, VERSION, FrameKind.MESSAGE, fleet_tag("zoo")), "another fleet"),
        (HELLO, "second hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "not our protocol"),
    ],
)
def test_what_is_no_frame_is_refused_by_its_header(header: bytes, reason: str) -> None:
    with pytest.raises(FramingError) as caught:
        greeted().feed(header)
    assert caught.value.reason == reason


@pytest.mark.parametrize("kind", [kind for kind in FrameKind if kind != FrameKind.HELLO])
def test_the_first_frame_is_a_hello_and_a_short_one(kind: FrameKind) -> None:
    with pytest.raises(FramingError) as caught:
        FrameReader(TAG).feed(WRITER.frame(kind, b"12345678"[: LENGTHS.get(kind, 8)]))
    assert caught.value.reason == "no hello"
    assert len(FrameReader(TAG).feed(WRITER.frame(FrameKind.HELLO, bytes(HELLO_BYTES_MAX)))) == 1
    with pytest.raises(FramingError, match="over the limit"):
        FrameReader(TAG).feed(WRITER.frame(FrameKind.HELLO, bytes(HELLO_BYTES_MAX + 1)))


def test_a_frame_takes_the_memory_of_what_has_come_of_it() -> None:
    announced = HEADER.pack(PIECE_BYTES_MAX, VERSION, FrameKind.PIECE, TAG)
    reader = greeted()
    tracemalloc.start()
    try:
        reader.feed(announced + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
