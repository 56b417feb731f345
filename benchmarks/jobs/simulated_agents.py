"""Agents on the simulator, with what handling costs them charged to the virtual clock.

An agent handles one thing at a time: what comes while it is busy waits, and what it answers leaves when it is done.
What handling costs is the CPU time of this process, and what TLS and sockets would cost.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import query
from agent import Agent, AgentObserver, Feed, StreamOptions, Submit, Update, WindowResult
from agent.parsing import Parsed
from agent.programs.commands import ProgramSaid
from agent.runtime.ingest.event_clock import EventClock
from agent.runtime.model.bundle import Bundle
from benchmarks.overlay.population import Population
from benchmarks.race import BenchmarkError
from overlay import Id, Node, UniformLatency, app_id

from .simulated_programs import SimulatedPrograms

LINK_S = 0.0005
MESSAGE_S = 0.000025
"""What a message costs an agent in TLS and sockets (docs/transport.md)."""
WAKE_S = 0.000075
"""What it costs more where the process sleeps."""
TICK_S = 0.25
STREAM = "web"
GRACE_S = 5.0
SETTLED_S = 5.0
LIMIT_S = 60.0

Action = Callable[[Agent], object]


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's garbage collector stands still: one agent would pay for looking through the objects of all."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class SimulatedAgents:
    """Agents that all have one stream, in which nothing is logged but what `insert` says.

    `results`: what masters have published, each with the virtual time. `spent_s`: what handling has cost each of them.
    `programs` run the code of jobs, if there are any.
    """

    def __init__(
        self,
        seed: int,
        size: int,
        programs: SimulatedPrograms | None = None,
        observer: AgentObserver | None = None,
    ) -> None:
        source = random.Random(seed)
        self.programs = programs
        self.results: list[tuple[float, WindowResult]] = []
        self.spent_s: dict[str, float] = {}
        self.reads_on = True
        """Whether agents keep saying that they have read everything, so that the clock closes panes."""
        self.mute: set[str] = set()
        """Agents that read nothing."""
        self._wall_ms = time.time_ns() // 1_000_000
        self._began = 0.0
        self._awaited: tuple[set[int], Callable[[Agent], bool]] = (set(), lambda _agent: True)
        self._slept_from: dict[str, float] = {}
        self._waiting = 0
        self._replies: list[object] = []
        self._working: set[str] = set()
        self._population = Population(seed, latency=UniformLatency(source, LINK_S, LINK_S))
        self._population.grow(size)
        self._simulator = self._population.simulator
        self._agents: dict[int, Agent] = {}
        for number, node in enumerate(self._population.live.values()):
            agent = Agent(f"agent-{number}", node, {STREAM: StreamOptions()}, observer=observer)
            if programs is not None:
                agent.code.creators = programs.new_creators()
            self.spent_s[agent.name] = 0.0
            agent.masters.on_result = lambda result: self.results.append((self.moment, result))
            self._agents[node.peer.node_id] = agent
            agent.start(self.now)
            self._tick_at(self.now + TICK_S * source.random(), agent)
        self._simulator.charge = self._charge
        self._asked = self.agents[0]

    def __len__(self) -> int:
        return len(self._agents)

    @property
    def now(self) -> float:
        return self._population.now

    @property
    def wall_ms(self) -> int:
        return self._wall_ms + int(1000 * self.now)

    @property
    def agents(self) -> list[Agent]:
        return [*self._agents.values()]

    # Handling.

    def _charge(self, node: Node, action: Callable[[], object]) -> float:
        """What an agent does in one go, as the daemon's pump has it: how long that takes."""
        agent, now = self._agents[node.peer.node_id], self.now
        wakes = now > self._slept_from.get(agent.name, 0.0)
        self._began = time.process_time()
        action()
        agent.process_events(now, self.wall_ms)
        if agent.has_work:
            self._work_on(agent)
        took_s = time.process_time() - self._began + MESSAGE_S + (WAKE_S if wakes else 0.0)
        self.spent_s[agent.name] += took_s
        self._slept_from[agent.name] = now + took_s
        if self.programs is not None:
            self._obey(node, agent, now + took_s)
        awaited, is_met = self._awaited
        if node.peer.node_id in awaited and is_met(agent):
            awaited.discard(node.peer.node_id)
        return took_s

    def _give(self, agent: Agent, action: Action) -> None:
        """Lets an agent do something as soon as it is free."""
        self._waiting += 1

        def do() -> None:
            self._waiting -= 1
            action(agent)

        self._simulator.work(agent.node, do)

    def _obey(self, node: Node, agent: Agent, at: float) -> None:
        """Carries out what the agent wants of programs."""
        assert self.programs is not None

        def tell(said: ProgramSaid) -> None:
            self._give(agent, lambda agent: agent.program_host.receive(said, self.now, self.wall_ms))

        for order in agent.orders():
            self.programs.carry_out(self._simulator, node, order, at, tell)

    def _work_on(self, agent: Agent) -> None:
        """A slice of what is to be done, after what has come meanwhile."""
        if agent.name not in self._working:
            self._working.add(agent.name)
            self._give(agent, self._work)

    def _work(self, agent: Agent) -> None:
        self._working.discard(agent.name)
        agent.work(self.now, self.wall_ms)

    @property
    def moment(self) -> float:
        """The virtual time in the middle of a handling."""
        return self.now + time.process_time() - self._began

    def _tick_at(self, at: float, agent: Agent) -> None:
        def tick() -> None:
            if agent.node.peer.node_id in self._agents:
                self._give(agent, self._tick)
                self._tick_at(self.now + TICK_S, agent)

        self._simulator.call(at, tick)

    def _tick(self, agent: Agent) -> None:
        agent.handle_timer(self.now, self.wall_ms)
        if self.reads_on and agent.name not in self.mute:
            self._read_on(agent)

    def _read_on(self, agent: Agent) -> None:
        for feed in agent.ingest.feeds():
            agent.ingest.caught_up(feed.key, self.now, self.wall_ms)

    def kill(self, agent: Agent) -> None:
        """Ends an agent's process as a power failure does, which the network does not report."""
        del self._agents[agent.node.peer.node_id]
        self._population.kill([agent.node], is_silent=True)

    def stall(self, agent: Agent, seconds: float) -> None:
        """Stops an agent's process, and lets it go on later."""
        self._simulator.stall(agent.node, self.now + seconds)

    def cut(self, few: Sequence[Agent]) -> None:
        """Lets nothing through between some agents and all others."""
        rest = [agent.node for agent in self.agents if agent not in few]
        self._simulator.cut([agent.node for agent in few], rest)

    def heal(self) -> None:
        """Lets everything through again."""
        self._simulator.heal()

    # Time.

    def run(self, seconds: float) -> None:
        self._simulator.run(self.now + seconds)

    def run_until(self, is_done: Callable[[], bool], what: str) -> float:
        """Lets time pass until this holds; how long that took. Raises BenchmarkError when it takes too long."""
        start = self.now
        self._simulator.run(start + LIMIT_S, stop=is_done)
        if not is_done():
            raise BenchmarkError(f"{what} after {LIMIT_S:g} simulated seconds")
        return self.now - start

    def run_until_all(self, is_met: Callable[[Agent], bool], what: str) -> float:
        """The same with something that is to hold of every agent, and stays so."""
        awaited = {node_id for node_id, agent in self._agents.items() if not is_met(agent)}
        self._awaited = (awaited, is_met)
        return self.run_until(lambda: not awaited, what)

    def skip_to(self, wall_ms: int) -> None:
        """The wall clock goes forward, and in the overlay nothing happens meanwhile."""
        assert wall_ms >= self.wall_ms
        self._wall_ms += wall_ms - self.wall_ms
        for agent in self.agents:
            agent.ingest.clock = EventClock()  # which would doubt the step for a while

    # Jobs.

    def run_job(self, sql: str, name: str, signed: tuple[Id, Bundle] | None = None) -> Id:
        """Starts a job, in Python if its creator has signed code, and waits until all run it and all is quiet."""
        plan = plan_of(sql)
        key, bundle = signed or (app_id(name, b""), None)
        job = Submit(
            key, name, plan.stream, plan.to_wire(), sql, bounded=False, grace_ms=int(1000 * GRACE_S), bundle=bundle
        )
        self._give(self._asked, lambda agent: agent.commands.submit(job, self._replies.append, self.now, self.wall_ms))
        self.run_until_all(lambda agent: runs(agent, key, 1), "not all agents run the job")
        self.run(SETTLED_S)
        return key

    def stop_job(self, key: Id) -> None:
        self._give(self._asked, lambda agent: agent.commands.stop(key, self._replies.append, self.now))
        self.run_until_all(lambda agent: agent.jobs.get(key) is None, "not all agents have stopped the job")

    def update(self, key: Id, sql: str, bundle: Bundle | None = None) -> None:
        """Asks for another function, from now on; what comes of that, `take_replies` tells."""
        update = Update(key, plan_of(sql).to_wire(), sql, True, 0, bundle)
        self._give(
            self._asked, lambda agent: agent.commands.update(update, self._replies.append, self.now, self.wall_ms)
        )

    def take_replies(self) -> list[object]:
        """The replies of the agent that was asked, since this was called last."""
        replies = list(self._replies)
        self._replies.clear()
        return replies

    # Events.

    def insert(self, read: Callable[[int, Feed], Parsed]) -> None:
        """Lets every agent, by its number, read a block of events for each feed, and take it in."""
        for number, agent in enumerate(self.agents):
            self._give(agent, self._inserting(number, read))

    def until_idle(self) -> None:
        """Waits until no agent has anything to do."""
        self.run_until(lambda: not self._waiting, "agents are still busy")

    def _inserting(self, number: int, read: Callable[[int, Feed], Parsed]) -> Action:
        def insert(agent: Agent) -> None:
            for feed in agent.ingest.feeds() if agent.name not in self.mute else ():
                agent.ingest.insert(feed.key, read(number, feed), self.now, self.wall_ms)

        return insert

    def close_panes(self) -> float:
        """Lets every agent see, at the same moment, that it has read everything; that moment."""
        for agent in self.agents:
            self._give(agent, self._read_on)
        return self.now


def runs(agent: Agent, key: Id, version: int) -> bool:
    """Whether an agent contributes to a job by this version or a later one."""
    part = agent.jobs.get(key)
    return part is not None and part.number is not None and part.version >= version


def plan_of(sql: str) -> query.Plan:
    return query.analyze(query.parse(sql), {STREAM: query.Schema({}, open=True)})
