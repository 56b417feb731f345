"""Strangers to the fleet are refused and counted, and cost others nothing."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from transport_fleet import Agent, Fleet, RawPeer, bounded, dial_tcp, receive_or_end, until

from overlay import Authority, ConnectError, Credentials, Identity, Peer
from overlay.transport.link.framing import (
    HEADER,
    HELLO_BYTES_MAX,
    PIECE_BYTES_MAX,
    URGENT_BYTES_MAX,
    VERSION,
    FrameKind,
    fleet_tag,
)

NOW = datetime.now(UTC)
EXPIRED = {"not_before": NOW - timedelta(days=2), "days": 1.0}
FUTURE = {"not_before": NOW + timedelta(days=1)}
Presented = Callable[[Fleet], Credentials | None]


def self_signed(fleet: Fleet) -> Credentials:
    """An authority's own certificate, shown by an agent."""
    directory = fleet.directory / "self-signed"
    Authority.create("shop").save(directory)
    return Credentials(
        (directory / "ca.pem").read_bytes(), (directory / "ca.key").read_bytes(), fleet.identity(99).node_id
    )


BAD_CERTIFICATES: dict[str, tuple[Presented, str]] = {
    "expired": (lambda fleet: fleet.credentials(2, **EXPIRED), "certificate expired"),
    "not yet valid": (lambda fleet: fleet.credentials(2, **FUTURE), "certificate not yet valid"),
    "another authority": (
        lambda fleet: fleet.credentials(2, Authority.create("shop")),
        "certificate of another authority",
    ),
    "another fleet": (lambda fleet: fleet.credentials(2, Authority.create("zoo")), "certificate of another authority"),
    "self-signed": (self_signed, "certificate self-signed"),
    "a creator's": (lambda fleet: fleet.creator(), "not an agent's certificate"),
    "none": (lambda _: None, "no certificate"),
}


@pytest.fixture
def fleet(tmp_path: Path, nursery: trio.Nursery) -> Fleet:
    return Fleet(tmp_path, nursery)


def header(length: int, kind: int, *, version: int = VERSION, fleet: str = "shop") -> bytes:
    return HEADER.pack(length, version, kind, fleet_tag(fleet))


def refused(agent: Agent) -> dict[str, int]:
    return dict(agent.transport.statistics().refused)


async def assert_lives(agent: Agent, fleet: Fleet) -> None:
    """An honest agent still gets through, both ways."""
    honest = await fleet.start(4711)
    honest.send(agent, b"are you there?")
    await until(lambda: (4711, b"are you there?") in agent.recorder.messages)
    agent.send(honest, b"yes")
    await until(lambda: honest.recorder.payloads == [b"yes"])


def loaded(fleet: Fleet, credentials: Credentials, monkeypatch: pytest.MonkeyPatch) -> Identity:
    """An identity no agent could load any more: its certificate ran out while the agent was running."""
    with monkeypatch.context() as patched:
        patched.setattr("overlay.transport.identity.identity._check_times", lambda *_: NOW)
        return Identity.load(*fleet.write(credentials))


@bounded
async def test_a_creator_who_dials_is_refused_once_the_certificate_is_read(fleet: Fleet) -> None:
    """TLS lets it pass, as creators ask agents too, where those listen for clients."""
    one = await fleet.start(1)
    async with await fleet.dial_raw(one.peer.address, fleet.creator()) as stream:
        with suppress(trio.BrokenResourceError):
            assert await stream.receive_some() == b""
    await until(lambda: refused(one))
    assert refused(one) == {"not an agent's certificate": 1}
    assert one.recorder.events == []
    await assert_lives(one, fleet)


