"""A network in virtual time: the production nodes, one queue of events, nothing that a seed does not fix.

Every message gets a delay from the latency model and may get lost; links do not keep order. The same random
source in the same state, and the same calls, make the same run: `trace_hash` tells two runs apart by every
message delivered, its time, sender, receiver and bytes.
"""

import hashlib
import heapq
import struct
from collections.abc import Callable, Iterable
from math import hypot
from typing import Protocol

from overlay.events import Event
from overlay.node import Node
from overlay.peer import Peer
from overlay.random_source import RandomSource

STEPS_MAX = 100_000_000


class Latency(Protocol):
    """How long a message takes from one peer to another, in seconds."""

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the delay of the next message on this link."""


class UniformLatency:
    """Every message takes between `low_s` and `high_s`, whatever the link."""

    def __init__(self, random: RandomSource, low_s: float = 0.001, high_s: float = 0.010) -> None:
        self._random = random
        self._low_s = low_s
        self._width_s = high_s - low_s

    def delay_s(self, sender: Peer, receiver: Peer) -> float:  # noqa: ARG002 - the model knows no places
        """Return a delay drawn anew."""
        return self._low_s + self._width_s * self._random.random()


class PlaneLatency:
    """Peers are points in a square whose side takes `side_s` to cross; every message has up to 10% on top.

    A peer gets its place when it is first seen.
    """

    def __init__(self, random: RandomSource, side_s: float = 0.050) -> None:
        self._random = random
        self._side_s = side_s
        self._places: dict[int, tuple[float, float]] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        """Return the time the straight line takes, never less than a hundredth of the side's."""
        here, there = self._place(sender), self._place(receiver)
        length = max(0.01, hypot(here[0] - there[0], here[1] - there[1]))
        return self._side_s * length * (1 + 0.1 * self._random.random())

    def _place(self, peer: Peer) -> tuple[float, float]:
        if peer.node_id not in self._places:
            self._places[peer.node_id] = (self._random.random(), self._random.random())
        return self._places[peer.node_id]


class Simulator:
    """Runs nodes against a virtual clock.

    `loss` is the probability that a message gets lost. `on_event(now, node, event)` is called with each event
    of every node as it happens; without it events are dropped.

    >>> import random
    >>> simulator = Simulator(random.Random(7))
    >>> first = simulator.add_node(); first.start(simulator.now)
    >>> second = simulator.add_node(); second.join(first.peer, simulator.now)
    >>> simulator.run(until=1.0)
    >>> second.is_active, simulator.now
    (True, 1.0)
    """

    def __init__(
        self,
        random: RandomSource,
        *,
        latency: Latency | None = None,
        loss: float = 0.0,
        on_event: Callable[[float, Node, Event], None] | None = None,
    ) -> None:
        self.now = 0.0
        self.loss = loss
        self.delivered = 0
        self.lost = 0
        self._random = random
        self._latency = latency or UniformLatency(random)
        self.on_event = on_event
        self._nodes: dict[int, Node] = {}
        # (time, sequence, node id, sender and bytes; None for a timer): the sequence makes the order total.
        self._queue: list[tuple[float, int, int, tuple[Peer, bytes] | None]] = []
        self._sequence = 0
        self._timers: dict[int, float] = {}
        self._trace = hashlib.blake2b(digest_size=16)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes, in the order they were added."""
        return self._nodes.values()

    def add_node(self, node_id: int | None = None) -> Node:
        """Make a node, with a random id unless one is given; the caller starts it or lets it join."""
        identifier = self._random.getrandbits(128) if node_id is None else node_id
        if identifier in self._nodes:
            raise ValueError(f"there is already a node {identifier:032x}")
        node = Node(Peer(identifier, f"sim-{len(self._nodes)}"), random=self._random)
        self._nodes[identifier] = node
        return node

    def run(self, until: float, *, stop: Callable[[], bool] | None = None) -> None:
        """Run up to a virtual time, or until `stop()`, which is asked before every step, is true."""
        for node in self._nodes.values():
            self._collect(node)
        for _ in range(STEPS_MAX):
            if stop is not None and stop():
                return
            if not self._queue or self._queue[0][0] > until:
                self.now = max(self.now, until)
                return
            self._step()
        raise RuntimeError(f"the simulation did not reach {until} s within {STEPS_MAX} events")

    def trace_hash(self) -> str:
        """Return a digest of every message delivered so far."""
        return self._trace.hexdigest()

    def _step(self) -> None:
        self.now, _, node_id, message = heapq.heappop(self._queue)
        node = self._nodes[node_id]
        if message is None:
            if self._timers.get(node_id) != self.now:
                return
            del self._timers[node_id]
            node.handle_timer(self.now)
        else:
            sender, data = message
            self.delivered += 1
            self._trace.update(struct.pack(">d", self.now))
            self._trace.update(sender.node_id.to_bytes(16, "big") + node_id.to_bytes(16, "big"))
            self._trace.update(data)
            node.receive(sender, data, self.now)
        self._collect(node)

    def _collect(self, node: Node) -> None:
        """Put what a node wants onto the queue: its messages and its next timer."""
        for receiver, data in node.messages_to_send():
            if receiver.node_id not in self._nodes or (self.loss and self._random.random() < self.loss):
                self.lost += 1
                continue
            arrival = self.now + self._latency.delay_s(node.peer, receiver)
            self._push(arrival, receiver.node_id, (node.peer, data))
        timer = node.next_timer()
        if timer is not None and timer != self._timers.get(node.peer.node_id):
            timer = max(timer, self.now)
            self._timers[node.peer.node_id] = timer
            self._push(timer, node.peer.node_id, None)
        for event in node.events():
            if self.on_event is not None:
                self.on_event(self.now, node, event)

    def _push(self, time: float, node_id: int, message: tuple[Peer, bytes] | None) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, node_id, message))
