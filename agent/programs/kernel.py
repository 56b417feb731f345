"""Calls to the Linux kernel that Python has no names for."""

from __future__ import annotations

import ctypes
import os
import struct

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
SECCOMP_MODE_FILTER = 2
_PIDFD_OPEN = 434
_CAPABILITY_VERSION_3 = 0x2008_0522
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
Argument = int | bytes | None
"""A number, or memory that the kernel reads; None is a null pointer."""


def syscall(number: int, *arguments: Argument) -> int:
    """Makes a system call and returns its result. OSError if the kernel refuses."""
    return _checked(_LIBC.syscall(ctypes.c_long(number), *map(_passed, arguments)))


def prctl(option: int, *arguments: Argument) -> int:
    """Like `syscall`; arguments that are left out are 0."""
    passed = [*map(_passed, arguments), *([ctypes.c_ulong(0)] * (4 - len(arguments)))]
    return _checked(_LIBC.prctl(ctypes.c_int(option), *passed))


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends. `os.pidfd_open` is not in every build of Python."""
    return syscall(_PIDFD_OPEN, pid, 0)


def drop_capabilities() -> None:
    """Gives up all capabilities of this thread, for good once it can gain no new ones."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_LIBC.capset(_passed(header), _passed(bytes(24))))


def set_seccomp_filter(instructions: bytes) -> None:
    """Loads a filter (`struct sock_filter`s), which holds for the rest of this thread's life."""
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(memory))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program)


def _passed(argument: Argument) -> ctypes.c_ulong | ctypes.c_char_p:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else ctypes.c_char_p(argument)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
