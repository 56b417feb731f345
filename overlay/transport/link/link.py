"""One TLS connection between two agents, from the handshake to the goodbye.

A TLS 1.3 client ends its handshake before the server has judged its certificate, so a link is up only when the peer's
`Hello` has arrived. After that both sides send frames at any time, directly from `pump`: a task runs only while the
socket is full.

A side that says goodbye sends no more messages; the other side confirms that it has received everything, says goodbye
as well once its payload under way is complete, and when both goodbyes are confirmed both close. So a link closed on
purpose loses nothing, messages sent elsewhere afterwards arrive after those sent here, and a link that ends otherwise
is broken.
"""

import socket
import ssl
from collections.abc import Callable
from typing import TypeVar

import trio

from overlay.transport.identity.claims import Claims, read_claims
from overlay.transport.identity.identity import Identity
from overlay.transport.identity.trust import Trust
from overlay.transport.link.context import LinkContext
from overlay.transport.link.framing import (
    HELLO_BYTES_MAX,
    Body,
    Frame,
    FrameKind,
    FrameReader,
    FrameWriter,
    FramingError,
)
from overlay.transport.link.hello import HELLO_CODEC, Hello, checked_peer
from overlay.transport.link.incoming import Incoming
from overlay.transport.link.outgoing import Outgoing
from overlay.transport.link.refusals import OTHER, LinkError, ViolationError, explained
from overlay.transport.link.send_queues import SendQueues
from overlay.wire.codec import WireError
from overlay.wire.ids import Id, format_id
from overlay.wire.peer import Peer

RECORD_BYTES = 1 << 14
"""Most bytes in one TLS record."""
TURN_BYTES = 1 << 18
TURN_FRAMES = 64
"""Most frames a link writes or reads before other links get their turn."""
ALERT_TIMEOUT_S = 0.5
_DEPARTURE_POLL_S = 0.01

Result = TypeVar("Result")


