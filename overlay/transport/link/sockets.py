"""Listens and dials: non-blocking TCP sockets for links."""

import errno
import socket
from typing import Any

import trio

from overlay.transport.link.refusals import LinkError, explained
from overlay.wire.addresses import format_address, is_unspecified, parse_address

LISTEN_QUEUE = 512
USER_TIMEOUT_MS = 20_000
"""Time after which unacknowledged bytes end a connection; otherwise a cut cable would hold it for a quarter of an
hour.
"""
UNSENT_BYTES = 1 << 17
"""Most unsent bytes in a socket's buffer: urgent messages have to wait behind them."""
ADDRESSES_MAX = 4
"""Most addresses of a host name that are tried."""

HOST_NOT_FOUND = "host name not found"
"""Reason of a LinkError."""

_LISTEN_FAULTS = {
    errno.EADDRINUSE: "the port is in use",
    errno.EACCES: "not permitted (ports below 1024 are the system's)",
    errno.EPERM: "not permitted",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


class ListenError(Exception):
    """The transport cannot listen; one line with the address and the fault."""


def listen(address: str, advertise: str | None) -> tuple[socket.socket, str]:
    """Bind and listen; return the socket and the address that others dial: the advertised or the bound one.

    ListenError when an address is not `host:port`, or the system refuses it.
    """
    try:
        host, port = parse_address(address)
        if advertise is None and is_unspecified(host):
            raise ListenError(
                f"cannot listen on {address}: others cannot dial {host}, so an advertised address is needed"
            )
        advertised = parse_address(advertise) if advertise is not None else None
    except ValueError as error:
        raise ListenError(f"cannot listen: {error}") from error
    if advertised is not None and is_unspecified(advertised[0]):
        raise ListenError(f"cannot advertise {advertise}: others cannot dial it")
    listener = _bound(host, port, address)
    bound_port = listener.getsockname()[1]
    if advertised is None:
        return listener, format_address(host, bound_port)
    return listener, format_address(advertised[0], advertised[1] or bound_port)


def _bound(host: str, port: int, address: str) -> socket.socket:
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListenError(f"cannot listen on {address}: {error.strerror}") from error
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(name)
        listener.listen(LISTEN_QUEUE)
    except OSError as error:
        listener.close()
        fault = _LISTEN_FAULTS.get(error.errno or 0, error.strerror)
        raise ListenError(f"cannot listen on {address}: {fault}") from error
    return listener


def prepared(connection: socket.socket) -> socket.socket:
    """Set the options of every connection: non-blocking, no delay, little unsent data, a timeout for silence."""
    connection.setblocking(False)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    return connection


async def connect(address: str) -> socket.socket:
    """Dial an address and return the connected socket; LinkError with the reason of a failure. No time limit."""
    try:
        host, port = parse_address(address)
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except ValueError as error:
        raise LinkError("not an address", str(error)) from error
    except OSError as error:
        raise LinkError(HOST_NOT_FOUND, str(error.strerror)) from error
    failure: Exception = LinkError(HOST_NOT_FOUND)
    for family, kind, protocol, _, name in found[:ADDRESSES_MAX]:
        try:
            return await _connected(family, kind, protocol, name)
        except OSError as error:
            failure = error
    raise explained(failure)


async def _connected(family: int, kind: int, protocol: int, name: Any) -> socket.socket:
    connection = socket.socket(family, kind, protocol)
    try:
        prepared(connection)
        fault = connection.connect_ex(name)
        if fault == errno.EINPROGRESS:
            await trio.lowlevel.wait_writable(connection)
            fault = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if fault:
            raise OSError(fault, "cannot connect")
    except BaseException:
        connection.close()
        raise
    return connection
