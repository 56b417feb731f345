"""An authority's folder and its service on a loopback port, for tests of enrolment."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from cryptography.hazmat.primitives.serialization import Encoding

from agent.enrolment.service import EnrolmentService
from agent.enrolment.token_register import TokenRegister
from overlay import Authority, AuthorityDirectory, Identity


def utc_now() -> datetime:
    return datetime.now(UTC)


class AuthorityWorld:
    """The authority of fleet `shop` in a folder. `lines`: what its service has said."""

    def __init__(self, folder: Path, fleet: str = "shop") -> None:
        self.folder = folder
        self.authority = Authority.create(fleet)
        self.directory = AuthorityDirectory.create(folder / "ca", self.authority, None)
        self.lines: list[str] = []
        self.tell: Callable[[str], None] = self.lines.append

    def token(self, minutes: float = 60.0, name: str | None = None, *, ago: timedelta = timedelta()) -> str:
        der = self.directory.certificate.public_bytes(Encoding.DER)
        return TokenRegister(self.directory).new(der, minutes, name, utc_now() - ago).text

    @asynccontextmanager
    async def serving(self, now: Callable[[], datetime] = utc_now, days: float = 30.0) -> AsyncIterator[str]:
        """Runs the service; its address."""
        service = EnrolmentService(self.directory, self.authority, days=days, now=now, tell=self.tell)
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(service.serve, listeners)
            yield f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            nursery.cancel_scope.cancel()

    def agent(self, name: str, **options: object) -> Path:
        """The folder of an agent with a certificate."""
        folder = self.folder / name
        folder.mkdir()
        credentials = self.authority.issue(name, **options)  # type: ignore[arg-type]
        credentials.save(folder / "agent.pem", folder / "agent.key")
        (folder / "ca.pem").write_bytes(self.authority.certificate_pem)
        return folder


def identity_in(folder: Path) -> Identity:
    """The identity in a folder, as an agent would load it."""
    return Identity.load(folder / "ca.pem", folder / "agent.pem", folder / "agent.key")


def plain_context() -> ssl.SSLContext:
    """TLS that trusts anybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
