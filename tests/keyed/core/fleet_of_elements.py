"""A few agents that host the elements of one job, joined by a network that delays, loses and cuts, from one seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import polars as pl

from agent.programs.element_graph import Element, ElementGraph, ElementInput, EventType
from agent.runtime.keyed.elements.runtime import EVENT_TIME, NODE, SEQ, SOURCE, Emitted
from agent.runtime.keyed.graph import CheckedGraph, CheckedSource
from agent.runtime.keyed.hosting.job import KeyedJob
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.messages.jobs import CODEC
from overlay import Id, Peer
from overlay import app_id as app_key

APP = app_key("elements", b"test")
FIELDS = [("a", "string"), ("b", "string"), ("v", "integer")]


def type_(name: str, **options) -> EventType:
    return EventType(name, FIELDS, **options)


def element(name: str, *inputs: tuple, emits: Iterable[str] = (), **options) -> Element:
    """An element that reads (type, key, constant), and emits types."""
    reads = [ElementInput(one[0], one[1], one[2] if len(one) > 2 else None) for one in inputs]
    return Element(name, "code", reads, options={"emits": list(emits)}, **options)


def graph_of(types: list[EventType], elements: list[Element], sources: Iterable[str]) -> CheckedGraph:
    found = [CheckedSource(name, None) for name in sources]  # the plans of sources are of no use here
    return CheckedGraph(ElementGraph([], types, elements), found)


class Counting:
    """Counts the events of each key and adds up their values; emits the key and its count for each event.

    Changes add to what was before, so that one that is lost, or is there twice, is seen.
    """

    def __init__(self, graph: CheckedGraph, one: Element) -> None:
        self._keys = {read.type: tuple(read.key or ()) for read in one.inputs}
        self._constant = one.inputs[0].constant
        self._emits = graph.emits(one)
        self._is_keyless = one.inputs[0].key is None
        self.state: dict[str, tuple[int, int, int]] = {}
        self._changed: dict[str, tuple[int, int, int]] = {}
        self.waiting: list[Callable[[], None]] = []
        self.is_slow = self.stopped = False
        self.times = 1
        self.evicted = 0
        self.advanced: list[int] = []
        self.order: list[tuple[str, tuple]] = []

    def _later(self, call: Callable[[], None]) -> None:
        if self.is_slow:
            self.waiting.append(call)
        else:
            call()

    def process(self, type_, rows, done) -> None:
        self._later(lambda: done(self._process(type_, rows)))

    def _process(self, type_, rows) -> list[Emitted]:
        out = [self._keyless(row) for row in rows.iter_rows(named=True)] if self._is_keyless else []
        if self._is_keyless:
            return [Emitted(name, _frame([row for rows in out for row in rows])) for name in self._emits]
        made = []
        for row in rows.iter_rows(named=True):
            key = "|".join(row[name] for name in self._keys[type_]) or str(self._constant)
            _, count, total = self.state.get(key, (0, 0, 0))
            self.state[key] = (row[NODE], count + 1, total + row["v"])
            _, more, added = self._changed.get(key, (0, 0, 0))
            self._changed[key] = (row[NODE], more + 1, added + row["v"])
            self.order.append((key, (row[EVENT_TIME], row["a"], row["b"], row["v"])))
            out = {EVENT_TIME: row[EVENT_TIME], NODE: row[NODE], "a": key, "b": str(len(key) % 3), "v": count}
            made.extend([out] * self.times)
        return [Emitted(name, _frame(made)) for name in self._emits]

    @staticmethod
    def _keyless(row) -> list[dict]:
        base = {EVENT_TIME: row[EVENT_TIME], SOURCE: row[SOURCE], SEQ: row[SEQ]}
        first = base | {"a": row["b"], "b": row["a"], "v": row["v"] + 1}
        return [first] if row["v"] % 2 else [first, base | {"a": row["a"], "b": "odd", "v": 1}]

    def advance(self, watermark_ms, done) -> None:
        self._later(lambda: (self.advanced.append(watermark_ms), done([])))

    def take_changes(self, done) -> None:
        def call() -> None:
            changed, self._changed = self._changed, {}
            done(self._table({key: change for key, change in changed.items() if key in self.state}))

        self._later(call)

    def states(self, nodes, done) -> None:
        self._later(lambda: done(self._table({k: s for k, s in self.state.items() if s[0] in set(nodes)})))

    @staticmethod
    def _table(states) -> dict[str, pl.DataFrame]:
        rows = [(key.encode(), *state) for key, state in states.items()]
        schema = {"key": pl.Binary, NODE: pl.UInt16, "n": pl.Int64, "total": pl.Int64}
        return {"counts": pl.DataFrame(rows, schema, orient="row")}

    def put(self, tables) -> None:
        def call() -> None:
            for key, node, count, total in tables["counts"].iter_rows():
                _, before, sum_ = self.state.get(key.decode(), (0, 0, 0))
                self.state[key.decode()] = (node, before + count, sum_ + total)

        self._later(call)

    def drop(self, nodes) -> None:
        def call() -> None:
            gone = set(nodes)
            self.state = {key: state for key, state in self.state.items() if state[0] not in gone}
            self._changed = {key: change for key, change in self._changed.items() if change[0] not in gone}

        self._later(call)

    def evict(self, bytes_max, watermark_ms) -> int:  # noqa: ARG002
        before = len(self.state)
        self.state = dict(list(self.state.items())[: bytes_max // 100])
        self.evicted += before - len(self.state)
        return before - len(self.state)

    @property
    def memory_bytes(self) -> int:
        return 100 * len(self.state)

    @property
    def elements(self) -> int:
        return len(self.state)


def compact(name: str, frames: list[pl.DataFrame]) -> pl.DataFrame:  # noqa: ARG001
    """The sum of each key's changes."""
    together = pl.concat(frames).group_by("key", NODE).agg(pl.col("n", "total").sum())
    return together.select("key", NODE, "n", "total")


