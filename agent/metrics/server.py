"""Serves the agent's metrics over HTTP: few connections at a time, short requests, and no patience.

A client that is too slow loses its place to the next one, so that connections without a request keep nobody out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from agent import log
from agent.configuration.config import MetricsConfig
from agent.control.server import accept
from agent.control.socket_file import bind_control_socket, no_longer_there
from agent.errors import StartError
from agent.metrics.figures import AgentHealth
from overlay import parse_address

if TYPE_CHECKING:
    from agent.metrics.exchange import Exchange
    from agent.metrics.pages import Page

CLIENTS_MAX = 16
BACKLOG = 128
REQUEST_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
"""Upper bound on the time a client takes to read its answer."""
BIND_RETRY_S = 10.0
_READ_BYTES = 8 << 10


class MetricsServer:
    """Serves the agent's metrics where its configuration says. `counters`: requests, and those that were refused, with
    connections that lost their place; and failures to accept one.
    """

    def __init__(self, config: MetricsConfig | None, health: AgentHealth, *, clients_max: int = CLIENTS_MAX) -> None:
        self.counters: Counter[str] = Counter()
        self._config = config
        self._health = health
        self._clients_max = clients_max
        self._clients: dict[object, trio.CancelScope] = {}

    async def run(self) -> None:
        """Serves until it is cancelled. While the address is taken it says so, once, and tries again."""
        if self._config is None:
            return
        told = ""
        while True:
            try:
                await self._serve(self._config)
            except (OSError, StartError) as error:
                reason = str(error) if isinstance(error, StartError) else error.strerror or str(error)
                if reason != told:
                    where = self._config.listen or self._config.socket
                    log.warn("metrics are not served", where=where, reason=reason, again_after_s=BIND_RETRY_S)
                told = reason
                await trio.sleep(BIND_RETRY_S)

    async def _serve(self, config: MetricsConfig) -> None:
        # Their libraries take memory, which agents without metrics do not need.
        from agent.metrics.exchange import Exchange
        from agent.metrics.pages import Pages

        pages = Pages(self._health)

        def page(method: str, target: str) -> Page:
            return pages.page(method, target, trio.current_time())

        exchange = partial(Exchange, page)
        if config.socket is not None:
            listener, identity = await bind_control_socket(config.socket, key="metrics.socket")
            with no_longer_there(config.socket, identity):
                await self._accept([listener], exchange)
        elif config.listen is not None:
            host, port = parse_address(config.listen)
            await self._accept(await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG), exchange)

    async def _accept(self, listeners: list[trio.SocketListener], new_exchange: Callable[[], Exchange]) -> None:
        async with trio.open_nursery() as nursery:
            for listener in listeners:
                nursery.start_soon(self._accept_at, listener, new_exchange, nursery)

    async def _accept_at(
        self, listener: trio.SocketListener, new_exchange: Callable[[], Exchange], nursery: trio.Nursery
    ) -> None:
        async with listener:
            while True:
                stream = await accept(listener, self.counters)
                if len(self._clients) >= self._clients_max:  # the one that has been here longest makes room
                    self.counters["refused"] += 1
                    self._clients.pop(next(iter(self._clients))).cancel()
                scope = self._clients[stream] = trio.CancelScope()
                nursery.start_soon(self._serve_client, stream, scope, new_exchange)

    async def _serve_client(
        self, stream: trio.SocketStream, scope: trio.CancelScope, new_exchange: Callable[[], Exchange]
    ) -> None:
        """Serves one connection; never raises."""
        try:
            with scope:
                await self._answer(stream, new_exchange())
        except trio.BrokenResourceError:
            self.counters["refused"] += 1
        except Exception as error:
            self.counters["refused"] += 1
            log.failed("a request for metrics failed", error)
        finally:
            if self._clients.get(stream) is scope:
                del self._clients[stream]
            stream.socket.close()

    async def _answer(self, stream: trio.SocketStream, exchange: Exchange) -> None:
        answer: bytes | None = None
        with trio.move_on_after(REQUEST_TIMEOUT_S):
            while answer is None:
                answer = exchange.receive(await stream.receive_some(_READ_BYTES))
        if answer is None:
            answer = exchange.too_slow()
        self.counters["refused" if exchange.is_refused else "requests"] += 1
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            await stream.send_all(answer)
            await stream.send_eof()
            while await stream.receive_some(_READ_BYTES):  # closing on unread bytes would cut the answer off
                pass
