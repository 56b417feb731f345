"""Restricts this process with Landlock: gives up files, networks and other processes, but for reading some paths.

Knows the rights of Landlock's versions 1 (Linux 5.13) to 7. What later versions add concerns sockets and threads, which
programs have none of: the filter of system calls sees to that.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable

from agent.programs import kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls; the same on all architectures."""
_VERSION_QUESTION = 1
_PATH_BENEATH = 1
_NEWEST = 7
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_QUIET = 1
"""From version 7 on: what is refused is not written to the audit log, which a hostile program could flood."""


def version() -> int:
    """The version of the kernel's Landlock. OSError if there is none, or it is switched off."""
    return kernel.syscall(CREATE_RULESET, None, 0, _VERSION_QUESTION)


def restrict(readable: Iterable[str]) -> None:
    """Allows this process to open only files beneath `readable`, for reading. OSError if that is impossible.

    Missing paths are skipped. `no_new_privs` must be set.
    """
    rules, found = _ruleset(min(version(), _NEWEST))
    try:
        for path in readable:
            _allow_reading(rules, path)
        kernel.syscall(RESTRICT_SELF, rules, _QUIET if found >= 7 else 0)
    finally:
        os.close(rules)


def _ruleset(newest: int) -> tuple[int, int]:
    """A file descriptor, and the version whose rights it governs.

    Some kernels claim a version without all of its rights: then those of the version before are tried.
    """
    attributes = _attributes(newest)
    try:
        return kernel.syscall(CREATE_RULESET, attributes, len(attributes), 0), newest
    except OSError as error:
        if error.errno != errno.EINVAL or newest == 1:
            raise
    return _ruleset(newest - 1)


def _attributes(found: int) -> bytes:
    """`struct landlock_ruleset_attr`: every right of this version is governed, so given up unless a rule allows it."""
    file_rights = 13 + (found >= 2) + (found >= 3) + (found >= 5)  # then refer, truncate, ioctl on devices
    files = (1 << file_rights) - 1
    if found < 4:
        return struct.pack("=Q", files)
    networks = 0b11  # TCP: bind, connect
    if found < 6:
        return struct.pack("=QQ", files, networks)
    scopes = 0b11  # abstract Unix sockets, signals
    return struct.pack("=QQQ", files, networks, scopes)


def _allow_reading(rules: int, path: str) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        rights = _READ_FILE | _READ_DIR if os.path.isdir(path) else _READ_FILE  # noqa: PTH112
        kernel.syscall(ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)
