"""Lists the system calls a program may make, by name, with their numbers on x86_64 and aarch64.

Python computes, imports, sleeps and talks over pipes that are open; programs need no more. Whatever makes processes,
threads, sockets or files, or touches other processes, is named nowhere or among those that end the program.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from agent.programs.seccomp import Condition, Filter, Null, OneOf, Without

AUDIT_NAMES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""Machines that can contain programs: the name `uname` gives, and the number the kernel's filters use."""
Numbers = Mapping[str, tuple[int | None, int | None]]
"""By name: the number on x86_64 and on aarch64; None where there is no such call."""

# fmt: off
ALLOWED: Numbers = {
    # open files, and what can be known of others without opening them
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "close": (3, 57), "close_range": (436, 436), "fstat": (5, 80), "newfstatat": (262, 79), "statx": (332, 291),
    "stat": (4, None), "lstat": (6, None), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "lseek": (8, 62), "getdents64": (217, 61), "getcwd": (79, 17),
    "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    # memory
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214),
    # time, chance, and what the process is
    "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrandom": (318, 278),
    "getrusage": (98, 165), "getrlimit": (97, 163), "sysinfo": (99, 179), "uname": (63, 160),
    "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    # locks within the process, signals, the end
    "futex": (202, 98), "sched_yield": (24, 124), "membarrier": (324, 283),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "exit": (60, 93), "exit_group": (231, 94),
}
ALLOWED_IF: Numbers = {
    "open": (2, None), "openat": (257, 56), "ioctl": (16, 29), "fcntl": (72, 25), "prlimit64": (302, 261),
    "rt_sigaction": (13, 134), "kill": (62, 129), "tgkill": (234, 131),
}
MISSING: Numbers = {"clone3": (435, 435), "openat2": (437, 437)}
"""Their arguments cannot be looked at; the C library falls back on older calls."""
KILLED: Numbers = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "setns": (308, 268), "unshare": (272, 97), "open_by_handle_at": (304, 265),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "acct": (163, 89), "quotactl": (179, 60), "iopl": (172, None), "ioperm": (173, None),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171), "clock_adjtime": (305, 266),
}
"""No program calls these by accident."""
# fmt: on

_CHANGES_FILES = (
    os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_PATH | (os.O_TMPFILE & ~os.O_DIRECTORY)
)
_IS_TERMINAL, _CLOSE_ON_EXEC = 0x5401, 0x5451
_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_CLOSING = 0, 1, 2, 3, 1030
_CRASHES = tuple(map(int, (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)))


def program_filter(machine: str, pid: int) -> Filter:
    """The filter for the program with this process id. KeyError if `machine` is not in AUDIT_NAMES."""
    architecture = AUDIT_NAMES[machine]
    place = list(AUDIT_NAMES).index(machine)
    conditions: list[tuple[str, list[Condition]]] = [
        ("open", [Without(1, _CHANGES_FILES)]),
        ("openat", [Without(2, _CHANGES_FILES)]),
        ("ioctl", [OneOf(1, (_IS_TERMINAL, _CLOSE_ON_EXEC))]),
        ("fcntl", [OneOf(1, (_DUPLICATE, _GET_FLAGS, _SET_FLAGS, _GET_STATUS, _DUPLICATE_CLOSING))]),
        ("prlimit64", [OneOf(0, (0, pid)), Null(2)]),
        ("rt_sigaction", [OneOf(0, _CRASHES)]),
        ("rt_sigaction", [Null(1)]),
        ("kill", [OneOf(0, (pid,))]),
        ("tgkill", [OneOf(0, (pid,))]),
    ]

    def numbers(table: Numbers) -> list[int]:
        return [number for found in table.values() if (number := found[place]) is not None]

    return Filter(
        architecture,
        killed=numbers(KILLED),
        missing=numbers(MISSING),
        allowed=numbers(ALLOWED),
        allowed_if=[(number, found) for name, found in conditions if (number := ALLOWED_IF[name][place]) is not None],
    )
