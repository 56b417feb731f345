"""Agents on an in-memory network with the code of jobs: the runner that processes have, each in a thread of its own.

A program and its agent take turns, so that every run is the same: a thread goes on only when it has been told
something, and only until it waits for the next.
"""

from __future__ import annotations

import hashlib
import textwrap
import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from creator_world import as_der, trust_in
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from memory_fleet import WALL_MS, Fleet, events
from recording_client import client_of

import query
from agent import Agent, Ended, StreamOptions, Submit
from agent.control.messages import Analysed
from agent.daemon.trust import FleetCreators
from agent.programs.commands import EndProgram, ProgramEnded, ProgramSaid, StartProgram, TellProgram
from agent.runtime.messages.programs import Log
from agent.runtime.model.bundle import Bundle, Contents
from elf.program.code import about, load_code
from elf.program.runner import Runner
from elf.signing.creator import signed_bundle
from elf.signing.submission import JobFile, contents_of
from overlay import Authority, CreatorTrust, Id

FLEET = "shop"
Make = Callable[..., "ProgramFleet"]


class Gone(BaseException):
    """The agent has ended the program."""


class Turns:
    """A program in a thread. `told` runs it until it waits again; `said` is what it has said meanwhile."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self._told: deque[bytes] = deque()
        self._mine, self._its = threading.Semaphore(0), threading.Semaphore(0)
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._mine.acquire()

    def tell(self, data: bytes) -> None:
        self._told.append(data)
        self._its.release()
        self._mine.acquire()

    def end(self) -> None:
        self._is_over = True
        self._its.release()
        self._thread.join(5)

    def read(self) -> bytes:
        self._mine.release()
        self._its.acquire()
        if self._is_over:
            raise Gone
        return self._told.popleft()

    def write(self, data: bytes) -> None:
        self.said.append(data)

    def done(self) -> None:
        """Nobody counts."""

    def _run(self) -> None:
        runner = Runner(self)
        try:
            while True:
                runner(self.read())
        except Gone:
            self._mine.release()


class Person:
    """A creator as `elf.signing.creator` knows them."""

    def __init__(self, authority: Authority, name: str, fleet: str = FLEET) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())
        self.name, self.fleet = name, fleet
        self.public_key = self._key.public_key().public_bytes_raw()
        # Fleets in memory live in 2023.
        start = datetime.fromtimestamp(WALL_MS / 1000, UTC) - timedelta(days=1)
        self.certificate = as_der(authority.trust(name, self.public_key, days=3650, not_before=start))

    def sign(self, payload: bytes) -> bytes:
        return self._key.sign(payload)


class ProgramFleet(Fleet):
    """`maria` is trusted by all of them. `meanwhile` is called after each thing that a program has said."""

    def __init__(self, directory: Path, size: int, authority: Authority | None = None, **options: Any) -> None:
        self.authority = authority or Authority.create(FLEET)
        trust = trust_in(directory / "identity", self.authority)
        self.creators = FleetCreators(CreatorTrust(trust), FLEET)
        self.maria = Person(self.authority, "maria")
        self.turns: dict[tuple[str, int], Turns] = {}
        self.without_programs: set[str] = set()
        """The agents on which no program can start."""
        self.meanwhile: Callable[[Agent, bytes], object] = lambda *_: None
        self.max_groups = query.GROUPS_DEFAULT
        """The limit of the queries of jobs in Python."""
        super().__init__(size, **options)

    def new_agent(self, name: str, node: Any, streams: Mapping[str, StreamOptions]) -> Agent:
        agent = super().new_agent(name, node, streams)
        agent.code.creators = self.creators
        return agent

    def settle(self) -> None:
        """Delivers messages, and lets agents and programs work, until there is nothing to do."""
        busy = True
        while busy:
            super().settle()
            busy = sum(self._obey(agent) for agent in self.agents) > 0

    def _obey(self, agent: Agent) -> bool:
        orders = agent.orders()
        for order in orders:
            key = (agent.name, order.key)
            match order:
                case StartProgram() if agent.name in self.without_programs:
                    agent.program_host.receive(ProgramEnded(order.key, "has no room"), self.now, self.wall_ms)
                case StartProgram():
                    self.turns[key] = Turns()
                case TellProgram(data=data):
                    if (turns := self.turns.get(key)) is not None:
                        turns.tell(data)
                        said, turns.said = turns.said, []
                        for one in said:
                            agent.program_host.receive(ProgramSaid(order.key, one), self.now, self.wall_ms)
                            agent.process_events(self.now, self.wall_ms)
                            self.meanwhile(agent, one)
                case EndProgram():
                    if (turns := self.turns.pop(key, None)) is not None:
                        turns.end()
        return bool(orders)

    def kill_program(self, number: int, reason: str = "was killed by signal 9") -> None:
        """Ends the process of an agent's only program."""
        agent = self.agents[number]
        (key,) = [key for name, key in self.turns if name == agent.name]
        self.turns.pop((agent.name, key)).end()
        agent.program_host.receive(ProgramEnded(key, reason), self.now, self.wall_ms)
        agent.process_events(self.now, self.wall_ms)
        self.settle()

    def close(self) -> None:
        for turns in self.turns.values():
            turns.end()
        self.turns.clear()

    # Jobs.

    def analyse(
        self,
        text: str,
        *,
        mapped: bool = False,  # noqa: ARG002
        apps: Mapping[str, str] | None = None,
        types: Mapping[str, Any] | None = None,
        aggregates: Mapping[str, str] | None = None,
    ) -> Analysed:
        """What an agent tells of a query; nothing is known of the columns of its streams."""
        catalog = dict.fromkeys((*self.streams, "other", *(types or {})), query.Schema({}, open=True))
        parsed = query.with_aggregates(query.with_apps(query.parse(text), apps or {}), aggregates or {})
        if types and all(name in types for name in query.streams_read(parsed)):
            catalog = {name: query.Schema(dict(fields), open=False) for name, fields in types.items()}
        plan = query.analyze(parsed, catalog, max_groups=self.max_groups)
        return Analysed(query.format_query(parsed), msgspec.msgpack.encode(plan.to_wire()))

    def contents(self, source: str, by: Person | None = None) -> tuple[str, dict[str, Contents]]:
        """The app's name, and what it and its stages are to run."""
        code = textwrap.dedent(source).encode()
        job = JobFile(code, about(load_code(code).kind))
        return job.about.app, contents_of(self, job, job.about.app, (by or self.maria).name)

    def bundle(
        self, source: str, by: Person | None = None, after: tuple[int, bytes] = (0, b"")
    ) -> tuple[str, Id, Bundle]:
        """The app's name, its id, and what its creator has signed."""
        app, contents = self.contents(source, by)
        return app, *signed_bundle(by or self.maria, app, contents[app], self.wall_ms, after)  # type: ignore[arg-type]

    def submit_code(self, source: str, by: Person | None = None, bundle: Bundle | None = None, **options: Any) -> Id:
        """Starts a job after its stages."""
        app, contents = self.contents(source, by)
        for name, one in contents.items():
            key, made = signed_bundle(by or self.maria, name, one, self.wall_ms)  # type: ignore[arg-type]
            self.submit_bundle(name, key, bundle if bundle is not None and name == app else made, **options)
        return key

    def submit_bundle(self, app: str, key: Id, bundle: Bundle, **options: Any) -> Id:
        first = bundle.contents.functions[0]
        stream = str(first.plan["stream"])
        job = Submit(key, app, stream, first.plan, first.text, bounded=False, bundle=bundle, **options)
        client_of(self.agents[0]).submit(job, self.now, self.wall_ms)
        self.settle()
        return key

    def log(self, key: Id) -> list[tuple[str, str]]:
        """What a job has said, by agent."""
        client_of(self.agents[0]).notices()
        client_of(self.agents[0]).ask_log(key, 1000, self.now)
        self.settle()
        (answer,) = [one for one in self.notices(0) if isinstance(one, Log)]
        return [(line.agent, line.text) for line in answer.lines]


