"""The hosts of one job's elements on a ring in memory, in virtual time: real cores and elements, no sockets.

A host does one thing at a time: what comes while it is busy waits, and what it sends leaves when it is done.
"""

import heapq
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from itertools import count

import polars as pl

from agent.runtime.keyed.elements.runtime import ElementRuntime, Emitted, Tables
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.job import KeyedJob
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.messages.elements import ElementRows
from agent.runtime.model.fields import Message
from benchmarks.race import BenchmarkError
from overlay import Id, Peer, app_id, distance

LINK_S = 0.0005
WALL_MS = 1_772_452_800_000
"""The wall clock at the beginning."""
Action = Callable[[], object]
RuntimesOf = Callable[["SimulatedHost"], Mapping[str, ElementRuntime]]


class SimulatedHost:
    """One agent's core, and its view of the ring: everybody is known to everybody."""

    def __init__(self, fleet: "SimulatedHosts", number: int, node_id: Id) -> None:
        self.number = number
        self.me = Peer(node_id, f"host-{number}:1")
        self.job: KeyedJob
        self.busy_until = 0.0
        self.spent_s = 0.0
        """What handling has cost it."""
        self.inbox: deque[Action] = deque()
        self.timer = float("inf")
        self._fleet = fleet

    @property
    def now(self) -> float:
        return self._fleet.now

    def later(self, action: Action, at: float) -> None:
        """Does something at a time."""
        self._fleet.give(self, action, at)

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        return self._fleet.nearest(key, count)

    def send(self, peer: Peer, message: Message, now: float) -> None:  # noqa: ARG002
        if isinstance(message, ElementRows):
            self._fleet.sent_bytes += len(message.rows)
        self._fleet.send(peer, lambda to: to.job.handle(message, self.me, self._fleet.now))

    def multicast(self, message: Message, now: float) -> None:  # noqa: ARG002
        for other in self._fleet.hosts:
            self._fleet.send(other.me, lambda to: to.job.multicast(message, self._fleet.now))


class SimulatedHosts:
    """`hosts` that all take part in one job from the start.

    `measured`: what handling costs, in CPU time of this process, is charged to the virtual clock; else it costs nothing
    but what `Paced` elements take. `on_rows` is given what elements emit for the job's query, with the host.
    """

    def __init__(
        self,
        graph: CheckedGraph,
        runtimes_of: RuntimesOf,
        size: int,
        options: KeyedOptions,
        on_rows: Callable[[SimulatedHost, str, pl.DataFrame], None],
        *,
        measured: bool,
        seed: int = 26,
    ) -> None:
        self.now = 0.0
        self.sent_bytes = 0
        """Of rows, as they are framed for others."""
        self._measured = measured
        self._numbers = count()
        self._due: list[tuple[float, int, SimulatedHost, Action | None]] = []
        self._sent: list[tuple[SimulatedHost, Action]] = []
        chance = random.Random(seed)
        self.hosts = [SimulatedHost(self, number, Id(chance.getrandbits(128))) for number in range(size)]
        self._by_peer = {host.me: host for host in self.hosts}
        self._nearest: dict[tuple[Id, int], tuple[Peer, ...]] = {}
        for host in self.hosts:
            host.job = KeyedJob(
                app_id("s4", b""),
                graph,
                host,
                runtimes_of(host),
                options,
                lambda type_, rows, host=host: on_rows(host, type_, rows),
            )
        peers, master = [host.me for host in self.hosts], self.hosts[0].me
        for host in self.hosts:
            self.give(host, lambda host=host: host.job.members(peers, master, self.now))  # type: ignore[misc]

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        """The hosts closest to a key."""
        if (key, count) not in self._nearest:
            by_distance = sorted(self.hosts, key=lambda host: (distance(key, host.me.node_id), host.me.node_id))
            self._nearest[key, count] = tuple(host.me for host in by_distance[:count])
        return self._nearest[key, count]

    def send(self, peer: Peer, take: Callable[[SimulatedHost], object]) -> None:
        """Leaves when the host that is at work is done."""
        to = self._by_peer[peer]
        self._sent.append((to, lambda: take(to)))

    def give(self, host: SimulatedHost, action: Action, at: float | None = None) -> None:
        """Lets a host do something, at a time or now, once it is free."""
        self._push(self.now if at is None else at, host, action)

    def run_until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Lets time pass until something is so. Raises BenchmarkError if it does not come about."""
        while not condition():
            if not self._due or self._due[0][0] > limit_s:
                raise BenchmarkError(f"not all is done within {limit_s:g} simulated seconds")
            self.now, _, host, action = heapq.heappop(self._due)
            if action is not None:
                host.inbox.append(action)
            if action is None or (len(host.inbox) == 1 and host.busy_until <= self.now):
                self._do(host, host.inbox[0])
                host.inbox.popleft()
            if host.inbox and (action is None or len(host.inbox) == 1):
                self._push(host.busy_until, host, None)

    def _push(self, at: float, host: SimulatedHost, action: Action | None) -> None:
        """`action` None: the host is free for what waits."""
        heapq.heappush(self._due, (at, next(self._numbers), host, action))

    def _do(self, host: SimulatedHost, action: Action) -> None:
        began = time.process_time()
        action()
        took_s = time.process_time() - began if self._measured else 0.0
        host.spent_s += took_s
        host.busy_until = free = self.now + took_s
        for to, take in self._sent:
            self.give(to, take, free + (LINK_S if to is not host else 0.0))
        self._sent.clear()
        timer = host.job.next_timer()
        if timer is not None and timer < host.timer:
            host.timer = max(timer, free)
            self.give(host, lambda: self._tick(host), host.timer)

    def _tick(self, host: SimulatedHost) -> None:
        host.timer = float("inf")
        host.job.tick(self.now, WALL_MS + int(1000 * self.now))


class Pace:
    """The time of one host, which its elements take one after the other. `rows`: those taken, by type."""

    def __init__(self, rows_per_s: float) -> None:
        self.rows: Counter[str] = Counter()
        self._row_s = 1 / rows_per_s
        self._free = 0.0

    def until(self, now: float, rows: int) -> float:
        """The time when so many more rows are done."""
        self._free = max(self._free, now) + rows * self._row_s
        return self._free


class Paced:
    """An element that takes a time of its host for each event, as slow user code does, and then does at once what the
    element inside does."""

    def __init__(self, host: SimulatedHost, inner: ElementRuntime, pace: Pace) -> None:
        self._host, self._inner, self._pace = host, inner, pace

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:
        self._pace.rows[type_] += rows.height
        self._later(rows.height, lambda: self._inner.process(type_, rows, done))

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        self._later(0, lambda: self._inner.advance(watermark_ms, done))

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        self._later(0, lambda: self._inner.take_changes(done))

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        self._later(0, lambda: self._inner.states(nodes, done))

    def put(self, tables: Tables) -> None:
        self._inner.put(tables)

    def drop(self, nodes: Collection[int]) -> None:
        self._inner.drop(nodes)

    def evict(self, bytes_max: int, watermark_ms: int) -> int:
        return self._inner.evict(bytes_max, watermark_ms)

    @property
    def memory_bytes(self) -> int:
        return self._inner.memory_bytes

    @property
    def elements(self) -> int:
        return self._inner.elements

    def _later(self, rows: int, action: Action) -> None:
        self._host.later(action, self._pace.until(self._host.now, rows))