def _frame(rows: list[dict]) -> pl.DataFrame:
    types = {EVENT_TIME: pl.Int64, SOURCE: pl.Int64, SEQ: pl.Int64, NODE: pl.UInt16, "v": pl.Int64}
    names = list(rows[0]) if rows else [EVENT_TIME, NODE, "a", "b", "v"]
    return pl.DataFrame(rows, {name: types.get(name, pl.String) for name in names}, orient="row")


class Agent:
    """One agent: its job, and the ring as it sees it."""

    def __init__(self, fleet: Fleet, node_id: int, **options) -> None:
        self.fleet, self.me = fleet, Peer(node_id, f"10.0.0.1:{1 + len(fleet.agents)}")
        self.unseen: set[Peer] = set()
        self.crashed = self.silent = False
        self.backlog: list[Callable[[], None]] = []
        self.shown: dict[str, dict[tuple[int, int], tuple]] = defaultdict(dict)
        self.runtimes = {one.name: Counting(fleet.graph, one) for one in fleet.graph.graph.elements}
        for runtime in self.runtimes.values():
            runtime.is_slow = fleet.slow
        options = {"compact": dict.fromkeys(self.runtimes, compact), "incarnation": 1, "lost_s": 5.0} | options
        self.job = KeyedJob(
            APP, fleet.graph, self, self.runtimes, KeyedOptions(**options), self._rows, on_unsure=self.show
        )

    def _rows(self, name: str, rows: pl.DataFrame) -> None:
        given = {(name, *one) for one in rows.select(SOURCE, SEQ).iter_rows() if one[0] >= 0}
        if self.fleet.graph.types[name].guaranteed:
            assert not given & self.fleet.given, (self.fleet.seed, name, "is given twice")
        self.fleet.given |= given
        self.show(name, rows)

    def show(self, name: str, rows: pl.DataFrame) -> None:
        """Rows are the query's, or gone with an agent's part of it."""
        shown = self.fleet.shown[name]
        for row in rows.iter_rows(named=True):
            content = (row["a"], row["b"], row["v"])
            before = shown.setdefault((row[SOURCE], row[SEQ]), content)
            if self.fleet.graph.types[name].guaranteed:
                assert before == content, (self.fleet.seed, name, row, before)

    # The ring.

    def nearest(self, key: Id, count: int) -> tuple[Peer, ...]:
        known = [one for one in self.fleet.known if one not in self.unseen]
        return tuple(
            sorted(known, key=lambda peer: min((peer.node_id - key) % 2**128, (key - peer.node_id) % 2**128))[:count]
        )

    def is_root(self, key: Id) -> bool:
        return self.nearest(key, 1)[0] == self.me

    def send(self, peer: Peer, message, now: float) -> None:  # noqa: ARG002
        assert peer != self.me
        self.fleet.carry(self, peer, CODEC.encode(message))

    def route(self, key: Id, message, now: float) -> None:  # noqa: ARG002
        peer = self.nearest(key, 1)[0]
        if peer == self.me:
            self.fleet.at(0.001, lambda: self._routed(CODEC.encode(message), key, self.me))
        else:
            self.fleet.carry(self, peer, CODEC.encode(message), key)

    def multicast(self, message, now: float) -> None:  # noqa: ARG002
        for one in list(self.fleet.agents.values()):
            if one is not self:
                self.fleet.carry(self, one.me, CODEC.encode(message), multicast=True)

    def _routed(self, data: bytes, key: Id, origin: Peer) -> None:
        self.job.routed(CODEC.decode(data), key, origin, self.fleet.now)