class Link:
    """One connection to one peer, made from a connected socket; call `greet`, then `read` until it ends, then `close`.

    `peer`, `incarnation` and `name` are known after `greet`. `attach` sets the queues it sends from.
    """

    def __init__(self, connection: ssl.SSLSocket, tag: bytes, context: LinkContext, *, is_inbound: bool) -> None:
        self.is_inbound = is_inbound
        """Whether the peer dialled."""
        self.peer: Peer | None = None
        self.incarnation = 0
        self.name = ""
        self.claims: Claims | None = None
        """Claims of the peer's certificate."""
        self.greeted_as: Identity | None = None
        """This agent's identity at the handshake."""
        self.activity = 0
        """Counter of reads and writes."""
        self.on_detached: Callable[[], None] | None = None
        """Called once when the peer has confirmed everything this link will ever send: the queues are free."""
        self.on_asked: Callable[[], bool] | None = None
        """Returns whether this side needs the link, when the other side does not."""
        self.outgoing = Outgoing(FrameWriter(tag), compress=context.compress)
        self.incoming = Incoming(context.budget, self._grant)
        self._connection = connection
        self._reader = FrameReader(tag)
        self._writer = FrameWriter(tag)
        self._counters = context.counters
        self._spawn = context.spawn
        self._early: list[Frame] = []
        self._frame = b""
        """Unwritten rest of the current frame."""
        self._messages_in = self._pieces_in = 0
        self._read_bytes = 0
        """Bytes read since the socket was last empty."""
        self._is_flushing = False
        self._is_blocked = False
        self._is_asking = False
        self._is_leaving = False
        self._has_left = False
        self._is_goodbye_acknowledged = False
        self._peer_has_left = False
        self._is_closed = False
        self._error: LinkError | None = None
        self._scope = trio.CancelScope()

    async def greet(self, own: Hello, trust: Trust, expected: Id | None) -> Peer:
        """Shake hands and exchange hellos; LinkError when the peer is not the expected one. No time limit.

        `expected` is the dialled id, None when any agent of the fleet will do.
        """
        self.greeted_as = trust.identity
        try:
            await self._retried(self._connection.do_handshake)
            claims = self.claims = self._certified(trust, expected)
            hello_frame = self._writer.frame(FrameKind.HELLO, HELLO_CODEC.encode(own))
            await self._retried(lambda: self._connection.send(hello_frame))
            hello = await self._receive_hello()
            peer = self.peer = checked_peer(hello, claims)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise explained(error) from error
        except FramingError as error:
            raise LinkError(error.reason, str(error)) from error
        self.incarnation = hello.incarnation
        self.name = claims.name
        return peer

    def _certified(self, trust: Trust, expected: Id | None) -> Claims:
        try:
            claims = read_claims(self._connection.getpeercert())
        except ValueError as error:
            raise LinkError("not an agent's certificate", str(error)) from error
        refusal = trust.refusal(claims)
        if refusal is not None:
            raise ViolationError(*refusal)
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
            return HELLO_CODEC.decode(bytes(self._early.pop(0).body), HELLO_BYTES_MAX)
        except WireError as error:
            raise LinkError("no hello", str(error)) from error

    async def _retried(self, operation: Callable[[], Result]) -> Result:
        """Repeat an operation of the connection until it no longer has to wait."""
        while True:
            try:
                return operation()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(self._connection)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(self._connection)

    async def read(self, deliver: Callable[[bytes], None]) -> None:
        """Deliver every payload on arrival, until both goodbyes are confirmed; LinkError when the link breaks."""
        frames: list[Frame] | None
        frames, self._early = self._early, []
        with self._scope:
            while frames is not None:
                for kind, body in frames:
                    if kind == FrameKind.MESSAGE and not self._peer_has_left:
                        self.incoming.message(len(body))
                        self._messages_in += 1
                        deliver(bytes(body))
                        self.incoming.message_taken(len(body))
                    elif kind == FrameKind.PIECE or kind == FrameKind.ZSTD_PIECE:
                        self._take_piece(kind, body, deliver)
                    else:
                        self._take_control(kind, bytes(body))
                if self._peer_has_left and self._is_goodbye_acknowledged:
                    return
                frames = await self._receive_frames()
            return
        raise self._error or LinkError(OTHER)

    def _take_piece(self, kind: int, body: Body, deliver: Callable[[bytes], None]) -> None:
        self._pieces_in += 1
        payload = self.incoming.piece(kind, body)
        if payload is not None:
            self._messages_in += 1
            deliver(payload)
            self.incoming.payload_taken()

    def _take_control(self, kind: int, body: bytes) -> None:
        """Handle a frame without payload; ViolationError when it is out of turn."""
        if kind == FrameKind.CREDIT:
            self.outgoing.add_credit(body)
        elif kind == FrameKind.OPEN and not self._peer_has_left:
            self.incoming.open(body)
        elif kind == FrameKind.ASK and not self._peer_has_left:
            self._answer()
        elif kind == FrameKind.STAY and self._is_asking:
            self._is_asking = False
        elif kind == FrameKind.GOODBYE and not self._peer_has_left and not self.incoming.is_mid_payload:
            self._peer_has_left = True
            self.outgoing.queue_control(FrameKind.GOODBYE_ACK)
            self.leave()
        elif kind == FrameKind.GOODBYE_ACK and self._has_left and not self._is_goodbye_acknowledged:
            self._is_goodbye_acknowledged = True
            self._detach()
        else:
            raise ViolationError("out of turn", FrameKind(kind).name)
        self.pump()

    def _answer(self) -> None:
        """Answer the question whether this side still needs the link."""
        if self._is_leaving:
            return  # the goodbye is the answer
        if self.on_asked is not None and self.on_asked():
            self.outgoing.queue_control(FrameKind.STAY)
        else:
            self.leave()

    def _grant(self, urgent: int, bulk: int) -> None:
        self.outgoing.grant(urgent, bulk)
        self.pump()

    async def _receive_frames(self) -> list[Frame] | None:
        """Wait for bytes and return the frames they complete; None at a proper end."""
        try:
            if not self._read_bytes:
                await trio.lowlevel.wait_readable(self._connection)
            elif self._read_bytes > TURN_BYTES:
                self._read_bytes = 1
                await trio.lowlevel.checkpoint()
            data = self._connection.recv(RECORD_BYTES)
            frames = self._reader.feed(data)
        except ssl.SSLWantReadError:
            self._read_bytes = 0
            return []
        except OSError as error:
            if self._has_ended:
                return None
            raise explained(error) from error
        except FramingError as error:
            raise ViolationError(error.reason, str(error)) from error
        if not data:
            if self._has_ended:
                return None
            raise LinkError("closed by the peer")
        self.activity += 1
        self._counters.bytes_in += len(data)
        self._counters.frames_in += len(frames)
        # A full record is part of a long frame with more to come; after a shorter one there is mostly nothing.
        self._read_bytes = self._read_bytes + len(data) if len(data) == RECORD_BYTES else 0
        if len(frames) > TURN_FRAMES:
            self._read_bytes = TURN_BYTES + 1
        return frames

    @property
    def _has_ended(self) -> bool:
        """Whether both sides have said goodbye, so that the connection may end."""
        return self._peer_has_left and self._has_left

    @property
    def messages(self) -> int:
        """Messages sent and received over the link."""
        return self._messages_in + self.outgoing.messages

    @property
    def pieces(self) -> int:
        """Pieces of long messages sent and received over the link."""
        return self._pieces_in + self.outgoing.bulk_written

    @property
    def is_mid_frame(self) -> bool:
        """Whether the socket has not taken all of a frame yet."""
        return bool(self._frame)

    @property
    def is_asking(self) -> bool:
        """Whether the other side was asked if it needs the link, and has not said that it does."""
        return self._is_asking

    @property
    def is_leaving(self) -> bool:
        """Whether a goodbye was sent, or will be after the payload under way."""
        return self._is_leaving

    @property
    def is_broken(self) -> bool:
        """Whether the link is unusable."""
        return self._error is not None or self._is_closed

    def attach(self, queues: SendQueues) -> None:
        """Send from these queues from now on. Call `pump` after adding to them."""
        self.outgoing.queues = queues
        self.pump()

    def pump(self) -> None:
        """Write what the socket takes; a task writes the rest. Never blocks or calls back."""
        if self._is_flushing or self.is_broken or self._write():
            return
        self._is_flushing = True
        self._spawn(self._flush)

    def ask(self) -> None:
        """Ask the other side whether it needs the link; if not, it says goodbye."""
        self._is_asking = True
        self.outgoing.queue_control(FrameKind.ASK)
        self.pump()

    def leave(self) -> None:
        """Say goodbye after the payload under way, and send no more payloads."""
        self._is_leaving = True
        self.pump()

    async def departed(self) -> None:
        """Wait until everything is written, including the goodbye; the caller sets the time limit."""
        while not self.is_broken and (self._frame or not self._has_left or self.outgoing.control):
            await trio.sleep(_DEPARTURE_POLL_S)

    def break_off(self, error: LinkError) -> None:
        """End the link at once: `read` raises the error. Callable from anywhere."""
        if self._error is None:
            self._error = error
            self._scope.cancel()

    def close(self) -> None:
        """Close the socket; nothing more is sent."""
        if not self._is_closed:
            self._is_closed = True
            self.outgoing.queues = None
            self.incoming.close()
            trio.lowlevel.notify_closing(self._connection)
            self._connection.close()

    async def wait_for_alert(self) -> None:
        """Give TLS a moment to send the reason of a refusal to the other side; call `close` afterwards.

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
                pass  # the connection is about to be closed anyway

    async def _flush(self) -> None:
        """Write until nothing is left."""
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
        """Write for one turn; True when nothing is left or the link is broken."""
        written = 0
        self._is_blocked = False
        try:
            while not self.is_broken and (self._frame or self._next_frame()):
                if written >= TURN_BYTES:
                    return False
                count = self._connection.send(self._frame)
                self._frame = self._frame[count:]
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

    def _next_frame(self) -> bool:
        """Start the next frame after the current one is written; False when there is none."""
        outgoing = self.outgoing
        outgoing.written()
        self._frame = outgoing.next_frame(is_leaving=self._is_leaving)
        if not self._frame:
            if not self._is_leaving or self._has_left or outgoing.is_mid_payload:
                return False
            self._has_left = True
            self._frame = self._writer.frame(FrameKind.GOODBYE)
        self._counters.frames_out += 1
        return True

    def _detach(self) -> None:
        self.outgoing.queues = None
        if self.on_detached is not None:
            detached, self.on_detached = self.on_detached, None
            detached()
