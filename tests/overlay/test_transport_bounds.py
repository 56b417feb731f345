"""The parts that keep a transport bounded, each alone: queues, the waiting room, the log of refusals."""

from __future__ import annotations

import logging
import ssl

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from overlay.transport.link.framing import HEADER
from overlay.transport.link.handshake_slots import HandshakeSlots
from overlay.transport.link.refusals import LOG_PERIOD_S, OTHER, REASONS_MAX, LinkError, Refusals, explained
from overlay.transport.link.send_queues import OWN_BYTES, QueueBudget, SendQueue
from overlay.wire.addresses import format_address, parse_address


@pytest.mark.fuzz
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2 * OWN_BYTES)), max_size=40),
    st.integers(OWN_BYTES, 4 * OWN_BYTES),
)
def test_queues_are_bounded_each_and_together(steps: list[tuple[int, int]], all_bytes: int) -> None:
    allowance = QueueBudget(all_bytes)
    queues = [SendQueue(allowance, messages_max=8, bytes_max=2 * OWN_BYTES) for _ in range(3)]
    accepted: list[list[int]] = [[], [], []]
    for index, size in steps:
        queue, sizes = queues[index], accepted[index]
        if size % 3 == 0 and sizes:
            assert len(queue.oldest) == sizes[0]
            assert len(queue.popleft()) == sizes.pop(0)
        elif queue.append(bytes(size)):
            sizes.append(size)
        else:
            assert len(queue) == 8 or queue.byte_count + size + HEADER.size > OWN_BYTES
        assert [len(other) for other in queues] == [len(sizes) for sizes in accepted]
        assert allowance.used == sum(other.byte_count for other in queues)
        assert allowance.used <= all_bytes + 3 * OWN_BYTES
    assert [queue.clear() for queue in queues] == [len(sizes) for sizes in accepted]
    assert allowance.used == 0


def test_an_empty_queue_takes_one_message_over_its_bound() -> None:
    queue = SendQueue(QueueBudget(), bytes_max=100)
    assert queue.append(bytes(1000))
    assert not queue.append(b"x")


async def stay(room: HandshakeSlots, seconds: float, ended: list[float]) -> None:
    with room.take_place():
        await trio.sleep(seconds)
    ended.append(trio.current_time())


@pytest.mark.trio
async def test_nobody_waits_longer_than_the_limit(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    assert autojump_clock.autojump_threshold == 0
    room, ended = HandshakeSlots(places=4, stay_s=5, safe_s=1), []
    start = trio.current_time()
    nursery.start_soon(stay, room, 2, ended)
    nursery.start_soon(stay, room, 100, ended)
    await trio.testing.wait_all_tasks_blocked()
    assert len(room) == 2
    await trio.sleep(10)
    assert [moment - start for moment in ended] == [2, 5]
    assert len(room) == 0


@pytest.mark.trio
async def test_newcomers_wait_while_everybody_is_new(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    assert autojump_clock.autojump_threshold == 0
    room, ended = HandshakeSlots(places=2, stay_s=5, safe_s=1), []
    start = trio.current_time()
    for seconds in (0.3, 100):
        await room.wait_for_place()
        nursery.start_soon(stay, room, seconds, ended)
        await trio.testing.wait_all_tasks_blocked()
    await room.wait_for_place()
    assert trio.current_time() - start == pytest.approx(0.3)  # someone was done
    nursery.start_soon(stay, room, 100, ended)
    await trio.testing.wait_all_tasks_blocked()
    await room.wait_for_place()
    assert trio.current_time() - start == pytest.approx(1.0)  # the oldest had to give way
    await trio.testing.wait_all_tasks_blocked()
    assert [moment - start for moment in ended] == pytest.approx([0.3, 1.0])


def test_a_reason_is_logged_once_a_minute_with_what_was_left_unsaid(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="elf.overlay")
    refusals = Refusals()
    for second in range(0, 121):
        refusals.log("not TLS", f"refused number {second}", float(second))
    refusals.log("too slow", "refused another", 121.0)
    assert [record.getMessage() for record in caplog.records] == [
        "refused number 0",
        "refused number 60 (59 more like it since the last such line)",
        "refused number 120 (59 more like it since the last such line)",
        "refused another",
    ]
    assert LOG_PERIOD_S == 60


def test_reasons_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="elf.overlay")
    refusals = Refusals()
    for number in range(10 * REASONS_MAX):
        refusals.count(f"reason {number}")
        refusals.log(f"reason {number}", "refused", 0.0)
    counts = refusals.snapshot()
    assert len(counts) == REASONS_MAX + 1
    assert counts[OTHER] == 9 * REASONS_MAX
    assert len(caplog.records) == REASONS_MAX + 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (OSError(99999, "something new"), "something new"),
        (OSError("without a number"), "other (without a number)"),
        (ssl.SSLEOFError(8, "EOF"), "closed by the peer"),
        (ssl.SSLError(1, "strange"), "TLS failed (?)"),
        (LinkError("too slow"), "too slow"),
    ],
)
def test_errors_are_said_in_a_few_words(error: Exception, text: str) -> None:
    assert str(explained(error)) == text


@pytest.mark.fuzz
@given(st.text(max_size=300))
def test_an_address_is_read_or_refused(text: str) -> None:
    try:
        host, port = parse_address(text)
    except ValueError:
        return
    assert parse_address(format_address(host, port)) == (host, port)
