"""Agents on the overlay's seeded simulator, logs that are written beside them, and an observer who knows all logs."""

from __future__ import annotations

import heapq
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import polars as pl
from memory_fleet import as_read
from recording_client import RecordingClient, client_of
from simulated_disk import SimulatedDisk
from simulated_links import LinkLatency

import query
from agent import Agent, Feed, PublishedWindow, StreamOptions, Submit, Update, WindowResult
from agent.parsing import Parsed
from agent.runtime.durable.records import Place
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.master.state import JobState
from agent.runtime.master.windows import ClosedWindow
from agent.runtime.messages.versions import Version
from overlay import Event, Id, Node, Simulator, app_id

PANE_MS = 2000
PRODUCTS = "abcde"
SQL = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 2 SECONDS"


def sql(products: str, seconds: int) -> str:
    """A query that counts some of the products."""
    chosen = " OR ".join(f"product = '{product}'" for product in products)
    return f"SELECT product, COUNT(*) AS n FROM web WHERE {chosen} GROUP BY product WINDOWING {seconds} SECONDS"


def counts(text: str) -> tuple[str, int]:
    """Which products a query counts, and the length of its windows (ms)."""
    seconds = re.search(r"WINDOWING (\d+) SECONDS", text)
    assert seconds is not None
    return "".join(re.findall(r"product = '(.)'", text)) or PRODUCTS, 1000 * int(seconds[1])


WALL_MS = 1_700_000_000_000
"""The wall clock at virtual time 0."""
JOIN_AGAIN_S = 10.0
STEP_S = 0.1
"""So often agents are driven and logs are read, unless a fleet says otherwise."""


_MADE: dict[int, tuple[WindowResult, list[frozenset[str]], Version]] = {}
"""Whom the roster expected in each result when it was made, who was in it, in part, or leaped over, and its version;
later this may change."""


def _with_roster(make: Callable[..., WindowResult]) -> Callable[..., WindowResult]:
    def made(master: JobState, window: ClosedWindow, *about: Any, **options: Any) -> WindowResult:
        result = make(master, window, *about, **options)
        agents = (window.expected, window.contributors, window.partial, window.leaped)
        names = [frozenset(master.roster.names(numbers)) for numbers in agents]
        _MADE[id(result)] = (result, names, about[-1].version)
        return result

    return made


JobState._result = _with_roster(JobState._result)  # type: ignore[method-assign]


@dataclass
class Reader:
    """One feed of one agent: where it is in the log, and for a bounded one where it ends."""

    feed: Feed
    opens_at: float
    position: int = -1
    end: int | None = None


@dataclass
class Server:
    """A web server and the agent beside it. The log goes on whether there is an agent or not.

    `read`: as much of the log as any feed has come to.
    """

    name: str
    agent: Agent
    node: Node
    streams: dict[str, StreamOptions]
    log: list[tuple[int, str]] = field(default_factory=list)
    read: int = 0
    readers: dict[FeedKey, Reader] = field(default_factory=dict)
    notices: list[Any] = field(default_factory=list)
    followed: dict[int | None, list[Any]] = field(default_factory=lambda: defaultdict(list))
    is_up: bool = True
    stalled_until: float = 0.0
    writes: bool = True
    sealing_from: float = 0.0
    disk: SimulatedDisk | None = None
    is_to_start: bool = False
    reads_from: float = 0.0
    """Nothing of its log is read before, although its agent is well."""
    block: int = 50
    """Events that are read at once."""
    clock_off_ms: int = 0
    """By how much its wall clock is ahead."""
    read_bounded: Counter[tuple[int, str]] = field(default_factory=Counter)

    def counted(self, pane: int, size_ms: int) -> Counter[str]:
        """What the log says of one window."""
        return Counter(product for time, product in self.log if pane <= time < pane + size_ms)


@dataclass(frozen=True)
class Window:
    """A result as it went out: who published it and when, by which version, whom the roster expected, who is in it, who
    of them in part, and who was leaped over."""

    at: float
    app: str
    epoch: tuple[int, int, int]
    pane: int
    result: WindowResult
    version: Version
    expected: frozenset[str]
    contributors: frozenset[str]
    partial: frozenset[str]
    leaped: frozenset[str]