@pytest.mark.parametrize("case", [case for case in BAD_CERTIFICATES if case != "a creator's"])
@bounded
async def test_who_dials_with_a_bad_certificate_is_refused(fleet: Fleet, case: str) -> None:
    presented, reason = BAD_CERTIFICATES[case]
    one = await fleet.start(1)
    async with await fleet.dial_raw(one.peer.address, presented(fleet)) as stream:
        with pytest.raises(trio.BrokenResourceError) as caught:
            await stream.receive_some()
    assert "ALERT" in str(caught.value.__cause__).upper()  # it is told why
    await until(lambda: refused(one))
    assert refused(one) == {reason: 1}
    assert one.recorder.events == []
    await assert_lives(one, fleet)


@pytest.mark.parametrize("case", [case for case in BAD_CERTIFICATES if case != "none"])
@bounded
async def test_whom_one_dials_must_have_a_good_certificate(fleet: Fleet, case: str) -> None:
    presented, reason = BAD_CERTIFICATES[case]
    one = await fleet.start(1)
    context = fleet.raw_context(presented(fleet), is_server=True)

    async def shake_hands(stream: trio.SocketStream) -> None:
        async with stream:
            with pytest.raises(trio.BrokenResourceError):
                await trio.SSLStream(stream, context, server_side=True).do_handshake()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, shake_hands, [listener])
        address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        with pytest.raises(ConnectError, match=f"{address}: {reason}"):
            await one.transport.identify(address)
        one.transport.send(Peer(2, address), b"secret")
        await until(lambda: one.recorder.events)
        nursery.cancel_scope.cancel()
    assert one.recorder.events == [("unreachable", 2)]
    assert one.recorder.reasons[0].startswith(reason)
    assert one.transport.statistics().unreachable == {reason: 2}
    await assert_lives(one, fleet)


@pytest.mark.parametrize(
    ("dates", "reason"), [(EXPIRED, "certificate is expired or not yet valid"), (FUTURE, "it refused our certificate")]
)
@bounded
async def test_an_agent_whose_certificate_is_refused_is_told_why(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, dates: dict[str, Any], reason: str
) -> None:
    one = await fleet.start(1)
    two = await fleet.start(2, identity=loaded(fleet, fleet.credentials(2, **dates), monkeypatch))
    two.send(one, b"x")
    await until(lambda: two.recorder.events)
    assert two.recorder.events == [("unreachable", 1)]
    assert reason in two.recorder.reasons[0]


@bounded
async def test_another_agent_at_the_address_is_not_the_peer(fleet: Fleet) -> None:
    one, two = await fleet.start(1), await fleet.start(2)
    one.transport.send(Peer(3, two.peer.address), b"for three alone")
    await until(lambda: one.recorder.events)
    assert one.recorder.events == [("unreachable", 3)]
    assert one.recorder.reasons[0].startswith("another agent is there (agent-2, ")
    assert one.transport.connections() == two.transport.connections() == ()
    assert two.recorder.messages == []


@bounded
async def test_a_certificate_for_another_fleet_of_the_same_authority_is_refused(fleet: Fleet) -> None:
    one = await fleet.start(1)
    fleet.authority.fleet = "zoo"  # one authority for two fleets: nothing the commands allow
    async with await fleet.dial_raw(one.peer.address, fleet.credentials(2)) as stream:
        assert not await receive_or_end(stream)  # not even a hello
    await until(lambda: refused(one))
    assert refused(one) == {"another fleet": 1}


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({"node_id": 3}, "hello and certificate differ"),
        ({"name": "agent-1"}, "hello and certificate differ"),
        ({"address": "no address"}, "no hello"),
        ({"address": "127.0.0.1:99999"}, "no hello"),
        ({"incarnation": -1}, "no hello"),
    ],
)
@bounded
async def test_a_hello_must_say_what_the_certificate_says(fleet: Fleet, hello: dict[str, Any], reason: str) -> None:
    one = await fleet.start(1)
    stream = await fleet.dial_raw(one.peer.address, fleet.credentials(2))
    async with stream:
        await RawPeer(stream, fleet.name).say_hello(**{"node_id": 2, **hello})
        await until(lambda: refused(one))
    assert refused(one) == {reason: 1}
    assert one.recorder.events == []
    await assert_lives(one, fleet)


