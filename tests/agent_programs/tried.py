"""The program of these tests: a call names one of the things to try below, and its answer goes back as text.

Run as a script; the test hands its path to Python as an agent hands over the module of real programs.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from agent.programs.child import serve
from agent.programs.wire import Wire

LIBC = ctypes.CDLL(None, use_errno=True)
TRIED: dict[str, Callable[..., object]] = {}
WIRES: list[Wire] = []
PTRACE_ATTACH, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG = 16, 38, 1


def tried(attempt: Callable[..., object]) -> Callable[..., object]:
    TRIED[attempt.__name__] = attempt
    return attempt


def make_runner(wire: Wire) -> Callable[[bytes], None]:
    WIRES.append(wire)

    def run(call: bytes) -> None:
        name, *arguments = call.decode().split(" ")
        try:
            answer = str(TRIED[name](*arguments))
        except OSError as error:
            answer = type(error).__name__
        if answer:
            wire.write(answer.encode())

    return run


def checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


# What any program may do.


@tried
def echo(text: str) -> str:
    return text


@tried
def double(text: str) -> str:
    """Asks the agent in the middle of a call, and says what it answers."""
    WIRES[0].write(b"how many?")
    return text * int(WIRES[0].read())


@tried
def use(module: str) -> object:
    return importlib.import_module(module).__name__


@tried
def compute() -> object:
    import collections
    import dataclasses
    import datetime
    import decimal
    import hashlib
    import json
    import random
    import re
    import statistics
    import zlib
    import zoneinfo

    import msgspec

    @dataclasses.dataclass
    class Point:
        x: decimal.Decimal

    assert json.loads(json.dumps({"a": [1]})) == {"a": [1]} == msgspec.json.decode(b'{"a":[1]}')
    assert re.sub("b+", "c", "abba") == "aca"
    assert random.random() != random.random()
    assert os.urandom(8) != os.urandom(8)
    assert datetime.datetime.now().astimezone().utcoffset() == datetime.timedelta(0)
    assert zoneinfo.ZoneInfo("Europe/Vienna").key == "Europe/Vienna"
    assert Point(decimal.Decimal("1.10") + 1).x == decimal.Decimal("2.10")
    assert collections.Counter("aab").most_common(1) == [("a", 2)]
    assert statistics.stdev([1, 2, 3]) == 1
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
    assert zlib.decompress(zlib.compress(b"x" * 1000)) == b"x" * 1000
    time.sleep(0.001)
    print("printed")
    return "computed"


@tried
def environment() -> object:
    return sorted(os.environ)


@tried
def descriptors() -> object:
    found = []
    for number in range(256):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    return found


@tried
def modules() -> object:
    return " ".join(sorted(sys.modules))


@tried
def pid() -> object:
    return os.getpid()


@tried
def where() -> object:
    return str(Path.cwd()), sys.flags.isolated, sys.dont_write_bytecode, sys.stdin.read()


# What no program may do, and is refused.


@tried
def read(path: str) -> object:
    return Path(path.replace("PARENT", str(os.getppid()))).read_bytes()


@tried
def listing(path: str) -> object:
    return list(Path(path).iterdir())


@tried
def write(path: str) -> object:
    return Path(path).write_bytes(b"x")


@tried
def truncate_while_reading(path: str) -> object:
    return os.open(path, os.O_RDONLY | os.O_TRUNC)


@tried
def change_mode(path: str) -> object:
    return Path(path).chmod(0o777)


@tried
def change_time(path: str) -> object:
    return os.utime(path)


@tried
def remove(path: str) -> object:
    return Path(path).unlink()


@tried
def make_directory(path: str) -> object:
    return Path(path).mkdir()


@tried
def link(path: str) -> object:
    return Path(path).symlink_to("/etc/passwd")


@tried
def fork() -> object:
    return os.fork()


@tried
def start_thread() -> object:
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        return error
    return "started"


@tried
def run_shell() -> object:
    if os.system("true"):
        raise PermissionError
    return "ran"


@tried
def run_subprocess() -> object:
    import subprocess

    return subprocess.run(["/bin/true"], check=True)


@tried
def replace_self() -> object:
    return os.execv("/bin/true", ["true"])


@tried
def connect(port: str) -> object:
    return socket.create_connection(("127.0.0.1", int(port)))


@tried
def connect_unix(path: str) -> object:
    with socket.socket(socket.AF_UNIX) as found:
        return found.connect(path.replace("@", "\0"))


@tried
def pair_of_sockets() -> object:
    return socket.socketpair()


@tried
def kill_parent(number: str) -> object:
    return os.kill(os.getppid(), int(number))


@tried
def kill(pid: str) -> object:
    return os.kill(int(pid), signal.SIGKILL)


@tried
def kill_everybody() -> object:
    return os.kill(-1, signal.SIGKILL)


@tried
def signal_parent_when_readable() -> object:
    import fcntl

    return fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())


@tried
def become(user: str) -> object:
    return os.setuid(int(user))


@tried
def undo_no_new_privs() -> object:
    return checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0))


@tried
def outlive_the_agent() -> object:
    return checked(LIBC.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0))


@tried
def raise_limits() -> object:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return "raised"


@tried
def limit_parent() -> object:
    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))
    return "limited"


@tried
def be_nicer() -> object:
    return os.setpriority(os.PRIO_PROCESS, 0, -20)


@tried
def hide_in_memory() -> object:
    return os.memfd_create("hidden")


@tried
def ignore_signals() -> object:
    return signal.signal(signal.SIGXCPU, signal.SIG_IGN)


@tried
def open_many() -> object:
    return [os.dup(0) for _ in range(100)]


# What ends a program.


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


if __name__ == "__main__":
    serve(make_runner)