class SimulatedFleet:
    """Agents in virtual time. `at` schedules, `run` lets time pass; everything follows from the seed."""

    def __init__(self, seed: int, *, disks: bool = False, step_s: float = STEP_S) -> None:
        self.seed = seed
        self.disks = disks
        self.step_s = step_s
        self.random = random.Random(seed)
        self.links = LinkLatency(self.random, lambda: self.simulator.now)
        self.simulator = Simulator(
            self.random,
            latency=self.links,
            on_event=lambda _now, node, event: self._raised.append((node, event)),
        )
        self.servers: dict[str, Server] = {}
        self.windows: list[Window] = []
        self.hears_late: dict[str, float] = {}
        """By how many seconds the overlay's events reach an agent late."""
        self._by_node: dict[int, Server] = {}
        self._raised: list[tuple[Node, Event]] = []
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0
        self._next_step = 0.0

    @property
    def now(self) -> float:
        return self.simulator.now

    @property
    def wall_ms(self) -> int:
        return WALL_MS + int(self.now * 1000)

    def wall_of(self, server: Server) -> int:
        """The wall clock of a server and its agent."""
        return self.wall_ms + server.clock_off_ms

    # Time.

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._plans, (time, self._planned, action))

    def run(self, until: float) -> None:
        """Lets time pass, doing what was planned for it, and driving every agent that lives."""
        while self.now < until:
            stop = min([until, self._next_step, *(plan[0] for plan in self._plans[:1])])
            self._simulate(max(stop, self.now))
            while self._plans and self._plans[0][0] <= self.now:
                heapq.heappop(self._plans)[2]()
            if self.now >= self._next_step:
                self._next_step = self.now + self.step_s
                for server in self.servers.values():
                    self._drive(server)

    def _simulate(self, until: float) -> None:
        called = None  # any of them, by what was planned
        while True:
            self.simulator.run(until, stop=lambda: bool(self._raised), called=called)
            if not self._raised:
                return
            raised, self._raised = self._raised, []
            for node, event in raised:
                self._happened(node, event)
            called = [node for node, _ in raised]

    def _happened(self, node: Node, event: Event) -> None:
        server = self._by_node[node.peer.node_id]
        if server.node is not node or not server.is_up:
            return
        delay = self.hears_late.get(server.name, 0.0)
        if delay:
            self.at(self.now + delay, lambda: self._tell(server, event) if server.node is node else None)
        else:
            self._tell(server, event)

    def _tell(self, server: Server, event: Event) -> None:
        server.agent.process(event, self.now, self.wall_of(server))
        self._observe(server)

    def _drive(self, server: Server) -> None:
        if not server.is_up or self.now < server.stalled_until:
            return
        self._use_disk(server)
        timer = server.agent.next_timer()
        if timer is not None and timer <= self.now:
            server.agent.handle_timer(self.now, self.wall_of(server))
        if self.random.random() < 0.7 and self.now >= server.reads_from:
            self._read(server)
        if self.now >= server.sealing_from:
            for _ in range(self.random.randint(1, 4)):
                if not server.agent.work(self.now, self.wall_of(server)):
                    break
        self._observe(server)

    def _use_disk(self, server: Server) -> None:
        if server.disk is None:
            return
        if server.is_to_start and server.node.is_active:
            server.is_to_start = False
            server.agent.start(self.now)
        elif self.random.random() < 0.7 and (count := server.disk.write()):
            server.agent.jobs_stored(count, self.now, self.wall_of(server))

    def _read(self, server: Server) -> None:
        wanted = {feed.key: feed for feed in server.agent.ingest.feeds()}
        server.readers = {key: reader for key, reader in server.readers.items() if key in wanted}
        for key, feed in wanted.items():
            if key not in server.readers:
                server.readers[key] = Reader(feed, self.now + self.random.choice((0.0, 0.0, 0.2, 1.2)))
            server.readers[key].feed = feed
            self._read_on(server, server.readers[key])

    def _read_on(self, server: Server, reader: Reader) -> None:
        if self.now < reader.opens_at:
            return
        key = reader.feed.key
        if reader.position < 0:
            reader.position = len(server.log) if reader.feed.start == "end" else 0
            reader.end = len(server.log) if reader.feed.bounded else None
        upto = min(reader.position + server.block, len(server.log) if reader.end is None else reader.end)
        upto = self._block_end(server, reader, upto)
        events = server.log[reader.position : upto]
        reader.position = upto
        server.read = max(server.read, upto)
        if events:
            server.agent.ingest.insert(
                key,
                as_read(self._parsed(server, upto - len(events), events), reader.feed),
                self.now,
                self.wall_of(server),
                self._place_after(server, reader),
            )
        if reader.end is None and upto == len(server.log):
            server.agent.ingest.caught_up(key, self.now, self.wall_of(server))
        elif upto == reader.end:
            server.agent.ingest.end_of_feed(key, self.now, self.wall_of(server))

    def _block_end(self, _server: Server, _reader: Reader, upto: int) -> int:
        """Where a block ends that could go on up to this event."""
        return upto

    def _place_after(self, _server: Server, _reader: Reader) -> Place | None:
        """The place that a reader has come to, if it is kept."""
        return None

    def _parsed(self, _server: Server, _position: int, events: list[tuple[int, str]]) -> Parsed:
        """Some events of a log, from a position on, as a parser gives them."""
        return parsed(events)

    def _observe(self, server: Server) -> None:
        for app, notice in client_of(server.agent).by_job():
            server.notices.append(notice)
            server.followed[app].append(notice)

    # Servers and agents.

    def add(self, *streams: str, node_id: int | None = None, read_from: str = "end") -> Server:
        """A new server, whose agent joins the overlay through a random one."""
        name = f"agent-{len(self.servers)}"
        options = {stream: StreamOptions(read_from) for stream in streams}  # type: ignore[arg-type]
        node = self.simulator.add_node(node_id)
        disk = SimulatedDisk() if self.disks else None
        agent = self._agent(name, node, options, disk)
        server = self.servers[name] = Server(name, agent, node, options, disk=disk)
        self._by_node[node.peer.node_id] = server
        self._join(server)
        return server

    def _agent(
        self, name: str, node: Node, streams: dict[str, StreamOptions], disk: SimulatedDisk | None = None
    ) -> Agent:
        agent = Agent(name, node, streams, observer=RecordingClient(disk))
        agent.masters.on_result = lambda result: self._published(agent, result)
        return agent

    def _join(self, server: Server) -> None:
        others = [other for other in self.servers.values() if other is not server and other.is_up]
        if others:
            self._ask_to_join(server, server.node)
        else:
            server.node.start(self.now)
        server.is_to_start = server.disk is not None
        if server.disk is not None:
            server.agent.restore(server.disk.kept(), self.now)
        else:
            server.agent.start(self.now)

    def _ask_to_join(self, server: Server, node: Node) -> None:
        """As an agent with several seeds does: who does not answer may be dead, so another one is asked."""
        if server.node is node and server.is_up and not node.is_active:
            others = [other for other in self.servers.values() if other is not server and other.is_up]
            if others:
                node.join(self.random.choice(others).node.peer, self.now)
            self.at(self.now + JOIN_AGAIN_S, lambda: self._ask_to_join(server, node))

    def crash(self, server: Server) -> None:
        """SIGKILL."""
        self.simulator.crash(server.node)
        server.is_up = False
        server.readers.clear()
        if server.disk is not None:
            server.disk.lose_power(self.random.randint(0, len(server.disk.waiting)))

    def restart(self, server: Server) -> None:
        """The same agent, as a new process that knows what is on its disk, if it has one."""
        server.node = self.simulator.restart(server.node)
        server.agent = self._agent(server.name, server.node, server.streams, server.disk)
        server.is_up = True
        server.readers.clear()
        self._join(server)

    def stall(self, server: Server, seconds: float) -> None:
        """SIGSTOP, and later SIGCONT."""
        server.stalled_until = self.now + seconds
        self.simulator.stall(server.node, self.now + seconds)

    def leave(self, server: Server, *, patience: float = 5.0) -> None:
        """SIGTERM: the agent leaves, then its node, then the process ends."""
        server.writes = False
        del server.log[server.read :]
        server.agent.drain.begin(self.now)
        server.agent.process_events(self.now, self.wall_of(server))
        deadline = self.now + patience

        def look() -> None:
            if not server.is_up:
                return
            if server.agent.drain.is_complete or self.now >= deadline:
                server.node.leave(self.now)
                self.at(self.now + 0.3, lambda: self.crash(server))
            else:
                self.at(self.now + STEP_S, look)

        look()

    # Logs.

    def write(self, server: Server, count: int, *, late_ms: int = 0) -> None:
        """The web server logs some events of the last half second."""
        for _ in range(count):
            time = self.wall_of(server) - self.random.randint(0, 500) - late_ms
            server.log.append((time, self.random.choice(PRODUCTS)))

    def keep_writing(self, until: float, *, pause: float = 0.6, servers: Iterable[Server] | None = None) -> None:
        """Servers with a stream, or these, log something now and then."""

        def some(server: Server) -> None:
            if server.writes:
                self.write(server, self.random.randint(1, 3))
            if self.now < until:
                self.at(self.now + self.random.uniform(0.2, 1.8) * pause, lambda: some(server))

        for server in self.workers() if servers is None else servers:
            some(server)

    def workers(self) -> list[Server]:
        return [server for server in self.servers.values() if "web" in server.streams]

    # Jobs.

    def submit(self, name: str, by: Server, sql: str = SQL, **options: object) -> Id:
        plan = query.analyze(query.parse(sql), {"web": query.Schema({}, open=True)})
        chosen: dict[str, object] = {"bounded": False, "grace_ms": 1000, **options}
        job = Submit(key_of(name), name, plan.stream, plan.to_wire(), sql, **chosen)  # type: ignore[arg-type]
        client_of(by.agent).submit(job, self.now, self.wall_ms)
        return job.app_id

    def update(self, name: str, by: Server, sql: str, *, reset: bool = False) -> None:
        plan = query.analyze(query.parse(sql), {"web": query.Schema({}, open=True)})
        client_of(by.agent).update(Update(key_of(name), plan.to_wire(), sql, reset, 0), self.now, self.wall_ms)

    def masters(self, name: str) -> list[tuple[Server, JobState]]:
        key = self.key_of(name)
        found = [(server, server.agent.masters.state(key)) for server in self.servers.values() if server.is_up]
        return [(server, master) for server, master in found if master is not None]

    def key_of(self, name: str) -> Id:
        """The id of a job by its name."""
        return key_of(name)

    def of(self, name: str) -> list[Window]:
        return [window for window in self.windows if window.app == name]

    def _published(self, agent: Agent, result: WindowResult) -> None:
        master = agent.masters.state(self.key_of(result.app))
        assert master is not None
        epoch = (master.epoch.born_ms, master.epoch.counter, master.epoch.master)
        _, names, version = _MADE[id(result)]
        self.windows.append(Window(self.now, result.app, epoch, pane_of(result), result, version, *names))

    def longest_silence(self, name: str, since: float, until: float) -> float:
        """The longest time between two windows."""
        times = [since, *(window.at for window in self.of(name) if since <= window.at <= until), until]
        return max(later - earlier for earlier, later in pairwise(times))

    def fingerprint(self) -> tuple[str, list[str]]:
        return self.simulator.trace_hash(), [window.result.to_json() for window in self.windows]


def parsed(events: Iterable[tuple[int, str]], malformed: int = 0) -> Parsed:
    events = list(events)
    columns = {"@time": [time for time, _ in events], "product": [product for _, product in events]}
    frame = pl.DataFrame(columns, schema={"@time": pl.Int64, "product": pl.String})
    return Parsed((frame,), malformed=malformed)


def published(server: Server, app: int) -> list[int]:
    """The panes of the windows that a server's clients were shown of a job."""
    found = [notice for notice in server.followed[app] if isinstance(notice, PublishedWindow)]
    assert all(json.loads(bytes(notice.result)) for notice in found)
    return [notice.pane for notice in found]


def key_of(name: str) -> Id:
    return app_id(name, b"")


def pane_of(result: WindowResult) -> int:
    """The window's start in epoch ms."""
    assert result.window_start is not None
    start = pl.Series([result.window_start]).str.to_datetime(time_zone="UTC", time_unit="ms")
    return int(start.dt.epoch("ms")[0])
