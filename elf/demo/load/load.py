"""The demo's load: real HTTP requests over keep-alive connections, at a fixed rate, for a fixed time.

One thread, one selector. Requests are due by the clock; a connection carries one at a time, so a slow shop
slows the load down and nothing piles up.
"""

import contextlib
import random
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from elf.demo.catalogue import FLASH_PRODUCT
from elf.demo.errors import DemoError
from elf.demo.load.shopper import Request, RequestKind, Shopper

_CONNECTIONS_PER_SERVER = 3
_ANSWER_TIMEOUT_S = 5.0
_CONNECT_TIMEOUT_S = 1.0
_RECONNECT_PAUSE_S = 0.25
_PROGRESS_INTERVAL_S = 0.2
_TICK_S = 0.005
_BACKLOG_S = 0.25
_ANSWER_BYTES_MAX = 1 << 20
SECONDS_MAX = 3_600
RATE_MAX = 20_000


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Progress of the load. `requests` counts answers, `events` those that changed the shop's counters.

    Where no server failed, the shop's logs hold `requests` access lines and `events` events, and over these
    SUM(clicks_count) is `clicks`, SUM(likes_count) is `likes` and SUM(buys_count) is `bought`.
    """

    elapsed_s: float
    seconds: float
    requests: int = 0
    errors: int = 0
    views: int = 0
    likes: int = 0
    buys: int = 0
    comments: int = 0
    clicks: int = 0
    bought: int = 0
    statuses: Mapping[int, int] = field(default_factory=dict)
    flash_product: str = FLASH_PRODUCT
    flash_views: int = 0

    @property
    def events(self) -> int:
        return self.views + self.likes + self.buys + self.comments


Progress = Callable[[LoadReport], object]


@dataclass(slots=True)
class _Totals:
    errors: int = 0
    done: Counter[RequestKind] = field(default_factory=Counter)
    clicks: int = 0
    bought: int = 0
    flash_views: int = 0
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, request: Request, status: int) -> None:
        self.statuses[status] += 1
        if status != (200 if request.kind is RequestKind.VIEW else 303):
            return
        self.done[request.kind] += 1
        if request.kind is RequestKind.VIEW:
            self.clicks += request.count
            self.flash_views += request.flash
        elif request.kind is RequestKind.BUY:
            self.bought += request.count

    def report(self, elapsed_s: float, seconds: float) -> LoadReport:
        return LoadReport(
            elapsed_s=elapsed_s,
            seconds=seconds,
            requests=self.statuses.total(),
            errors=self.errors,
            views=self.done[RequestKind.VIEW],
            likes=self.done[RequestKind.LIKE],
            buys=self.done[RequestKind.BUY],
            comments=self.done[RequestKind.COMMENT],
            clicks=self.clicks,
            bought=self.bought,
            statuses=dict(sorted(self.statuses.items())),
            flash_views=self.flash_views,
        )


class _Connection:
    """One keep-alive connection: idle, or waiting for the answer to `request` since `sent_at`."""

    def __init__(self, server: int, port: int) -> None:
        self.server = server
        self.port = port
        self.socket: socket.socket | None = None
        self.request: Request | None = None
        self.sent_at = 0.0
        self.retry_at = 0.0
        self._answer = bytearray()

    def open(self) -> socket.socket:
        opened = socket.create_connection(("127.0.0.1", self.port), timeout=_CONNECT_TIMEOUT_S)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = opened
        return opened

    def send(self, request: Request, now: float) -> None:
        assert self.socket is not None
        self.request, self.sent_at = request, now
        self._answer.clear()
        self.socket.sendall(request.data)

    def receive(self) -> int | None:
        """Reads received data; returns the status once the answer is whole. Raises OSError when the connection is
        broken.
        """
        assert self.socket is not None
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._answer += data
        return _status(self._answer)


def _status(answer: bytearray) -> int | None:
    """The status of a whole answer, None while some of it is missing; ConnectionError if it is not HTTP."""
    head_end = answer.find(b"\r\n\r\n")
    if head_end < 0 and len(answer) < _ANSWER_BYTES_MAX:
        return None
    head = bytes(answer[: max(head_end, 0)]).lower()
    _, _, rest = head.partition(b"\r\ncontent-length: ")
    length = rest.partition(b"\r\n")[0]
    if not (head.startswith(b"http/1.1 ") and head[9:12].isdigit() and length.isdigit() and len(length) < 8):
        raise ConnectionAbortedError("the server's answer is not HTTP")
    missing = head_end + 4 + int(length) - len(answer)
    if missing < 0 or int(length) > _ANSWER_BYTES_MAX:
        raise ConnectionAbortedError("the server's answer has the wrong length")
    return int(head[9:12]) if missing == 0 else None


class _Load:
    """One run: idle connections, due requests, and totals of answers."""

    def __init__(self, ports: Sequence[int], seconds: float, rate: float, seed: int) -> None:
        self._seconds = seconds
        self._rate = rate
        self._shopper = Shopper(seed, max(1, len(ports)))
        self._balancer = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._connections = [
            _Connection(server, port) for server, port in enumerate(ports) for _ in range(_CONNECTIONS_PER_SERVER)
        ]
        self._idle = list(self._connections)
        self._totals = _Totals()
        self._due = 0.0

    def run(self, progress: Progress | None) -> LoadReport:
        started = last = reported = time.monotonic()
        while (now := time.monotonic()) - started < self._seconds:
            self._due = min(self._due + (now - last) * self._rate, self._rate * _BACKLOG_S)
            last = now
            self._send_due((now - started) / self._seconds, now)
            self._receive(_TICK_S, now)
            if progress is not None and now - reported >= _PROGRESS_INTERVAL_S:
                reported = now
                progress(self._totals.report(now - started, self._seconds))
        self._finish()
        report = self._totals.report(time.monotonic() - started, self._seconds)
        if progress is not None:
            progress(report)
        return report

    def close(self) -> None:
        for connection in self._connections:
            if connection.socket is not None:
                connection.socket.close()
        self._selector.close()

    def _finish(self) -> None:
        """Waits for the remaining answers; sends nothing more."""
        while any(connection.request for connection in self._connections):
            self._receive(_TICK_S, time.monotonic())

    def _send_due(self, fraction: float, now: float) -> None:
        waiting = []
        while self._due >= 1 and self._idle:
            position = self._balancer.randrange(len(self._idle))
            self._idle[position], self._idle[-1] = self._idle[-1], self._idle[position]
            connection = self._idle.pop()
            if connection.retry_at > now:
                waiting.append(connection)
                continue
            self._due -= 1
            self._send(connection, self._shopper.request(fraction, connection.server), now)
        self._idle += waiting

    def _send(self, connection: _Connection, request: Request, now: float) -> None:
        try:
            if connection.socket is None:
                self._selector.register(connection.open(), selectors.EVENT_READ, connection)
            connection.send(request, now)
        except OSError:
            self._fail(connection, now)

    def _receive(self, timeout_s: float, now: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            connection: _Connection = key.data
            try:
                status = connection.receive()
            except OSError:
                self._fail(connection, now)
                continue
            if status is not None and connection.request is not None:
                self._totals.add(connection.request, status)
                connection.request = None
                self._idle.append(connection)
        for connection in self._connections:
            if connection.request is not None and now - connection.sent_at > _ANSWER_TIMEOUT_S:
                self._fail(connection, now)

    def _fail(self, connection: _Connection, now: float) -> None:
        """Counts an error for the current request, and reconnects a little later."""
        if connection.socket is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(connection.socket)
            connection.socket.close()
            connection.socket = None
        connection.retry_at = now + _RECONNECT_PAUSE_S
        if connection not in self._idle:
            self._totals.errors += 1
            connection.request = None
            self._idle.append(connection)


def run_load(
    ports: Sequence[int],
    seconds: float,
    progress: Progress | None = None,
    *,
    rate: float = 1_200,
    seed: int = 0,
) -> LoadReport:
    """Sends about `rate` requests a second to the servers on `ports` for `seconds`, and waits for the answers.

    `progress` is called about five times a second and once at the end. A server that does not answer costs errors in
    the report, never more than a few seconds. Raises DemoError for numbers out of bounds.
    """
    if not 0 < seconds <= SECONDS_MAX:
        raise DemoError(f"the load lasts more than 0 and at most {SECONDS_MAX} seconds, not {seconds:g}")
    if not 0 < rate <= RATE_MAX:
        raise DemoError(f"the load sends more than 0 and at most {RATE_MAX} requests a second, not {rate:g}")
    load = _Load(ports, seconds, rate, seed)
    try:
        return load.run(progress)
    finally:
        load.close()
