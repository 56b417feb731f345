"""One link for each pair of agents, kept as long as one of them needs it, and given up without a loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from transport_fleet import Agent, Fleet, bounded, until

from overlay.transport.link.framing import FrameKind
from overlay.transport.transport import LINKS_PER_PEER_MAX

MEBIBYTE = 1 << 20


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


def links(agent: Agent) -> int:
    return len(agent.transport.connections())


@bounded
async def test_two_agents_that_dial_each_other_at_once_end_with_one_link(fleet: Fleet) -> None:
    twice = 0
    for number in range(8):
        one, two = await fleet.start(2 * number + 1), await fleet.start(2 * number + 2)
        sent = [b"%d" % index for index in range(50)]
        for data in sent:
            one.send(two, data)
            two.send(one, data)
            if len(data) > 1:
                await trio.sleep(0.0002 * number)
        await until(lambda one=one, two=two: len(one.recorder.messages) + len(two.recorder.messages) == 100)
        await until(lambda one=one, two=two: links(one) == links(two) == 1)
        assert one.recorder.payloads == two.recorder.payloads == sent
        assert one.recorder.events == two.recorder.events == []
        twice += one.transport.statistics().dialled + two.transport.statistics().dialled == 2
        for agent in (one, two):
            assert agent.transport.statistics().broken == agent.transport.statistics().dropped == 0
    assert twice > 0


@bounded
async def test_the_link_the_lower_id_dialled_stays(fleet: Fleet) -> None:
    """The other one ends when what it is amid is whole."""
    low, high = await fleet.start(1), await fleet.start(2)
    high.send(low, b"over the link of the higher")
    await until(lambda: low.recorder.messages)
    low.send(high, bytes(3 * MEBIBYTE))
    await low.transport.identify(high.peer.address)
    high.send(low, bytes(2 * MEBIBYTE))
    await until(lambda: len(low.recorder.messages) == 2 and len(high.recorder.messages) == 1)
    await until(lambda: links(low) == links(high) == 1)
    low.send(high, b"over the one that is left")
    await until(lambda: len(high.recorder.messages) == 2)
    assert (low.transport.statistics().dialled, high.transport.statistics().dialled) == (1, 1)
    assert low.recorder.events == high.recorder.events == []
    assert low.transport.statistics().broken == high.transport.statistics().broken == 0


@bounded
async def test_a_link_is_kept_while_either_side_needs_it(fleet: Fleet) -> None:
    """One would close it after 20 ms; two has sent something over it less than a minute ago."""
    one, two = await fleet.start(1, idle_s=0.02, sweep_s=0.005), await fleet.start(2)
    one.send(two, b"question")
    await until(lambda: two.recorder.messages)
    two.send(one, b"answer")
    await until(lambda: one.recorder.messages)
    frames = one.transport.statistics().frames_in
    await until(lambda: one.transport.statistics().frames_in >= frames + 3)  # told to stay three times
    assert links(one) == links(two) == 1
    two.send(one, b"over the same link")
    await until(lambda: len(one.recorder.messages) == 2)
    assert one.transport.statistics().dialled == 1
    assert two.transport.statistics().dialled == 0


@bounded
async def test_a_goodbye_waits_for_the_long_message_under_way(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    one.send(two, b"the link is up")
    await until(lambda: two.recorder.messages)
    one.send(two, bytes(20 * MEBIBYTE))
    two.send(one, bytes(10 * MEBIBYTE))
    await one.transport.close(timeout_s=10)
    assert len(two.recorder.messages) == 2
    assert len(one.recorder.messages) == 1
    assert one.recorder.events == two.recorder.events == []


@bounded
async def test_what_was_not_heard_before_the_end_is_told(fleet: Fleet) -> None:
    """A peer that ends after our goodbye without a word may have missed what came before it."""
    one = await fleet.start(1, idle_s=0.02, goodbye_s=0.05, sweep_s=0.01)
    async with fleet.raw_peer(one, 2) as raw:
        await until(lambda: one.transport.connections())
        one.transport.send(one.transport.connections()[0].peer, b"unheard")
        assert await raw.next(FrameKind.GOODBYE) == b""
    await until(lambda: one.recorder.events)
    assert one.recorder.events == [("disconnected", 2)]


@bounded
async def test_one_peer_cannot_have_many_links(fleet: Fleet) -> None:
    one = await fleet.start(1)
    async with trio.open_nursery() as nursery:

        async def stay(task_status: trio.TaskStatus[None]) -> None:
            async with fleet.raw_peer(one, 2) as raw:
                task_status.started()
                await raw.rest()
                await trio.sleep_forever()

        for _ in range(5 * LINKS_PER_PEER_MAX):
            await nursery.start(stay)
        await until(lambda: one.transport.statistics().broken == 4 * LINKS_PER_PEER_MAX)
        assert links(one) == LINKS_PER_PEER_MAX
        assert one.transport.statistics().refused == {"too many links to one peer": 4 * LINKS_PER_PEER_MAX}
        assert one.recorder.events == []
        nursery.cancel_scope.cancel()


@bounded
async def test_the_least_used_link_gives_way_to_a_new_one(fleet: Fleet) -> None:
    """Not the one that was quiet for longest."""
    one = await fleet.start(1, connections=2, spared_s=0.02, sweep_s=0.005)
    much, little, new = [await fleet.start(number) for number in (2, 3, 4)]
    for _ in range(20):
        much.send(one, b"x")
    await until(lambda: len(one.recorder.messages) == 20)
    little.send(one, b"x")
    await until(lambda: len(one.recorder.messages) == 21)
    await trio.sleep(0.05)  # idle for longer than links are spared
    new.send(one, b"x")
    await until(lambda: len(one.recorder.messages) == 22)
    await until(lambda: links(one) == 2)
    assert {link.peer.node_id for link in one.transport.connections()} == {2, 4}
    assert one.recorder.events == little.recorder.events == []
