"""Simulated agents that count the words of their logs twice: by a job whose keys are split among workers, and by one
that groups each log where it is."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Any, NamedTuple

import msgspec
from kept_choices import KeptChoicesOfJobs
from recording_client import RecordingClient
from simulated_disk import SimulatedDisk
from simulated_fleet import Reader, Server, SimulatedFleet, key_of

from agent import Agent, PublishedWindow, StreamOptions
from agent.runtime.durable.records import Place
from agent.runtime.function.result import UnshownWindows
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.keyed.reading_progress import KeptPlace
from overlay import Event, Node
from query.model.timestamps import parse_timestamp

SPLIT, WHOLE = "split", "whole"
GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")
WORDS = ["hot", *(f"word-{number:02}" for number in range(20))]
WEIGHTS = [len(WORDS), *[1] * (len(WORDS) - 1)]
STORE_S = 0.5


class Shape(NamedTuple):
    """A version of the query, which both jobs have: windows of so many seconds, with the words that came so often."""

    seconds: int = 1
    least: int = 1
    is_ordered: bool = False

    def text(self, clause: str) -> str:
        having = f" HAVING n >= {self.least}" if self.least > 1 else ""
        order = " ORDER BY n DESC, product" if self.is_ordered else ""
        windows = f" WINDOWING {self.seconds} SECOND{'S' if self.seconds > 1 else ''} GRACE 1 SECOND"
        return f"SELECT product, COUNT(*) AS n FROM web{clause} GROUP BY product{having}{order}{windows}"

    def rows(self, counted: Counter[str]) -> bytes:
        """The rows that the query answers where each word has been counted so often."""
        found = [(word, n) for word, n in sorted(counted.items()) if n >= self.least]
        if self.is_ordered:
            found.sort(key=lambda one: -one[1])
        return msgspec.json.encode([{"product": word, "n": n} for word, n in found])


SHAPES = [Shape(seconds, least, ordered) for seconds in (1, 2) for least in (1, 3) for ordered in (False, True)]


class WindowLine(msgspec.Struct):
    """A result as clients read it."""

    window_start: str
    window_end: str
    version: int
    rows: msgspec.Raw
    missing: list[str]
    partial: list[str]
    leaped: int
    events: int
    late: int
    dropped: int
    unshown: list[UnshownWindows] = []

    @property
    def span(self) -> tuple[int, int]:
        """The times at which it begins and ends, in ms."""
        begin, end = parse_timestamp(self.window_start), parse_timestamp(self.window_end)
        assert begin is not None
        assert end is not None
        return begin, end

    @property
    def shapes(self) -> list[Shape]:
        """The versions that it may be of."""
        begin, end = self.span
        return [one for one in SHAPES if 1000 * one.seconds == end - begin]

    @property
    def names(self) -> bool:
        """Whether it says that it lacks something."""
        return bool(self.missing or self.partial or self.leaped or self.dropped)

    @property
    def counts(self) -> Counter[str]:
        return Counter({row["product"]: row["n"] for row in msgspec.json.decode(self.rows)})


class WordsFleet(SimulatedFleet):
    """Agents whose disks keep, now and then, how far their logs are safe. Logs go on without their agents. `clause`:
    how the keys are split. `options`: those of keyed jobs."""

    def __init__(self, seed: int, clause: str, step_s: float, **options: Any) -> None:
        super().__init__(seed, step_s=step_s)
        self.simulator.on_event = self._hear
        self.clause = clause
        self._options = options
        self._starts: Counter[str] = Counter()
        self._places: dict[str, list[KeptPlace]] = {}
        self._choices: defaultdict[str, KeptChoicesOfJobs] = defaultdict(KeptChoicesOfJobs)
        self._store_at: defaultdict[str, float] = defaultdict(float)
        self._heard: deque[tuple[Node, Event]] = deque()
        self._is_telling = False

    # Agents.

    def _agent(
        self, name: str, node: Node, streams: dict[str, StreamOptions], disk: SimulatedDisk | None = None
    ) -> Agent:
        self._starts[name] += 1
        options = KeyedOptions(incarnation=self._starts[name], **self._options)
        agent = Agent(name, node, streams, observer=RecordingClient(disk), keyed=options)
        agent.masters.on_result = lambda result: self._published(agent, result)
        agent.keyed.resume(self._places.get(name, []), self._choices[name])
        return agent

    def _hear(self, _now: float, node: Node, event: Event) -> None:
        """Agents act at once on what their nodes tell them, in its order."""
        self._heard.append((node, event))
        if self._is_telling:
            return
        self._is_telling = True
        while self._heard:
            hearing, heard = self._heard.popleft()
            server = self._by_node.get(hearing.peer.node_id)
            if server is not None and server.node is hearing and server.is_up:
                self.simulator.work(hearing, lambda server=server, heard=heard: self._tell(server, heard))
        self._is_telling = False

    def _drive(self, server: Server) -> None:
        super()._drive(server)
        if server.is_up and self.now >= max(server.stalled_until, self._store_at[server.name]):
            self._store_at[server.name] = self.now + STORE_S
            self._places[server.name] = server.agent.keyed.places()
            server.agent.keyed.stored(self._places[server.name])

    def leads(self, server: Server) -> bool:
        """Whether a master of one of the jobs is there."""
        return any(server.agent.masters.state(key_of(job)) is not None for job in (SPLIT, WHOLE))

    # Logs.

    def write(self, server: Server, count: int, *, late_ms: int = 0) -> None:
        for word in self.random.choices(WORDS, WEIGHTS, k=count):
            server.log.append((self.wall_of(server) - self.random.randint(0, 200) - late_ms, word))

    def is_reading(self, server: Server) -> bool:
        """Whether its agent reads its log for both jobs."""
        return len(server.readers) == 2 and all(one.position >= 0 for one in server.readers.values())

    def _read_on(self, server: Server, reader: Reader) -> None:
        if self.now < reader.opens_at:
            return
        key = reader.feed.key
        if reader.position < 0:
            kept = server.agent.ingest.kept_place(key)
            is_at_end = reader.feed.start == "end"
            reader.position = kept if isinstance(kept, int) else len(server.log) if is_at_end else 0
            server.agent.ingest.began(key, reader.position)
        if server.agent.ingest.has_room(key):
            super()._read_on(server, reader)

    def _place_after(self, _server: Server, reader: Reader) -> Place | None:
        is_of_split = reader.feed.app_id is not None
        return Place(reader.position, reader.position, file="log") if is_of_split else None

    def written(self, begin_ms: int, end_ms: int) -> Counter[str]:
        """The words that all logs have of a time."""
        logs = (server.log for server in self.servers.values())
        return Counter(word for log in logs for time, word in log if begin_ms <= time < end_ms)

    # Jobs.

    def ask(self, by: Server, shape: Shape, *, is_new: bool = False) -> None:
        """Submits both jobs, or changes them."""
        for name, clause in ((SPLIT, self.clause), (WHOLE, "")):
            if is_new:
                self.submit(name, by, shape.text(clause))
            else:
                self.update(name, by, shape.text(clause))

    def results(self, name: str, follower: Server) -> list[tuple[WindowLine, list[Shape]]]:
        """All that went out, each result once, with the versions that it may be of. A master may die when it has sent
        one, or when only its replicas have it: what followers got counts."""
        found: dict[bytes, list[Shape]] = {}
        texts = {shape.text(clause): shape for shape in SHAPES for clause in (self.clause, "")}
        for window in self.of(name):
            found.setdefault(window.result.to_bytes(), []).append(texts[window.version.text])
        for notice in follower.followed[key_of(name)]:
            if isinstance(notice, PublishedWindow):
                found.setdefault(bytes(notice.result), [])
        lines = [(msgspec.json.decode(line, type=WindowLine), shapes) for line, shapes in found.items()]
        return [(line, shapes or line.shapes) for line, shapes in lines]
