"""Long messages in pieces: they keep nobody waiting, take no more room than was agreed, and may be compressed."""

from __future__ import annotations

import os
import statistics
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import zstandard
from transport_fleet import Agent, Fleet, RawPeer, bounded, dial_tcp, until

from overlay import Peer
from overlay.transport.link.framing import CREDIT, HEADER, LENGTH, PAYLOAD_BYTES_MAX, URGENT_BYTES_MAX, Frame, FrameKind
from overlay.transport.link.incoming import BULK_WINDOW_BYTES, URGENT_WINDOW_BYTES

KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20
TEXT = b"".join(b"%d GET /item/%d 200 %d\n" % (i, i * 7919 % 100003, i * 31 % 977) for i in range(40_000))


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


async def slow_link(nursery: trio.Nursery, address: str, *, bytes_s: float, delay_s: float) -> str:
    """Return an address behind which is the other one, at the end of a long thin line."""

    async def carry(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        on_the_line: tuple[trio.MemorySendChannel[tuple[float, bytes]], trio.MemoryReceiveChannel[tuple[float, bytes]]]
        on_the_line = trio.open_memory_channel(10_000)

        async def arrive() -> None:
            async for due, data in on_the_line[1]:
                await trio.sleep_until(due)
                await sink.send_all(data)

        async with trio.open_nursery() as both:
            both.start_soon(arrive)
            free_at = 0.0
            while data := await source.receive_some(8 * KIBIBYTE):
                free_at = max(free_at, trio.current_time()) + len(data) / bytes_s
                await on_the_line[0].send((free_at + delay_s, data))
                await trio.sleep_until(free_at)

    async def connect(near: trio.SocketStream) -> None:
        far = await dial_tcp(address)
        async with near, far, trio.open_nursery() as both:
            both.start_soon(carry, near, far)
            both.start_soon(carry, far, near)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, connect, [listener])
    return f"127.0.0.1:{listener.socket.getsockname()[1]}"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def linked(one: Agent, two: Agent) -> None:
    one.send(two, b"the link is up")
    await until(lambda: two.recorder.messages)
    two.recorder.messages.clear()


@pytest.mark.parametrize("mebibytes", [8, pytest.param(60, marks=pytest.mark.slow)])
@bounded
async def test_a_snapshot_over_a_slow_link_keeps_no_heartbeat_waiting(
    fleet: Fleet, nursery: trio.Nursery, mebibytes: int
) -> None:
    """60 MiB at 20 MB/s take three seconds; a heartbeat never waits for more than a window of them."""
    one, two = await fleet.start(1), await fleet.start(2)
    delay_s, bytes_s = 0.005, 20e6
    peer = Peer(2, await slow_link(nursery, two.peer.address, bytes_s=bytes_s, delay_s=delay_s))
    one.transport.send(peer, b"the link is up")
    await until(lambda: two.recorder.messages)
    snapshot = bytes(mebibytes * MEBIBYTE)
    before = peak = resident_bytes()
    started = trio.current_time()
    one.transport.send(peer, snapshot)
    waits: list[float] = []
    while max(map(len, two.recorder.payloads)) < len(snapshot):
        count = len(two.recorder.messages)
        sent_at = trio.current_time()
        one.transport.send(peer, bytes(60))
        await until(lambda count=count: len(two.recorder.messages) > count)
        waits.append(trio.current_time() - sent_at)
        peak = max(peak, resident_bytes())
        await trio.sleep(0.01)
    whole_s = trio.current_time() - started
    assert len(waits) > 10
    assert statistics.median(waits) < max(whole_s / 4, 2 * delay_s + 2 * BULK_WINDOW_BYTES / bytes_s)
    assert peak - before < 1.4 * len(snapshot) + 8 * MEBIBYTE  # the receiver's own; the sender's was there before


async def open_payload(raw: RawPeer, length: int) -> None:
    await raw.send(LENGTH.pack(length), FrameKind.OPEN)


@bounded
async def test_short_messages_pass_a_long_one_that_the_peer_does_not_take(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2) as raw:
        await until(lambda: one.transport.connections())
        peer = one.transport.connections()[0].peer
        one.transport.send(peer, bytes(4 * MEBIBYTE))
        pieces = 0
        while pieces < BULK_WINDOW_BYTES - 64 * KIBIBYTE:  # what may come without credit does
            pieces += len(await raw.next(FrameKind.PIECE) or b"")
        one.transport.send(peer, b"short")
        assert await raw.next(FrameKind.MESSAGE) == b"short"
        await raw.give(bulk=pieces)
        while pieces < 4 * MEBIBYTE:
            size = len(await raw.next(FrameKind.PIECE) or b"")
            pieces += size
            await raw.give(bulk=size)
        await until(lambda: not one.transport.statistics().waiting_bytes)
    assert one.transport.statistics().refused == {}


