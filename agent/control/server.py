"""The server of clients: one request per connection, answers as lines, and no client can hurt the agent.

The server calls an `answer` function with each request; it runs for one connection and is cancelled when the
connection's client has gone. It knows by then who the client is, which is in the connection's `principal`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import trio

from agent import log
from agent.access.rules import AccessRule, Principal
from agent.access.socket_acl import open_to
from agent.control.messages import (
    LINE_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Answer,
    FollowRequest,
    QueryRequest,
    Refused,
    Request,
    SubmitRequest,
    TapRequest,
    why_no_request,
)
from agent.control.socket_file import bind_control_socket, no_longer_there
from agent.control.socket_peers import SocketPeers

CLIENTS_MAX = 64
BACKLOG_BYTES_MAX = 16 << 20
"""Upper bound on the bytes that wait for a client that does not read; a single line may be longer."""
REQUEST_TIMEOUT_S = 10.0
GOODBYE_TIMEOUT_S = 5.0
"""Upper bound on the time a client takes to read the last lines and to close."""
ACCEPT_RETRY_S = 0.5
WRITTEN_LOOK_S = 0.01
IDENTIFY_AGAIN_S = 10.0
"""Interval at which a client that stays is identified again: its certificate may have expired or been revoked."""
_READ_BYTES = 64 << 10
NOBODY = Principal("nobody", "")
"""A client that is not identified yet, and has no rights."""
ClientStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class UnknownClientError(Exception):
    """A client is not served, as it cannot be identified: one line for it."""


class MissingRightError(Exception):
    """A request is not answered, as its client lacks a right: one line that names it."""


Identify = Callable[[], Awaitable[Principal]]
"""Says who a client is. Raises UnknownClientError."""


class Connection:
    """The connection to one client.

    `principal`: who it is; `client_gone`: it has closed its side; `waiting_bytes`: the bytes that it has still to read.
    """

    def __init__(self, stream: ClientStream) -> None:
        self.principal = NOBODY
        self.client_gone = False
        self.is_dropped = False
        self._stream = stream
        self._lines: deque[bytes] = deque()
        self.waiting_bytes = 0
        self._more = trio.Event()
        self._finished = False
        self._writing = trio.CancelScope()

    def send(self, answer: Answer) -> None:
        """Queues an answer; never blocks. A client too far behind is dropped."""
        self.send_line(encode_answer(answer))

    def send_line(self, line: bytes) -> None:
        """Queues an encoded answer, which several clients may share."""
        if self.is_dropped:
            return
        if len(line) > LINE_BYTES_MAX or (self._lines and self.waiting_bytes + len(line) > BACKLOG_BYTES_MAX):
            self.is_dropped = True
            self._lines.clear()
            self._writing.cancel()
            return
        self._lines.append(line)
        self.waiting_bytes += len(line)
        self._more.set()

    def finish(self) -> None:
        """Ends the answers: `write` returns once every line is written."""
        self._finished = True
        self._more.set()

    async def written(self) -> None:
        """Waits until the client has all answers so far, or is gone."""
        while self._lines and not self.client_gone:
            await trio.sleep(WRITTEN_LOOK_S)

    async def write(self) -> None:
        """Writes lines to the client until `finish`, or until it is dropped. Raises trio.BrokenResourceError."""
        with self._writing:
            while self._lines or not self._finished:
                if not self._lines:
                    self._more = trio.Event()
                    await self._more.wait()
                    continue
                line = self._lines[0]
                await self._stream.send_all(line)
                self._lines.popleft()
                self.waiting_bytes -= len(line)

    async def read_line(self, bytes_max: int) -> bytes | None:
        """The client's first line; empty when it closes before the line's end, None when the line is too long."""
        read = bytearray()
        while (end := read.find(b"\n")) < 0:
            if len(read) > bytes_max:
                return None
            piece = await self._stream.receive_some(_READ_BYTES)
            if not piece:
                return b""
            read += piece
        return bytes(read[:end]) if end <= bytes_max else None

    async def close(self) -> None:
        """Signals the end and waits for the client to close: closing on unread input would look like a failure."""
        if isinstance(self._stream, trio.SSLStream):
            with suppress(trio.BrokenResourceError):
                await self._stream.unwrap()
            self.client_gone = True
            return
        await self._stream.send_eof()
        await self.until_closed()

    async def until_closed(self) -> None:
        """Returns when the client has closed; ignores anything that it sends after its request."""
        try:
            while await self._stream.receive_some(_READ_BYTES):
                pass
        except trio.BrokenResourceError:
            pass
        self.client_gone = True


Answerer = Callable[[Request, Connection], Awaitable[None]]


async def accept(listener: trio.SocketListener, failures: Counter[str]) -> trio.SocketStream:
    """The next connection. While descriptors or memory are short, tries again, and counts `not_accepted`."""
    while True:
        try:
            return await listener.accept()
        except OSError as error:
            failures["not_accepted"] += 1
            log.warn("cannot accept a client", error=error)
            await trio.sleep(ACCEPT_RETRY_S)


class ControlServer:
    """Serves the socket at `path`. `agent`: the agent's name. `counters`: see `RequestServer`.

    `rules` says whom the socket is open to, beside the agent's user and group: those whom the rules name.
    """

    def __init__(
        self,
        path: Path,
        answer: Answerer,
        *,
        agent: str = "",
        rules: Callable[[], Sequence[AccessRule]] = tuple,
        clients_max: int = CLIENTS_MAX,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._path = path
        self._rules, self._rules_changed = rules, trio.Event()
        self._peers = SocketPeers(agent)
        self._requests = RequestServer(answer, clients_max=clients_max, request_timeout_s=request_timeout_s)
        self.counters = self._requests.counters
        self._bound: tuple[trio.SocketListener, tuple[int, int]] | None = None

    async def bind(self) -> None:
        """Binds the socket ahead of `serve`, which else does it. Raises StartError, one line."""
        self._bound = await bind_control_socket(self._path)

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Binds the socket, reports that through `task_status`, and serves until cancelled. Raises StartError."""
        if self._bound is None:
            await self.bind()
        assert self._bound is not None
        (listener, identity), self._bound = self._bound, None
        with no_longer_there(self._path, identity):
            async with listener, trio.open_nursery() as nursery:
                nursery.start_soon(self._open_to_clients)
                task_status.started()
                while True:
                    stream = await accept(listener, self.counters)
                    nursery.start_soon(self._requests.serve_client, stream, partial(self._identify, stream))

    def rules_changed(self) -> None:
        """Opens the socket to those whom the rules name by now, and to nobody else."""
        self._rules_changed.set()

    async def _open_to_clients(self) -> None:
        while True:
            self._rules_changed = trio.Event()
            try:
                await trio.to_thread.run_sync(open_to, self._path, self._rules(), abandon_on_cancel=True)
            except OSError as error:
                log.warn("the control socket is open to its user and group alone", why=error.strerror or str(error))
            await self._rules_changed.wait()

    async def _identify(self, stream: trio.SocketStream) -> Principal:
        try:
            return await self._peers.principal(stream)
        except OSError as error:
            raise UnknownClientError(f"the system does not tell who asks: {error}") from error


