"""Messages between agents over real sockets: they arrive, in order, whole, and cost what they should."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
import trio
from transport_fleet import LOCAL, Fleet, Recorder, bounded, until

from overlay import ConnectError, ListenError, Peer, Transport, UnknownHostError
from overlay.transport.link.framing import PAYLOAD_BYTES_MAX

MEBIBYTE = 1 << 20


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


@bounded
async def test_messages_go_both_ways_in_order(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    there = [f"there {number}".encode() for number in range(500)]
    back = [f"back {number}".encode() for number in range(500)]
    for first, second in zip(there, back, strict=True):
        one.send(two, first)
        two.send(one, second)
    await until(lambda: len(one.recorder.messages) + len(two.recorder.messages) == 1000)
    assert one.recorder.messages == [(2, data) for data in back]
    assert two.recorder.messages == [(1, data) for data in there]
    assert one.recorder.events == two.recorder.events == []


@bounded
async def test_one_link_serves_both_ways(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    one.send(two, b"question")
    await until(lambda: two.recorder.messages)
    two.send(one, b"answer")
    await until(lambda: one.recorder.messages)
    assert [len(agent.transport.connections()) for agent in (one, two)] == [1, 1]
    assert two.transport.statistics().dialled == 0


@bounded
async def test_peers_are_known_by_id_name_address_and_incarnation(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2, incarnation=7)
    one.send(two, b"x")
    await until(lambda: two.recorder.messages)
    (there,), (here,) = one.transport.connections(), two.transport.connections()
    assert (there.peer, there.name, there.incarnation) == (two.peer, "agent-2", 7)
    assert (here.peer, here.name, here.incarnation) == (one.peer, "agent-1", 1)


@bounded
async def test_long_messages_arrive_whole_and_in_order(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    long = bytes(range(256)) * (20 * MEBIBYTE // 256)
    for data in (b"before", long, b"between", long[::-1], b"after"):
        one.send(two, data)
        two.send(one, data)
    await until(lambda: len(one.recorder.messages) + len(two.recorder.messages) == 10)
    for recorder in (one.recorder, two.recorder):  # short ones are not kept waiting by long ones
        assert [data for data in recorder.payloads if len(data) < 10] == [b"before", b"between", b"after"]
        assert [data for data in recorder.payloads if len(data) > 10] == [long, long[::-1]]


@bounded
async def test_a_long_message_takes_little_more_than_its_own_memory(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    one.send(two, b"the link is up")
    await until(lambda: two.recorder.messages)
    data = bytes(20 * MEBIBYTE)
    tracemalloc.start()
    try:
        one.send(two, data)
        await until(lambda: len(two.recorder.messages) == 2)
        assert tracemalloc.get_traced_memory()[1] < 1.4 * len(data)  # what is received, and nothing twice
    finally:
        tracemalloc.stop()


@bounded
async def test_a_long_message_leaves_others_their_turn(fleet: Fleet) -> None:
    one, two, three = [await fleet.start(number) for number in (1, 2, 3)]
    for other in (two, three):
        one.send(other, b"the link is up")
        await until(lambda other=other: other.recorder.messages)
    for _ in range(3):
        one.send(two, bytes(20 * MEBIBYTE))
    one.send(three, b"short")
    await until(lambda: len(three.recorder.messages) == 2)
    assert len(two.recorder.messages) < 4
    await until(lambda: len(two.recorder.messages) == 4)


@bounded
async def test_a_message_is_never_empty_nor_longer_than_a_frame(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    for data in (b"", bytes(PAYLOAD_BYTES_MAX + 1)):
        with pytest.raises(ValueError, match="a message is 1 to"):
            one.send(two, data)


@bounded
async def test_an_agent_does_not_send_to_itself(fleet: Fleet) -> None:
    one = await fleet.start(1)
    one.send(one, b"x")
    assert one.transport.statistics().dropped == 1


@bounded
async def test_what_is_sent_before_serving_is_sent_then(fleet: Fleet, nursery: trio.Nursery) -> None:
    two = await fleet.start(2)
    transport = Transport(fleet.identity(1), LOCAL, incarnation=1, receiver=Recorder())
    transport.send(two.peer, b"early")
    await nursery.start(transport.serve)
    await until(lambda: two.recorder.messages)


@bounded
async def test_an_address_tells_who_is_there(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    assert await one.transport.identify(two.peer.address) == two.peer
    one.send(two, b"over the same link")
    await until(lambda: two.recorder.messages)
    assert one.transport.statistics().dialled == 1


@bounded
async def test_ones_own_address_tells_it_is_ones_own(fleet: Fleet) -> None:
    one = await fleet.start(1)
    assert await one.transport.identify(one.peer.address) == one.peer
    await until(lambda: not one.transport.statistics().strangers)
    assert one.transport.statistics().refused == {}
    assert one.transport.connections() == ()


@bounded
async def test_asking_again_keeps_one_link(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    for _ in range(3):
        await one.transport.identify(two.peer.address)
    await until(lambda: len(one.transport.connections()) == len(two.transport.connections()) == 1)
    assert one.recorder.events == two.recorder.events == []


@pytest.mark.parametrize(
    ("address", "kind", "complaint"),
    [
        ("127.0.0.1:1", ConnectError, "127.0.0.1:1: connection refused"),
        ("nowhere", ConnectError, "nowhere: not an address"),
        ("no-such-host.invalid:7", UnknownHostError, "no-such-host.invalid:7: host name not found"),
    ],
)
@bounded
async def test_an_address_where_nobody_is_says_so(
    fleet: Fleet, address: str, kind: type[ConnectError], complaint: str
) -> None:
    one = await fleet.start(1)
    with pytest.raises(ConnectError) as caught:
        await one.transport.identify(address)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(complaint)
    assert "\n" not in str(caught.value)


@bounded
async def test_a_port_in_use_is_said(fleet: Fleet) -> None:
    one = await fleet.start(1)
    transport = Transport(fleet.identity(2), one.peer.address, incarnation=1, receiver=Recorder())
    with pytest.raises(ListenError) as caught:
        await transport.serve()
    assert str(caught.value) == f"cannot listen on {one.peer.address}: the port is in use"


@pytest.mark.parametrize(
    ("listen", "advertise", "complaint"),
    [
        ("127.0.0.1", None, "'127.0.0.1' is not host:port"),
        ("127.0.0.1:99999", None, "a port is 0 to 65535"),
        ("::1:7700", None, "stands in brackets"),
        ("0.0.0.0:0", None, "an advertised address is needed"),
        ("127.0.0.1:0", "0.0.0.0:7", "others cannot dial it"),
        ("127.0.0.1:0", "somewhere", "is not host:port"),
        ("203.0.113.7:0", None, "this machine has no such address"),
    ],
)
def test_an_address_that_cannot_be_is_said(tmp_path: Path, listen: str, advertise: str | None, complaint: str) -> None:
    identity = Fleet(tmp_path, None).identity(1)
    transport = Transport(identity, listen, advertise=advertise, incarnation=1, receiver=Recorder())
    with pytest.raises(ListenError) as caught:
        transport.bind()
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@bounded
async def test_what_is_advertised_is_what_others_dial(fleet: Fleet, nursery: trio.Nursery) -> None:
    one, recorder = await fleet.start(1), Recorder()
    transport = Transport(fleet.identity(2), "0.0.0.0:0", advertise="127.0.0.1:0", incarnation=1, receiver=recorder)
    peer: Peer = await nursery.start(transport.serve)
    transport.send(one.peer, b"x")
    await until(lambda: one.recorder.messages)
    (here,) = one.transport.connections()
    assert here.peer == peer
    assert peer.address.startswith("127.0.0.1:")
    assert not peer.address.endswith(":0")


@bounded
async def test_closing_sends_what_waits(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    messages = [bytes([number]) * (5 * MEBIBYTE) for number in range(4)]
    for data in messages:
        one.send(two, data)
    await one.transport.close(timeout_s=10)
    await until(lambda: len(two.recorder.messages) == len(messages))
    assert two.recorder.payloads == messages
    await until(lambda: not two.transport.connections())
    assert two.recorder.events == []  # a link that is closed on purpose is not broken
    one.send(two, b"too late")
    assert one.transport.statistics().dropped == 1


@bounded
async def test_closing_lets_go_of_the_port(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    one.send(two, b"x")
    await until(lambda: two.recorder.messages)
    await one.transport.close(timeout_s=5)
    again = await fleet.start(1, listen=one.peer.address, incarnation=2)
    assert again.peer == one.peer
    with pytest.raises(ConnectError, match="the transport is closed"):
        await one.transport.identify(two.peer.address)


@bounded
async def test_closing_does_not_wait_for_those_who_do_not_answer(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2):
        await until(lambda: one.transport.connections())
        await one.transport.close(timeout_s=0.1)
        assert one.transport.connections() == ()


@bounded
async def test_an_idle_link_is_closed_and_dialled_again_when_needed(fleet: Fleet) -> None:
    one = await fleet.start(1, idle_s=0.05, sweep_s=0.01)
    two = await fleet.start(2)
    one.send(two, b"first")
    await until(lambda: two.recorder.messages and not one.transport.connections() and not two.transport.connections())
    two.send(one, b"second")
    await until(lambda: one.recorder.messages)
    assert one.recorder.events == two.recorder.events == []


@bounded
async def test_links_that_close_for_idleness_lose_nothing(fleet: Fleet) -> None:
    """Goodbyes and messages cross on the way all the time."""
    one, two = [await fleet.start(number, idle_s=0.002, sweep_s=0.001) for number in (1, 2)]
    sent = [b"%d" % number for number in range(200)]
    for number, data in enumerate(sent):
        one.send(two, data)
        two.send(one, data)
        await trio.sleep(0.001 * (number % 11))
    await until(lambda: len(one.recorder.messages) == len(two.recorder.messages) == len(sent))
    assert one.recorder.payloads == two.recorder.payloads == sent
    assert one.transport.statistics().dialled + two.transport.statistics().dialled > 2
    assert one.recorder.events == two.recorder.events == []
    assert one.transport.statistics().dropped == two.transport.statistics().dropped == 0


@bounded
async def test_two_agents_that_dial_each_other_at_once_lose_nothing(fleet: Fleet) -> None:
    for number in range(10):
        one = await fleet.start(2 * number + 1, idle_s=0.2, sweep_s=0.02)
        two = await fleet.start(2 * number + 2, idle_s=0.2, sweep_s=0.02)
        for data in (b"a", b"b", b"c"):
            one.send(two, data)
            two.send(one, data)
            await trio.sleep(0.001 * number)
        await until(lambda one=one, two=two: len(one.recorder.messages) + len(two.recorder.messages) == 6)
        assert one.recorder.payloads == two.recorder.payloads == [b"a", b"b", b"c"]
        assert one.recorder.events == two.recorder.events == []


@bounded
async def test_many_agents_that_start_at_once_all_get_through(fleet: Fleet, nursery: trio.Nursery) -> None:
    seed = await fleet.start(1, strangers=4)
    others = [await fleet.start(number) for number in range(2, 42)]
    for other in others:
        other.send(seed, b"x")
    await until(lambda: len(seed.recorder.messages) == len(others))
    assert seed.transport.statistics().refused == {}
    assert nursery.cancel_scope.cancel_called is False