@bounded
async def test_a_peer_that_gives_no_credit_gets_no_more_and_loses_its_link(fleet: Fleet) -> None:
    """It reads everything, and answers everything else."""
    one, three = await fleet.start(1, stall_s=0.3, sweep_s=0.05), await fleet.start(3)
    async with fleet.raw_peer(one, 2) as raw:
        await until(lambda: one.transport.connections())
        peer = one.transport.connections()[0].peer
        one.transport.send(peer, bytes(4 * MEBIBYTE))
        for _ in range(4):
            one.send(three, b"others do not notice")
        received = sum([len(frame.body) for frame in await everything(raw)])
        assert received <= BULK_WINDOW_BYTES + KIBIBYTE
    assert one.recorder.events == [("disconnected", 2)]
    assert one.transport.statistics().waiting_bytes == 0
    await until(lambda: len(three.recorder.messages) == 4)


async def everything(raw: RawPeer) -> list[Frame]:
    frames = []
    while (frame := await raw.receive()) is not None:
        frames.append(frame)
    return frames


@bounded
async def test_long_messages_wait_for_room_and_all_arrive(fleet: Fleet) -> None:
    one = await fleet.start(1, all_assemblies_bytes=4 * MEBIBYTE)
    others = [await fleet.start(number) for number in range(2, 8)]
    largest = 0
    for other in others:
        other.send(one, bytes([other.peer.node_id % 256]) * (3 * MEBIBYTE))
        other.send(one, b"short")

    def have_come() -> bool:
        nonlocal largest
        largest = max(largest, one.transport.statistics().assembling_bytes)
        return len(one.recorder.messages) == 2 * len(others)

    await until(have_come)
    assert largest == 3 * MEBIBYTE
    assert {len(data) for data in one.recorder.payloads} == {5, 3 * MEBIBYTE}
    assert one.transport.statistics().assembling_bytes == 0


@bounded
async def test_who_takes_room_and_sends_nothing_gives_way(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overlay.transport.link.assembly.GRACE_S", 0.05)
    one, two = await fleet.start(1, all_assemblies_bytes=MEBIBYTE, sweep_s=0.02), await fleet.start(2)
    async with fleet.raw_peer(one, 3) as raw:
        await open_payload(raw, MEBIBYTE)
        await until(lambda: one.transport.statistics().assembling_bytes)
        two.send(one, bytes(MEBIBYTE - 1))
        await until(lambda: one.recorder.messages)
        assert [len(data) for data in one.recorder.payloads] == [MEBIBYTE - 1]
    assert ("disconnected", 3) in one.recorder.events


@pytest.mark.parametrize("compress", [True, False])
@bounded
async def test_compressed_messages_arrive_as_they_were(fleet: Fleet, compress: bool) -> None:
    one, two = await fleet.start(1, compress=compress), await fleet.start(2)
    mixed = TEXT[: 200 * KIBIBYTE] + os.urandom(200 * KIBIBYTE) + TEXT[: 200 * KIBIBYTE]
    payloads = [TEXT, b"r" + os.urandom(MEBIBYTE), mixed, bytes(URGENT_BYTES_MAX + 1), TEXT[:100]]
    for data in payloads:
        one.send(two, data)
    await until(lambda: len(two.recorder.messages) == len(payloads))
    assert sorted(two.recorder.payloads) == sorted(payloads)
    saved = sum(map(len, payloads)) - one.transport.statistics().bytes_out
    assert (saved > len(TEXT) // 2) is compress


BOMB = zstandard.ZstdCompressor().compress(bytes(64 * MEBIBYTE))
NO_SIZE = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1000))
LYING = bytearray(zstandard.ZstdCompressor().compress(bytes(1000)))
LYING[LYING.index(1000 - 256 & 0xFF)] = 1