class RequestServer:
    """Serves clients, one request per connection. `counters`: connections, requests by kind, those that are refused,
    forbidden or dropped.

    Clients that stay are identified again every `identify_again_s`.
    """

    def __init__(
        self,
        answer: Answerer,
        *,
        clients_max: int = CLIENTS_MAX,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        identify_again_s: float = math.inf,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._answer = answer
        self._clients_max = clients_max
        self._request_timeout_s = request_timeout_s
        self._identify_again_s = identify_again_s
        self._clients = 0

    async def serve_client(self, stream: ClientStream, identify: Identify) -> None:
        """Serves one connection from its first byte to its end; never raises."""
        self._clients += 1
        self.counters["connections"] += 1
        connection = Connection(stream)
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._write, connection, nursery.cancel_scope)
                await self._respond(connection, identify)
                connection.finish()
                nursery.cancel_scope.deadline = trio.current_time() + GOODBYE_TIMEOUT_S
        except Exception as error:
            self.counters["failed"] += 1
            log.failed("a client's connection failed", error)
        finally:
            self._clients -= 1

    async def _write(self, connection: Connection, everything: trio.CancelScope) -> None:
        try:
            await connection.write()
            if not connection.is_dropped:
                await connection.close()
        except trio.BrokenResourceError:
            self.counters["broken"] += 1
            connection.client_gone = True
            everything.cancel()
        if connection.is_dropped:
            self.counters["dropped"] += 1
            log.warn("client dropped", reason=f"more than {BACKLOG_BYTES_MAX >> 20} MiB of answers were not read")
            connection.client_gone = True
            everything.cancel()

    async def _respond(self, connection: Connection, identify: Identify) -> None:
        if self._clients > self._clients_max:
            self._refuse(connection, "unavailable", f"the agent serves {self._clients_max} clients already")
            return
        request = await self._request(connection)
        if request is None:
            return
        try:
            connection.principal = await identify()
        except UnknownClientError as error:
            self._refuse(connection, "forbidden", str(error))
            return
        self.counters[type(request).__name__] += 1
        if not isinstance(request, QueryRequest | SubmitRequest | FollowRequest | TapRequest):
            await self._answered(request, connection)
            return
        # Answers come for as long as the client is there.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, connection, nursery.cancel_scope)
            nursery.start_soon(self._watch_identity, connection, identify, nursery.cancel_scope)
            await self._answered(request, connection)
            nursery.cancel_scope.cancel()

    async def _watch_identity(self, connection: Connection, identify: Identify, answering: trio.CancelScope) -> None:
        """Ends the answers to a client that is no longer trusted."""
        while True:
            await trio.sleep(self._identify_again_s)
            try:
                await identify()
            except UnknownClientError as error:
                connection.client_gone = True  # a query that is not detached ends with its client
                self._refuse(connection, "forbidden", str(error))
                answering.cancel()

    async def _watch(self, connection: Connection, answering: trio.CancelScope) -> None:
        await connection.until_closed()
        answering.cancel()

    async def _request(self, connection: Connection) -> Request | None:
        line: bytes | None = None
        with trio.move_on_after(self._request_timeout_s) as scope:
            try:
                line = await connection.read_line(REQUEST_BYTES_MAX)
            except trio.BrokenResourceError:
                return None
        if scope.cancelled_caught:
            self._refuse(connection, "usage", f"no request came within {self._request_timeout_s:g} seconds")
        elif line is None:
            self._refuse(connection, "usage", f"a request is one line of at most {REQUEST_BYTES_MAX >> 10} KiB")
        elif line:
            try:
                return _REQUEST.decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                self._refuse(connection, "usage", why_no_request(line, error))
        return None

    async def _answered(self, request: Request, connection: Connection) -> None:
        try:
            await self._answer(request, connection)
        except MissingRightError as error:
            self._refuse(connection, "forbidden", str(error))
        except Exception as error:
            self.counters["failed"] += 1
            log.failed("a request failed", error, request=type(request).__name__)
            connection.send(Refused("unavailable", "the agent failed over this request; its log says how"))

    def _refuse(self, connection: Connection, kind: Literal["usage", "unavailable", "forbidden"], message: str) -> None:
        self.counters["forbidden" if kind == "forbidden" else "refused"] += 1
        connection.send(Refused(kind, message))


_REQUEST: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)


def encode_answer(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
