"""One HTTP connection without the socket: bytes of a request in, bytes of its answer out.

A connection carries one request; what follows it is ignored. h11 checks what comes: a request whose head is longer
than HEAD_BYTES_MAX, or that is no HTTP, is answered with an error.
"""

from __future__ import annotations

from collections.abc import Callable

import h11

from agent.metrics.pages import PLAIN_TEXT, Page

HEAD_BYTES_MAX = 8 << 10


class Exchange:
    """One request and its answer, which `page` makes of the method and the target. `is_refused`: it was no request."""

    def __init__(self, page: Callable[[str, str], Page]) -> None:
        self.is_refused = False
        self._page = page
        self._connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    def receive(self, data: bytes) -> bytes | None:
        """Takes bytes of the client, b"" at its end; returns the whole answer once there is one."""
        try:
            self._connection.receive_data(data)
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            self.is_refused = True
            return self._answer(Page(error.error_status_hint, PLAIN_TEXT, b"this is no request that is served here\n"))
        if not isinstance(event, h11.Request):
            return b"" if isinstance(event, h11.ConnectionClosed) else None
        page = self._page(event.method.decode("ascii"), event.target.decode("latin-1"))
        self.is_refused = page.status in (404, 405)
        return self._answer(page, with_content=event.method != b"HEAD")

    def too_slow(self) -> bytes:
        """The answer to a client that has not sent its request in time."""
        self.is_refused = True
        return self._answer(Page(408, PLAIN_TEXT, b"the request took too long\n"))

    def _answer(self, page: Page, *, with_content: bool = True) -> bytes:
        if self._connection.our_state not in (h11.SEND_RESPONSE, h11.IDLE):
            return b""
        headers = [
            ("Content-Type", page.content_type),
            ("Content-Length", str(len(page.content))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        head = self._connection.send(h11.Response(status_code=page.status, headers=headers)) or b""
        return head + (page.content if with_content else b"")