VIOLATIONS: dict[str, tuple[list[tuple[int, bytes]], str]] = {
    "piece of nothing": ([(FrameKind.PIECE, b"x")], "piece of nothing"),
    "two at once": ([(FrameKind.OPEN, LENGTH.pack(100_000)), (FrameKind.OPEN, LENGTH.pack(5))], "two payloads at once"),
    "nothing long": ([(FrameKind.OPEN, LENGTH.pack(0))], "payload too long"),
    "too long": ([(FrameKind.OPEN, LENGTH.pack(PAYLOAD_BYTES_MAX + 1))], "payload too long"),
    "longer than said": ([(FrameKind.OPEN, LENGTH.pack(5)), (FrameKind.PIECE, b"123456")], "payload too long"),
    "credit for nothing": ([(FrameKind.CREDIT, CREDIT.pack(1, 0))], "credit for nothing"),
    "no credit": ([(FrameKind.CREDIT, CREDIT.pack(0, 0))], "credit for nothing"),
    "stays unasked": ([(FrameKind.STAY, b"")], "out of turn"),
    "heard nothing": ([(FrameKind.GOODBYE_ACK, b"")], "out of turn"),
    "speaks after its goodbye": ([(FrameKind.GOODBYE, b""), (FrameKind.MESSAGE, b"x")], "out of turn"),
    "opens after its goodbye": ([(FrameKind.GOODBYE, b""), (FrameKind.OPEN, LENGTH.pack(5))], "out of turn"),
    "leaves amid a payload": ([(FrameKind.OPEN, LENGTH.pack(5)), (FrameKind.GOODBYE, b"")], "out of turn"),
    "bomb": ([(FrameKind.OPEN, LENGTH.pack(64 * MEBIBYTE)), (FrameKind.ZSTD_PIECE, BOMB)], "decompression bomb"),
    "bomb without a size": (
        [(FrameKind.OPEN, LENGTH.pack(1000)), (FrameKind.ZSTD_PIECE, NO_SIZE)],
        "decompression bomb",
    ),
    "bomb that lies": (
        [(FrameKind.OPEN, LENGTH.pack(1000)), (FrameKind.ZSTD_PIECE, bytes(LYING))],
        "decompression bomb",
    ),
    "no zstd": ([(FrameKind.OPEN, LENGTH.pack(1000)), (FrameKind.ZSTD_PIECE, b"x" * 100)], "decompression bomb"),
    "over its bulk credit": (
        [(FrameKind.OPEN, LENGTH.pack(8 * MEBIBYTE))] + 16 * [(FrameKind.PIECE, bytes(64 * KIBIBYTE))],
        "over its credit",
    ),
}


@pytest.mark.parametrize("case", VIOLATIONS)
@bounded
async def test_what_no_agent_sends_ends_the_link(fleet: Fleet, case: str) -> None:
    frames, reason = VIOLATIONS[case]
    one, three = await fleet.start(1, all_assemblies_bytes=MEBIBYTE), await fleet.start(3)
    async with fleet.raw_peer(one, 4) as holder, fleet.raw_peer(one, 2) as raw:
        await open_payload(holder, MEBIBYTE)  # so there is no room for others
        await until(lambda: one.transport.statistics().assembling_bytes)
        with suppress(trio.BrokenResourceError):
            for kind, body in frames:
                await raw.send(body, kind)
        await until(lambda: one.transport.statistics().refused)
        assert one.transport.statistics().refused == {reason: 1}
        await until(lambda: one.recorder.events)
        assert one.recorder.events == [("disconnected", 2)]
        assert one.recorder.messages == []
        assert one.transport.statistics().assembling_bytes == MEBIBYTE
        three.send(one, b"short")
        await until(lambda: one.recorder.payloads == [b"short"])
    await until(lambda: not one.transport.statistics().assembling_bytes)


@bounded
async def test_a_flood_of_short_messages_is_taken_in_order_and_leaves_others_their_turn(fleet: Fleet) -> None:
    one, three = await fleet.start(1), await fleet.start(3)
    await linked(three, one)
    count = 2 * URGENT_WINDOW_BYTES // (HEADER.size + 4)
    async with fleet.raw_peer(one, 2) as raw, trio.open_nursery() as nursery:

        async def flood() -> None:
            frames = [raw.writer.frame(FrameKind.MESSAGE, number.to_bytes(4, "big")) for number in range(count)]
            for start in range(0, count, 20_000):
                await raw.stream.send_all(b"".join(frames[start : start + 20_000]))

        nursery.start_soon(flood)
        await until(lambda: len(one.recorder.messages) > 1000)
        three.send(one, b"from another")
        await until(lambda: (3, b"from another") in one.recorder.messages[-50_000:])
        assert len(one.recorder.messages) < count
        await until(lambda: len(one.recorder.messages) == count + 1)
    flood_of = [int.from_bytes(data, "big") for sender, data in one.recorder.messages if sender == 2]
    assert flood_of == list(range(count))
