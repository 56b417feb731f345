"""Runs a whole fleet in one process: real agents over the in-memory network, for bounded input.

The same cores as in production; only the network is a queue and the clock stands still between timers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from agent.parsing import Format, Parsed, Parser, parser
from agent.runtime.agent import Agent
from agent.runtime.durable.records import Place
from agent.runtime.function.result import WindowResult
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.keyed.element_program import RunHere
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.master.job_master import SETTLE_S
from agent.runtime.master.state import JobState
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.panes import END
from agent.runtime.reduce.parts import RunLimits
from agent.runtime.reduce.straggler import HOLDBACK_S
from agent.runtime.upstream.tables import FileTable
from overlay import Id, MemoryNetwork, Node, Peer, RandomSource, group_id

TIMERS_MAX = 10_000
"""Upper bound on the timer rounds that a fleet takes to join; more count as a failure."""
NO_TABLES: Mapping[str, FileTable] = MappingProxyType({})
LIMITS = RunLimits(
    part_bytes=32 << 20, run_bytes=(4 << 30) - (64 << 20), frame_bytes=16 << 30, assembly_bytes=1 << 62,
    assembly_memory_bytes=1 << 62,
)  # fmt: skip
"""Bounds on runs where all agents share one memory, and one clock that stands still: nobody could try again later."""
ROWS_PER_RUN = 1 << 18
PIECE_BYTES = 1 << 25
"""Rows of a run, and memory of what is published at a stroke: nobody waits for signs of life, and few calls on columns
of many panes cost less than many."""
HOLDBACKS = 3
"""Times that a master may hold a window back, by when it is out."""
ALONE = KeyedOptions(standbys=0)
"""One process lives or dies as a whole: nobody keeps copies of elements."""
STEP_S = 0.01
"""Least time that passes at once while elements work."""
QUIET_STEPS_MAX = 20_000
"""Steps without any progress of elements after which they are taken for stuck."""
STEPS_A_LOOK = 50
"""Steps between two looks at the progress of elements: counting all they have done takes longer than a step."""
WALL_MS = 0
"""Bounded jobs do not look at the wall clock."""


class ElementsStuckError(Exception):
    """No element of a job goes on, though events wait."""


class EmbeddedFleet:
    """`size` agents that all have the given streams, joined and ready. It runs one job at a time, whose workers count
    in memory, or in a `room`. Jobs may join with the `tables`. `code`: makes what runs the code of keyed elements, one
    for each agent, in this process.
    """

    def __init__(
        self,
        size: int,
        streams: Sequence[str],
        random: RandomSource,
        room: SpillArea | None = None,
        tables: Mapping[str, FileTable] = NO_TABLES,
        code: Callable[[], RunHere] | None = None,
    ) -> None:
        self._network = MemoryNetwork()
        self._now = 0.0
        self._agents: list[Agent] = []
        self._results: list[WindowResult] = []
        self.null_keys: Counter[str] = Counter()
        """Events with NULL in their key, which no element gets, by element."""
        options = dict.fromkeys(streams, StreamOptions())
        for number in range(size):
            name = f"agent-{number}"
            node = Node(Peer(group_id(f"embedded {name}"), name), random=random)
            self._network.add(node)
            # One process lives or dies as a whole: nobody could succeed a master here.
            agent = Agent(name, node, options, replicas=0, room=room, keyed=ALONE)
            agent.keyed.run_here = None if code is None else code()
            agent.masters.on_result = self._results.append
            agent.jobs.assembler.limits = LIMITS
            agent.ingest.run_rows, agent.masters.piece_bytes = ROWS_PER_RUN, PIECE_BYTES
            agent.jobs.functions.regex_size_max = None  # no other job would wait
            for table, rows in tables.items():
                agent.tables.hold(table, rows)
            self._agents.append(agent)
            if number == 0:
                node.start(self._network.now)
            else:
                node.join(self._agents[0].node.peer, self._network.now)
            self._until_active(node)
        for agent in self._agents:
            agent.start(self._network.now)
        self._settle()

    def __len__(self) -> int:
        return len(self._agents)

    def submit(self, job: Submit) -> JobState:
        """Runs a job on every agent; returns its master once all have acknowledged it ("n of n")."""
        self._app_id = job.app_id
        self._agents[0].commands.submit(job, _nobody_waits, self._network.now, WALL_MS)
        self._settle()
        master = self._find_master(job.app_id)
        assert len(master.roster) == len(self), "every embedded agent has every stream"
        assert master.everyone_runs()
        for agent in self._agents:
            agent.joins.tick(self._network.now)
        # Every agent has enrolled: the master need not wait for more.
        self._network.deliver_all(self._network.now + SETTLE_S)
        return master

    def parser(self, stream: str, form: Format) -> Parser:
        """The parser of a stream's files of a format, for what the job needs of them."""
        feed = next((feed for feed in self._agents[0].ingest.feeds() if feed.stream == stream), None)
        return parser(form, feed.columns, feed.clauses) if feed is not None else parser(form, ())

    def insert(self, number: int, stream: str, parsed: Parsed, place: int = 0) -> None:
        """Gives a parsed block to agent `number`. `place`: the number of the first event after it, in all input."""
        agent = self._agents[number]
        after = Place(place) if self._has_elements else None
        for feed in agent.ingest.feeds():
            if feed.stream == stream:
                while not agent.ingest.has_room(feed.key):
                    self._let_elements_work()
                agent.ingest.insert(feed.key, parsed, self._network.now, WALL_MS, after)
        if self._has_elements:
            self._let_elements_work()

    def end_of_input(self) -> Iterator[WindowResult]:
        """Seals everything and yields the windows in order.

        The agent furthest behind always goes next, so that combiners hold little.
        """
        for agent in self._agents:
            for feed in agent.ingest.feeds():
                agent.ingest.end_of_feed(feed.key, self._network.now, WALL_MS)
        self._finish_elements()
        while behind := [agent for agent in self._agents if agent.jobs.sealed_upto() is not None]:
            min(behind, key=lambda agent: agent.jobs.sealed_upto() or 0).work(self._network.now, WALL_MS)
            self._settle()
            yield from self._results
            self._results.clear()
        yield from self._held_back(self._find_master(self._app_id))

    # Keyed elements: their messages and timers take time, which passes while nothing else happens.

    @property
    def _has_elements(self) -> bool:
        return any(True for _ in self._agents[0].keyed)

    def _let_elements_work(self) -> None:
        self._network.deliver_all(self._network.now + STEP_S)
        for agent in self._agents:
            agent.keyed.tick(self._network.now)
            agent.keyed.step(self._network.now)
        self._settle()

    def _finish_elements(self) -> None:
        """Lets elements process what there is; then no more comes of their types. Raises ElementsStuckError."""
        steps, last, done = 0, 0, tuple[object, ...]()
        while self._has_elements and not all(core.is_quiet for agent in self._agents for core in agent.keyed):
            self._let_elements_work()
            steps += 1
            if steps % STEPS_A_LOOK == 0:
                before, done = done, tuple(tuple(core.statistics().items()) for a in self._agents for core in a.keyed)
                last = steps if done != before else last
            if steps >= last + QUIET_STEPS_MAX:
                raise ElementsStuckError
        for agent in self._agents:
            agent.keyed.check_states(self._network.now)
            agent.keyed.step(self._network.now)
            agent.element_losses.tick(self._network.now)
            for element in [element for core in agent.keyed for element in core.describe()]:
                self.null_keys[element["element"]] += element["null_keys"]
        self._settle()

    def _held_back(self, master: JobState) -> Iterator[WindowResult]:
        """The windows that lack an agent: their master waits for it first."""
        for _ in range(HOLDBACKS):
            if master.frontier == END or master.failure is not None:
                return
            self._network.deliver_all(self._network.now + HOLDBACK_S)
            for agent in self._agents:
                agent.masters.tick(self._network.now)
            self._settle()
            yield from self._results
            self._results.clear()

    @property
    def lost_runs(self) -> int:
        """Parts of the answer that an agent could not send or read, which is because of their size."""
        counts = [agent.jobs.statistics() for agent in self._agents]
        return sum(count["oversized"] + count["refused"] for count in counts)

    def _until_active(self, node: Node) -> None:
        self._settle()
        for _ in range(TIMERS_MAX):
            if node.is_active:
                return
            self._network.advance()
            self._settle()
        raise AssertionError("an embedded agent never became active")

    def _settle(self) -> None:
        """Delivers messages until there are none."""
        busy = True
        while busy:
            self._network.deliver_all(self._network.now)
            busy = sum(agent.process_events(self._network.now, WALL_MS) for agent in self._agents) > 0

    def _find_master(self, app_id: Id) -> JobState:
        return next(master for agent in self._agents if (master := agent.masters.state(app_id)) is not None)


def _nobody_waits(_reply: object) -> None:
    """Ignores the reply: the master shows whether the job runs."""
