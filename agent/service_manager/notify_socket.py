"""The protocol of `sd_notify(3)`: one datagram of `KEY=value` lines to the socket that the service manager names."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

STATUS_CHARACTERS_MAX = 256
"""Upper bound on the text that `systemctl status` shows of a service."""
_MICROSECONDS = 1_000_000


class NotifySocket:
    """Sends notices to the service manager; does nothing where there is none. Never blocks or raises.

    A notice that the service manager does not take (its queue is full) is lost: the next one says the same or more.
    """

    def __init__(self, address: str | None, watchdog_s: float | None = None) -> None:
        self.watchdog_s = watchdog_s
        self._address = address
        self._socket: socket.socket | None = None
        if address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)

    @property
    def is_listened_to(self) -> bool:
        """Whether there is a service manager."""
        return self._socket is not None

    def send(self, **values: str | int) -> None:
        """Sends variables; line ends in a value become spaces, as each would begin another variable."""
        if self._socket is None or self._address is None:
            return
        lines = [
            f"{name}={' '.join(str(value).splitlines())[:STATUS_CHARACTERS_MAX]}" for name, value in values.items()
        ]
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError):
            self._socket.sendto("\n".join(lines).encode(errors="backslashreplace"), address)

    def close(self) -> None:
        """Ends it: nothing is sent any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def notify_socket(environment: Mapping[str, str], pid: int) -> NotifySocket:
    """The socket that the environment names, and the interval of the watchdog if it is meant for this process.

    >>> notify_socket({}, 1).is_listened_to
    False
    >>> notify_socket({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 7).watchdog_s
    30.0
    """
    address = environment.get("NOTIFY_SOCKET", "")
    interval, meant = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(pid))
    watchdog_s = int(interval) / _MICROSECONDS if interval.isdecimal() and meant == str(pid) else None
    return NotifySocket(address if address.startswith(("/", "@")) else None, watchdog_s or None)


def own_notify_socket() -> NotifySocket:
    """The socket of this process. The variables are removed, so that no child speaks in its name."""
    found = notify_socket(os.environ, os.getpid())
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        os.environ.pop(name, None)
    return found
