"""What ends a program."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

from attempts import LIBC, WIRES, checked, tried

PTRACE_ATTACH = 16


@tried
def loop() -> object:
    while True:
        pass


@tried
def sleep() -> object:
    return time.sleep(3600)


@tried
def loop_and_refuse_to_abort() -> object:
    signal.signal(signal.SIGABRT, signal.SIG_IGN)
    return loop()


@tried
def pretend_to_be_done() -> object:
    WIRES[0].done()
    return loop()


@tried
def hoard() -> object:
    kept: list[bytes] = []
    while True:
        kept.append(bytes(100_000))


@tried
def huge() -> object:
    return len(bytes(10**10))


@tried
def recurse() -> object:
    return recurse()


@tried
def recurse_without_limit() -> object:
    sys.setrecursionlimit(10**9)
    found: object = None
    for _ in range(10**6):
        found = (found,)
    return hash(found)


@tried
def fail() -> object:
    raise ValueError("the third row has no price")


@tried
def exit_at_once(code: str) -> object:
    os._exit(int(code))


@tried
def exit_politely(code: str) -> object:
    sys.exit(int(code))


@tried
def exit_slowly() -> object:
    import atexit

    atexit.register(loop)
    sys.exit(0)


@tried
def crash() -> object:
    return ctypes.string_at(8)


@tried
def trace_parent() -> object:
    return checked(LIBC.ptrace(PTRACE_ATTACH, os.getppid(), 0, 0))


@tried
def mount() -> object:
    return checked(LIBC.mount(b"none", b"/mnt", b"tmpfs", 0, None))


@tried
def old_calls() -> object:
    """Through the 32-bit x32 numbers of x86_64, getpid."""
    return checked(LIBC.syscall(0x4000_0000 + 39))


@tried
def kill_self() -> object:
    return os.kill(os.getpid(), signal.SIGKILL)


@tried
def stop_self() -> object:
    return os.kill(os.getpid(), signal.SIGSTOP)


@tried
def print_for_ever(descriptor: str) -> object:
    while True:
        os.write(int(descriptor), b"all work and no play\n" * 1000)


@tried
def say_for_ever() -> object:
    while True:
        WIRES[0].write(b"x")


@tried
def say_much() -> object:
    while True:
        WIRES[0].write(bytes(1 << 16))


@tried
def say_garbage() -> object:
    while True:
        os.write(WIRES[0]._write_fd, b"\xff" * 4096)


@tried
def say_half() -> object:
    os.write(WIRES[0]._write_fd, b"\0\0\1\0" + bytes(100))
    os._exit(0)


@tried
def be_done_for_ever() -> object:
    while True:
        WIRES[0].done()


@tried
def read_the_wire() -> object:
    return os.read(WIRES[0]._read_fd, 1)


@tried
def close_everything() -> object:
    os.closerange(0, 256)
    return sleep()
