"""Peers that die, come back, stop or do not read: the receiver is told once, and others do not notice."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from transport_fleet import LOCAL, Agent, Fleet, Recorder, bounded, until

from overlay import Peer, Transport
from overlay.transport.link.framing import HEADER, LENGTH, FrameKind

PROCESS = Path(__file__).with_name("transport_process.py")
KIBIBYTE = 1 << 10
MEBIBYTE = 1 << 20


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


@asynccontextmanager
async def other_process(
    fleet: Fleet, node_id: int, listen: str = LOCAL, incarnation: int = 1
) -> AsyncIterator[tuple[trio.Process, Peer]]:
    """A transport in another process; it ends with the block, whatever happens."""
    files = fleet.write(fleet.credentials(node_id))
    command = [sys.executable, str(PROCESS), *map(str, files), str(incarnation), listen]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address = (await process.stdout.receive_some()).decode().strip()
        yield process, Peer(node_id, address)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()


async def exchange(one: Agent, two: Agent) -> None:
    """See that messages go both ways."""
    one.send(two, b"question")
    await until(lambda: (one.peer.node_id, b"question") in two.recorder.messages)
    two.send(one, b"answer")
    await until(lambda: (two.peer.node_id, b"answer") in one.recorder.messages)


@bounded
async def test_a_killed_process_is_disconnected_then_unreachable(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with other_process(fleet, 2) as (process, peer):
        one.transport.send(peer, b"are you there?")
        await until(lambda: one.recorder.messages == [(2, b"are you there?")])
        process.send_signal(signal.SIGKILL)
        await until(lambda: one.recorder.events)
        assert one.recorder.events == [("disconnected", 2)]
        await process.wait()  # its listening socket may close a little after the connections
        one.transport.send(peer, b"still there?")
        await until(lambda: len(one.recorder.events) == 2)
        assert one.recorder.events == [("disconnected", 2), ("unreachable", 2)]
        assert one.recorder.reasons == ["connection refused"]
        assert one.transport.statistics().dropped == 1


@bounded
async def test_a_restarted_process_is_told_once(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with other_process(fleet, 2) as (process, peer):
        one.transport.send(peer, b"first")
        await until(lambda: one.recorder.payloads == [b"first"])
        process.send_signal(signal.SIGKILL)
        await until(lambda: one.recorder.events)
    async with other_process(fleet, 2, listen=peer.address, incarnation=2):
        one.transport.send(peer, b"second")
        await until(lambda: one.recorder.payloads == [b"first", b"second"])
        assert one.recorder.events == [("disconnected", 2), ("restarted", 2)]


@bounded
async def test_a_stopped_process_blocks_nobody_and_gets_its_messages_later(fleet: Fleet) -> None:
    one, three = await fleet.start(1), await fleet.start(3)
    async with other_process(fleet, 2) as (process, peer):
        one.transport.send(peer, b"are you there?")
        await until(lambda: one.recorder.messages)
        process.send_signal(signal.SIGSTOP)
        for _ in range(20):
            one.transport.send(peer, bytes(MEBIBYTE))
        await exchange(one, three)
        assert one.transport.statistics().waiting_bytes > 5 * MEBIBYTE
        process.send_signal(signal.SIGCONT)
        await until(lambda: len([data for sender, data in one.recorder.messages if sender == 2]) == 21)
        assert one.transport.statistics().dropped == 0
        assert one.recorder.events == []


@bounded
async def test_a_message_is_sent_again_by_another_link_when_one_breaks(fleet: Fleet) -> None:
    """The last link that breaks is a loss; before that what waits goes on by another."""
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2) as first:
        await until(lambda: one.transport.connections())
        async with fleet.raw_peer(one, 2) as second:
            await until(lambda: len(one.transport.connections()) == 2)
            peer = one.transport.connections()[0].peer
            one.transport.send(peer, b"to the first link")
            assert await first.next(FrameKind.MESSAGE) == b"to the first link"
            await trio.aclose_forcefully(first.stream)
            await until(lambda: len(one.transport.connections()) == 1)
            one.transport.send(peer, b"to the second link")
            assert await second.next(FrameKind.MESSAGE) == b"to the second link"
            assert one.recorder.events == []
    await until(lambda: one.recorder.events == [("disconnected", 2)])


@bounded
async def test_another_incarnation_replaces_the_links_of_the_old_one(fleet: Fleet) -> None:
    """The old process died without a word that reached us."""
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2, incarnation=4) as old:
        await old.send(b"old")
        await until(lambda: one.recorder.messages)
        async with (
            fleet.raw_peer(one, 2, incarnation=5, address="127.0.0.1:5") as new,
            fleet.raw_peer(one, 2, incarnation=5, address="127.0.0.1:5") as newer,
        ):
            await new.send(b"new")
            await newer.send(b"newer")
            await until(lambda: len(one.recorder.messages) == 3)
            assert one.recorder.events == [("restarted", 2)]
            assert one.recorder.addresses == ["127.0.0.1:5"]
            assert {connection.incarnation for connection in one.transport.connections()} == {5}
            while await old.receive() is not None:
                pass


@bounded
async def test_an_incarnation_that_went_back_is_a_restart_too(fleet: Fleet) -> None:
    """Somebody emptied the peer's data directory."""
    one = await fleet.start(1)
    for incarnation in (9, 1):
        async with fleet.raw_peer(one, 2, incarnation=incarnation) as raw:
            await raw.send(b"x")
            await until(lambda: one.recorder.messages)
        await until(lambda: not one.transport.connections())
        one.recorder.messages.clear()
    assert [event for event, _ in one.recorder.events] == ["disconnected", "restarted", "disconnected"]


