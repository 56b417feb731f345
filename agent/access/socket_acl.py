"""Opens a socket to those whom rules of access name, by a POSIX ACL; what they may ask is decided later."""

from __future__ import annotations

import grp
import os
import pwd
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.access.rules import AccessRule

ENTRIES_MAX = 1024
"""Upper bound on users and groups that are let in by name: more are no list that a filesystem keeps with a file."""
_ATTRIBUTE = "system.posix_acl_access"
_VERSION = struct.pack("<I", 2)
_ENTRY = struct.Struct("<HHI")
_USER_OBJ, _USER, _GROUP_OBJ, _GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_READ_WRITE = 6


def open_to(path: Path, rules: Iterable[AccessRule]) -> None:
    """Lets those whom the rules name connect, beside the socket's own user and group. Blocks; OSError if it cannot.

    Names that this machine does not have stand for nobody.
    """
    rules = tuple(rules)
    users = {name for rule in rules for name in rule.users}
    groups = {name for rule in rules for name in rule.groups}
    if not hasattr(os, "setxattr"):
        raise OSError("this system has no lists of access for sockets")
    uids = _numbers(users, lambda name: pwd.getpwnam(name).pw_uid)
    gids = _numbers(groups, lambda name: grp.getgrnam(name).gr_gid)
    if len(uids) + len(gids) > ENTRIES_MAX:
        raise OSError(f"the rules of access name more than {ENTRIES_MAX:,} users and groups")
    acl = access_list(uids, gids, everybody="*" in users | groups)
    os.setxattr(path, _ATTRIBUTE, acl, follow_symlinks=False)


def access_list(uids: Iterable[int], gids: Iterable[int], *, everybody: bool) -> bytes:
    """The ACL, as the kernel takes it, that gives all these reading and writing, and others nothing.

    >>> len(access_list([], [], everybody=False)), len(access_list([0], [5, 7], everybody=True))
    (36, 60)
    """
    entries = [
        (_USER_OBJ, _READ_WRITE, _NO_ID),
        *((_USER, _READ_WRITE, uid) for uid in sorted(uids)),
        (_GROUP_OBJ, _READ_WRITE, _NO_ID),
        *((_GROUP, _READ_WRITE, gid) for gid in sorted(gids)),
        (_MASK, _READ_WRITE, _NO_ID),
        (_OTHER, _READ_WRITE if everybody else 0, _NO_ID),
    ]
    return _VERSION + b"".join(_ENTRY.pack(*entry) for entry in entries)


def _numbers(names: Iterable[str], find: Callable[[str], int]) -> set[int]:
    found = set()
    for name in names:
        try:
            found.add(int(name) if name.isdigit() else find(name))
        except (KeyError, OSError, ValueError):
            continue
    return {number for number in found if number < _NO_ID}
