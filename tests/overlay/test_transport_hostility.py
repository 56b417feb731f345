"""Thousands of attempts, from strangers and from agents gone bad: refused, counted, and nothing of them stays."""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import zstandard
from transport_fleet import Agent, Fleet, RawPeer, dial_tcp, receive_or_end, until

from overlay.transport.link.framing import (
    CREDIT,
    HEADER,
    LENGTH,
    PAYLOAD_BYTES_MAX,
    PIECE_BYTES_MAX,
    VERSION,
    FrameKind,
    fleet_tag,
)

MEBIBYTE = 1 << 20
BOMB = zstandard.ZstdCompressor().compress(bytes(16 * MEBIBYTE))
Frames = list[tuple[int, bytes]]
BY_AGENTS: dict[str, Frames] = {
    "piece of nothing": [(FrameKind.PIECE, b"x")],
    "two payloads at once": 2 * [(FrameKind.OPEN, LENGTH.pack(PAYLOAD_BYTES_MAX))],
    "decompression bomb": [(FrameKind.OPEN, LENGTH.pack(PAYLOAD_BYTES_MAX)), (FrameKind.ZSTD_PIECE, BOMB)],
    "credit for nothing": [(FrameKind.CREDIT, CREDIT.pack(0xFFFFFFFF, 0xFFFFFFFF))],
    "payload too long": [(FrameKind.OPEN, LENGTH.pack(0xFFFFFFFF))],
    "out of turn": [(FrameKind.GOODBYE_ACK, b"")],
    "second hello": [(FrameKind.HELLO, b"I am another")],
    "frame too long": [(FrameKind.PIECE, bytes(PIECE_BYTES_MAX + 1))],
}
"""By the reason they are refused for."""
TAG = fleet_tag("shop")
BY_STRANGERS = {
    "no hello": HEADER.pack(5, VERSION, FrameKind.MESSAGE, TAG) + b"12345",
    "another fleet": HEADER.pack(5, VERSION, FrameKind.HELLO, fleet_tag("zoo")) + b"12345",
    "frame too short": HEADER.pack(0, VERSION, FrameKind.HELLO, TAG),
}


class Attacker:
    """Makes one attempt after the other, all with one agent's certificate, and knows what they are refused for."""

    def __init__(self, fleet: Fleet, target: Agent, node_id: int) -> None:
        self._target = target
        self._node_id = node_id
        self._context = fleet.raw_context(fleet.credentials(node_id))
        self.expected: Counter[str] = Counter()

    async def attempt(self, random: random.Random) -> None:
        attempts: list[Callable[[random.Random], Coroutine[Any, Any, None]]] = [
            self.talk_plainly, self.break_off_the_handshake, self.greet_badly, self.misbehave, self.begin_and_vanish
        ]  # fmt: skip
        with suppress(trio.BrokenResourceError):
            await random.choice(attempts)(random)

    async def talk_plainly(self, random: random.Random) -> None:
        self.expected["not TLS"] += 1
        async with await dial_tcp(self._target.peer.address) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n\r\n" + random.randbytes(1000))
            while await receive_or_end(stream):
                pass

    async def break_off_the_handshake(self, random: random.Random) -> None:
        self.expected["closed by the peer"] += 1
        async with await dial_tcp(self._target.peer.address) as stream:
            await stream.send_all(b"\x16\x03\x01\x02\x00\x01" + bytes(random.randrange(200)))

    async def greet_badly(self, random: random.Random) -> None:
        reason = random.choice(list(BY_STRANGERS))
        self.expected[reason] += 1
        async with self._handshaken() as raw:
            await raw.stream.send_all(BY_STRANGERS[reason])
            await raw.stream.receive_some()

    async def misbehave(self, random: random.Random) -> None:
        reason = random.choice(list(BY_AGENTS))
        self.expected[reason] += 1
        async with self._handshaken() as raw:
            await raw.say_hello(self._node_id)
            for kind, body in BY_AGENTS[reason]:
                await raw.send(body, kind)
            while await raw.stream.receive_some():
                pass

    async def begin_and_vanish(self, random: random.Random) -> None:
        async with self._handshaken() as raw:
            await raw.say_hello(self._node_id)
            await raw.send(LENGTH.pack(PAYLOAD_BYTES_MAX), FrameKind.OPEN)
            for _ in range(random.randrange(6)):
                await raw.send(bytes(PIECE_BYTES_MAX), FrameKind.PIECE)

    @asynccontextmanager
    async def _handshaken(self) -> AsyncIterator[RawPeer]:
        connection = await dial_tcp(self._target.peer.address)
        stream = trio.SSLStream(connection, self._context, https_compatible=True)
        try:
            await stream.do_handshake()
            yield RawPeer(stream, "shop")
        finally:
            await trio.aclose_forcefully(stream)


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("attempts", [400, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.trio
async def test_attempts_leave_nothing_behind(tmp_path: Path, nursery: trio.Nursery, attempts: int) -> None:
    fleet = Fleet(tmp_path, nursery)
    one, friend = await fleet.start(1), await fleet.start(2)
    attackers = [Attacker(fleet, one, node_id) for node_id in (3, 4, 5)]

    async def attack(attacker: Attacker, seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(attempts // 2 // len(attackers)):
            await attacker.attempt(chance)

    half_way = 0
    with trio.fail_after(60 + attempts / 20):
        for half in range(2):
            async with trio.open_nursery() as attacks:
                for number, attacker in enumerate(attackers):
                    attacks.start_soon(attack, attacker, 10 * half + number)
            await until(lambda: not one.transport.connections() and not one.transport.statistics().strangers)
            half_way = half_way or resident_bytes()
        grown = resident_bytes() - half_way
        friend.send(one, b"still there?")
        await until(lambda: (2, b"still there?") in one.recorder.messages)
    counted = one.transport.statistics()
    expected = sum((attacker.expected for attacker in attackers), Counter[str]())
    for reason in BY_AGENTS.keys() | BY_STRANGERS.keys() | {"not TLS"}:
        assert counted.refused[reason] == expected[reason], reason
    assert counted.assembling_bytes == counted.waiting_bytes == 0
    assert [data for _, data in one.recorder.messages] == [b"still there?"]
    assert grown < 8 * MEBIBYTE, f"{grown / MEBIBYTE:.1f} MiB in {attempts // 2} attempts"
    print(f"{sum(counted.refused.values())} refused; memory grew by {grown / MEBIBYTE:.2f} MiB in the second half")
