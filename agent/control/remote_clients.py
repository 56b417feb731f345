"""Serves clients elsewhere over TLS 1.3: the protocol of the control socket, for holders of creators' certificates.

A handshake has a time limit, so has a request; of unfinished handshakes there are only so many, of one host fewer, and
of one certificate's connections too. The certificate is judged again while a client stays.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable
from functools import partial

import trio

from agent import log
from agent.access.owners import is_key_id, owner_of_creator
from agent.access.rules import Principal
from agent.control.server import (
    IDENTIFY_AGAIN_S,
    Answerer,
    RequestServer,
    UnknownClientError,
    accept,
)
from agent.errors import StartError
from overlay import CreatorTrust, Trust, UntrustedCreatorError, creator_id, format_id, parse_address

HANDSHAKE_S = 5.0
HANDSHAKES_MAX = 64
"""Upper bound on connections that have not shown a certificate yet; further ones are closed at once."""
HANDSHAKES_OF_HOST_MAX = 16
CONNECTIONS_OF_CERTIFICATE_MAX = 32
SILENCE_MS = 30_000
"""Time after which a client that acknowledges nothing, or reads nothing, is cut off."""
KEEPALIVE_S = 30


class RemoteClients:
    """Serves clients at an address. `counters`: those of `RequestServer`, and handshakes that were refused or failed.

    `trust` and `creators` judge certificates, at the seconds that `wall_s` returns.
    """

    def __init__(
        self,
        listen: str,
        answer: Answerer,
        trust: Trust,
        *,
        clients_max: int,
        wall_s: Callable[[], float],
        handshake_s: float = HANDSHAKE_S,
        identify_again_s: float = IDENTIFY_AGAIN_S,
    ) -> None:
        self._address = parse_address(listen)
        self._trust = trust
        self._creators = CreatorTrust(trust)
        self._wall_s = wall_s
        self._handshake_s = handshake_s
        self._requests = RequestServer(answer, clients_max=clients_max, identify_again_s=identify_again_s)
        self.counters = self._requests.counters
        self._handshakes: Counter[str] = Counter()
        self._connections: Counter[bytes] = Counter()
        self._listeners: list[trio.SocketListener] = []

    async def bind(self) -> int:
        """Listens ahead of `serve`; returns the port. Raises StartError, one line without the key's place."""
        host, port = self._address
        try:
            self._listeners = await trio.open_tcp_listeners(port, host=host)
        except OSError as error:
            raise StartError(f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}") from None
        found: tuple[str, int] = self._listeners[0].socket.getsockname()[:2]
        return found[1]

    async def serve(self) -> None:
        """Serves until cancelled. Raises StartError."""
        if not self._listeners:
            await self.bind()
        listeners, self._listeners = self._listeners, []
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(self._accept, listener, nursery)

    async def _accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        async with listener:
            while True:
                nursery.start_soon(self._welcome, await accept(listener, self.counters))

    async def _welcome(self, stream: trio.SocketStream) -> None:
        """Serves one connection from its handshake to its end; never raises."""
        async with stream:
            host = _host(stream)
            if self._handshakes.total() >= HANDSHAKES_MAX or self._handshakes[host] >= HANDSHAKES_OF_HOST_MAX:
                self.counters["handshakes_refused"] += 1
                return
            self._handshakes[host] += 1
            try:
                secured = await self._secured(stream)
            finally:
                self._handshakes[host] -= 1
                if not self._handshakes[host]:
                    del self._handshakes[host]
            if secured is None:
                self.counters["handshakes_failed"] += 1
                return
            certificate = secured.getpeercert(binary_form=True) or b""
            self._connections[certificate] += 1
            try:
                await self._requests.serve_client(secured, partial(self._identify, certificate))
            finally:
                self._connections[certificate] -= 1
                if not self._connections[certificate]:
                    del self._connections[certificate]

    async def _secured(self, stream: trio.SocketStream) -> trio.SSLStream[trio.SocketStream] | None:
        """The connection after its handshake; None if that fails or takes too long."""
        try:
            _prepare(stream)
            context = self._trust.identity.server_context
            secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
            with trio.move_on_after(self._handshake_s):
                await secured.do_handshake()
                return secured
        except (OSError, trio.BrokenResourceError) as error:
            log.debug("a client's handshake failed", why=str(error.__cause__ or error))
        return None

    async def _identify(self, certificate: bytes) -> Principal:
        await trio.lowlevel.checkpoint()
        try:
            claims = self._creators.claims(certificate, self._wall_s())
        except UntrustedCreatorError as error:
            raise UnknownClientError(f"{error}: agents answer creators that elf creator trust has made") from error
        if self._connections[certificate] > CONNECTIONS_OF_CERTIFICATE_MAX:
            raise UnknownClientError(
                f"{claims.name} has {CONNECTIONS_OF_CERTIFICATE_MAX} connections to this agent already: close one"
            )
        key_id = format_id(creator_id(claims.public_key))
        named = (key_id,) if is_key_id(claims.name) else (claims.name, key_id)
        return Principal(
            name=claims.name,
            owner=owner_of_creator(claims.name, key_id),
            creators=frozenset(named),
            key=claims.public_key,
        )


def _host(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:  # it has gone already
        return ""


def _prepare(stream: trio.SocketStream) -> None:
    """Sets the options by which silent peers are noticed. Raises OSError."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_USER_TIMEOUT", SILENCE_MS), ("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", KEEPALIVE_S // 3),
    ):  # fmt: skip
        if (option := getattr(socket, name, None)) is not None:
            stream.setsockopt(socket.IPPROTO_TCP, option, value)
