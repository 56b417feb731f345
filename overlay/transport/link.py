"""One TLS connection between two agents, from the handshake to the goodbye.

A TLS 1.3 client ends its handshake before the server has judged its certificate, so a link is up only when the
peer's `Hello` has come. After that both sides send frames whenever they like, straight from `pump`: a task runs only
while the socket is full. An empty frame is a goodbye: whoever says it sends nothing more, reads on until the other
has said it too, and closes. So a link that is closed on purpose loses nothing, and one that ends otherwise is broken.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import trio

from overlay.ids import Id, format_id
from overlay.peer import Peer
from overlay.transport.addresses import parse_address
from overlay.transport.backlog import Backlog
from overlay.transport.framing import (
    GOODBYE,
    HELLO_BYTES_MAX,
    HELLO_CODEC,
    FrameReader,
    FrameWriter,
    FramingError,
    Hello,
    Piece,
)
from overlay.transport.identity import Claims, read_claims
from overlay.transport.refusals import OTHER, LinkError, ViolationError, explained
from overlay.wire import WireError

RECORD_BYTES = 1 << 14
"""What one TLS record holds at most."""
TURN_BYTES = 1 << 18
"""How much a link writes or reads before others get their turn."""
ALERT_TIMEOUT_S = 0.5
_DEPARTURE_POLL_S = 0.01

Result = TypeVar("Result")
Spawn = Callable[[Callable[[], Awaitable[None]]], object]


class LinkCounters:
    """What all links of a transport have carried."""

    __slots__ = ("bytes_in", "bytes_out", "frames_in", "frames_out")

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.frames_in = self.frames_out = 0


class Link:
    """One connection to one peer. Made from a connected socket; `greet`, then `read` until it ends, then `close`.

    `peer`, `incarnation` and `name` are known after `greet`. `attach` gives it the queue it sends from.
    """

    def __init__(self, connection: ssl.SSLSocket, tag: bytes, counters: LinkCounters, spawn: Spawn) -> None:
        self.peer: Peer | None = None
        self.incarnation = 0
        self.name = ""
        self.activity = 0
        """Grows whenever something was read or written."""
        self.seen_activity = 0
        self.seen_at = 0.0
        """The activity the transport last saw, and since when it is that."""
        self.on_detached: Callable[[], None] | None = None
        """Called once when the link has let go of its queue to say goodbye."""
        self._connection = connection
        self._reader = FrameReader(tag, first_limit=HELLO_BYTES_MAX)
        self._writer = FrameWriter(tag)
        self._counters = counters
        self._spawn = spawn
        self._early: list[bytes] = []
        self._backlog: Backlog | None = None
        self._pieces: Iterator[Piece] | None = None
        self._piece: Piece = b""
        self._read_bytes = 0
        """Bytes read since the socket was last empty."""
        self._is_flushing = False
        self._is_blocked = False
        self._is_leaving = False
        self._has_left = False
        self._is_closed = False
        self._error: LinkError | None = None
        self._scope = trio.CancelScope()

    async def greet(self, own: Hello, fleet: str, expected: Id | None) -> Peer:
        """Shake hands and exchange hellos; LinkError when the peer is not who it should be. No time limit here.

        `expected` is the id dialled, None when any agent of the fleet will do.
        """
        try:
            await self._retried(self._connection.do_handshake)
            claims = self._certified(fleet, expected)
            hello_frame = b"".join(self._writer.pieces(HELLO_CODEC.encode(own)))
            await self._retried(lambda: self._connection.send(hello_frame))
            hello = await self._receive_hello()
            peer = self.peer = _checked_peer(hello, claims)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise explained(error) from error
        except FramingError as error:
            raise LinkError(error.reason, str(error)) from error
        self.incarnation = hello.incarnation
        self.name = claims.name
        return peer

    def _certified(self, fleet: str, expected: Id | None) -> Claims:
        try:
            claims = read_claims(self._connection.getpeercert())
        except ValueError as error:
            raise LinkError("not an agent's certificate", str(error)) from error
        if claims.fleet != fleet:
            raise LinkError("another fleet", claims.fleet)
        if expected is not None and claims.node_id != expected:
            raise LinkError("another agent is there", f"{claims.name}, {format_id(claims.node_id)}")
        return claims

    async def _receive_hello(self) -> Hello:
        while not self._early:
            data = await self._retried(lambda: self._connection.recv(RECORD_BYTES))
            if not data:
                raise LinkError("closed before it said who it is")
            self._early = self._reader.feed(data)
        try:
            return HELLO_CODEC.decode(self._early.pop(0), HELLO_BYTES_MAX)
        except WireError as error:
            raise LinkError("no hello", str(error)) from error

    async def _retried(self, operation: Callable[[], Result]) -> Result:
        """Call an operation of the connection until it no longer has to wait."""
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self._connection)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._connection)

    async def read(self, deliver: Callable[[bytes], None]) -> None:
        """Hand over every payload as it comes, until the peer says goodbye; LinkError when the link breaks."""
        payloads, self._early = self._early, []
        with self._scope:
            while True:
                for payload in payloads:
                    if payload == GOODBYE:
                        return
                    self._counters.frames_in += 1
                    deliver(payload)
                payloads = await self._receive_payloads()
        raise self._error or LinkError(OTHER)

    async def _receive_payloads(self) -> list[bytes]:
        """Wait for bytes, return the payloads they complete."""
        try:
            if not self._read_bytes:
                await trio.lowlevel.wait_readable(self._connection)
            elif self._read_bytes > TURN_BYTES:
                self._read_bytes = 1
                await trio.lowlevel.checkpoint()
            data = self._connection.recv(RECORD_BYTES)
            payloads = self._reader.feed(data)
        except ssl.SSLWantReadError:
            self._read_bytes = 0
            return []
        except OSError as error:
            raise explained(error) from error
        except FramingError as error:
            raise ViolationError(error.reason, str(error)) from error
        if not data:
            raise LinkError("closed by the peer")
        self.activity += 1
        self._counters.bytes_in += len(data)
        # A full record is part of a long frame, and there is more; after another there mostly is nothing.
        self._read_bytes = self._read_bytes + len(data) if len(data) == RECORD_BYTES else 0
        return payloads

    @property
    def is_leaving(self) -> bool:
        """Whether a goodbye was said here, or will be after the frame under way."""
        return self._is_leaving

    @property
    def has_left(self) -> bool:
        """Whether our goodbye is on its way."""
        return self._has_left

    @property
    def is_broken(self) -> bool:
        """Whether the link is of no more use."""
        return self._error is not None or self._is_closed

    def attach(self, backlog: Backlog) -> None:
        """Send from this queue from now on. Whoever adds to it calls `pump`."""
        self._backlog = backlog
        self.pump()

    def pump(self) -> None:
        """Write what waits as far as the socket takes it; a task writes the rest. Never blocks, calls nobody back."""
        if self._is_flushing or self.is_broken or self._write():
            return
        self._is_flushing = True
        self._spawn(self._flush)

    def leave(self) -> None:
        """Say goodbye after the frame under way, and send nothing more."""
        self._is_leaving = True
        self.pump()

    async def departed(self) -> None:
        """Wait until the goodbye is written; the caller sets the time limit."""
        while not self.is_broken and (self._piece or not self._has_left):
            await trio.sleep(_DEPARTURE_POLL_S)

    def break_off(self, error: LinkError) -> None:
        """End the link at once: `read` raises the error. For use from anywhere."""
        if self._error is None:
            self._error = error
            self._scope.cancel()

    def close(self) -> None:
        """Close the socket; nothing is sent any more."""
        if not self._is_closed:
            self._is_closed = True
            self._backlog = None
            trio.lowlevel.notify_closing(self._connection)
            self._connection.close()

    async def wait_for_alert(self) -> None:
        """End a connection that was refused, giving TLS a moment to tell the other side why; `close` comes next.

        Closing at once with unread bytes would reset the connection, and the alert would be lost.
        """
        with trio.move_on_after(ALERT_TIMEOUT_S):
            try:
                self._connection.shutdown(socket.SHUT_WR)
                while True:
                    await trio.lowlevel.wait_readable(self._connection)
                    if not self._connection.recv(RECORD_BYTES):
                        break
            except OSError:
                pass  # it is being closed anyway

    async def _flush(self) -> None:
        """Write until nothing waits."""
        try:
            while not self._write():
                if self._is_blocked:
                    await trio.lowlevel.wait_writable(self._connection)
                else:
                    await trio.lowlevel.checkpoint()
        except trio.ClosedResourceError:
            pass  # closed while the socket was full
        finally:
            self._is_flushing = False

    def _write(self) -> bool:
        """Write for one turn; True when nothing waits any more, or never will be sent."""
        written = 0
        self._is_blocked = False
        try:
            while not self.is_broken and (self._piece or self._next_piece()):
                if written >= TURN_BYTES:
                    return False
                count = self._connection.send(self._piece)
                self._piece = self._piece[count:]
                written += count
        except ssl.SSLWantWriteError:
            self._is_blocked = True
            return False
        except OSError as error:
            self.break_off(explained(error))
        finally:
            self._counters.bytes_out += written
            self.activity += written > 0
        return True

    def _next_piece(self) -> bool:
        """Make the next piece to write the current one; False when there is none."""
        if self._pieces is not None:
            self._piece = next(self._pieces, b"")
            if self._piece:
                return True
            self._pieces = None
            if self._backlog is not None and not self._has_left:
                self._backlog.popleft()  # only now: what is not wholly sent still waits
                self._counters.frames_out += 1
        if self._has_left:
            return False
        if self._is_leaving:
            self._has_left = True
            self._detach()
            self._pieces = self._writer.pieces(GOODBYE)
        elif self._backlog:
            self._pieces = self._writer.pieces(self._backlog.oldest)
        else:
            return False
        return self._next_piece()

    def _detach(self) -> None:
        self._backlog = None
        if self.on_detached is not None:
            detached, self.on_detached = self.on_detached, None
            detached()


def _checked_peer(hello: Hello, claims: Claims) -> Peer:
    """Return the peer a hello speaks of; LinkError when the certificate says otherwise."""
    if hello.node_id != claims.node_id or hello.name != claims.name:
        raise LinkError("hello and certificate differ", f"{hello.name!r} with the certificate of {claims.name!r}")
    try:
        parse_address(hello.address)
        return Peer(hello.node_id, hello.address)
    except ValueError as error:
        raise LinkError("no hello", str(error)) from error
