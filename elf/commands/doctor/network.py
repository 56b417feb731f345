"""Checks what an agent needs of the network: its own ports, its seeds, and the size of packets on the way to them."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from agent import Config
from agent.control.messages import Status
from agent.seeding.seed_addresses import find_seeds
from elf.client.errors import ClientError
from elf.client.sync_client import SyncClient
from elf.commands.doctor.diagnosis import Diagnosis, fault, fine, warning
from overlay import parse_address

CONNECT_TIMEOUT_S = 3.0
MTU_MIN = 1280
IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 14, 10, 2
"""Options of the kernel's sockets, which Python has no names for."""
START = "sudo systemctl start elf-agent && journalctl -u elf-agent -n 20"


def check_network(config: Config) -> Iterator[Diagnosis]:
    """All checks of the network, those of seeds at once."""
    running = _running(config)
    yield _agent(config, running)
    if running is None:
        yield _port("listen", config.listen)
        if config.metrics is not None and config.metrics.listen is not None:
            yield _port("metrics.listen", config.metrics.listen)
    found = find_seeds(config.seeds)
    for entry, reason in found.faults.items():
        yield fault(f"seed {entry}", reason, "getent hosts NAME; elf config check FILE")
    others = [seed for seed in found.addresses if seed not in (config.listen, config.advertise)]
    if not others:
        yield fine("seeds", "there are none: this agent is the first of its fleet, or the only one")
        return
    with ThreadPoolExecutor(len(others)) as threads:
        yield from threads.map(_seed, others)


def _running(config: Config) -> Status | None:
    try:
        return SyncClient(str(config.control_socket), CONNECT_TIMEOUT_S).status()
    except ClientError:
        return None


def _agent(config: Config, running: Status | None) -> Diagnosis:
    if running is None:
        return warning("agent", f"does not answer at {config.control_socket}", START)
    if not running.active:
        return fault("agent", "runs, and has not joined its fleet", "journalctl -u elf-agent -n 20")
    twins = [name for name in running.counters if name.startswith("transport.twins")]
    if twins:
        mend = "elf ca issue AUTHORITY NAME   # a certificate of its own for one of them"
        return fault("agent", f"two agents have one certificate: {'; '.join(twins)}", mend)
    return fine("agent", f"runs, and knows {running.peers:,} others")


def _port(key: str, address: str) -> Diagnosis:
    host, port = parse_address(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return fault(key, f"{address}: {reason}", f"sudo ss -ltnp 'sport = :{port}'; ip address")
    return fine(key, f"{address} is free")


def _seed(address: str) -> Diagnosis:
    """Whether something accepts connections at a seed's address, and how large packets to it may be."""
    check, (host, port) = f"seed {address}", parse_address(address)
    try:
        with socket.create_connection((host, port), CONNECT_TIMEOUT_S) as there:
            mtu = _path_mtu(there)
    except socket.gaierror:
        return fault(check, "its name cannot be resolved", f"getent hosts {shlex.quote(host)}")
    except TimeoutError:
        return fault(check, f"does not answer within {CONNECT_TIMEOUT_S:g} s", f"sudo nft list ruleset; ping {host}")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return fault(check, reason, f"on {host}: systemctl status elf-agent; sudo ss -ltnp 'sport = :{port}'")
    if mtu is not None and mtu < MTU_MIN:
        mend = f"ip route get {shlex.quote(host)}; sudo ip link set dev INTERFACE mtu 1500"
        return warning(check, f"answers; packets of {mtu:,} bytes at most get there", mend)
    return fine(check, "answers" if mtu is None else f"answers; packets of {mtu:,} bytes get there")


def _path_mtu(there: socket.socket) -> int | None:
    """The size of packets on the way, as the kernel knows it."""
    if there.family != socket.AF_INET:
        return None
    try:
        there.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        return there.getsockopt(socket.IPPROTO_IP, IP_MTU)
    except OSError:
        return None
