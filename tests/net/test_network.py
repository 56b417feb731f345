"""The network of the tests does what is said of it, and only there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from benchmarks.networks import Host, Network

pytestmark = pytest.mark.net
PORT = 9000
PACKETS = 400


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(3) as network:
        yield network


def udp(host: Host) -> socket.socket:
    """A socket of that host, whoever uses it."""
    with host.entered():
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.bind((host.address, PORT))
    return made


def arrived(sender: Host, receiver: Host, packets: int = 1, size: int = 100) -> int:
    """How many packets of so many arrive."""
    with udp(sender) as source, udp(receiver) as target:
        target.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        heard = 0
        for _ in range(packets):
            source.sendto(bytes(size), (receiver.address, PORT))
            heard += was_heard(target)
        return heard


def was_heard(target: socket.socket) -> bool:
    try:
        target.recv(2000)
    except BlockingIOError:
        return False
    return True


def test_every_host_reaches_every_other(network: Network) -> None:
    for sender, receiver in permutations(network.hosts, 2):
        assert arrived(sender, receiver) == 1


def test_a_host_that_ignores_another_is_heard_by_it(network: Network) -> None:
    first, second, third = network.hosts
    second.ignore([first])
    assert (arrived(first, second), arrived(second, first), arrived(third, second)) == (0, 1, 1)
    network.heal()
    assert arrived(first, second) == 1


def test_a_share_of_packets_is_lost(network: Network) -> None:
    first, second, _ = network.hosts
    second.lose(20)
    assert 0.65 * PACKETS < arrived(first, second, PACKETS) < 0.95 * PACKETS
    assert arrived(second, first, PACKETS) == PACKETS


def test_a_host_that_moved_is_found_at_its_new_address_only(network: Network) -> None:
    first, second, _ = network.hosts
    second.move("10.77.0.99")
    assert arrived(first, second) == arrived(second, first) == 1
    with second.entered(), pytest.raises(OSError, match="assign requested address"):
        socket.create_server(("10.77.0.2", 0))


def test_long_packets_do_not_fit_a_small_mtu(network: Network) -> None:
    first, second, _ = network.hosts
    second.set_mtu(600)
    assert (arrived(first, second, size=100), arrived(first, second, size=1000)) == (1, 0)


def test_the_machines_own_network_is_not_touched_and_nothing_is_left() -> None:
    before = surroundings()
    with pytest.raises(KeyboardInterrupt):
        interrupted(before)
    assert surroundings() == before


def interrupted(before: tuple[list[tuple[int, str]], Path, int]) -> None:
    with Network(3):
        assert surroundings()[:2] == before[:2]
        raise KeyboardInterrupt


def surroundings() -> tuple[list[tuple[int, str]], Path, int]:
    """This process's network devices, its namespace, and how many files it has open."""
    return socket.if_nameindex(), Path("/proc/self/ns/net").readlink(), len(list(Path("/proc/self/fd").iterdir()))
