"""Tells who is at the other end of a connection over the control socket, as the kernel vouches for it."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import trio

from agent.access.owners import owner_of_user
from agent.access.rules import AccessRule, Principal

NAMES_KEPT_S = 60.0
"""Time for which the names of a user and its groups are taken as known."""
NAMES_KEPT_MAX = 1024
_SO_PEERGROUPS = 59
"""Linux's SO_PEERGROUPS, which the socket module does not name."""
_GROUPS_MAX = 256
"""Upper bound on groups that one call can return; the groups of users with more are looked up."""
_MAC_PEER = struct.Struct("@IIhxx16I")
"""macOS's `xucred`: version, user, number of groups, groups."""


@dataclass(frozen=True, slots=True)
class PeerCredentials:
    """The user of a connected process, and its groups when it connected; None where they are to be looked up."""

    uid: int
    gid: int
    groups: tuple[int, ...] | None


class SocketPeers:
    """Names the clients of an agent's control socket. `agent`: the agent's name."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._known: dict[PeerCredentials, tuple[float, Principal]] = {}

    async def principal(self, connection: trio.SocketStream) -> Principal:
        """The client. Raises OSError where the system does not tell."""
        return await self.named(credentials(connection.socket))

    async def named(self, found: PeerCredentials) -> Principal:
        """The client with its names, which a directory service may take a while to find."""
        at, known = self._known.get(found, (-NAMES_KEPT_S, None))
        if known is not None and trio.current_time() - at < NAMES_KEPT_S:
            return known
        known = await trio.to_thread.run_sync(_looked_up, found, self._agent, abandon_on_cancel=True)
        if len(self._known) >= NAMES_KEPT_MAX:
            self._known.clear()
        self._known[found] = (trio.current_time(), known)
        return known


def credentials(connection: trio.socket.SocketType) -> PeerCredentials:
    """The credentials of the process that has connected. Raises OSError."""
    if sys.platform == "darwin":
        return mac_credentials(connection.getsockopt(0, 1, _MAC_PEER.size))
    size = struct.calcsize("3i")
    _pid, uid, gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    try:
        data = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * _GROUPS_MAX)
    except OSError:
        return PeerCredentials(uid, gid, None)
    return PeerCredentials(uid, gid, struct.unpack(f"{len(data) // 4}I", data))


def mac_credentials(data: bytes) -> PeerCredentials:
    """The credentials in macOS's form.

    >>> mac_credentials(_MAC_PEER.pack(0, 501, 2, 20, 12, *([0] * 14)))
    PeerCredentials(uid=501, gid=20, groups=(20, 12))
    """
    _version, uid, count, *groups = _MAC_PEER.unpack(data)
    return PeerCredentials(uid, groups[0], tuple(groups[:count]))


def _looked_up(found: PeerCredentials, agent: str) -> Principal:
    """Blocks."""
    try:
        user = pwd.getpwuid(found.uid).pw_name
    except (KeyError, OSError):
        user = str(found.uid)
    groups = found.groups
    if groups is None:
        groups = tuple(os.getgrouplist(user, found.gid))
    return Principal(
        name=user,
        owner=owner_of_user(user, agent),
        users=frozenset(_spellings(user, found.uid)),
        groups=frozenset(_group_names({found.gid, *groups})),
    )


def unknown_names(rules: Iterable[AccessRule]) -> list[str]:
    """The users and groups in rules that this machine does not have, in words. Blocks."""
    users = {name for rule in rules for name in rule.users}
    groups = {name for rule in rules for name in rule.groups}
    return [
        f"{kind} {name}"
        for kind, names, find in (("user", users, pwd.getpwnam), ("group", groups, grp.getgrnam))
        for name in sorted(names)
        if not (name == "*" or name.isdigit() or _is_found(find, name))
    ]


def _is_found(find: Callable[[str], object], name: str) -> bool:
    try:
        find(name)
    except (KeyError, OSError, ValueError):
        return False
    return True


def _group_names(groups: Iterable[int]) -> Iterator[str]:
    for group in groups:
        try:
            yield from _spellings(grp.getgrgid(group).gr_name, group)
        except (KeyError, OSError):
            yield str(group)


def _spellings(name: str, number: int) -> tuple[str, ...]:
    """The name and the number; a name that looks like a number would stand for somebody else."""
    return (str(number),) if name.isdigit() else (name, str(number))
