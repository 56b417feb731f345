"""A stand-in for an agent's control server: a real Unix socket, real lines, and answers as a test scripts them."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from agent.control.messages import (
    Accepted,
    Acknowledged,
    Answer,
    Ended,
    JobStopped,
    PublishedWindow,
    Request,
    StopRequest,
)

PATIENCE_S = 120.0
_REQUESTS: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def lines(*answers: Answer) -> bytes:
    """Answers as they go over the socket."""
    return b"".join(msgspec.json.encode(answer) + b"\n" for answer in answers)


class ClientGoneError(Exception):
    """The client closed the connection; a script need not catch it."""


class Conversation:
    """One connection that carries a request."""

    def __init__(self, connection: socket.socket, request: Request) -> None:
        self.request = request
        self._connection = connection

    def send(self, *answers: Answer) -> None:
        self.send_raw(lines(*answers))

    def send_raw(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            raise ClientGoneError from None

    def wait_for_close(self) -> None:
        """Until the client has closed its end, as a real server would notice it."""
        with suppress(ConnectionError):
            assert self._connection.recv(1) == b"", "a connection carries one request"


class ScriptedAgent:
    """Listens at `path` and runs `script` for each request, in a thread of its own.

    `requests` are those that came, in order; `closed` gets each request when its client has closed the connection.
    """

    def __init__(self, path: Path, script: Callable[[Conversation], None]) -> None:
        self.path = path
        self.requests: list[Request] = []
        self.closed: queue.Queue[Request] = queue.Queue()
        self._script = script
        self._threads: list[threading.Thread] = []
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> ScriptedAgent:
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends like a killed agent: connections break, the socket's file stays."""
        for opened in (self._listener, *self._connections):
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a script waits for something that never comes"
        for opened in (self._listener, *self._connections):
            opened.close()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE_S)
            self._connections.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        line = _line(connection)
        if not line:
            connection.close()
            return  # somebody looked whether anybody listens
        request = _REQUESTS.decode(line)
        self.requests.append(request)
        conversation = Conversation(connection, request)
        try:
            self._script(conversation)
        except ClientGoneError:
            self.closed.put(request)
        else:
            self._finish(conversation, connection)
        connection.close()

    def _finish(self, conversation: Conversation, connection: socket.socket) -> None:
        """The script is done: the agent's side is closed, as by an agent that ends."""
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            self.closed.put(conversation.request)


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        try:
            data = connection.recv(65536)
        except OSError:
            return b""
        if not data:
            return b""
        received += data
    return received


WINDOW_MS = 10_000
COLUMNS = ["product", "clicks"]
ACCEPTED = Accepted("shop", "SELECT product, SUM(clicks) AS clicks FROM web GROUP BY product", COLUMNS, False)


def result_line(pane: int, rows: list[dict[str, Any]] | None = None, **changes: Any) -> bytes:
    """A result as an agent writes it."""
    fields: dict[str, Any] = {
        "app": "shop", "window_start": f"2026-01-02T03:04:{pane // 1000 % 60:02d}Z",
        "window_end": f"2026-01-02T03:04:{(pane + WINDOW_MS) // 1000 % 60:02d}Z",
        "rows": [{"product": "Chess", "clicks": pane}] if rows is None else rows, "contributors": 2, "expected": 2,
        "missing": [], "partial": [], "leaped": 0, "events": 3, "late": 0, "malformed": 0, "coerced": 0, "dropped": 0,
        "other": None, "limited": {}, "error": None, "version": 1, "epoch": 1,
    }  # fmt: skip
    return json.dumps(fields | changes, separators=(",", ":"), ensure_ascii=False).encode()


def window(pane: int, rows: list[dict[str, Any]] | None = None, **changes: Any) -> PublishedWindow:
    return PublishedWindow(pane, msgspec.Raw(result_line(pane, rows, **changes)))


def acknowledged(agents: int, expected: int, version: int = 1) -> Acknowledged:
    return Acknowledged(agents, expected, version, 1, "agent-1")


def stops_and_shows(*answers: Answer) -> Callable[[Conversation], None]:
    """A script: jobs are accepted, give these answers, and go on in silence; stopping works."""

    def script(conversation: Conversation) -> None:
        if isinstance(conversation.request, StopRequest):
            conversation.send(JobStopped(conversation.request.app))
            return
        conversation.send(ACCEPTED, *answers)
        if not (answers and isinstance(answers[-1], Ended)):
            conversation.wait_for_close()
            raise ClientGoneError

    return script
