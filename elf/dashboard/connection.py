"""Bounds what one connection, of anybody, may take of the server: time, and a place among a limited number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_MAX = 200
REQUEST_S = 10.0
"""Time in which a request has to be there, from its first byte, or from the beginning of a connection."""
STALLED_S = 15.0
"""Time after which a connection that reads nothing of an answer is cut off."""
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
    b"Retry-After: 15\r\nContent-Length: %d\r\n\r\n%s"
)
_TOO_MANY = b"too many connections: try again in a moment\n"


class BoundedConnection(H11Protocol):
    """A connection for HTTP, which h11 reads: it bounds a request's line and headers (answer 400 beyond)."""

    _request_timer: asyncio.TimerHandle | None = None
    _stalled_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            self.connections.discard(self)
            transport.write(_REFUSAL % (len(_TOO_MANY), _TOO_MANY))
            transport.close()
        else:
            self._request_timer = self._later(REQUEST_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._request_timer)
        _cancel(self._stalled_timer)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self._awaits_more():
            _cancel(self._request_timer)
            self._request_timer = None
        elif self._request_timer is None:
            self._request_timer = self._later(REQUEST_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_timer = self._later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._stalled_timer)
        super().resume_writing()

    def _awaits_more(self) -> bool:
        """Whether a part of a request is there, and the rest is not."""
        state = self.conn.their_state
        return state is h11.SEND_BODY or (state is h11.IDLE and bool(self.conn.trailing_data[0]))

    def _later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, action)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
