"""A network in virtual time: the production nodes, one queue of events, nothing that a seed does not fix.

Every message gets a delay from the latency model and may get lost; links do not keep order. The same random
source in the same state, and the same calls, make the same run: `trace_hash` tells two runs apart by every
message delivered, its time, sender, receiver and bytes.

Processes may crash, restart under the same id and stand still (SIGSTOP), and the network may be cut in parts.
What nodes are told of it is what a transport on sockets could tell: that a peer is `unreachable` (a message to
it finds no process at that address) or `restarted` (another process answers); of a cut, and of a process that
stands still, nothing.
"""

import hashlib
import heapq
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from overlay.events import Event
from overlay.node import Node
from overlay.peer import Peer
from overlay.random_source import RandomSource
from overlay.simulation.latency import Latency, UniformLatency

STEPS_MAX = 100_000_000


@dataclass(slots=True)
class _Process:
    """One node's process, or what is left of it; `met`: the incarnation of every peer it has a link with."""

    node: Node
    incarnation: int
    is_up: bool = True
    stalled_until: float = 0.0
    timer: float | None = None
    met: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Message:
    sender: Peer
    incarnation: int
    receiver: Peer
    data: bytes


@dataclass(frozen=True, slots=True)
class _Unreachable:
    peer: Peer
    incarnation: int


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
        self._processes: dict[int, _Process] = {}
        # (time, sequence, node id, what; None for a timer): the sequence makes the order total.
        self._queue: list[tuple[float, int, int, _Message | _Unreachable | None]] = []
        self._sequence = 0
        self._cuts: list[tuple[frozenset[int], frozenset[int]]] = []
        self._trace = hashlib.blake2b(digest_size=16)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes that have not crashed, in the order they were added."""
        return [process.node for process in self._processes.values() if process.is_up]

    def add_node(self, node_id: int | None = None) -> Node:
        """Make a node, with a random id unless one is given; the caller starts it or lets it join."""
        identifier = self._random.getrandbits(128) if node_id is None else node_id
        if identifier in self._processes:
            raise ValueError(f"there is already a node {identifier:032x}")
        node = Node(Peer(identifier, f"sim-{len(self._processes)}"), random=self._random)
        self._processes[identifier] = _Process(node, incarnation=1)
        return node

    # What goes wrong.

    def crash(self, node: Node) -> None:
        """End a node's process (SIGKILL). Messages to it vanish, and whoever sent one is told `unreachable`."""
        process = self._process(node)
        self._collect(process)
        process.is_up = False
        process.timer = None

    def restart(self, node: Node, *, address: str | None = None) -> Node:
        """Start a crashed node's process anew: a new node of the same id, which the caller lets join.

        It has the old one's address unless another is given. Peers are told `restarted` when they next meet.
        """
        old = self._process(node)
        if old.is_up:
            raise ValueError(f"{node.peer} has not crashed")
        fresh = Node(Peer(node.peer.node_id, address or node.peer.address), random=self._random)
        self._processes[node.peer.node_id] = _Process(fresh, old.incarnation + 1)
        return fresh

    def stall(self, node: Node, until: float) -> None:
        """Make a node's process stand still (SIGSTOP): its timers and what is sent to it wait until that time."""
        process = self._process(node)
        self._collect(process)
        process.stalled_until = until
        process.timer = until
        self._push(until, node.peer.node_id, None)

    def cut(self, one_side: Iterable[Node], other_side: Iterable[Node]) -> None:
        """Lose, without a word, everything sent between two sets of nodes from now on, in either direction."""
        sides = [frozenset(node.peer.node_id for node in side) for side in (one_side, other_side)]
        self._cuts.append((sides[0], sides[1]))

    def heal(self) -> None:
        """Take back every cut."""
        self._cuts.clear()

    # The run.

    def run(self, until: float, *, stop: Callable[[], bool] | None = None) -> None:
        """Run up to a virtual time, or until `stop()`, which is asked before every step, is true."""
        for process in self._processes.values():
            self._collect(process)
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

    def _process(self, node: Node) -> _Process:
        process = self._processes[node.peer.node_id]
        if process.node is not node:
            raise ValueError(f"{node.peer} has been restarted: this is the node it was before")
        return process

    def _step(self) -> None:
        self.now, _, node_id, what = heapq.heappop(self._queue)
        process = self._processes.get(node_id)
        if process is not None and process.is_up and self.now < process.stalled_until:
            if what is not None:
                self._push(process.stalled_until, node_id, what)
        elif isinstance(what, _Message):
            self._deliver(process, what)
        elif process is not None and process.is_up:
            self._wake(process, what)

    def _wake(self, process: _Process, what: _Unreachable | None) -> None:
        """Tell a node that a peer is not there, or that its timer is due."""
        if what is None:
            if process.timer != self.now:
                return
            process.timer = None
            process.node.handle_timer(self.now)
        elif what.incarnation == process.incarnation:
            process.node.unreachable(what.peer, self.now)
        self._collect(process)

    def _deliver(self, process: _Process | None, message: _Message) -> None:
        """Hand a message over, with what the link it came by tells both its ends."""
        sender = self._processes[message.sender.node_id]
        if process is None or not process.is_up or process.node.peer != message.receiver:
            self.lost += 1
            if not self._is_cut(message.receiver, message.sender):
                self._push(self.now, message.sender.node_id, _Unreachable(message.receiver, message.incarnation))
            return
        if message.incarnation < process.met.get(message.sender.node_id, 0):
            self.lost += 1
            return
        if sender.incarnation == message.incarnation and sender.is_up and self.now >= sender.stalled_until:
            self._introduce(sender, process.node.peer, process.incarnation)
        self._introduce(process, message.sender, message.incarnation)
        self.delivered += 1
        self._trace.update(struct.pack(">d", self.now))
        self._trace.update(message.sender.node_id.to_bytes(16, "big") + message.receiver.node_id.to_bytes(16, "big"))
        self._trace.update(message.data)
        process.node.receive(message.sender, message.data, self.now)
        self._collect(process)

    def _introduce(self, process: _Process, peer: Peer, incarnation: int) -> None:
        """Say `restarted` to a node whose link to a peer was one to an earlier process."""
        known = process.met.get(peer.node_id)
        process.met[peer.node_id] = incarnation
        if known is not None and known != incarnation:
            process.node.restarted(peer, self.now)
            self._collect(process)

    def _collect(self, process: _Process) -> None:
        """Put what a node wants onto the queue: its messages and its next timer."""
        if not process.is_up or self.now < process.stalled_until:
            return
        node = process.node
        for receiver, data in node.messages_to_send():
            if self._is_cut(node.peer, receiver) or (self.loss and self._random.random() < self.loss):
                self.lost += 1
                continue
            arrival = self.now + self._latency.delay_s(node.peer, receiver)
            self._push(arrival, receiver.node_id, _Message(node.peer, process.incarnation, receiver, data))
        timer = node.next_timer()
        if timer is not None and timer != process.timer:
            process.timer = max(timer, self.now)
            self._push(process.timer, node.peer.node_id, None)
        for event in node.events():
            if self.on_event is not None:
                self.on_event(self.now, node, event)

    def _is_cut(self, sender: Peer, receiver: Peer) -> bool:
        pair = sender.node_id, receiver.node_id
        return any((pair[0] in a and pair[1] in b) or (pair[0] in b and pair[1] in a) for a, b in self._cuts)

    def _push(self, time: float, node_id: int, what: _Message | _Unreachable | None) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, node_id, what))
