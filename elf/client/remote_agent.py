"""Dials an agent over TLS 1.3 with a creator's certificate, so that no shell on its machine is needed.

The creator's folder has `creator.key`, `creator.pem` and `ca.pem`, the certificate of the fleet's authority. The other
end has to be an agent of that authority's fleet.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elf.client.errors import AgentUnreachableError
from elf.errors import ElfError, UsageError
from elf.terminal.terminal import printable

if TYPE_CHECKING:
    import ssl

    import trio

AUTHORITY_FILE = "ca.pem"
VARIABLE = "ELF_CREATOR"
IF_CLOSED_AT_ONCE = (
    "it may not take your certificate, if that has expired, is of another authority or older than elf --agent (elf "
    "creator trust makes another), or have as many clients as it serves"
)
"""Reasons of an agent elsewhere that closes a connection without a word."""


@dataclass(frozen=True, slots=True)
class RemoteAgent:
    """An agent elsewhere. `folder`: the creator's folder, else that of ELF_CREATOR, else ~/.config/elf/creator."""

    address: str
    folder: Path | None = None

    def __str__(self) -> str:
        return self.address


def remote_agent(address: str) -> RemoteAgent:
    """The agent at HOST:PORT. Raises UsageError for another text."""
    from overlay import format_address, parse_address  # which clients of a socket do without

    try:
        host, port = parse_address(address)
        if port == 0:
            raise ValueError(f"{address!r}: a port is a number from 1 to 65535")
    except ValueError as error:
        raise UsageError(
            f"an agent's address is HOST:PORT, where [clients] in its agent.toml listens: {error}"
        ) from None
    return RemoteAgent(format_address(host, port))


def creator_directory() -> Path:
    """The folder that ELF_CREATOR names, else ~/.config/elf/creator. Raises UsageError where there is no home
    directory.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named)
    try:
        return Path.home() / ".config" / "elf" / "creator"
    except RuntimeError as error:
        raise UsageError(
            f"there is no home directory to keep a creator's key in: name a folder in {VARIABLE}"
        ) from error


class TlsSocket:
    """A connection to an agent elsewhere, with the calls of a plain socket."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._secured = secured

    def settimeout(self, timeout_s: float | None) -> None:
        self._secured.settimeout(timeout_s)

    def sendall(self, data: bytes) -> None:
        self._secured.sendall(data)

    def recv(self, size: int) -> bytes:
        """The next bytes, b"" at the end. Raises BlockingIOError and TimeoutError."""
        import ssl

        try:
            return self._secured.recv(size)
        except ssl.SSLWantReadError as error:
            raise BlockingIOError from error
        except ssl.SSLError:
            return b""

    def close(self) -> None:
        self._secured.close()


def dial_remote(agent: RemoteAgent, deadline: float) -> TlsSocket:
    """Connects before the deadline (of `time.monotonic`). Raises AgentUnreachableError, ElfError for one's files."""
    from overlay import parse_address

    context = _context(agent)
    address = parse_address(agent.address)
    try:
        plain = socket.create_connection(address, max(deadline - time.monotonic(), 0.001))
    except OSError as error:
        raise _unreachable(agent, error) from None
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured = context.wrap_socket(plain)
    except OSError as error:
        plain.close()
        raise _refused(agent.address, error) from None
    try:
        _check_agent(agent, secured.getpeercert() or {})
    except BaseException:
        secured.close()
        raise
    return TlsSocket(secured)


async def dial_remote_async(agent: RemoteAgent, timeout_s: float) -> trio.SSLStream[trio.SocketStream]:
    """As `dial_remote`, for trio."""
    import trio

    from overlay import parse_address

    context = _context(agent)
    host, port = parse_address(agent.address)
    try:
        with trio.fail_after(timeout_s):
            plain = await trio.open_tcp_stream(host, port)
    except (OSError, trio.TooSlowError) as error:
        raise _unreachable(agent, error) from None
    secured = trio.SSLStream(plain, context, https_compatible=True)
    try:
        with trio.fail_after(timeout_s):
            await secured.do_handshake()
        _check_agent(agent, secured.getpeercert() or {})
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        plain.socket.close()
        raise _refused(agent.address, error.__cause__ or error) from None
    except BaseException:
        plain.socket.close()
        raise
    return secured


def _context(agent: RemoteAgent) -> ssl.SSLContext:
    """The context with the creator's files. Raises ElfError, one line that names the file."""
    from overlay import IdentityError, client_context

    folder = agent.folder or creator_directory()
    authority, certificate, key = (folder / name for name in (AUTHORITY_FILE, "creator.pem", "creator.key"))
    for file, hint in (
        (key, "elf creator init makes one"),
        (certificate, "the holder of the fleet's authority makes one of creator.pub, by elf creator trust"),
        (authority, "it is ca.pem in the folder of the fleet's authority, and no secret: copy it here"),
    ):
        if not file.exists():
            raise ElfError(f"{printable(str(file))}: is not there, and asking an agent elsewhere needs it: {hint}")
    try:
        return client_context(authority, certificate, key)
    except IdentityError as error:
        raise ElfError(str(error)) from None


def _check_agent(agent: RemoteAgent, presented: Mapping[str, Any]) -> None:
    """Checks that an agent has answered, and nobody else who has a certificate of the fleet's authority."""
    from overlay import AGENT_ROLE, read_claims

    try:
        claims = read_claims(presented)
    except ValueError as error:
        raise AgentUnreachableError(f"{agent.address}: does not answer as an agent: {error}") from None
    if claims.role != AGENT_ROLE:
        raise AgentUnreachableError(
            f"{agent.address}: does not answer as an agent: its certificate is a {claims.role}'s"
        )


def _unreachable(agent: RemoteAgent, error: BaseException) -> AgentUnreachableError:
    reason = getattr(error, "strerror", None) or str(error) or "no answer in time"
    return AgentUnreachableError(
        f"{agent.address}: {printable(reason).lower()}: is this where [clients] in agent.toml lets the agent listen?"
    )


def _refused(where: str, error: BaseException) -> AgentUnreachableError:
    """The error for a failed handshake. An agent that does not take one's own certificate closes after it."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        what = f"its certificate is of another authority ({error.verify_message}): is this the {AUTHORITY_FILE} of it?"
    elif isinstance(error, TimeoutError) or type(error).__name__ == "TooSlowError":
        what = "no answer in time"
    else:
        what = f"the connection failed ({printable(getattr(error, 'reason', None) or str(error))}): is it an agent's?"
    return AgentUnreachableError(f"{where}: {what}")
