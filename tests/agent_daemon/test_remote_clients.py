"""Clients over TLS, as the agent meets them: real connections, with a stand-in for the agent behind them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
from creator_world import revoke, trust_in
from cryptography import x509

from agent.control import remote_clients
from agent.control.messages import Answer, Ended, FollowRequest, GetJobs, Jobs, JobStopped, Refused, Request
from agent.control.remote_clients import HANDSHAKES_OF_HOST_MAX, RemoteClients
from agent.control.server import Answerer, Connection
from agent.errors import StartError
from overlay import Authority, CreatorFiles, Trust, client_context, read_public_key

DEADLINE_S = 60
REPLIES: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
AUTHORITY = Authority.create("shop")


class World:
    """An agent that listens for clients, and the clock and trust by which it judges them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trust: Trust = trust_in(folder / "agent", AUTHORITY)
        self.ahead_s = 0.0
        self.port = 0
        self.served: list[Connection] = []

    async def answer(self, request: Request, connection: Connection) -> None:
        self.served.append(connection)
        if isinstance(request, FollowRequest):
            connection.send(JobStopped("seen"))
            await trio.sleep_forever()
        connection.send(Jobs([]))

    @asynccontextmanager
    async def serving(self, answer: Answerer | None = None, **limits: float) -> AsyncIterator[RemoteClients]:
        answer = answer or self.answer
        clients = RemoteClients(
            "127.0.0.1:1", answer, self.trust, clients_max=8, wall_s=lambda: time.time() + self.ahead_s, **limits
        )
        clients._address = ("127.0.0.1", 0)
        self.port = await clients.bind()
        with trio.fail_after(DEADLINE_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(clients.serve)
                yield clients
                nursery.cancel_scope.cancel()

    def creator(self, name: str = "maria") -> Path:
        files = CreatorFiles(self.folder / name)
        if not files.key_file.exists():
            files.create(name, None)
            files.certificate_file.write_bytes(AUTHORITY.trust(name, read_public_key(files.public_file)))
            (self.folder / name / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
        return self.folder / name

    @asynccontextmanager
    async def connected(self, folder: Path) -> AsyncIterator[Client]:
        context = client_context(folder / "ca.pem", folder / "creator.pem", folder / "creator.key")
        plain = await trio.open_tcp_stream("127.0.0.1", self.port)
        stream = trio.SSLStream(plain, context, https_compatible=True)
        async with stream:
            yield Client(stream)

    async def answers_to(self, folder: Path, request: Request) -> list[Answer]:
        async with self.connected(folder) as client:
            await client.ask(request)
            return await client.answers()


class Client:
    def __init__(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        self.stream = stream
        self._read = bytearray()

    async def ask(self, request: Request) -> None:
        await self.stream.send_all(msgspec.json.encode(request) + b"\n")

    async def answers(self) -> list[Answer]:
        """Everything until the server closes."""
        while piece := await self.stream.receive_some():
            self._read += piece
        return [REPLIES.decode(line) for line in self._read.splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refusal(answers: list[Answer]) -> str:
    (answer,) = answers
    assert isinstance(answer, Refused)
    assert answer.kind == "forbidden"
    return answer.message


@pytest.mark.trio
async def test_a_creator_is_known_by_the_key(world: World) -> None:
    async with world.serving():
        assert await world.answers_to(world.creator(), GetJobs()) == [Jobs([])]
    (connection,) = world.served
    assert connection.principal.name == "maria"
    name, _, key_id = connection.principal.owner.partition("/")
    assert (name, connection.principal.creators) == ("maria", {"maria", key_id})


@pytest.mark.trio
@pytest.mark.parametrize("how", ["revoked", "expired"])
async def test_a_creator_that_is_trusted_no_more_is_cut_off(world: World, how: str) -> None:
    async with world.serving(identify_again_s=0.02), world.connected(world.creator()) as client:
        await client.ask(FollowRequest("a"))
        assert REPLIES.decode(await client.stream.receive_some()) == JobStopped("seen")
        if how == "expired":
            world.ahead_s = 400 * 86_400.0
        else:
            revoke(world.trust, AUTHORITY, 1, serial_of(world.creator()))
        assert f"creator's certificate {how}" in refusal(await client.answers())
        (connection,) = world.served
        assert connection.client_gone, "a query of theirs that is not detached ends"
        assert f"creator's certificate {how}" in refusal(await world.answers_to(world.creator(), GetJobs()))


def serial_of(folder: Path) -> int:
    return x509.load_pem_x509_certificate((folder / "creator.pem").read_bytes()).serial_number


@pytest.mark.trio
async def test_connections_that_show_no_certificate_are_few_and_short(world: World) -> None:
    async with world.serving(handshake_s=1.0) as clients, contextlib.AsyncExitStack() as stack:
        silent = [await trio.open_tcp_stream("127.0.0.1", world.port) for _ in range(HANDSHAKES_OF_HOST_MAX + 4)]
        for one in silent:
            await stack.enter_async_context(one)
        for one in silent:
            with contextlib.suppress(trio.BrokenResourceError):
                assert await one.receive_some() == b""
        assert clients.counters["handshakes_refused"] == 4
        assert clients.counters["handshakes_failed"] == HANDSHAKES_OF_HOST_MAX
        assert await world.answers_to(world.creator(), GetJobs()) == [Jobs([])]


@pytest.mark.trio
@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b'{"type":"jobs"}\n', b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000]
)
async def test_what_is_no_tls_is_no_burden(world: World, data: bytes) -> None:
    async with world.serving(handshake_s=1.0) as clients:
        async with await trio.open_tcp_stream("127.0.0.1", world.port) as stream:
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.send_all(data)
                while await stream.receive_some():
                    pass
        assert clients.counters["handshakes_failed"] == 1
        assert await world.answers_to(world.creator(), GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_one_certificate_has_only_so_many_connections(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_clients, "CONNECTIONS_OF_CERTIFICATE_MAX", 2)
    async with world.serving(), contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            client = await stack.enter_async_context(world.connected(world.creator()))
            await client.ask(FollowRequest("a"))
            await client.stream.receive_some()
        assert "maria has 2 connections to this agent already" in refusal(
            await world.answers_to(world.creator(), GetJobs())
        )
        assert await world.answers_to(world.creator("otto"), GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_a_client_that_does_not_read_is_dropped(world: World) -> None:
    ended = trio.Event()

    async def flood(_request: Request, connection: Connection) -> None:
        try:
            while True:
                connection.send(JobStopped("x" * 1_000_000))
                await trio.lowlevel.checkpoint()
        finally:
            ended.set()

    async with world.serving(flood) as clients, world.connected(world.creator()) as deaf:
        await deaf.ask(FollowRequest("a"))
        await ended.wait()
        with contextlib.suppress(trio.BrokenResourceError):
            while await deaf.stream.receive_some():
                pass
        assert clients.counters["dropped"] == 1


@pytest.mark.trio
async def test_all_answers_reach_a_client_before_the_end(world: World) -> None:
    async def tell(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped("x" * (20 << 20)))
        await connection.written()
        connection.send(Ended("finished"))

    async with world.serving(tell):
        answers = await world.answers_to(world.creator(), FollowRequest("a"))
        assert [type(answer) for answer in answers] == [JobStopped, Ended]


@pytest.mark.trio
async def test_a_port_that_is_taken_is_told(world: World) -> None:
    async with world.serving():
        second = RemoteClients(f"127.0.0.1:{world.port}", world.answer, world.trust, clients_max=1, wall_s=time.time)
        with pytest.raises(StartError, match=r"cannot listen on 127\.0\.0\.1:\d+: address already in use"):
            await second.bind()