@bounded
async def test_an_agent_with_our_own_certificate_is_refused(fleet: Fleet) -> None:
    one = await fleet.start(1)
    copy = await fleet.start(1)
    with pytest.raises(ConnectError, match="two of them use the same certificate"):
        await copy.transport.identify(one.peer.address)
    await until(lambda: refused(one))
    assert refused(one) == {"our own id": 1}


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n", "not TLS"),
        (b"\x00" * 100, "not TLS"),
        (bytes(range(256)) * 400, "not TLS"),
        (header(1 << 30, FrameKind.HELLO) * 10, "not TLS"),
        (b"", "closed by the peer"),
        (b"\x16\x03\x01\x02\x00\x01", "closed by the peer"),
    ],
)
@bounded
async def test_whoever_does_not_speak_tls_is_refused(fleet: Fleet, garbage: bytes, reason: str) -> None:
    one = await fleet.start(1)
    async with await dial_tcp(one.peer.address) as stream:
        if garbage:
            await stream.send_all(garbage)
        await stream.send_eof()
        while await receive_or_end(stream):
            pass
    await until(lambda: refused(one))
    assert refused(one) == {reason: 1}
    await assert_lives(one, fleet)


@bounded
async def test_older_tls_is_refused(fleet: Fleet) -> None:
    one = await fleet.start(1)
    context = fleet.raw_context(fleet.credentials(2))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with await dial_tcp(one.peer.address) as stream:
        with pytest.raises(trio.BrokenResourceError):
            await trio.SSLStream(stream, context).do_handshake()
    await until(lambda: refused(one))
    assert refused(one) == {"older TLS": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(1 << 30, FrameKind.HELLO), "frame too long"),
        (header(HELLO_BYTES_MAX + 1, FrameKind.HELLO), "frame too long"),
        (header(0, FrameKind.HELLO), "frame too short"),
        (header(5, FrameKind.HELLO, fleet="zoo") + b"12345", "another fleet"),
        (header(5, FrameKind.HELLO, version=VERSION + 1) + b"12345", "another version of ELF"),
        (header(5, FrameKind.HELLO) + b"12345", "no hello"),
        (header(5, FrameKind.MESSAGE) + b"12345", "no hello"),
        (header(0, FrameKind.GOODBYE), "no hello"),
        (b"anything else but frames", "not our protocol"),
    ],
)
@bounded
async def test_what_is_no_hello_ends_the_connection(fleet: Fleet, data: bytes, reason: str) -> None:
    one = await fleet.start(1)
    async with await fleet.dial_raw(one.peer.address, fleet.credentials(2)) as stream:
        await stream.send_all(data)
        while await receive_or_end(stream):
            pass
    await until(lambda: refused(one))
    assert refused(one) == {reason: 1}
    assert one.recorder.events == []
    await assert_lives(one, fleet)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header(1 << 30, FrameKind.MESSAGE), "frame too long"),
        (header(URGENT_BYTES_MAX + 1, FrameKind.MESSAGE), "frame too long"),
        (header(PIECE_BYTES_MAX + 1, FrameKind.PIECE), "frame too long"),
        (header(0, FrameKind.MESSAGE), "frame too short"),
        (header(0, FrameKind.PIECE), "frame too short"),
        (header(5, FrameKind.MESSAGE, fleet="zoo") + b"12345", "another fleet"),
        (header(5, len(FrameKind)), "not our protocol"),
        (header(5, FrameKind.HELLO) + b"12345", "second hello"),
        (b"garbage after a proper hello", "not our protocol"),
    ],
)
@bounded
async def test_an_agent_that_sends_garbage_loses_its_link(fleet: Fleet, data: bytes, reason: str) -> None:
    one = await fleet.start(1)
    async with fleet.raw_peer(one, 2) as raw:
        await raw.send(b"a proper message")
        await until(lambda: one.recorder.messages)
        await raw.stream.send_all(data)
        await until(lambda: one.recorder.events)
        assert one.recorder.messages == [(2, b"a proper message")]
        assert one.recorder.events == [("disconnected", 2)]
        assert refused(one) == {reason: 1}
    await assert_lives(one, fleet)


