"""A change of a job's function among simulated agents, with what handling it costs charged to the virtual clock.

An agent handles one thing at a time: what comes while it is busy waits. What it sends leaves when it begins to handle
what it answers, so the last handling of each chain of messages is not in the time.
"""

import heapq
import random
import time
from collections.abc import Callable

import query
from agent import Agent, StreamOptions, Submit, Update, UpdateAnswered
from overlay import Event, Id, Node, UniformLatency, app_id

from .overlay.population import Population
from .race import BenchmarkError

LINK_S = 0.0005
QUANTUM_S = 0.0005
"""Whatever reaches agents so soon after each other is handled in one go, while a change is under way."""
COARSE_S = 0.010
TICK_S = 0.25
STREAM = "web"
WALL_MS = 1_700_000_000_000
SETTLED_S = 5.0
LIMIT_S = 60.0
_SELECT = f"SELECT product, SUM(clicks) AS clicks FROM {STREAM}"
_GROUPS = "GROUP BY product WINDOWING 10 SECONDS"


class SimulatedAgents:
    """Agents that all have one stream, in which nothing is logged, and run one live job."""

    def __init__(self, seed: int, size: int) -> None:
        source = random.Random(seed)
        self._population = Population(seed, latency=UniformLatency(source, LINK_S, LINK_S))
        self._population.grow(size)
        self._agents: dict[int, Agent] = {}
        self._busy_until: dict[int, float] = {}
        self._due: list[tuple[float, int, int, Callable[[Agent], object]]] = []
        self._counted = 0
        self._population.observe(self._raised)
        for number, node in enumerate(self._population.live.values()):
            agent = Agent(f"agent-{number}", node, {STREAM: StreamOptions()})
            self._agents[node.peer.node_id] = agent
            agent.start(self._now)
            self._push(self._now + TICK_S * source.random(), node.peer.node_id, self._tick)
        self._any = next(iter(self._agents.values()))

    @property
    def _now(self) -> float:
        return self._population.now

    @property
    def _wall_ms(self) -> int:
        return WALL_MS + int(1000 * self._now)

    def _push(self, at: float, node_id: int, action: Callable[[Agent], object]) -> None:
        self._counted += 1
        heapq.heappush(self._due, (at, self._counted, node_id, action))

    def _raised(self, now: float, node: Node, event: Event) -> None:
        self._push(now, node.peer.node_id, lambda agent: agent.process(event, self._now, self._wall_ms))

    def _tick(self, agent: Agent) -> None:
        agent.handle_timer(self._now, self._wall_ms)
        for feed in agent.feeds():
            agent.caught_up(feed.key, self._now, self._wall_ms)
        while agent.work(self._now, self._wall_ms):
            pass
        self._push(self._now + TICK_S, agent.node.peer.node_id, self._tick)

    def _handle_due(self) -> None:
        """Everything that is due, each agent one thing after the other."""
        waiting = []
        while self._due and self._due[0][0] <= self._now:
            _, _, node_id, action = heapq.heappop(self._due)
            if self._busy_until.get(node_id, 0.0) > self._now:
                waiting.append((self._busy_until[node_id], node_id, action))
                continue
            began = time.perf_counter()
            action(self._agents[node_id])
            self._busy_until[node_id] = self._now + time.perf_counter() - began
        for at, node_id, action in waiting:
            self._push(at, node_id, action)

    def _run_until(self, is_done: Callable[[], bool], what: str, quantum_s: float) -> float:
        """Runs until this holds; how long that took. Raises BenchmarkError when it takes too long."""
        start = self._now
        while not is_done():
            if self._now - start > LIMIT_S:
                raise BenchmarkError(f"{what} after {LIMIT_S:g} simulated seconds")
            due = self._due[0][0] if self._due else self._now + COARSE_S
            self._run_to_next(due)
            self._population.run(quantum_s)
            self._handle_due()
        return self._now - start

    def _run_to_next(self, due: float) -> None:
        """Until the overlay raises anything, and not beyond this time."""
        counted = self._counted
        self._population.simulator.run(max(due, self._now), stop=lambda: self._counted > counted)

    def run_job(self) -> Id:
        """Starts a job and waits until all run it and all is quiet."""
        key, sql = app_id("clicks", b""), f"{_SELECT} {_GROUPS}"
        plan = _plan(sql)
        job = Submit(key, "clicks", plan.stream, plan.to_wire(), sql, bounded=False)
        self._any.submit(job, self._now, self._wall_ms)
        self._run_until(lambda: self._running(key, 1) == len(self._agents), "not all agents run the job", COARSE_S)
        settled_at = self._now + SETTLED_S
        self._run_until(lambda: self._now >= settled_at, "the fleet does not settle", COARSE_S)
        return key

    def _running(self, key: Id, version: int) -> int:
        parts = (agent._parts.get(key) for agent in self._agents.values())
        return sum(part is not None and part.number is not None and part.version >= version for part in parts)

    def change_filter(self, key: Id, number: int) -> tuple[float, float]:
        """Seconds until all agents run another filter, and until whoever asked for that knows it."""
        sql = f"{_SELECT} WHERE clicks > {number} {_GROUPS}"
        self._any.notices()
        self._any.update(Update(key, _plan(sql).to_wire(), sql, True, 0), self._now, self._wall_ms)
        agents = len(self._agents)
        version = number + 1
        ran_s = self._run_until(lambda: self._running(key, version) == agents, "not all run the change", QUANTUM_S)
        answers: list[UpdateAnswered] = []

        def answered() -> bool:
            answers.extend(one for one in self._any.notices() if isinstance(one, UpdateAnswered))
            return bool(answers)

        told_s = ran_s + self._run_until(answered, "nobody is told of the change", QUANTUM_S)
        if (answers[0].agents, answers[0].expected) != (agents, agents):
            raise BenchmarkError(f"{answers[0].agents} of {answers[0].expected} agents have acknowledged the change")
        return ran_s, told_s


def _plan(sql: str) -> query.Plan:
    return query.analyze(query.parse(sql), {STREAM: query.Schema({}, open=True)})
