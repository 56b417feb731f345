"""The service of an authority, which admits agents that have a token and renews certificates while it runs.

Everybody may connect; what they send is bounded in size and time, and so is how many are served at once. The key of the
authority is in this process alone, and signs nothing but certificates of agents.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
import trio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agent.enrolment.messages import (
    LINE_BYTES_MAX,
    VERSION,
    Admitted,
    EnrolRequest,
    Greeting,
    NotAdmitted,
    RenewRequest,
    ServiceAnswer,
    ServiceRequest,
)
from agent.enrolment.token_register import TokenRefusedError, TokenRegister
from overlay import Authority, AuthorityDirectory, AuthorityError, format_id, requested_key

CONNECTIONS_MAX = 32
"""Upper bound on connections served at once; further ones are closed, and come again."""
PATIENCE_S = 10.0
"""Time a connection has for its handshake, its request and its answer."""
_REQUEST: msgspec.json.Decoder[ServiceRequest] = msgspec.json.Decoder(ServiceRequest)
Tell = Callable[[str], None]


class EnrolmentService:
    """Serves one authority. `now` tells the time, and `tell` gets a line for each agent, admitted or not."""

    def __init__(
        self,
        directory: AuthorityDirectory,
        authority: Authority,
        *,
        days: float,
        now: Callable[[], datetime],
        tell: Tell,
    ) -> None:
        self._directory = directory
        self._authority = authority
        self._register = TokenRegister(directory)
        self._days = days
        self._now = now
        self._tell = tell
        self._room = trio.CapacityLimiter(CONNECTIONS_MAX)
        self._context = _context(authority)

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Serves until it is cancelled."""
        await trio.serve_listeners(self._serve_one, listeners)

    async def _serve_one(self, plain: trio.SocketStream) -> None:
        stream = trio.SSLStream(plain, self._context, server_side=True, https_compatible=True)
        try:
            self._room.acquire_nowait()
        except trio.WouldBlock:
            await trio.aclose_forcefully(plain)
            return
        try:
            with trio.move_on_after(PATIENCE_S):
                await stream.do_handshake()
                await self._converse(stream, str(plain.socket.getpeername()[0]))
                await stream.aclose()
        except Exception as error:  # whatever a stranger does: the others are served
            if not isinstance(error, trio.BrokenResourceError | trio.ClosedResourceError | OSError | ValueError):
                self._say(f"a connection failed: {error!r}"[:500])
        finally:
            self._room.release()
            await trio.aclose_forcefully(plain)

    async def _converse(self, stream: trio.SSLStream[trio.SocketStream], where: str) -> None:
        authority = self._authority.certificate_pem.decode()
        time_ms = int(self._now().timestamp() * 1000)
        presented = stream.getpeercert(binary_form=True)
        await _send(stream, Greeting(self._directory.fleet, authority, time_ms))
        line = await _line(stream)
        if line is None:
            return
        answer = await trio.to_thread.run_sync(self._answer, line, presented, where)  # keys and disks take their time
        await _send(stream, answer)

    def _answer(self, line: bytes, presented: bytes | None, where: str) -> Admitted | NotAdmitted:
        try:
            match _REQUEST.decode(line):
                case EnrolRequest() as request:
                    return self._enrol(request, where)
                case RenewRequest() as request:
                    return self._renew(request, presented, where)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = f"this is no request of version {VERSION} of enrolment: use the elf of the authority's release"
        except (TokenRefusedError, AuthorityError, ValueError) as error:
            message = str(error)
        self._say(f"refused {where}: {message}")
        return NotAdmitted(message[:1000])

    def _enrol(self, request: EnrolRequest, where: str) -> Admitted:
        key = requested_key(request.request.encode())
        self._register.use(bytes.fromhex(request.secret), request.name, _public(key), self._now())
        admitted, node_id = self._admit(request.name, request.request, None)
        self._say(f"admitted {request.name} from {where}, id {format_id(node_id)}")
        return admitted

    def _renew(self, request: RenewRequest, presented: bytes | None, where: str) -> Admitted:
        if presented is None:
            raise ValueError("a certificate is renewed for the agent that presents it: there was none")
        certificate = x509.load_der_x509_certificate(presented)
        name, node_id = self._directory.check_renewable(certificate, Path(f"the certificate from {where}"))
        admitted, _ = self._admit(name, request.request, node_id)
        self._say(f"renewed the certificate of {name} from {where}, id {format_id(node_id)}")
        return admitted

    def _admit(self, name: str, request: str, node_id: int | None) -> tuple[Admitted, int]:
        pem, identifier = self._directory.admit(
            self._authority, name, request.encode(), node_id=node_id, days=self._days
        )
        return Admitted(pem.decode(), self._authority.certificate_pem.decode()), identifier

    def _say(self, line: str) -> None:
        with suppress(OSError, ValueError):  # that nobody reads it, or the disk is full, is no reason to admit nobody
            self._tell(line)


def _public(key: object) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined,no-any-return]


def _context(authority: Authority) -> ssl.SSLContext:
    """TLS 1.3 with a certificate for this run; agents may present theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.certificate_pem.decode())
    credentials = authority.service_credentials()
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "service.pem", Path(folder) / "service.key"
        credentials.save(certificate, key)
        context.load_cert_chain(certificate, key)
    return context


async def _send(stream: trio.SSLStream[trio.SocketStream], message: ServiceAnswer) -> None:
    await stream.send_all(msgspec.json.encode(message) + b"\n")


async def _line(stream: trio.SSLStream[trio.SocketStream]) -> bytes | None:
    """The client's line; None if it sends none, or a longer one than there are."""
    line = b""
    while b"\n" not in line and len(line) < LINE_BYTES_MAX:
        received = await stream.receive_some(LINE_BYTES_MAX)
        if not received:
            return None
        line += received
    return line.partition(b"\n")[0] if b"\n" in line else None
