"""Nodes under pumps and a network of memory between them: seeds and pumps without processes, on any clock."""

from __future__ import annotations

import random

import trio

from agent.driver import CoreDriver
from agent.programs.commands import ProgramCommand
from overlay import ConnectError, Event, Node, Peer, UnknownHostError

DELAY_S = 0.001
UNKNOWN_HOST = "unknown."
"""What the names of hosts that nobody knows begin with."""


class IdleCore:
    """An agent's core that has no jobs."""

    has_work = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self.events: list[Event] = []

    def process_events(self, _now: float, _wall_ms: int) -> bool:
        events = self.node.events()
        self.events += events
        return bool(events)

    def work(self, _now: float, _wall_ms: int) -> bool:
        return False

    def orders(self) -> list[ProgramCommand]:
        return []

    def next_timer(self) -> float | None:
        return None

    def handle_timer(self, _now: float, _wall_ms: int) -> None:
        raise AssertionError("no timer was asked for")


class MemoryFleet:
    """Carries messages between the pumps of members that are up."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.members: dict[str, CoreDriver] = {}
        self.wall_ms = 0
        self.dialled: list[str] = []
        self._nursery = nursery

    def add(self, address: str, core: type[IdleCore] = IdleCore) -> CoreDriver:
        """A member that is up, and in no overlay yet."""
        number = len(self.members) + 1
        peer = Peer(number << 120 | number, address)

        def send(receiver: Peer, data: bytes) -> None:
            self._nursery.start_soon(self._deliver, peer, receiver, data)

        node = Node(peer, random=random.Random(number))
        pump = CoreDriver(
            node,
            core(node),
            wall_ms=lambda: self.wall_ms,
            send=send,
            order=lambda _order: None,
        )
        self.members[address] = pump
        self._nursery.start_soon(pump.run_timers)
        self._nursery.start_soon(pump.run_work)
        return pump

    async def identify(self, address: str) -> Peer:
        """As the transport's: who is at an address."""
        self.dialled.append(address)
        await trio.sleep(DELAY_S)
        if address.startswith(UNKNOWN_HOST):
            raise UnknownHostError(f"{address}: host name not found")
        if address not in self.members:
            raise ConnectError(f"{address}: connection refused")
        return self.members[address].node.peer

    async def _deliver(self, sender: Peer, receiver: Peer, data: bytes) -> None:
        await trio.sleep(DELAY_S)
        if receiver.address in self.members:
            self.members[receiver.address].received(sender, data)
        else:
            self.members[sender.address].unreachable(receiver, "gone")
