"""A link's two ends without a socket: payloads come out whole, and what is held is bounded, whatever the turn."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.transport.link.assembly import GRACE_S, SLOWEST_BYTES_S, AssemblyBudget
from overlay.transport.link.compression import BombError, compressed, decompressed
from overlay.transport.link.framing import (
    LENGTH,
    PAYLOAD_BYTES_MAX,
    PIECE_BYTES_MAX,
    URGENT_BYTES_MAX,
    FrameKind,
    FrameReader,
    FrameWriter,
    fleet_tag,
)
from overlay.transport.link.incoming import BULK_WINDOW_BYTES, URGENT_WINDOW_BYTES, Incoming
from overlay.transport.link.outgoing import Outgoing
from overlay.transport.link.refusals import ViolationError
from overlay.transport.link.send_queues import QueueBudget, SendQueues

TAG = fleet_tag("shop")
KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20


class Line:
    """One direction of a link: frames that are on their way, and the credit that is on its way back."""

    def __init__(self, room: AssemblyBudget, *, compress: bool = False) -> None:
        self.queues = SendQueues(QueueBudget())
        self.outgoing = Outgoing(FrameWriter(TAG), compress=compress)
        self.outgoing.queues = self.queues
        self.back = Outgoing(FrameWriter(TAG), compress=False)
        self.incoming = Incoming(room, self.back.grant)
        self.reader, self.back_reader = FrameReader(TAG), FrameReader(TAG)
        for reader in (self.reader, self.back_reader):
            reader.feed(FrameWriter(TAG).frame(FrameKind.HELLO, b"hello"))
        self.on_the_way = bytearray()
        self.received: list[bytes] = []

    def write(self, frames: int) -> bool:
        """Put some frames on the way; False when there are none to put."""
        for _ in range(frames):
            frame = self.outgoing.next_frame(is_leaving=False)
            if not frame:
                return False
            self.on_the_way += frame
            self.outgoing.written()
        return True

    def read(self, size: int) -> None:
        """Take some bytes off the way, and let the credit come back."""
        data = bytes(self.on_the_way[:size])
        del self.on_the_way[:size]
        for kind, body in self.reader.feed(data):
            take(self.incoming, kind, bytes(body), self.received)
        while frame := self.back.next_frame(is_leaving=False):
            for kind, body in self.back_reader.feed(frame):
                assert kind == FrameKind.CREDIT
                self.outgoing.add_credit(bytes(body))


def take(incoming: Incoming, kind: int, body: bytes, received: list[bytes]) -> None:
    """What a link does with a frame of a payload."""
    if kind == FrameKind.MESSAGE:
        incoming.message(len(body))
        received.append(body)
        incoming.message_taken(len(body))
    elif kind == FrameKind.OPEN:
        incoming.open(body)
    elif kind in (FrameKind.PIECE, FrameKind.ZSTD_PIECE):
        payload = incoming.piece(kind, body)
        if payload is not None:
            received.append(payload)
            incoming.payload_taken()


SIZES = st.one_of(
    st.integers(1, 300),
    st.sampled_from([URGENT_BYTES_MAX, URGENT_BYTES_MAX + 1, PIECE_BYTES_MAX, BULK_WINDOW_BYTES // 2]),
    st.integers(1, 3 * BULK_WINDOW_BYTES),
)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 400_000)), max_size=30)


@pytest.mark.fuzz
@given(
    st.lists(st.tuples(st.integers(0, 2), SIZES, st.booleans()), max_size=12),
    STEPS,
    st.integers(1, 3 * MEBIBYTE),
    st.booleans(),
)
def test_payloads_arrive_whole_in_the_order_of_their_stream(
    payloads: list[tuple[int, int, bool]], steps: list[tuple[int, int, int]], room_bytes: int, compress: bool
) -> None:
    room = AssemblyBudget(room_bytes)
    lines = [Line(room, compress=compress) for _ in range(3)]
    sent: list[tuple[list[bytes], list[bytes]]] = [([], []), ([], []), ([], [])]
    for number, (index, size, in_order) in enumerate(payloads):
        data = number.to_bytes(1, "big") * size
        assert lines[index].queues.append(data, in_order=in_order)
        sent[index][in_order or size > URGENT_BYTES_MAX].append(data)
    for index, frames, size in steps:
        lines[index].write(frames)
        lines[index].read(size)
        if not compress:
            assert len(lines[index].on_the_way) < BULK_WINDOW_BYTES + URGENT_WINDOW_BYTES + KIBIBYTE
    for _ in range(200):  # in the end everything gets through
        for line in lines:
            line.write(100)
            line.read(1 << 30)
    for line, streams in zip(lines, sent, strict=True):
        for expected in streams:
            assert [data for data in line.received if data in expected] == expected
    assert room.used == room.waiting == 0


def test_a_short_payload_passes_a_long_one_and_does_not_keep_it_out() -> None:
    line = Line(AssemblyBudget())
    line.queues.append(bytes(4 * MEBIBYTE))
    for _ in range(1000):
        line.queues.append(bytes(URGENT_BYTES_MAX))
    kinds = []
    for _ in range(200):
        assert line.write(1)
        kinds.append(line.on_the_way[5])
        line.read(1 << 30)
    pieces = sum(kind in (FrameKind.OPEN, FrameKind.PIECE) for kind in kinds)
    assert 20 <= pieces <= 50  # half of the bytes: a piece is as long as four of them
    line.queues.append(b"x")
    assert len(line.received) >= 150


@pytest.mark.fuzz
@given(
    st.lists(st.tuples(st.sampled_from(list(FrameKind)), st.binary(max_size=40), st.integers(0, 1 << 16)), max_size=60)
)
def test_frames_in_any_turn_are_taken_or_a_violation(frames: list[tuple[FrameKind, bytes, int]]) -> None:
    room = AssemblyBudget(1 << 18)
    granted = [0, 0]

    def grant(urgent: int, bulk: int) -> None:
        granted[0] += urgent
        granted[1] += bulk

    incoming, received = Incoming(room, grant), list[bytes]()
    with suppress(ViolationError):
        for kind, body, size in frames:
            body = LENGTH.pack(size * 8) if kind == FrameKind.OPEN else body + bytes(size)
            take(incoming, kind, body, received)
            place = incoming.reservation
            assert (place.held if place is not None else 0) <= PAYLOAD_BYTES_MAX
    incoming.close()
    assert room.used == room.waiting == 0
    assert max(granted) <= sum(map(len, received)) + 80 * len(frames) + sum(size for *_, size in frames)


@pytest.mark.fuzz
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 120)), max_size=60), st.integers(1, 200))
def test_room_is_never_given_twice_and_nobody_waits_for_ever(
    steps: list[tuple[bool, int, int]], room_bytes: int
) -> None:
    room, order = AssemblyBudget(room_bytes), list[int]()
    places = dict[int, object]()
    for number, (enters, index, size) in enumerate(steps):
        if enters:
            places[number] = room.enter(size, lambda number=number: order.append(number))
        elif places:
            chosen = list(places)[index % len(places)]
            places.pop(chosen).leave()  # type: ignore[attr-defined]
        admitted = [place for place in places.values() if place.has_room]  # type: ignore[attr-defined]
        assert room.used == sum(place.size for place in admitted)
        assert room.used <= room_bytes or len(admitted) == 1
        assert not places or admitted
    assert order == sorted(order)


def test_who_is_slow_gives_way_only_while_others_wait() -> None:
    room = AssemblyBudget(100)
    slow = room.enter(100, lambda: None)
    assert room.slow(0.0) == []
    assert room.slow(1000.0) == []
    fast = room.enter(50, lambda: None)
    slow.held = int(SLOWEST_BYTES_S * (1000.0 - GRACE_S))
    assert room.slow(1000.0) == []
    assert room.slow(1001.0) == [slow]
    slow.leave()
    assert fast.has_room
    assert room.slow(1002.0) == []


@pytest.mark.fuzz
@given(st.binary(max_size=300))
def test_what_is_unpacked_is_never_more_than_a_piece(data: bytes) -> None:
    packed = compressed(data * 50)
    for candidate in (data, b"\x28\xb5\x2f\xfd" + data, (packed or b"")[:-1] + data):
        with suppress(BombError):
            assert 0 < len(decompressed(candidate)) <= PIECE_BYTES_MAX


@pytest.mark.parametrize("size", [1, 1000, PIECE_BYTES_MAX])
def test_a_piece_is_compressed_where_that_pays(size: int) -> None:
    assert compressed(os.urandom(size)) is None
    packed = compressed(bytes(size))
    assert (packed is None) is (size == 1)
    if packed is not None:
        assert decompressed(packed) == bytes(size)