class Fleet:
    """The agents, the network and the time."""

    def __init__(self, graph: CheckedGraph, agents: int, seed: int = 0, *, slow: bool = False, **options) -> None:
        self.graph, self.seed, self.slow, self.options = graph, seed, slow, options
        self.random = random.Random(seed)
        self.now = 100.0
        self.delay_s = 0.01
        self.agents: dict[Peer, Agent] = {}
        self.gone: list[Agent] = []
        self.known: set[Peer] = set()
        self.given: set[tuple[str, int, int]] = set()
        self.shown: dict[str, dict[tuple[int, int], tuple]] = defaultdict(dict)
        self.side: dict[Peer, int] = {}
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._link: dict[tuple[Peer, Peer], float] = {}
        self._cuts: dict[tuple[Peer, Peer], int] = Counter()
        for _ in range(agents):
            self.join()

    # Agents.

    def join(self, **options) -> Agent:
        agent = Agent(self, self.random.getrandbits(128), **self.options | options)
        for other in self.agents.values():
            if self.side.get(other.me, 0):
                agent.unseen.add(other.me)
                other.unseen.add(agent.me)
        self.agents[agent.me] = agent
        self.known.add(agent.me)
        self._members()
        for other in list(self.agents.values()):
            self.at(self.random.random() * 0.1, lambda other=other: other.job.neighbours_changed(self.now))
        return agent

    def _members(self) -> None:
        peers = list(self.agents)
        for agent in self.agents.values():
            agent.job.members(peers, peers[0], self.now)

    def crash(self, agent: Agent, detected_s: float = 1.0) -> None:
        """An agent ends; the others notice after a while, and the master takes it off the roster."""
        self.at(detected_s, lambda: self.known.discard(agent.me))
        del self.agents[agent.me]
        agent.crashed = True
        self.gone.append(agent)
        for name, rows in agent.job.pledged:
            agent.show(name, rows)
        for other in list(self.agents.values()):
            self.at(detected_s * (0.5 + self.random.random()), lambda other=other: self._failed(other, agent))
        self.at(2 * detected_s, self._members)

    def _failed(self, other: Agent, agent: Agent) -> None:
        if not other.crashed:
            other.job.failed(agent.me, self.now)

    def leave(self, agent: Agent) -> None:
        agent.job.leave(self.now)

    def remove_left(self) -> list[Agent]:
        left = [agent for agent in self.agents.values() if agent.job.has_left and len(self.agents) > 1]
        for agent in left:
            self.crash(agent, 0.1)
        return left

    def cut(self, some: Iterable[Agent], detected_s: float = 1.0) -> None:
        """Parts some agents from the others; what is under way between them is lost."""
        away = {agent.me for agent in some}
        for agent in self.agents.values():
            self.side[agent.me] = int(agent.me in away)
        self._notice(detected_s)

    def heal(self) -> None:
        self.side.clear()
        for agent in self.agents.values():
            agent.unseen.clear()
            self.at(self.random.random(), lambda agent=agent: agent.job.neighbours_changed(self.now))

    def _notice(self, detected_s: float) -> None:
        def notice(one: Agent, other: Agent) -> None:
            if self.side.get(one.me, 0) != self.side.get(other.me, 0) and not one.crashed:
                one.unseen.add(other.me)
                one.job.failed(other.me, self.now)

        for one in self.agents.values():
            for other in self.agents.values():
                if self.side.get(one.me, 0) != self.side.get(other.me, 0):
                    self._cuts[one.me, other.me] += 1
                    self.at(detected_s, lambda one=one, other=other: notice(one, other))

    def silence(self, agent: Agent, seconds: float, detected_s: float = 1.0) -> None:
        """An agent does nothing for a while; the others take it for dead if that is long."""
        agent.silent = True

        def notice(other: Agent) -> None:
            if agent.silent and not other.crashed:
                other.unseen.add(agent.me)
                other.job.failed(agent.me, self.now)

        def resume() -> None:
            agent.silent = False
            backlog, agent.backlog = agent.backlog, []
            for call in backlog:
                call()
            for other in list(self.agents.values()):
                other.unseen.discard(agent.me)
                other.job.neighbours_changed(self.now)

        for other in list(self.agents.values()):
            if other is not agent:
                self.at(detected_s * (0.5 + self.random.random()), lambda other=other: notice(other))
        self.at(seconds, resume)

    def lose_link(self, one: Agent, other: Agent) -> None:
        """Loses all that is under way between two agents."""
        self._cuts[one.me, other.me] += 1
        self._cuts[other.me, one.me] += 1

    # Network and time.

    def at(self, delay: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, call))

    def carry(self, sender: Agent, to: Peer, data: bytes, key: Id | None = None, *, multicast: bool = False) -> None:
        link = (sender.me, to)
        at = max(self._link.get(link, 0.0) + 1e-6, self.now + 0.001 + self.random.random() * self.delay_s)
        self._link[link] = at
        cuts = self._cuts[link]

        def arrive() -> None:
            agent = self.agents.get(to)
            if agent is not None and agent.silent:
                agent.backlog.append(arrive)
                return
            is_cut = self.side.get(sender.me, 0) != self.side.get(to, 0) or cuts != self._cuts[link]
            if agent is None or sender.crashed or is_cut:
                return
            message = CODEC.decode(data)
            if multicast:
                agent.job.multicast(message, self.now)
            elif key is not None:
                agent.job.routed(message, key, sender.me, self.now)
            else:
                agent.job.handle(message, sender.me, self.now)

        self.at(at - self.now, arrive)

    def run(self, seconds: float, tick_s: float = 0.02) -> None:
        """Lets time pass."""
        end = self.now + seconds
        while self.now < end:
            upto = min(self.now + tick_s, end)
            while self._queue and self._queue[0][0] <= upto:
                self.now, _, call = heapq.heappop(self._queue)
                call()
            self.now = upto
            for agent in list(self.agents.values()):
                if not agent.silent:
                    self._answer(agent)
                    agent.job.tick(self.now, round(self.now * 1000))
                assert agent.job.failure is None, (self.seed, agent.job.failure)

    def _answer(self, agent: Agent) -> None:
        for runtime in agent.runtimes.values():
            if runtime.stopped:
                continue
            calls, runtime.waiting = runtime.waiting, []
            for call in calls:
                call()

    def settle(self, seconds: float = 60.0) -> None:
        """Lets time pass until nothing is under way."""
        end = self.now + seconds
        while self.now < end:
            self.run(0.5, 0.05)
            if all(self._is_calm(agent) for agent in self.agents.values()):
                return
        state = {agent.me.address: dict(agent.job.statistics()) for agent in self.agents.values()}
        raise AssertionError(f"seed {self.seed}: still busy after {seconds} s: {state}")

    @staticmethod
    def _is_calm(agent: Agent) -> bool:
        job = agent.job
        return job._emitter.is_empty and job._host.is_idle and job._membership.is_idle and not job._host.is_dirty

    # Input and output.

    def insert(
        self, agent: Agent, name: str, rows: list[tuple[str | None, str, int]], first: int | None = None
    ) -> None:
        """Rows (a, b, v) of a source at an agent, numbered on."""
        channel = agent.job.channel(name)
        self._serials = getattr(self, "_serials", Counter())
        first = self._serials[channel] if first is None else first
        self._serials[channel] += len(rows)
        columns = {
            EVENT_TIME: [1_000_000 + (first + i) * 10 for i in range(len(rows))],
            SOURCE: [channel] * len(rows),
            SEQ: [(first + i) << 20 for i in range(len(rows))],
            "a": [row[0] for row in rows],
            "b": [row[1] for row in rows],
            "v": [row[2] for row in rows],
        }
        agent.job.insert(name, pl.DataFrame(columns, schema_overrides={"a": pl.String}), self.now)

    def states(self, name: str) -> dict[str, tuple[int, int]]:
        """Count and total of each key of an element, in all of the fleet."""
        found: dict[str, tuple[int, int]] = {}
        for agent in self.agents.values():
            for key, (node, count, total) in agent.runtimes[name].state.items():
                if agent.job._host.owned[node]:
                    assert key not in found, (self.seed, name, key)
                    found[key] = (count, total)
        return found


def model(graph: CheckedGraph, inserted: dict[str, list[tuple[str, str, int]]]):
    """What the elements come to, one event after the other: states by element, and rows by type."""
    runtimes = {one.name: Counting(graph, one) for one in graph.graph.elements}
    rows: dict[str, list[tuple]] = {name: list(inserted.get(name, [])) for name in graph.types}
    for name in graph.order:
        if not rows[name]:
            continue
        frame = pl.DataFrame(rows[name], {"a": pl.String, "b": pl.String, "v": pl.Int64}, orient="row").with_columns(
            pl.lit(0, pl.Int64).alias(EVENT_TIME), pl.lit(0, pl.UInt16).alias(NODE),
            pl.lit(0, pl.Int64).alias(SOURCE), pl.lit(0, pl.Int64).alias(SEQ),
        )  # fmt: skip
        for one in graph.graph.elements:
            if name in [read.type for read in one.inputs]:
                for emitted, out in runtimes[one.name]._process(name, frame):
                    rows[emitted].extend(out.select("a", "b", "v").rows())
    states = {name: {k: s[1:] for k, s in one.state.items()} for name, one in runtimes.items()}
    return states, rows