@bounded
async def test_silent_and_slow_strangers_are_cut_off(fleet: Fleet) -> None:
    one = await fleet.start(1, handshake_s=0.6)
    silent = await dial_tcp(one.peer.address)
    after_handshake = await fleet.dial_raw(one.peer.address, fleet.credentials(2))
    slow = await fleet.dial_raw(one.peer.address, fleet.credentials(3))

    async def trickle() -> None:
        """A proper hello, a byte at a time."""
        with suppress(trio.BrokenResourceError):
            for byte in header(100, FrameKind.HELLO) + bytes(100):
                await slow.send_all(bytes([byte]))
                await trio.sleep(0.02)

    async with trio.open_nursery() as nursery, silent, after_handshake:
        nursery.start_soon(trickle)
        await until(lambda: one.transport.statistics().strangers == 3)
        await until(lambda: refused(one).get("too slow") == 3)
        assert not await receive_or_end(silent)
    await trio.aclose_forcefully(slow)
    assert one.transport.statistics().strangers == 0
    await assert_lives(one, fleet)


@bounded
async def test_strangers_that_fill_the_waiting_room_give_way(fleet: Fleet) -> None:
    one = await fleet.start(1, strangers=4, stranger_safe_s=0.05, handshake_s=60.0)
    strangers = [await dial_tcp(one.peer.address) for _ in range(12)]
    await assert_lives(one, fleet)
    assert one.transport.statistics().strangers <= 4
    assert refused(one)["too slow while others waited"] >= 1
    for stranger in strangers:
        await stranger.aclose()


@bounded
async def test_a_peer_that_says_hello_and_nothing_more_is_let_go(fleet: Fleet) -> None:
    one = await fleet.start(1, idle_s=0.05, goodbye_s=0.05, sweep_s=0.01)
    async with fleet.raw_peer(one, 2) as raw:
        await until(lambda: one.transport.connections())
        await until(lambda: not one.transport.connections())
        kinds = await raw.rest()
    assert kinds == [FrameKind.HELLO, FrameKind.ASK, FrameKind.GOODBYE]  # which nobody answered
    assert one.recorder.events == [("disconnected", 2)]


@bounded
async def test_there_are_never_more_connections_than_allowed(fleet: Fleet) -> None:
    one = await fleet.start(1, connections=2)
    async with fleet.raw_peer(one, 2), fleet.raw_peer(one, 3):
        await until(lambda: len(one.transport.connections()) == 2)
        async with await dial_tcp(one.peer.address) as third:
            assert not await receive_or_end(third)
        assert refused(one) == {"too many connections": 1}
        assert len(one.transport.connections()) == 2
    await assert_lives(one, fleet)


@bounded
async def test_the_quietest_link_gives_way_to_a_new_one(fleet: Fleet) -> None:
    one = await fleet.start(1, connections=2, spared_s=0.02, sweep_s=0.005, goodbye_s=0.05)
    async with fleet.raw_peer(one, 2), fleet.raw_peer(one, 3):
        await until(lambda: len(one.transport.connections()) == 2)
        await until(lambda: one.transport.statistics().connections == 2 and not one.transport.statistics().strangers)
        await trio.sleep(0.05)  # quiet for longer than links are spared
        await assert_lives(one, fleet)


@bounded
async def test_refusals_do_not_drown_the_log(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="elf.overlay")
    one = await fleet.start(1)
    for _ in range(20):
        async with await dial_tcp(one.peer.address) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
            while await receive_or_end(stream):
                pass
    await until(lambda: refused(one).get("not TLS") == 20)
    lines = [record.getMessage() for record in caplog.records if record.name == "elf.overlay"]
    assert len(lines) == 1
    assert lines[0].startswith("refused 127.0.0.1:")
    assert "not TLS" in lines[0]
