"""A network in virtual time: production nodes and one event queue, fully determined by a seed.

Every message gets a delay from the latency model; it may be lost, duplicated or delayed further, and links do not keep
order. The same random source in the same state and the same calls produce the same run: `trace_hash` covers every
delivered message with its time, sender, receiver and bytes.

Links may be cut, in one direction or both, or clogged: messages over a clogged link arrive later, all at once.
Processes may crash, restart under the same id and stall (SIGSTOP); their clocks may jump and run fast or slow. Nodes
are notified as by a transport on sockets: a peer is `unreachable` (no process answers at that address) or `restarted`
(another process answers). Cuts and stalls cause no notification.
"""

import hashlib
import heapq
import struct
from collections.abc import Callable, Iterable
from math import inf
from typing import Any

from overlay.core.events import Event
from overlay.core.random_source import RandomSource
from overlay.node import Node
from overlay.simulation.clock import Clock
from overlay.simulation.latency import Latency, UniformLatency
from overlay.simulation.process import SimulatedProcess
from overlay.wire.peer import Peer

STEPS_MAX = 100_000_000
TRACE_BLOCK_BYTES = 1 << 16
CLOCK_ERROR_S = 1e-6
"""Tolerance at which a timer on a skewed clock counts as due: clock times are floats."""

_pack_time = struct.Struct(">d").pack


NEVER = inf


class Links:
    """Faulty links, one direction at a time, as pairs of sets of node ids.

    >>> links = Links()
    >>> links.block([1], [2, 3], until=5.0)
    >>> links.opens_at(1, 3, now=4.0), links.opens_at(3, 1, now=4.0), links.opens_at(1, 3, now=6.0)
    (5.0, 4.0, 6.0)
    """

    def __init__(self) -> None:
        self._blocked: list[tuple[frozenset[int], frozenset[int], float]] = []

    def block(self, senders: Iterable[int], receivers: Iterable[int], until: float) -> None:
        """Delay messages sent from now on by `senders` to `receivers` until a time; NEVER loses them."""
        self._blocked.append((frozenset(senders), frozenset(receivers), until))

    def clear(self) -> None:
        """Repair every link. Messages delayed on a clogged link keep their time."""
        self._blocked.clear()

    def opens_at(self, sender: int, receiver: int, now: float) -> float:
        """Return the departure time of a message sent now: now on a link without faults, NEVER on one that is cut."""
        opens = now
        for senders, receivers, until in self._blocked:
            if until > opens and sender in senders and receiver in receivers:
                opens = until
        return opens


