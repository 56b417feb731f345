"""A few agents that host the elements of one job, joined by a network that delays, loses and cuts, from one seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl
from counted_elements import compact, element, graph_of, model, runtime_of, type_
from kept_choices import KeptChoices

from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.job import KeyedJob
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.hosting.rows.outgoing import NEVER
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.keyed.logical_nodes import NODES, BegunNodes
from agent.runtime.messages.elements import ElementLoad
from agent.runtime.messages.jobs import CODEC
from overlay import Id, Peer, distance
from overlay import app_id as app_key

__all__ = ["APP", "Agent", "Fleet", "element", "graph_of", "model", "type_"]
APP = app_key("elements", b"test")
FIRST_MS = 1_000_000
LATER_MS = 2**61
"""A time after all events, which is not the end."""
KEEP_S = 0.5
"""Time between two looks at how far what a source has read is safe."""
LEAVES = 2
M = TypeVar("M")


@dataclass(eq=False)
class Trap:
    """What is done at one of the messages of a kind."""

    kind: type
    number: int
    act: Callable[[Agent, Peer], None]
    arrived: bool


class Agent:
    """One agent: its job, and the ring as it sees it."""

    def __init__(self, fleet: Fleet, me: Peer, incarnation: int = 1, **options) -> None:
        self.fleet, self.me, self.incarnation, self.options = fleet, me, incarnation, options
        self.unseen: set[Peer] = set()
        self.peers: set[Peer] = set()
        self.crashed = self.silent = False
        self.lead_ms = 0
        self.backlog: list[Callable[[], None]] = []
        self.shown: dict[str, dict[tuple[int, int], tuple]] = defaultdict(dict)
        self.runtimes = {one.name: runtime_of(fleet.graph, one) for one in fleet.graph.graph.elements}
        for runtime in self.runtimes.values():
            runtime.is_slow = fleet.slow
        options = {
            "compact": dict.fromkeys(self.runtimes, compact), "incarnation": incarnation, "lost_s": 5.0,
            "choices": fleet.choices[me],
        } | options  # fmt: skip
        self.job = KeyedJob(
            APP, fleet.graph, self, self.runtimes, KeyedOptions(**options), self._rows, on_unsure=self._unsure
        )

    def _rows(self, name: str, rows: pl.DataFrame) -> None:
        given = {(name, *one) for one in rows.select(SOURCE, SEQ).iter_rows() if one[0] >= 0}
        if self.fleet.graph.types[name].guaranteed:
            assert not given & self.fleet.given, (self.fleet.seed, name, "is given twice")
        self.fleet.given |= given
        self.fleet.given_to[self.me.node_id] |= given
        self.show(name, rows)

    def _unsure(self, name: str, rows: pl.DataFrame) -> None:
        self.fleet.unsure |= {(name, *one) for one in rows.select(SOURCE, SEQ).iter_rows()}
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

    def next_hop(self, node_id: Id) -> Peer | None:
        return self._nearer(node_id, self.links) if self.fleet.is_sparse else self._nearer(node_id, self.fleet.known)

    def _nearer(self, node_id: Id, known: Iterable[Peer]) -> Peer | None:
        """The closest to a key of some agents, None if this one is."""
        seen = [one for one in known if one not in self.unseen and one in self.fleet.known]
        found = min([*seen, self.me], key=lambda peer: distance(peer.node_id, node_id))
        return None if found == self.me else found

    @property
    def links(self) -> set[Peer]:
        """The agents that this one has links to, as in a ring: neighbours, and those half, a quarter.. around it."""
        ring = sorted(self.fleet.known, key=lambda peer: peer.node_id)
        at = next((place for place, peer in enumerate(ring) if peer.node_id >= self.me.node_id), 0)
        near = {ring[(at + step) % len(ring)] for step in range(-LEAVES, LEAVES + 1)}
        far = {self.nearest(Id((self.me.node_id + (1 << bit)) % 2**128), 1)[0] for bit in range(124, 128)}
        return (near | far) - {self.me}

    def send(self, peer: Peer, message, now: float) -> None:  # noqa: ARG002
        assert peer != self.me
        self.peers.add(peer)
        self.fleet.carry(self, peer, CODEC.encode(message))

    def multicast(self, message, now: float) -> None:  # noqa: ARG002
        for one in list(self.fleet.agents.values()):
            if one is not self:
                self.fleet.carry(self, one.me, CODEC.encode(message), multicast=True)


class Fleet:
    """The agents, the network and the time."""

    def __init__(
        self, graph: CheckedGraph, agents: int, seed: int = 0, *, slow: bool = False, is_sparse: bool = False, **options
    ) -> None:
        self.is_sparse = is_sparse
        self.graph, self.seed, self.slow, self.options = graph, seed, slow, options
        self.random = random.Random(seed)
        self.now = 100.0
        self.delay_s = 0.01
        self.agents: dict[Peer, Agent] = {}
        self.gone: list[Agent] = []
        self.known: set[Peer] = set()
        self.given: set[tuple[str, int, int]] = set()
        self.given_to: dict[int, set[tuple[str, int, int]]] = defaultdict(set)
        """What each agent's query was given, by node id."""
        self.unsure: set[tuple[str, int, int]] = set()
        """Rows of which it is not known whether they were given."""
        self.shown: dict[str, dict[tuple[int, int], tuple]] = defaultdict(dict)
        self.side: dict[Peer, int] = {}
        self._joined = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._link: dict[tuple[Peer, Peer], float] = {}
        self._cuts: dict[tuple[Peer, Peer], int] = Counter()
        self._traps: list[Trap] = []
        self._noted: list[tuple[type, list]] = []
        self.away: dict[Peer, Agent] = {}
        """Agents that are down, and come back."""
        self._missed_at = self.now
        """The time at which all know who is down."""
        self.has_time = False
        self.is_behind = False
        """Whether logs are taken to have more at hand."""
        self.end_ms = 0
        self.inserted: dict[tuple[Peer, str], list[tuple[str | None, str, int]]] = defaultdict(list)
        self._kept: dict[tuple[Peer, str], int] = {}
        self._begun: dict[Peer, BegunNodes] = {}
        self.choices: dict[Peer, KeptChoices] = defaultdict(KeptChoices)
        self._keep_at = self.now
        for _ in range(agents):
            self.join()

    # Agents.

    def join(self, **options) -> Agent:
        self._joined += 1
        me = Peer(self.random.getrandbits(128), f"10.0.0.1:{self._joined}")
        return self._begin(Agent(self, me, **self.options | options))

    def _begin(self, agent: Agent) -> Agent:
        for other in self.agents.values():
            if self.side.get(other.me, 0) != self.side.get(agent.me, 0):
                agent.unseen.add(other.me)
                other.unseen.add(agent.me)
            else:
                other.unseen.discard(agent.me)
        self.agents[agent.me] = agent
        self.known.add(agent.me)
        self._members()
        for other in list(self.agents.values()):
            self.at(self.random.random() * 0.1, lambda other=other: other.job.neighbours_changed(self.now))
        self._read_again(agent)
        return agent

    def _members(self) -> None:
        peers = list(self.agents)
        for agent in self.agents.values():
            agent.job.members([*peers, *self.away], peers[0], self.now)

    def restart(self, agent: Agent, down_s: float) -> None:
        """An agent ends, and is back after a while with an empty memory, maybe before anybody has missed it."""
        self.crash(agent)
        self.away[agent.me] = agent

        def back() -> None:
            del self.away[agent.me]
            if agent in self.gone:
                self.gone.remove(agent)
            options = agent.options | {"begun_before": self._begun.get(agent.me, BegunNodes())}
            self._begin(Agent(self, agent.me, agent.incarnation + 1, **options))

        self.at(down_s, back)

    def check_given(self) -> None:
        """Hosts know what each agent's query was given, whether it is alive or not."""
        names = [name for name in self.graph.types if next(iter(self.agents.values())).job.is_given_once(name)]
        for node_id, given in self.given_to.items():
            told: set[tuple[str, int, int]] = set()
            covered = np.zeros(NODES, int)
            for agent in self.agents.values():
                nodes, rows = agent.job.given_to(node_id, names, BEGINNING, NEVER)
                covered += nodes
                told |= {(name, *one) for name, some in rows.items() for one in some.select(SOURCE, SEQ).iter_rows()}
            assert covered.max() == 1, (self.seed, "two hosts tell of one node")
            mine = {one for one in given if one[0] in names and covered[one[1] % NODES]}
            assert mine <= told <= mine | self.unsure, (self.seed, len(mine - told), len(told - mine))

    def lend(self, agent: Agent) -> None:
        """An agent seems to be loaded, so that roots lend what it hosts to others."""
        for other in list(self.agents.values()):
            if other is not agent and not other.silent:
                other.job.multicast(ElementLoad(APP, agent.me, 200, 1.0, incarnation=agent.incarnation), self.now)

    def crash(self, agent: Agent, detected_s: float = 1.0) -> None:
        """An agent ends; the others notice after a while, and the master takes it off the roster. What it has sent last
        may be lost."""
        self.at(detected_s, lambda: self.known.discard(agent.me) if agent.me not in self.agents else None)
        del self.agents[agent.me]
        agent.crashed = True
        self.gone.append(agent)
        for name, rows in agent.job.pledged:
            agent._unsure(name, rows)
        for peer in list(self.agents):
            self._cuts[agent.me, peer] += self.random.random() < 0.5
            self._cuts[peer, agent.me] += 1
        for other in list(self.agents.values()):
            self.at(detected_s * (0.5 + self.random.random()), lambda other=other: self._failed(other, agent))
        self.at(2 * detected_s, self._members)
        self._missed_at = max(self._missed_at, self.now + 2 * detected_s)

    def _failed(self, other: Agent, agent: Agent) -> None:
        is_back = agent.me in self.agents and self.random.random() < 0.5
        if not other.crashed and not is_back:
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

    def on_message(self, kind: type, number: int, act: Callable[[Agent, Peer], None], *, arrived: bool) -> None:
        """Does something when a message of a kind is sent, or has been taken, for the so manyth time from now on."""
        self._traps.append(Trap(kind, number, act, arrived))

    def sent(self, kind: type[M]) -> list[M]:
        """The messages of a kind that are sent from now on."""
        found: list[M] = []
        self._noted.append((kind, found))
        return found

    def _spring(self, message: object, sender: Agent, to: Peer, *, arrived: bool) -> None:
        for trap in [one for one in self._traps if type(message) is one.kind and one.arrived == arrived]:
            trap.number -= 1
            if trap.number == 0:
                self._traps.remove(trap)
                trap.act(sender, to)

    # Network and time.

    def at(self, delay: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now + delay, self._count, call))

    def carry(self, sender: Agent, to: Peer, data: bytes, *, multicast: bool = False) -> None:
        if self._noted:
            message = CODEC.decode(data)
            for kind, found in self._noted:
                if isinstance(message, kind):
                    found.append(message)
        link = (sender.me, to)
        at = max(self._link.get(link, 0.0) + 1e-6, self.now + 0.001 + self.random.random() * self.delay_s)
        self._link[link] = at
        cuts, is_late = self._cuts[link], sender.crashed

        def arrive() -> None:
            agent = self.agents.get(to)
            if agent is not None and agent.silent:
                agent.backlog.append(arrive)
                return
            is_cut = self.side.get(sender.me, 0) != self.side.get(to, 0) or cuts != self._cuts[link]
            if agent is None or is_late or is_cut:
                return
            message = CODEC.decode(data)
            if multicast:
                agent.job.multicast(message, self.now)
            else:
                agent.job.handle(message, sender.me, self.now)
            if self._traps:
                self._spring(message, sender, to, arrived=True)

        self.at(at - self.now, arrive)
        if self._traps:
            self._spring(CODEC.decode(data), sender, to, arrived=False)

    def run(self, seconds: float, tick_s: float = 0.02) -> None:
        """Lets time pass."""
        end = self.now + seconds
        while self.now < end:
            upto = min(self.now + tick_s, end)
            while self._queue and self._queue[0][0] <= upto:
                self.now, _, call = heapq.heappop(self._queue)
                call()
            self.now = upto
            self._keep_places()
            for agent in list(self.agents.values()):
                if not (agent.silent or agent.crashed):
                    self._answer(agent)
                    agent.job.tick(self.now, round(self.now * 1000) + agent.lead_ms)
                assert agent.job.failure is None, (self.seed, agent.job.failure)

    def _answer(self, agent: Agent) -> None:
        for runtime in agent.runtimes.values():
            if runtime.stopped:
                continue
            calls, runtime.waiting = runtime.waiting, []
            for call in calls:
                call()

    def settle(self, seconds: float = 60.0) -> None:
        """Lets time pass until nothing is under way, and nobody is down who comes back."""
        end = self.now + seconds
        while self.now < end:
            self.run(0.5, 0.05)
            is_missed = self.now > self._missed_at and not self.away
            if is_missed and all(self._is_calm(agent) for agent in self.agents.values()) and self._are_placed():
                return
        state = {agent.me.address: dict(agent.job.statistics()) for agent in self.agents.values()}
        raise AssertionError(f"seed {self.seed}: still busy after {seconds} s: {state}")

    def _are_placed(self) -> bool:
        """Whether no node is on its way from one host to another, which hears of it in a moment."""
        hosts: dict[int, tuple[int, Peer]] = {}
        for agent in self.agents.values():
            for node, known in agent.job._membership._known.all():
                hosts[node] = max(hosts.get(node, (0, known.host)), (known.epoch, known.host), key=lambda one: one[0])
        alive = ((node, self.agents[host]) for node, (_, host) in hosts.items() if host in self.agents)
        return all(agent.job._host.owned[node] for node, agent in alive)

    @staticmethod
    def _is_calm(agent: Agent) -> bool:
        job = agent.job
        host = job._host
        is_busy = host._parked or host.queued or host.is_dirty or any(host.collected.values())
        is_busy = is_busy or any(slot.lowest < NEVER for slot in host.slots.values())  # time may go on
        is_busy = is_busy or bool(job._membership._roots._attempts)  # a node with state may be without a host
        return job._emitter.is_empty and job._membership.is_idle and not is_busy

    # Input and output.

    def insert(
        self, agent: Agent, name: str, rows: list[tuple[str | None, str, int]], first: int | None = None
    ) -> None:
        """Rows (a, b, v) of a source at an agent, numbered on. Of one that is down they wait in its log."""
        log = self.inserted[agent.me, name]
        first = len(log) if first is None else first
        log += rows
        here = self.agents.get(agent.me)
        if here is not None:
            self._insert(here, name, rows, first)

    def _insert(self, agent: Agent, name: str, rows: list[tuple[str | None, str, int]], first: int) -> None:
        channel = agent.job.channel(name)
        columns = {
            EVENT_TIME: [FIRST_MS + (first + i) * 10 for i in range(len(rows))],
            SOURCE: [channel] * len(rows),
            SEQ: [(first + i) << 20 for i in range(len(rows))],
            "a": [row[0] for row in rows],
            "b": [row[1] for row in rows],
            "v": [row[2] for row in rows],
        }
        agent.job.insert(name, pl.DataFrame(columns, schema_overrides={"a": pl.String}), self.now, is_read=True)
        agent.job.expect(name, more=self.is_behind)
        if self.has_time:
            agent.job.source_time(name, self.end_ms or FIRST_MS + (first + len(rows)) * 10)

    def _keep_places(self) -> None:
        """Stores, now and then, how far all that sources have read is safe, and which nodes have been begun."""
        if self.now >= self._keep_at:
            self._keep_at = self.now + KEEP_S
            self._begun |= {one.me: one.job.begun for one in self.agents.values() if not one.silent}
            for peer, name in self.inserted:
                if (agent := self.agents.get(peer)) is not None and not agent.silent:
                    done = (agent.job.acknowledged(agent.job.channel(name)) >> 20) + 1
                    self._kept[peer, name] = kept = max(done, self._kept.get((peer, name), 0))
                    agent.job.forget_choices({agent.job.channel(name): kept << 20})

    def _read_again(self, agent: Agent) -> None:
        """The sources of an agent that begins read on from the place that was stored."""
        for name in [source.type for source in self.graph.sources]:
            if (log := self.inserted.get((agent.me, name))) is not None:
                first = self._kept.get((agent.me, name), 0)
                self._insert(agent, name, log[first:], first)
            elif self.has_time:
                agent.job.source_time(name, LATER_MS)

    def tell_times(self) -> None:
        """Lets sources tell the time of their rows from now on; agents without one do not hold time up."""
        self.has_time = True
        for agent in self.agents.values():
            self._read_again(agent)

    def end_of_input(self, end_ms: int) -> None:
        """Time passes all rows: their sources say so."""
        self.end_ms = end_ms
        for peer, name in self.inserted:
            if (agent := self.agents.get(peer)) is not None:
                agent.job.source_time(name, end_ms)

    def states(self, name: str) -> dict[str, tuple[int, int]]:
        """Count and total of each key of an element, in all of the fleet."""
        found: dict[str, tuple[int, int]] = {}
        for agent in self.agents.values():
            for key, (node, count, total) in agent.runtimes[name].state.items():
                if agent.job._host.owned[node]:
                    assert key not in found, (self.seed, name, key)
                    found[key] = (count, total)
        if self.graph.elements[name].grouping:
            parts, found = found, {}
            for part, (count, total) in parts.items():
                before = found.get(key := part.partition("/")[2], (0, 0))
                found[key] = (before[0] + count, before[1] + total)
        return found
