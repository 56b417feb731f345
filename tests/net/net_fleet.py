"""A fleet on a network of its own: one `elf agent` a host, and what each of them should know of the others."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from watching import patience

import elf
from benchmarks.chaos.hosts import PORT, HostedProcess
from benchmarks.networks import Host, Network
from overlay import Authority
from overlay.wire.messages import LEAF_SET_SIZE

SEEDS = 3
POLL_S = 0.2
STOP_S = 10.0


class NetAgent(HostedProcess):
    """An agent that runs on a host, whose control socket has a short path."""

    def __init__(self, host: Host, folder: Path, sockets: Path, streams: Sequence[dict[str, str | list[str]]]) -> None:
        socket = sockets / f"{folder.name}.sock"
        super().__init__(host, folder.name, folder, fleet="net", streams=streams, socket=socket, port=PORT)

    def leaf_set(self) -> list[str]:
        """The names or addresses in its leaf set; nobody's while it is no member."""
        with elf.connect_sync(self.socket) as client:
            status = client.status()
        return status.leaf_set if status.active else []


class NetFleet:
    """`with NetFleet(...) as fleet:` has an agent a host, not started; after the block none is left."""

    def __init__(self, network: Network, folder: Path, logs: Path) -> None:
        self._sockets = tempfile.TemporaryDirectory(prefix="elf-net-")
        authority = Authority.create("net")
        self.agents: dict[str, NetAgent] = {}
        for number, host in enumerate(network.hosts, 1):
            name = f"agent-{number}"
            agent = NetAgent(host, folder / name, Path(self._sockets.name), [_stream(logs, name)])
            agent.keep(authority.certificate_pem, authority.issue(name))
            self.agents[name] = agent
        for agent in self.agents.values():
            agent.seeds = [seed.address for seed in list(self.agents.values())[:SEEDS]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for agent in self.agents.values():
            if kind is None:
                agent.terminate()
            else:
                agent.kill()
        deadline = time.monotonic() + STOP_S
        for agent in self.agents.values():
            agent.wait(deadline)
            agent.close()
        self._sockets.cleanup()

    def __getitem__(self, name: str) -> NetAgent:
        return self.agents[name]

    @property
    def live(self) -> list[NetAgent]:
        return [agent for agent in self.agents.values() if agent.is_running()]

    def ring_from(self, name: str) -> list[str]:
        """All names in the order of their ids, this one first."""
        ring = sorted(self.agents, key=lambda other: self[other].node_id)
        place = ring.index(name)
        return ring[place:] + ring[:place]

    def faults(self) -> list[str]:
        return [f"{agent.name}: {line}" for agent in self.agents.values() for line in agent.faults()]

    def wait_for_right_leaf_sets(self, timeout_s: float, parts: Sequence[Sequence[NetAgent]] = ()) -> float:
        """When (monotonic) every live agent had the nearest live ones of its part of the network in its leaf set."""
        wanted = [pair for part in parts or [self.live] for pair in expected_leaf_sets(part)]

        def faulty() -> list[str]:
            return [f"{agent.name}: {wrong}" for agent, names in wanted if (wrong := self._wrong(agent, names))]

        wait_until(lambda: not faulty(), timeout_s, lambda: f"leaf sets are right; wrong are {faulty()}")
        return time.monotonic()

    def _wrong(self, agent: NetAgent, names: set[str]) -> list[str]:
        """Names in which its leaf set differs from what it should be."""
        by_address = {other.address: other.name for other in self.agents.values()}
        found = {by_address.get(known, known) for known in agent.leaf_set()}
        return sorted(found ^ names)


def expected_leaf_sets(agents: Sequence[NetAgent]) -> list[tuple[NetAgent, set[str]]]:
    """What each has in its leaf set once these know of each other, and of nobody else."""
    ring = sorted(agents, key=lambda agent: agent.node_id)
    around = [agent.name for agent in ring] * 3
    half = min(LEAF_SET_SIZE // 2, len(ring) - 1)
    pairs = []
    for place, agent in enumerate(ring, len(ring)):
        names = {*around[place - half : place], *around[place + 1 : place + 1 + half]}
        pairs.append((agent, names))
    return pairs


def wait_until(condition: Callable[[], bool], timeout_s: float, what: Callable[[], str]) -> None:
    deadline = time.monotonic() + patience(timeout_s)
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what()}"
        time.sleep(POLL_S)


def _stream(logs: Path, name: str) -> dict[str, str | list[str]]:
    return {"name": "web", "paths": [str(logs / f"{name}.json")], "read_from": "end"}
