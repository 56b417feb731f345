"""Agents on the overlay's seeded simulator, and an observer who knows what every agent has put in."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl

import query
from agent import Agent, Master, Result, Submit
from agent.jobs import JobPart
from agent.panes import END
from agent.parsing import Parsed
from overlay import Event, MulticastReceived, Node, Peer, Simulator, app_id

PANE_MS = 1000
SQL = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"


class LinkLatency:
    """Links differ in speed by orders of magnitude and overtake each other; each one keeps its own order."""

    def __init__(self, source: random.Random, clock: Callable[[], float]) -> None:
        self._random = source
        self._clock = clock
        self._scale: dict[tuple[int, int], float] = {}
        self._last: dict[tuple[int, int], float] = {}

    def delay_s(self, sender: Peer, receiver: Peer) -> float:
        link = (sender.node_id, receiver.node_id)
        if link not in self._scale:
            self._scale[link] = 10 ** self._random.uniform(-3.0, -0.7)
        now = self._clock()
        drawn = now + self._scale[link] * self._random.uniform(0.2, 1.0)
        self._last[link] = max(drawn, self._last.get(link, 0.0) + 1e-6)
        return self._last[link] - now


@dataclass(frozen=True)
class Published:
    """A result, who published it, and whom the roster expected in it when it came out."""

    master: str
    result: Result
    expected: list[str]

    @property
    def pane(self) -> int:
        return seconds_of(self.result) * PANE_MS

    @property
    def contributors(self) -> list[str]:
        return [name for name in self.expected if name not in self.result.missing]


class SimulatedFleet:
    """Agents in virtual time. `at` schedules, `run` lets time pass; everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.simulator = Simulator(
            self.random,
            latency=LinkLatency(self.random, lambda: self.simulator.now),
            on_event=lambda _now, node, event: self._raised.append((node, event)),
        )
        self.agents: list[Agent] = []
        self.published: list[Published] = []
        self.put_in: dict[tuple[str, str], Counter[tuple[int, str]]] = {}
        """What each agent put into each job, by (job, agent): events by (pane, product)."""
        self.slow_to_hear: dict[str, float] = {}
        """By how many seconds multicasts reach an agent late."""
        self._by_node: dict[int, Agent] = {}
        self._raised: list[tuple[Node, Event]] = []
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._planned = 0

    @property
    def now(self) -> float:
        return self.simulator.now

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._planned += 1
        heapq.heappush(self._plans, (time, self._planned, action))

    def run(self, until: float) -> None:
        """Lets time pass, doing what was planned for it."""
        while self._plans and self._plans[0][0] <= until:
            time, _, action = heapq.heappop(self._plans)
            self._run(time)
            action()
        self._run(until)

    def _run(self, until: float) -> None:
        while True:
            self.simulator.run(until, stop=lambda: bool(self._raised))
            if not self._raised:
                return
            raised, self._raised = self._raised, []
            for node, event in raised:
                self._process(self._by_node[node.peer.node_id], event)

    def _process(self, agent: Agent, event: Event) -> None:
        slow = self.slow_to_hear.get(agent.name)
        if slow is not None and isinstance(event, MulticastReceived):
            self.at(self.now + slow, lambda: self._handle(agent, event))
        else:
            self._handle(agent, event)

    def _handle(self, agent: Agent, event: Event) -> None:
        agent.process(event, self.now)
        self._collect(agent)

    def add(self, *streams: str, node_id: int | None = None) -> Agent:
        """A new agent that joins the overlay through a random one, and its streams' trees once it is in."""
        node = self.simulator.add_node(node_id)
        agent = Agent(f"agent-{len(self.agents)}", node, streams)
        if self.agents:
            node.join(self.random.choice(self.agents).node.peer, self.now)
        else:
            node.start(self.now)
        self.agents.append(agent)
        self._by_node[node.peer.node_id] = agent
        agent.subscribe_streams(self.now)
        return agent

    def submit(self, name: str, by: Agent, sql: str = SQL) -> None:
        plan = query.analyze(query.parse(sql), {"web": query.Schema({}, open=True)})
        by.submit(Submit(key_of(name).to_bytes(16, "big"), name, plan.stream, plan.to_wire()), self.now)

    def insert(self, agent: Agent, events: Iterable[tuple[int, str]]) -> None:
        """Gives an agent events by (pane, product), and notes for which jobs it takes them."""
        events = list(events)
        times, products = [pane for pane, _ in events], [product for _, product in events]
        frame = pl.DataFrame({"@time": times, "product": products}, schema={"@time": pl.Int64, "product": pl.String})
        for app, part in agent._jobs.items():
            if part.works_on("web"):
                self.put_in.setdefault((f"{app:032x}", agent.name), Counter()).update(events)
        agent.insert("web", Parsed((frame,), malformed=0))

    def seal_from(self, time: float, agent: Agent, pause: float) -> None:
        """Ends an agent's input at a time; from then on it seals run by run, with random pauses, for ever."""

        def seal() -> None:
            if agent.sealed_upto() is not None:
                agent.seal_next(self.now)
                self._collect(agent)
            self.at(self.now + self.random.uniform(0.01, pause), seal)

        self.at(time, agent.end_of_input)
        self.at(time, seal)

    def _collect(self, agent: Agent) -> None:
        for result in agent.results():
            master = agent.master(key_of(result.app))
            assert master is not None
            roster = master.roster
            expected = roster.names(roster.expected(seconds_of(result) * PANE_MS))
            self.published.append(Published(agent.name, result, expected))

    def masters(self, name: str) -> list[tuple[Agent, Master]]:
        return [(agent, master) for agent in self.agents if (master := agent.master(key_of(name))) is not None]

    def of(self, name: str) -> list[Published]:
        return [published for published in self.published if published.result.app == name]

    def panes(self, name: str) -> set[int]:
        """The panes that any agent put anything into."""
        app = f"{key_of(name):032x}"
        return {pane for (of, _), events in self.put_in.items() if of == app for pane, _ in events}

    # What must hold.

    def check_results(self) -> None:
        """Conservation and honesty of everything published, and each window once from each master."""
        for published in self.published:
            self._check(published)
        windows = Counter((published.master, published.result.app, published.pane) for published in self.published)
        assert [window for window, times in windows.items() if times > 1] == []

    def _check(self, published: Published) -> None:
        result = published.result
        counted: Counter[str] = Counter()
        for name in published.contributors:
            for (pane, product), n in self.put_in.get((f"{key_of(result.app):032x}", name), Counter()).items():
                counted[product] += n if pane == published.pane else 0
        assert {row["product"]: row["n"] for row in result.rows} == dict(+counted), published
        assert result.events == counted.total(), published
        assert set(result.missing) <= set(published.expected), published
        assert result.contributors + len(result.missing) == result.expected == len(published.expected), published

    def check_finished(self, *jobs: str) -> None:
        """Each job is at its end, and nobody keeps anything of it.

        Jobs submitted again while a closer node joins may get a second master: it has nothing to say to the agents of
        the first, and does not end.
        """
        for name in jobs:
            ends = [master.frontier for _, master in self.masters(name)]
            assert END in ends, name
            assert len({one.master for one in self.of(name)}) <= 1, name
            if len(ends) == 1:
                for agent in self.agents:
                    self._check_empty(agent._jobs.get(key_of(name)))

    def _check_empty(self, part: JobPart | None) -> None:
        if part is not None:
            assert (part._uncommitted, part._held) == ([], [])
            assert part._combiner is None or not any(part._combiner._waiting.values())

    def fingerprint(self) -> tuple[str, list[str]]:
        return self.simulator.trace_hash(), [published.result.to_json() for published in self.published]


def key_of(name: str) -> int:
    return app_id(name, b"")


def seconds_of(result: Result) -> int:
    """The window's start in seconds; all of the tests' windows are in the first minute of 1970."""
    assert result.window_start is not None
    return int(result.window_start[17:19])