@bounded
async def test_two_agents_with_one_certificate_are_named_with_both_addresses(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    one = await fleet.start(1)
    for incarnation, address in ((4, "127.0.0.1:4"), (9, "127.0.0.1:9"), (4, "127.0.0.1:4")):
        assert not one.transport.statistics().twins, "an agent that is restarted may have another address"
        async with fleet.raw_peer(one, 2, incarnation=incarnation, address=address) as raw:
            await raw.send(b"x")
            await until(lambda: one.recorder.messages)
        await until(lambda: not one.transport.connections())
        one.recorder.messages.clear()
    assert one.transport.statistics().twins == {"agent-2 at 127.0.0.1:4 and 127.0.0.1:9": 1}
    assert "agent-2 at 127.0.0.1:4 and 127.0.0.1:9: stop one" in caplog.text


@bounded
async def test_twins_of_one_incarnation_are_told_by_their_addresses(fleet: Fleet) -> None:
    """Somebody copied a whole machine."""
    one = await fleet.start(1)
    async with (
        fleet.raw_peer(one, 2, incarnation=4, address="127.0.0.1:4") as first,
        fleet.raw_peer(one, 2, incarnation=4, address="127.0.0.1:9") as second,
    ):
        await first.send(b"first")
        await second.send(b"second")
        await until(lambda: len(one.recorder.messages) == 2)
        assert list(one.transport.statistics().twins) == ["agent-2 at 127.0.0.1:4 and 127.0.0.1:9"]


@bounded
async def test_the_same_process_that_dials_again_is_no_restart(fleet: Fleet) -> None:
    one, two = [await fleet.start(number, idle_s=0.02, sweep_s=0.005) for number in (1, 2)]
    for _ in range(3):
        await exchange(one, two)
        await until(lambda: not one.transport.connections() and not two.transport.connections())
    assert one.recorder.events == two.recorder.events == []


@bounded
async def test_each_attempt_is_told_once_and_drops_what_waited(fleet: Fleet) -> None:
    one, gone = await fleet.start(1), await fleet.start(2)
    await gone.transport.close(timeout_s=1)
    for attempt in range(1, 4):
        for _ in range(5):
            one.send(gone, b"x")
        await until(lambda attempt=attempt: len(one.recorder.events) == attempt)
        assert one.transport.statistics().dialled == attempt
        assert one.transport.statistics().dropped == 5 * attempt
    assert one.recorder.events == 3 * [("unreachable", 2)]


@bounded
async def test_a_dead_peer_is_dialled_less_and_less_often(fleet: Fleet) -> None:
    one, gone = await fleet.start(1), await fleet.start(2)
    await gone.transport.close(timeout_s=1)
    started = trio.current_time()
    while trio.current_time() < started + 0.5:
        one.send(gone, b"x")
        await trio.sleep(0.002)
    assert 2 <= one.transport.statistics().dialled <= 4


@bounded
async def test_what_is_sent_from_within_unreachable_is_another_attempt(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, gone = await fleet.start(1), await fleet.start(2)
    await gone.transport.close(timeout_s=1)
    told = []

    def try_again(peer: Peer, reason: str) -> None:
        told.append(reason)
        if len(told) < 3:
            one.transport.send(peer, b"again")

    monkeypatch.setattr(one.recorder, "unreachable", try_again)
    one.send(gone, b"x")
    await until(lambda: len(told) == 3)
    assert one.transport.statistics().dialled == 3


@bounded
async def test_a_peer_that_comes_back_gets_what_waits_for_the_next_attempt(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    await two.kill()
    one.send(two, b"lost")
    await until(lambda: one.recorder.events)
    one.send(two, b"waits")
    again = await fleet.start(2, listen=two.peer.address, incarnation=2)
    again.send(one, b"I am back")
    await until(lambda: again.recorder.payloads == [b"waits"])


@bounded
async def test_a_peer_that_moved_is_reached_at_its_new_address(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    await two.transport.close(timeout_s=1)
    moved = await fleet.start(2, incarnation=2)
    one.transport.send(two.peer, b"to the old address")
    one.transport.send(moved.peer, b"to the new one")
    await until(lambda: len(moved.recorder.messages) == 2)
    assert one.recorder.events == []


@bounded
async def test_a_peer_that_does_not_read_is_bounded_and_blocks_nobody(fleet: Fleet) -> None:
    limit = MEBIBYTE
    one, three = await fleet.start(1, queue_bytes=limit), await fleet.start(3)
    size = 16 * KIBIBYTE
    count = 1000
    async with fleet.raw_peer(one, 2) as lazy:
        await until(lambda: one.transport.connections())
        peer = one.transport.connections()[0].peer
        for number in range(count):
            one.transport.send(peer, number.to_bytes(4, "big") + bytes(size - 4))
            await trio.lowlevel.checkpoint()
        assert one.transport.statistics().waiting_bytes <= limit
        await exchange(one, three)
        dropped = one.transport.statistics().dropped
        assert dropped > count // 2
        arrived = []
        for _ in range(count - dropped):
            data = await lazy.next(FrameKind.MESSAGE)
            assert data is not None
            await lazy.give(urgent=len(data) + HEADER.size)
            arrived.append(int.from_bytes(data[:4], "big"))
        assert arrived == sorted(set(arrived))  # each once and in order: the latest were dropped
        assert arrived[0] == 0


@bounded
async def test_many_peers_that_do_not_read_leave_room_for_those_that_do(fleet: Fleet) -> None:
    """Together the queues hold a bounded number of bytes; a peer that reads is still served."""
    one = await fleet.start(1, all_queues_bytes=2 * MEBIBYTE)
    three = await fleet.start(3)
    async with fleet.raw_peer(one, 10), fleet.raw_peer(one, 11), fleet.raw_peer(one, 12):
        await until(lambda: len(one.transport.connections()) == 3)
        for connection in one.transport.connections():
            for _ in range(16):
                one.transport.send(connection.peer, bytes(MEBIBYTE // 2))
        assert one.transport.statistics().waiting_bytes <= 5 * MEBIBYTE
        assert one.transport.statistics().dropped > 0
        await exchange(one, three)


@bounded
async def test_a_peer_that_never_reads_loses_its_link(fleet: Fleet) -> None:
    one = await fleet.start(1, stall_s=0.1, sweep_s=0.02)
    async with fleet.raw_peer(one, 2):
        await until(lambda: one.transport.connections())
        for _ in range(16):
            one.transport.send(one.transport.connections()[0].peer, bytes(MEBIBYTE))
        await until(lambda: one.recorder.events)
        assert one.recorder.events == [("disconnected", 2)]
        assert one.transport.statistics().waiting_bytes == 0
        assert one.transport.statistics().dropped > 0


@bounded
async def test_a_link_cut_in_the_middle_of_a_message_delivers_nothing_of_it(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2) as raw:
        whole = raw.writer.frame(FrameKind.MESSAGE, bytes(100))
        begun = raw.writer.frame(FrameKind.OPEN, LENGTH.pack(200)) + raw.writer.frame(FrameKind.PIECE, bytes(199))
        await raw.stream.send_all(whole + begun + whole[: HEADER.size + 50])
        await until(lambda: one.recorder.messages)
    await until(lambda: one.recorder.events)
    assert one.recorder.messages == [(2, bytes(100))]
    assert one.recorder.events == [("disconnected", 2)]


@bounded
async def test_what_a_receiver_raises_is_not_hidden(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what looks like a fault of the network."""
    two, recorder = await fleet.start(2), Recorder()

    def fail(peer: Peer, data: bytes) -> None:
        raise OSError(f"the disk is full: {peer}, {data!r}")

    monkeypatch.setattr(recorder, "received", fail)
    transport = Transport(fleet.identity(1), LOCAL, incarnation=1, receiver=recorder)
    two.transport.send(transport.bind(), b"x")
    with pytest.raises(ExceptionGroup) as caught:
        await transport.serve()
    assert caught.group_contains(OSError, match="the disk is full")