TEN_LINES = """
    import elf

    class Counts(elf.Job):
        query = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"

        def on_result(self, window):
            for row in window.rows:
                self.log(f"{row['product']}: {row['n']}")
"""


FIGURE_7 = """
    from dataclasses import dataclass
    import elf

    @elf.message
    @dataclass(frozen=True)
    class TopK:
        products: list[str]

    @elf.message
    @dataclass(frozen=True)
    class Update:
        pane: int

    class MicroPromotion(elf.Job):
        query = "SELECT product, COUNT(*) AS clicks FROM web GROUP BY product ORDER BY clicks DESC LIMIT 2"
        drives = True
        timer_s = 2.0

        def __init__(self):
            self.topk = []
            self.products = set()

        def on_timer(self):
            if self.is_root:
                self.multicast(TopK(self.topk))
                self.multicast(Update(self.now_ms))

        def on_multicast(self, app, message):
            if isinstance(message, TopK):
                for product in message.products:
                    if product in self.products:
                        self.log(f"discount on {product}")
            elif isinstance(message, Update):
                paos = self.cbt.flush()
                self.products = {row["product"] for row in paos.rows()}
                self.send_to(self.parent, paos, message.pane)
                self.cbt.empty()

        def on_result(self, window):
            self.topk = [row["product"] for row in window.rows]
"""


def feed(fleet: ProgramFleet, second: float, *products: str) -> None:
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=WALL_MS + int(second * 1000)))
    fleet.settle()


def ended(fleet: ProgramFleet) -> tuple[str, str]:
    """Why the followed job is over, and what people are told."""
    (one,) = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    return one.reason, one.failure
