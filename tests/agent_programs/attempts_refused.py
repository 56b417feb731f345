"""What no program may do, and is refused."""

from __future__ import annotations

import os
import resource
import signal
import socket
import threading
from pathlib import Path

from attempts import LIBC, checked, tried

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


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