class Simulator:
    """Runs nodes against a virtual clock.

    `loss`, `duplication` and `reordering` are the probabilities that a message is lost, is delivered twice, and takes
    up to `reordering_s` longer than the link does; all may be changed between runs. `on_event(now, node, event)` is
    called with each event of every node as it happens; without it events are dropped.

    Actions of nodes take no time unless there is a `charge(node, action)`: it calls the action, may do what the node's
    owner does in response, and returns the duration in seconds. Meanwhile the node's other input waits, and its output
    leaves at the end.

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
        duplication: float = 0.0,
        reordering: float = 0.0,
        reordering_s: float = 1.0,
        on_event: Callable[[float, Node, Event], None] | None = None,
        charge: Callable[[Node, Callable[[], object]], float] | None = None,
    ) -> None:
        self.now = 0.0
        self.loss = loss
        self.duplication = duplication
        self.reordering = reordering
        self.reordering_s = reordering_s
        self.on_event = on_event
        self.charge = charge
        self.delivered = 0
        self.lost = 0
        self._random = random
        self._latency = latency or UniformLatency(random)
        self._links = Links()
        self._has_blocked_links = False
        self._processes: dict[int, SimulatedProcess] = {}
        self._added = 0
        # (time, sequence, handler, argument): the sequence makes the order total.
        self._queue: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._sequence = 0
        self._trace = hashlib.blake2b(digest_size=16)
        self._trail = bytearray()

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes that have not crashed, in order of addition."""
        return [process.node for process in self._processes.values() if process.is_up]

    def add_node(self, node_id: int | None = None) -> Node:
        """Make a node, with a random id unless one is given; the caller starts it or lets it join."""
        identifier = self._random.getrandbits(128) if node_id is None else node_id
        if identifier in self._processes:
            raise ValueError(f"there is already a node {identifier:032x}")
        node = Node(Peer(identifier, f"sim-{self._added}"), random=self._random)
        self._added += 1
        self._processes[identifier] = SimulatedProcess(node, incarnation=1)
        return node

    def call(self, at: float, action: Callable[[], object]) -> None:
        """Schedule a call at a time, not before now. It is charged to no node."""
        self._push(max(at, self.now), self._call, action)

    def work(self, node: Node, action: Callable[[], object]) -> None:
        """Let a node's owner act as soon as the node has done its earlier work."""
        self._act((self._process(node), action))

    # Faults of processes.

    def crash(self, node: Node) -> None:
        """End a node's process (SIGKILL). Messages to it vanish, and their senders are told `unreachable`."""
        process = self._process(node)
        self._collect(process)
        process.is_up = False
        process.timer = None

    def restart(self, node: Node, *, address: str | None = None) -> Node:
        """Start a new process for a crashed node: a new node of the same id, which the caller lets join.

        It has the old address unless another is given. Peers are told `restarted` when they next communicate.
        """
        old = self._process(node)
        if old.is_up:
            raise ValueError(f"{node.peer} has not crashed")
        incarnation = old.incarnation + 1
        peer = Peer(node.peer.node_id, address or node.peer.address)
        fresh = Node(peer, random=self._random, start_number=incarnation, epochs=node.epochs)
        self._processes[node.peer.node_id] = SimulatedProcess(fresh, incarnation, clock=old.clock)
        return fresh

    def forget(self, node: Node) -> None:
        """Delete a crashed node that will not be restarted, so that long churn does not fill the memory."""
        if self._process(node).is_up:
            raise ValueError(f"{node.peer} has not crashed")
        del self._processes[node.peer.node_id]

    def stall(self, node: Node, until: float) -> None:
        """Stall a node's process (SIGSTOP): its timers and incoming messages wait until that time."""
        process = self._process(node)
        self._collect(process)
        process.stalled_until = until
        self._arm(process, until)

    def stands_still(self, node: Node) -> bool:
        """Say whether a node is stalled, in which case its owner, being in the same process, could not call it
        either.
        """
        return self.now < self._process(node).stalled_until

    def change_clock(self, node: Node, *, jump_s: float = 0.0, rate: float | None = None) -> None:
        """Set a node's clock forward or back, and its rate in seconds per second. The node then lives by this clock.

        Agents read a clock that may jump ahead after a suspension but never goes back, and nodes rely on that.
        """
        process = self._process(node)
        self._collect(process)
        process.clock = process.clock or Clock()
        process.clock.change(self.now, jump_s=jump_s, rate=rate)
        if self.now >= process.stalled_until:
            process.timer = None
            self._collect(process)

    def clock(self, node: Node) -> float:
        """Return the time a node's clock shows, which is the `now` of calls to it: `self.now` unless it was changed."""
        return self._process(node).local(self.now)

    # Faults of links.

    def cut(self, one_side: Iterable[Node], other_side: Iterable[Node], *, one_way: bool = False) -> None:
        """Lose everything sent between two sets of nodes from now on, silently.

        `one_way`: only messages from the first set to the second.
        """
        self._block(one_side, other_side, NEVER, one_way=one_way)

    def clog(
        self, one_side: Iterable[Node], other_side: Iterable[Node], until: float, *, one_way: bool = False
    ) -> None:
        """Hold back everything sent between two sets of nodes from now on, and deliver all of it at that time."""
        self._block(one_side, other_side, until, one_way=one_way)

    def heal(self) -> None:
        """Undo every cut and clog."""
        self._links.clear()
        self._has_blocked_links = False

    def _block(self, one_side: Iterable[Node], other_side: Iterable[Node], until: float, *, one_way: bool) -> None:
        one, other = ([node.peer.node_id for node in side] for side in (one_side, other_side))
        self._links.block(one, other, until)
        if not one_way:
            self._links.block(other, one, until)
        self._has_blocked_links = True

    # Running.

    def run(
        self, until: float, *, stop: Callable[[], bool] | None = None, called: Iterable[Node] | None = None
    ) -> None:
        """Run up to a virtual time, or until `stop()`, evaluated before every step, is true.

        `called`: the nodes that owners have called since the last run, if these are known: what all nodes have to send
        is collected otherwise, each at about a tenth of the cost of a message.
        """
        if called is None:
            collected: Iterable[SimulatedProcess] = self._processes.values()
        else:
            collected = [process for node in called if (process := self._processes[node.peer.node_id]).node is node]
        for process in collected:
            self._collect(process)
        queue = self._queue
        for _ in range(STEPS_MAX):
            if stop is not None and stop():
                return
            if not queue or queue[0][0] > until:
                self.now = max(self.now, until)
                return
            self.now, _, handler, argument = heapq.heappop(queue)
            handler(argument)
        raise RuntimeError(f"the simulation did not reach {until} s within {STEPS_MAX} events")

    def trace_hash(self) -> str:
        """Return a digest of every message delivered so far."""
        self._trace.update(self._trail)
        self._trail.clear()
        return self._trace.hexdigest()

    def _process(self, node: Node) -> SimulatedProcess:
        process = self._processes[node.peer.node_id]
        if process.node is not node:
            raise ValueError(f"{node.peer} has been restarted: this is the node it was before")
        return process

    def _collect(self, process: SimulatedProcess) -> None:
        """Queue a node's messages and its next timer."""
        if not process.is_up or self.now < process.stalled_until or self.now < process.busy_until:
            return
        node = process.node
        for receiver, data in node.messages_to_send():
            self._send(process, receiver, data)
        timer = process.timer_at(self.now)
        if timer is not None and (process.timer is None or timer < process.timer):
            self._arm(process, timer)
        for event in node.events():
            if self.on_event is not None:
                self.on_event(self.now, node, event)

    def _send(self, process: SimulatedProcess, receiver: Peer, data: bytes) -> None:
        """Decide whether and when a message arrives."""
        sender, random = process.node.peer, self._random
        leaves_at = self.now
        if self._has_blocked_links:
            leaves_at = self._links.opens_at(sender.node_id, receiver.node_id, self.now)
        if leaves_at == NEVER or (self.loss and random.random() < self.loss):
            self.lost += 1
            return
        copies = 2 if self.duplication and random.random() < self.duplication else 1
        for _ in range(copies):
            arrives_at = leaves_at + self._latency.delay_s(sender, receiver)
            if self.reordering and random.random() < self.reordering:
                arrives_at += self.reordering_s * random.random()
            self._push(arrives_at, self._deliver, (process, receiver, data))

    def _deliver(self, message: tuple[SimulatedProcess, Peer, bytes]) -> None:
        """Deliver a message, after notifying both ends if they meet for the first time."""
        sender, receiver, data = message
        process = self._processes.get(receiver.node_id)
        if process is None or not process.is_up or process.node.peer.address != receiver.address:
            self._return(message)
            return
        if self.now < process.stalled_until:
            self._push(process.stalled_until, self._deliver, message)
            return
        if self.charge is not None and self._waits(process, self._deliver, message):
            return
        sending = sender.node.peer
        if process.met.get(sending.node_id) != sender.incarnation or (
            sender.met.get(receiver.node_id) != process.incarnation
        ):
            if sender.incarnation < process.met.get(sending.node_id, 0):
                self.lost += 1
                return
            if sender.is_up and self.now >= sender.stalled_until:
                self._introduce(sender, process)
            self._introduce(process, sender)
        self.delivered += 1
        self._note(process, sender, data)
        if self.charge is None:
            process.node.receive(sending, data, process.local(self.now))
            self._collect(process)
        else:
            self._do(process, lambda: process.node.receive(sending, data, process.local(self.now)))

    def _return(self, message: tuple[SimulatedProcess, Peer, bytes]) -> None:
        """Tell a sender that no process answers, if the notification gets through."""
        sender, receiver, _ = message
        self.lost += 1
        answers_at = self._links.opens_at(receiver.node_id, sender.node.peer.node_id, self.now)
        if answers_at != NEVER:
            self._push(answers_at, self._tell_unreachable, (sender, receiver))

    def _tell_unreachable(self, word: tuple[SimulatedProcess, Peer]) -> None:
        process, peer = word
        if not process.is_up:
            return
        if self.now < process.stalled_until:
            self._push(process.stalled_until, self._tell_unreachable, word)
            return
        process.node.unreachable(peer, process.local(self.now))
        self._collect(process)

    def _introduce(self, process: SimulatedProcess, other: SimulatedProcess) -> None:
        """Tell a node `restarted` if its link to a peer was one to an earlier process."""
        peer = other.node.peer
        known = process.met.get(peer.node_id)
        process.met[peer.node_id] = other.incarnation
        if known is not None and known != other.incarnation:
            process.node.restarted(peer, process.local(self.now))
            self._collect(process)

    def _note(self, receiver: SimulatedProcess, sender: SimulatedProcess, data: bytes) -> None:
        """Add a delivery to the trace."""
        self._trail += b"".join((_pack_time(self.now), sender.id_bytes, receiver.id_bytes, data))
        if len(self._trail) >= TRACE_BLOCK_BYTES:
            self._trace.update(self._trail)
            self._trail.clear()

    # Busy processes.

    def _do(self, process: SimulatedProcess, action: Callable[[], object]) -> None:
        if self.charge is None:
            action()
            self._collect(process)
            return
        process.busy_until = self.now + self.charge(process.node, action)
        self._push(process.busy_until, self._collect, process)

    def _call(self, action: Callable[[], object]) -> None:
        action()

    def _act(self, deed: tuple[SimulatedProcess, Callable[[], object]]) -> None:
        process, action = deed
        if process.is_up and not self._waits(process, self._act, deed):
            self._do(process, action)

    def _waits(self, process: SimulatedProcess, handler: Callable[[Any], None], argument: object) -> bool:
        """Queue an action behind others while the process is busy; return whether it has to wait."""
        if process.is_next:
            process.is_next = False
            return False
        if self.now >= process.busy_until and not process.waiting:
            return False
        process.waiting.append((handler, argument))
        if len(process.waiting) == 1:
            self._push(process.busy_until, self._go_on, process)
        return True

    def _go_on(self, process: SimulatedProcess) -> None:
        """Do the first waiting action, and schedule the next."""
        handler, argument = process.waiting[0]
        process.is_next = process.is_up
        handler(argument)
        process.is_next = False
        process.waiting.popleft()
        if process.waiting:
            self._push(max(self.now, process.busy_until), self._go_on, process)

    def _arm(self, process: SimulatedProcess, timer: float) -> None:
        process.timer = timer
        self._push(timer, self._wake, process)

    def _wake(self, process: SimulatedProcess) -> None:
        """Handle a node's due timers, unless this timer has been moved."""
        if process.timer != self.now or not process.is_up:
            return
        if self.now < process.busy_until:
            self._arm(process, process.busy_until)
            return
        process.timer = None
        due, local = process.node.next_timer(), process.local(self.now)
        if due is not None and due <= local + CLOCK_ERROR_S:
            self._do(process, lambda: process.node.handle_timer(max(due, local)))
        else:
            self._collect(process)

    def _push(self, time: float, handler: Callable[[Any], None], argument: object) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (time, self._sequence, handler, argument))
