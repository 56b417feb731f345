"""The filter of system calls, run here as the kernel would, for both architectures."""

from __future__ import annotations

import errno
import os
import re
import signal
import struct
from pathlib import Path

import pytest

from agent.programs.seccomp import (
    ALLOW,
    JUMP_IF_ANY_BIT,
    JUMP_IF_AT_LEAST,
    JUMP_IF_EQUAL,
    KILL,
    LOAD,
    REFUSE,
    RETURN,
    Filter,
)
from agent.programs.system_calls import ALLOWED, ALLOWED_IF, AUDIT_NAMES, KILLED, MISSING, program_filter

PID = 4711
REFUSED, NOT_THERE = REFUSE | errno.EPERM, REFUSE | errno.ENOSYS
TABLES = (ALLOWED, ALLOWED_IF, MISSING, KILLED)
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}


def verdict(instructions: Filter, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the kernel would make of a call."""
    found = architecture or instructions.architecture
    data = struct.pack("=iIQ6Q", number, found, 0, *arguments, *[0] * (6 - len(arguments)))
    program = list(struct.iter_unpack("=HBBI", instructions.assembled()))
    place = held = 0
    while True:
        operation, if_true, if_false, constant = program[place]
        place += 1
        if operation == RETURN:
            return int(constant)
        if operation == LOAD:
            (held,) = struct.unpack_from("=I", data, constant)
            continue
        holds = {
            JUMP_IF_EQUAL: held == constant,
            JUMP_IF_AT_LEAST: held >= constant,
            JUMP_IF_ANY_BIT: bool(held & constant),
        }[operation]
        place += if_true if holds else if_false


def test_filters_are_what_the_kernel_takes() -> None:
    """As the kernel checks: jumps stay inside, and the last instruction returns."""
    for machine in AUDIT_NAMES:
        program = program_filter(machine, PID).instructions()
        assert program[-1][0] == RETURN
        for place, (operation, if_true, if_false, _) in enumerate(program):
            if operation not in (RETURN, LOAD):
                assert place + 1 + max(if_true, if_false) < len(program)


@pytest.mark.parametrize("machine", AUDIT_NAMES)
def test_calls_by_number(machine: str) -> None:
    instructions = program_filter(machine, PID)
    place = list(AUDIT_NAMES).index(machine)
    named = set()
    for table, expected in ((ALLOWED, ALLOW), (MISSING, NOT_THERE), (KILLED, KILL)):
        for name, numbers in table.items():
            if (number := numbers[place]) is not None:
                assert verdict(instructions, number) == expected, name
                named.add(number)
    conditional = {numbers[place] for numbers in ALLOWED_IF.values()}
    for number in set(range(600)) - named - conditional:
        assert verdict(instructions, number) == REFUSED
    assert verdict(instructions, -1) == KILL
    for other in {*AUDIT_NAMES.values(), 0x4000_0003} - {instructions.architecture}:
        assert verdict(instructions, ALLOWED["read"][place] or 0, architecture=other) == KILL


@pytest.mark.parametrize("machine", AUDIT_NAMES)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("openat", (-100 % (1 << 64), 1, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY), ALLOW),
        ("openat", (3, 1, os.O_WRONLY), REFUSED),
        ("openat", (3, 1, os.O_RDWR), REFUSED),
        ("openat", (3, 1, os.O_CREAT), REFUSED),
        ("openat", (3, 1, os.O_TRUNC), REFUSED),
        ("openat", (3, 1, os.O_PATH), REFUSED),
        ("openat", (3, 1, os.O_TMPFILE), REFUSED),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), REFUSED),  # types into the terminal
        ("fcntl", (0, 1030), ALLOW),
        ("fcntl", (0, 4), REFUSED),
        ("fcntl", (0, 8, 1), REFUSED),  # signals another process
        ("fcntl", (0, 1031, 1 << 30), REFUSED),  # grows a pipe
        ("prlimit64", (0, 7, 0, 1), ALLOW),
        ("prlimit64", (PID, 7, 0, 1), ALLOW),
        ("prlimit64", (0, 7, 1), REFUSED),
        ("prlimit64", (0, 7, 1 << 32), REFUSED),
        ("prlimit64", (1, 7, 0, 1), REFUSED),
        ("rt_sigaction", (int(signal.SIGSEGV), 1), ALLOW),
        ("rt_sigaction", (int(signal.SIGTERM), 0, 1), ALLOW),
        ("rt_sigaction", (int(signal.SIGTERM), 1), REFUSED),
        ("kill", (PID, 9), ALLOW),
        ("kill", (1, 9), REFUSED),
        ("kill", (0, 9), REFUSED),
        ("kill", (-1 % (1 << 64), 9), REFUSED),
        ("kill", (-PID % (1 << 64), 9), REFUSED),
        ("tgkill", (PID, PID, 6), ALLOW),
        ("tgkill", (1, 1, 6), REFUSED),
    ],
)
def test_calls_by_arguments(machine: str, name: str, arguments: tuple[int, ...], expected: int) -> None:
    number = ALLOWED_IF[name][list(AUDIT_NAMES).index(machine)]
    assert number is not None
    assert verdict(program_filter(machine, PID), number, *arguments) == expected


@pytest.mark.parametrize("machine", AUDIT_NAMES)
def test_numbers_are_the_kernel_s(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip(f"no header of the kernel with the numbers of {machine} here")
    pattern = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s*$", re.MULTILINE)
    numbers = {name: int(number) for name, number in pattern.findall(header.read_text())}
    numbers.setdefault("newfstatat", numbers.get("fstatat", -1))
    for table in TABLES:
        for name, found in table.items():
            assert numbers.get(name) == found[list(AUDIT_NAMES).index(machine)], name


def test_every_call_is_named_once() -> None:
    names = [name for table in TABLES for name in table]
    assert len(names) == len(set(names))
