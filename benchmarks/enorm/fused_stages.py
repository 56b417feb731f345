"""Throughput of stages in one to four components (section 7.7 and figure 16): agents in this process, with all of their
messages.

The simple job counts, and makes windows of what it has counted, at one agent or at two. The fast job is four stages,
each of which reads the windows of the one before: SUM of COUNT, and of sums of counts. Stages in one component have
their masters on one agent. Somebody follows the last one.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from statistics import median
from time import process_time
from typing import NamedTuple

import polars as pl

import query
from agent.parsing import Parsed
from agent.runtime.agent import Agent
from agent.runtime.function.result import WindowResult
from agent.runtime.ingest.event_clock import EventClock
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.messages.jobs import Submit
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, throughput
from overlay import Id, MemoryNetwork, Node, Peer, app_id, closest, group_id

from .cases import MINUTE_MS

COMPONENTS_AIM = 0.95
"""Least throughput of the simple job as two components, in that as one (the paper: 0.89)."""
FUSED_AIM = 3.0
"""Least throughput of the fast job as one component, in that as four."""
AGENTS = 5
"""Agents in all cases, so that replicas cost the same: four for stages, and one that has the log."""
MINUTES, RUNS = 20, 3
KEYS, QUICK_KEYS = 50_000, 10_000
BEGIN_MS = 1_700_000_000_000 // (20 * MINUTE_MS) * 20 * MINUTE_MS
JOIN_S, SETTLE_S = 30, 12.0
_SIMPLE = ("SELECT key, COUNT(*) AS n FROM web GROUP BY key WINDOWING 1 MINUTE, 5 MINUTES, 10 MINUTES, 20 MINUTES",)
_FAST = (
    "SELECT key, COUNT(*) AS n FROM web GROUP BY key WINDOWING 1 MINUTE",
    *(
        f"SELECT key, SUM(n) AS n FROM app('{{}}') GROUP BY key WINDOWING {minutes} MINUTES EVERY 1 MINUTE"
        for minutes in (5, 10, 20)
    ),
)


class Run(NamedTuple):
    """What one run took: rows of the log, rows between stages on one agent and on two, and those of which only states
    were taken, and seconds of a processor."""

    rows: int
    rows_here: int
    rows_sent: int
    rows_as_states: int
    seconds: float

    @property
    def throughput(self) -> float:
        """Rows of the log in a second of a processor."""
        return self.rows / self.seconds


class _Fleet:
    """Agents whose clock goes forward as it is told. The last one has the log."""

    def __init__(self) -> None:
        self._network = MemoryNetwork()
        self.agents: list[Agent] = []
        self.windows: dict[str, int] = {}
        self.followed = ""
        """The job whose results are made as JSON, as for somebody who follows it."""
        self._wall_ms = BEGIN_MS
        for number in range(AGENTS):
            node = Node(Peer(group_id(f"fused {number}"), f"agent-{number}"), random=random.Random(number))
            self._network.add(node)
            streams = {"web": StreamOptions("beginning")} if number == AGENTS - 1 else {}
            agent = Agent(f"agent-{number}", node, streams)
            agent.masters.on_result = self._published
            self.agents.append(agent)
            if number == 0:
                node.start(self._network.now)
            else:
                node.join(self.agents[0].node.peer, self._network.now)
            self._until_active(node)
            agent.start(self._network.now)
        self.pass_time(SETTLE_S)

    def _published(self, result: WindowResult) -> None:
        self.windows[result.app] = self.windows.get(result.app, 0) + 1
        if result.app == self.followed:
            result.to_bytes()

    def _until_active(self, node: Node) -> None:
        end = self._network.now + JOIN_S
        while not node.is_active:
            if self._network.now > end:
                raise BenchmarkError("an agent has not joined")
            self._network.deliver_all(self._network.advance())

    def settle(self) -> None:
        """Delivers messages, and lets agents work, until there is nothing to do."""
        busy = True
        while busy:
            self._network.deliver_all(self._network.now)
            busy = sum(agent.process_events(self._network.now, self._wall_ms) for agent in self.agents) > 0
            for agent in self.agents:
                while agent.has_work:
                    agent.work(self._network.now, self._wall_ms)
                    busy = True

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.5)):
            end = self._network.now + 0.5
            while self._network.next_timer() <= end:
                self._network.deliver_all(self._network.advance())
            self._network.deliver_all(end)
            for agent in self.agents:
                agent.handle_timer(self._network.now, self._wall_ms)
            self.settle()

    def submit(self, text: str, place: int) -> str:
        """Starts a job whose master is on an agent; returns its name."""
        ids = [agent.node.peer.node_id for agent in self.agents]
        names = (f"stage-{number}" for number in range(10_000))
        name = next(
            name for name in names if closest(app_id(name, b""), ids) == ids[place] and not self._is_known(name)
        )
        plan = query.analyze(query.parse(text), {"web": query.Schema({}, open=True)}, max_groups=10_000_000)
        job = Submit(app_id(name, b""), name, plan.stream, plan.to_wire(), text, bounded=False)
        self.agents[place].commands.submit(job, _nobody_waits, self._network.now, self._wall_ms)
        self.pass_time(4.0)
        return name

    def _is_known(self, name: str) -> bool:
        return self.agents[0].directory.get(Id(app_id(name, b""))) is not None

    def read(self, frame: pl.DataFrame, upto_ms: int) -> None:
        """The agent with the log reads events of a minute."""
        self._wall_ms = upto_ms
        for agent in self.agents:
            agent.ingest.clock = EventClock()  # which would doubt the step
        agent = self.agents[-1]
        for feed in agent.ingest.feeds():
            named = [pl.col(one.field).alias(one.name) for one in feed.columns]
            parsed = Parsed((frame.select("@time", *named),), malformed=0)
            agent.ingest.insert(feed.key, parsed, self._network.now, self._wall_ms)
        self.settle()
        self.pass_time(1.0)


def _nobody_waits(_reply: object) -> None:
    """Ignores the reply: windows show whether the job runs."""


def staged_jobs(*, quick: bool) -> list[Comparison]:
    """Lines of section 7.7 and of figure 16."""
    keys = QUICK_KEYS if quick else KEYS
    one, two = (_median(_SIMPLE, [place], keys) for place in (AGENTS - 1, 0))
    case = f"section 7.7: the simple job as two components, {keys:,} keys"
    lines = [
        throughput("enorm", case, two.throughput, "rows/s", "as one", one.throughput, COMPONENTS_AIM),
    ]
    places = {4: (0, 1, 2, 3), 3: (0, 0, 1, 2), 2: (0, 0, 0, 1), 1: (0, 0, 0, 0)}
    runs = {components: _median(_FAST, of_stages, keys) for components, of_stages in places.items()}
    for components, run in runs.items():
        if components < 4:
            case = f"figure 16: four stages in {components} components, {keys:,} keys"
            aim = FUSED_AIM if components == 1 else None
            lines.append(throughput("enorm", case, run.throughput, "rows/s", "in 4", runs[4].throughput, aim))
    return lines


def _median(texts: Sequence[str], places: Sequence[int], keys: int) -> Run:
    runs = sorted((run_stages(texts, places, keys) for _ in range(RUNS)), key=lambda run: run.seconds)
    assert median(run.seconds for run in runs) == runs[RUNS // 2].seconds
    return runs[RUNS // 2]


def run_stages(texts: Sequence[str], places: Sequence[int], keys: int) -> Run:
    """Runs queries, of which each reads the one before, with their masters on these agents."""
    fleet = _Fleet()
    names: list[str] = []
    for text, place in zip(texts, places, strict=True):
        names.append(fleet.submit(text.format(names[-1]) if names else text, place))
    fleet.followed = names[-1]
    gc.collect()
    frames = [_minute(number, keys) for number in range(MINUTES + 2)]
    began = process_time()
    for number, frame in enumerate(frames):
        fleet.read(frame, BEGIN_MS + (number + 1) * MINUTE_MS)
    seconds = process_time() - began
    if min(fleet.windows.get(name, 0) for name in names) < MINUTES - 4:
        raise BenchmarkError(f"only {fleet.windows} windows")
    counted = [agent.upstream.statistics() for agent in fleet.agents]
    read = (sum(one[name] for one in counted) for name in ("rows_here", "rows_sent", "rows_as_states"))
    run = Run(sum(frame.height for frame in frames), *read, seconds)
    if run.rows_as_states != run.rows_here:
        raise BenchmarkError(f"of {run.rows_here:,} rows on one agent {run.rows_as_states:,} were taken as states")
    return run


def _minute(number: int, keys: int) -> pl.DataFrame:
    """Events of a minute: each key has one."""
    first = BEGIN_MS + number * MINUTE_MS
    times = pl.int_range(keys, eager=True) * (MINUTE_MS - 1) // keys + first
    return pl.select(times.alias("@time"), pl.format("key-{}", pl.int_range(keys)).alias("key"))
