"""A network of its own: hosts with one address each, joined by a switch, and what can go wrong between them.

Each host is a Linux network namespace with one end of a veth pair; the other ends are ports of a bridge in a namespace
of its own. Namespaces have no names here. They are held open by this process and by those that run in them, so nothing
is left when these end, however they end, and the network of the machine is never touched.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

SUBNET = "10.77.0"
HOSTS_MAX = 100
_CLONE_NEWNET = 0x40000000
_THREADS_NAMESPACE = "/proc/thread-self/ns/net"
_LIBC = ctypes.CDLL(None, use_errno=True)
_FIREWALL = """
table inet faults {
    chain input { type filter hook input priority 0; }
    chain output { type filter hook output priority 0; }
}
"""


def unavailable() -> str | None:
    """What this machine lacks for networks of one's own; None if nothing."""
    for program, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            return f"{program} is not installed (package {package})"
    if not Path(_THREADS_NAMESPACE).exists():
        return "no network namespaces: they are Linux's"
    try:
        with Namespace() as namespace:
            namespace.run("nft", "-f", "-", given=_FIREWALL)
    except PermissionError:
        return "not permitted to make network namespaces (root may)"
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces do not work here: {error}"
    return None


class Namespace:
    """A network namespace that lives as long as it is held, or as processes run in it."""

    def __init__(self) -> None:
        home = os.open(_THREADS_NAMESPACE, os.O_RDONLY)
        try:
            _check(_LIBC.unshare(_CLONE_NEWNET))
            self._descriptor = os.open(_THREADS_NAMESPACE, os.O_RDONLY)
            _check(_LIBC.setns(home, _CLONE_NEWNET))
        finally:
            os.close(home)
        self.run("ip", "link", "set", "lo", "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    @property
    def path(self) -> str:
        """A file that stands for it, for other processes."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread starts in the block runs in the namespace; its other threads are where they were."""
        home = os.open(_THREADS_NAMESPACE, os.O_RDONLY)
        try:
            _check(_LIBC.setns(self._descriptor, _CLONE_NEWNET))
            yield
        finally:
            _check(_LIBC.setns(home, _CLONE_NEWNET))
            os.close(home)

    def run(self, *command: str, given: str = "") -> None:
        with self.entered():
            subprocess.run(command, input=given, check=True, text=True)

    def release(self) -> None:
        os.close(self._descriptor)


class Host(Namespace):
    """A machine of the network: its address, and the faults that may befall what it sends and hears."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.address = f"{SUBNET}.{number}"
        self.run("nft", "-f", "-", given=_FIREWALL)

    def connect(self) -> None:
        self.run("ip", "-batch", "-", given=f"address add {self.address}/24 dev eth0\nlink set eth0 up\n")

    def move(self, address: str) -> None:
        """Gives up its address for another."""
        self.run("ip", "address", "flush", "dev", "eth0")
        self.address = address
        self.connect()

    def set_mtu(self, size: int) -> None:
        """The longest packet it sends, and takes."""
        self.run("ip", "link", "set", "eth0", "mtu", str(size))

    def lose(self, percent: int) -> None:
        """Loses this share of the packets that reach it."""
        self._drop(f"numgen random mod 100 < {percent}")

    def ignore(self, others: Sequence[Host]) -> None:
        """Loses every packet from these hosts; what it sends them still arrives."""
        self._drop(f"ip saddr {{ {', '.join(other.address for other in others)} }}")

    def heal(self) -> None:
        """Loses no more packets."""
        self.run("nft", "flush", "table", "inet", "faults")

    def _drop(self, packets: str) -> None:
        self.run("nft", "add", "rule", "inet", "faults", "input", *packets.split(), "drop")


class Network:
    """`with Network(32) as network:` has that many hosts on one switch."""

    def __init__(self, hosts: int) -> None:
        assert hosts <= HOSTS_MAX
        self._size = hosts
        self.hosts: list[Host] = []
        self._switch: Namespace | None = None

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._release()

    def heal(self) -> None:
        """Takes all faults of the firewalls away."""
        for host in self.hosts:
            host.heal()

    def _build(self) -> None:
        self._switch = Namespace()
        plan = ["link add switch type bridge", "link set switch up"]
        for number in range(1, self._size + 1):
            host = Host(number)
            self.hosts.append(host)
            port = f"port{number}"
            plan += [
                f"link add {port} type veth peer name eth0 netns {host.path}",
                f"link set {port} master switch up",
            ]
        self._switch.run("ip", "-batch", "-", given="\n".join(plan) + "\n")
        for host in self.hosts:
            host.connect()

    def _release(self) -> None:
        for namespace in (*self.hosts, self._switch):
            if namespace is not None:
                namespace.release()
        self.hosts, self._switch = [], None


def _check(code: int) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
