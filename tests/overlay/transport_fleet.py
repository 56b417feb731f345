"""A fleet with its authority, receivers that record messages, and raw peers, shared by the transport tests.

A raw peer speaks TLS with trio's own streams, so it can misbehave in every way, and it checks the transport's TLS
against another implementation.
"""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from overlay import Authority, CreatorFiles, Credentials, Identity, Peer, Transport, TransportLimits, read_public_key
from overlay.transport.link.framing import CREDIT, Frame, FrameKind, FrameReader, FrameWriter, fleet_tag
from overlay.transport.link.hello import HELLO_CODEC, Hello
from overlay.wire.ids import Id

TEST_DEADLINE_S = 120.0
LOCAL = "127.0.0.1:0"


def bounded(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Mark a test as trio's and let it fail after a while instead of hanging."""

    @pytest.mark.trio
    @functools.wraps(test)
    async def run(*args: Any, **keywords: Any) -> None:
        with trio.fail_after(TEST_DEADLINE_S):
            await test(*args, **keywords)

    return run


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; the test's own deadline bounds it."""
    while not condition():
        await trio.sleep(0.001)


@dataclass
class Recorder:
    """A receiver that records every call."""

    messages: list[tuple[int, bytes]] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)

    def received(self, peer: Peer, data: bytes) -> None:
        self.messages.append((peer.node_id, data))

    def unreachable(self, peer: Peer, reason: str) -> None:
        self.events.append(("unreachable", peer.node_id))
        self.reasons.append(reason)

    def disconnected(self, peer: Peer) -> None:
        self.events.append(("disconnected", peer.node_id))

    def restarted(self, peer: Peer) -> None:
        self.events.append(("restarted", peer.node_id))
        self.addresses.append(peer.address)

    @property
    def payloads(self) -> list[bytes]:
        return [data for _, data in self.messages]


@dataclass
class Agent:
    """A transport with its receiver, serving."""

    transport: Transport
    recorder: Recorder
    peer: Peer
    scope: trio.CancelScope

    def send(self, other: Agent, data: bytes) -> None:
        self.transport.send(other.peer, data)

    async def kill(self) -> None:
        """End without a goodbye, like a killed process: the system closes its sockets."""
        self.scope.cancel()
        await until(lambda: not self.transport.connections())


class Fleet:
    """Makes identities and agents in a folder."""

    def __init__(self, directory: Path, nursery: trio.Nursery, name: str = "shop") -> None:
        self.name = name
        self.authority = Authority.create(name)
        self.directory = directory
        self._nursery = nursery
        self._files = 0

    def credentials(self, node_id: int, authority: Authority | None = None, **dates: Any) -> Credentials:
        return (authority or self.authority).issue(f"agent-{node_id}", node_id=node_id, **dates)

    def creator(self) -> Credentials:
        """Return a creator's certificate and key, presented by an impostor of an agent."""
        files = CreatorFiles(self.directory / "creator")
        files.create("maria", None)
        pem = self.authority.trust("maria", read_public_key(files.public_file))
        return Credentials(pem, files.key_file.read_bytes(), Id(2))

    def write(self, credentials: Credentials, authority: Authority | None = None) -> tuple[Path, Path, Path]:
        """Write the three files of an agent: authority, certificate, key."""
        self._files += 1
        ca, certificate, key = (self.directory / f"{self._files}.{kind}" for kind in ("ca", "pem", "key"))
        ca.write_bytes((authority or self.authority).certificate_pem)
        credentials.save(certificate, key)
        return ca, certificate, key

    def identity(self, node_id: int, authority: Authority | None = None) -> Identity:
        return Identity.load(*self.write(self.credentials(node_id, authority), authority))

    async def start(
        self,
        node_id: int,
        *,
        listen: str = LOCAL,
        incarnation: int = 1,
        identity: Identity | None = None,
        compress: bool = False,
        wall_s: Callable[[], float] = time.time,
        **limits: Any,
    ) -> Agent:
        recorder = Recorder()
        transport = Transport(
            identity or self.identity(node_id),
            listen,
            incarnation=incarnation,
            receiver=recorder,
            limits=TransportLimits(**limits),
            compress=compress,
            wall_s=wall_s,
        )
        scope = trio.CancelScope()

        async def serve(task_status: trio.TaskStatus[Peer]) -> None:
            with scope:
                await transport.serve(task_status=task_status)

        return Agent(transport, recorder, await self._nursery.start(serve), scope)

    def raw_context(self, credentials: Credentials | None, *, is_server: bool = False) -> ssl.SSLContext:
        """A context that shows whatever certificate it is given and believes whatever it is shown."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if credentials is not None:
            _, certificate, key = self.write(credentials)
            context.load_cert_chain(certificate, key)
        return context

    async def dial_raw(self, address: str, credentials: Credentials | None) -> trio.SSLStream[trio.SocketStream]:
        """Connect to a transport and shake hands, nothing more."""
        stream = trio.SSLStream(await dial_tcp(address), self.raw_context(credentials), https_compatible=True)
        try:
            await stream.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        return stream

    @asynccontextmanager
    async def raw_peer(self, agent: Agent, node_id: int, **hello: Any) -> AsyncIterator[RawPeer]:
        """A raw peer that has said hello, properly unless told otherwise."""
        stream = await self.dial_raw(agent.peer.address, self.credentials(node_id))
        peer = RawPeer(stream, self.name)
        try:
            await peer.say_hello(node_id, **hello)
            yield peer
        finally:
            await trio.aclose_forcefully(stream)


class RawPeer:
    """The other end of a link, which does nothing by itself."""

    def __init__(self, stream: trio.SSLStream[trio.SocketStream], fleet: str) -> None:
        self.stream = stream
        self.writer = FrameWriter(fleet_tag(fleet))
        self._reader = FrameReader(fleet_tag(fleet))
        self._frames: list[Frame] = []

    async def say_hello(
        self, node_id: int, *, address: str = "127.0.0.1:9", incarnation: int = 1, name: str = ""
    ) -> None:
        hello = Hello(Id(node_id), address, incarnation, name or f"agent-{node_id}")
        await self.send(HELLO_CODEC.encode(hello), FrameKind.HELLO)

    async def send(self, body: bytes = b"", kind: int = FrameKind.MESSAGE) -> None:
        await self.stream.send_all(self.writer.frame(kind, body))

    async def give(self, urgent: int = 0, bulk: int = 0) -> None:
        await self.send(CREDIT.pack(urgent, bulk), FrameKind.CREDIT)

    async def receive(self) -> Frame | None:
        """Return the next frame; None at the end."""
        while not self._frames:
            data = await receive_or_end(self.stream)
            if not data:
                return None
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    async def next(self, kind: FrameKind) -> bytes | None:
        """Return the body of the next frame of that kind, passing over others; None at the end."""
        while (frame := await self.receive()) is not None:
            if frame.kind == kind:
                return bytes(frame.body)
        return None

    async def rest(self) -> list[int]:
        """Return the kinds of all frames until the end."""
        kinds = []
        while (frame := await self.receive()) is not None:
            kinds.append(frame.kind)
        return kinds


async def dial_tcp(address: str) -> trio.SocketStream:
    host, _, port = address.rpartition(":")
    return await trio.open_tcp_stream(host, int(port))


async def receive_or_end(stream: trio.abc.ReceiveStream) -> bytes:
    """Return what comes, nothing at the end, however the other side ended it."""
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""
