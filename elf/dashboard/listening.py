"""Decides at which addresses the page may be served, and what protects it there."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from elf.errors import ElfError, UsageError
from overlay import format_address, parse_address

TOKEN_CHARACTERS_MIN = 16
TOKEN_BYTES_MAX = 4096
BACKLOG = 128


@dataclass(frozen=True, slots=True)
class Listening:
    """An address to serve on. `token`: what opens the page; None where every browser shows a certificate instead.

    `certificate` and `key`: files of the server's own, for HTTPS; `browsers`: the authority of browsers' certificates.
    """

    host: str
    port: int
    token: str | None
    certificate: Path | None = None
    key: Path | None = None
    browsers: Path | None = None

    def url(self, port: int) -> str:
        """The page's address, once its port is known."""
        scheme = "https" if self.certificate else "http"
        return f"{scheme}://{format_address(self.host, port)}/"


def listening(
    address: str, token_file: Path | None, certificate: Path | None, key: Path | None, browsers: Path | None
) -> Listening:
    """Reads the options. Raises UsageError for those that would let others than the user of this process in.

    Without a token file the token is made up, and known to those alone who read this process's output.
    """
    host, port = _address(address)
    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key belong together: give both")
    if browsers is not None and certificate is None:
        raise UsageError("--browser-authority needs HTTPS: give --certificate and --key too")
    if not _is_loopback(host):
        if token_file is None and browsers is None:
            raise UsageError(
                f"{host} can be reached from elsewhere: give --token-file FILE (or --browser-authority FILE), or "
                "listen at 127.0.0.1 and come by ssh -L"
            )
        if certificate is None:
            raise UsageError(
                f"{host} can be reached from elsewhere, where a token must not travel in the clear: give --certificate "
                "and --key, or listen at 127.0.0.1 behind a proxy"
            )
    token = None if token_file is None else _token(token_file)
    if token is None and browsers is None:
        token = secrets.token_urlsafe(32)
    return Listening(host, port, token, certificate, key, browsers)


def bound_socket(place: Listening) -> socket.socket:
    """A socket that listens there. Raises ElfError, one line, where it cannot."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        where = format_address(place.host, place.port)
        raise ElfError(f"{where}: {reason}: name another address (--listen HOST:PORT, port 0 for any)") from None


def _address(text: str) -> tuple[str, int]:
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--listen takes HOST:PORT: {error}") from None
    return ("127.0.0.1" if host == "localhost" else host), port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _token(file: Path) -> str:
    """The token in a file that nobody else may read."""
    try:
        with file.open("rb") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & (stat.S_IRGRP | stat.S_IROTH):
                raise UsageError(f"{file}: others may read this token: chmod 600 {file}")
            text = opened.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from None
    token = text.strip()
    if not TOKEN_CHARACTERS_MIN <= len(token) <= TOKEN_BYTES_MAX or not token.isascii():
        raise UsageError(
            f"{file}: a token is one line of {TOKEN_CHARACTERS_MIN} characters or more: openssl rand -hex 32 > {file}"
        )
    return token.decode("ascii")
