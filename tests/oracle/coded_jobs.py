"""Jobs of code in simulated lives: what their creator has signed, and the programs beside each agent."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from creator_world import trust_in
from program_fleet import FLEET, Person

import query
from agent import Agent, Submit, Update
from agent.control.messages import Analysed
from agent.daemon.trust import FleetCreators
from agent.programs.commands import EndProgram, ProgramSaid, StartProgram, TellProgram
from agent.runtime.model.bundle import Bundle
from elf.program.code import about, load_code
from elf.program.runner import Runner
from elf.signing.creator import signed_bundle
from elf.signing.submission import JobFile, contents_of
from overlay import Authority, CreatorTrust

FOLDED = '''
import elf

class Numbers(elf.Aggregate):
    def lift(self, number):
        return [number]

    def combine(self, one, other):
        return sorted(one + other)

class Folded(elf.Job):
    aggregates = {{"NUMBERS": Numbers}}
    query = """{ids}"""
'''
SOURCES = {
    "mapped": '''
import elf

class Mapped(elf.Job):
    reads = {{"agent": "string", "number": "integer", "product": "string"}}
    query = """{ids}"""

    def map(self, event):
        return {{"agent": event["agent"], "number": event["number"], "product": event["product"]}}
''',
    "staged": '''
import elf

class Staged(elf.Job):
    stages = {{"ids": """{ids}"""}}
    query = "SELECT agent, SUM(n) AS n, COUNT(*) AS parts FROM app('ids') GROUP BY agent WINDOWING 6 SECONDS"

    def on_result(self, window):
        self.log(f"{{window.stage}} {{window.window_start}}")
''',
    "folded": FOLDED,
    "gathered": FOLDED.replace("Folded", "Gathered"),
}
"""Files of jobs, by name; `ids` is the query by which the oracle judges them."""
SIGNED_MS = 1_700_000_000_000
JUDGED = {"mapped": "mapped", "staged": "staged.ids", "folded": "folded", "gathered": "gathered"}
"""The app that runs that query."""


class _Analyser:
    """What an agent tells of a query; nothing is known of the columns of its streams."""

    def analyse(
        self,
        text: str,
        *,
        mapped: bool = False,  # noqa: ARG002
        apps: Mapping[str, str] | None = None,
        types: Mapping[str, object] | None = None,  # noqa: ARG002
        aggregates: Mapping[str, str] | None = None,
    ) -> Analysed:
        parsed = query.with_aggregates(query.with_apps(query.parse(text), apps or {}), aggregates or {})
        plan = query.analyze(parsed, {"web": query.Schema({}, open=True)})
        return Analysed(query.format_query(parsed), msgspec.msgpack.encode(plan.to_wire()))


@cache
def _maria() -> tuple[Person, FleetCreators]:
    """A creator, and those who trust her."""
    authority = Authority.create(FLEET)
    with tempfile.TemporaryDirectory() as folder:
        trust = trust_in(Path(folder) / "identity", authority)
    return Person(authority, "maria"), FleetCreators(CreatorTrust(trust), FLEET)


def let_run_code(agent: Agent) -> None:
    """An agent trusts the creator."""
    agent.code.creators = _maria()[1]


class CodedJob:
    """A job of code with its stages, as its creator submits and updates it. `app` and `key` are those of the judged
    one of them."""

    def __init__(self, name: str, ids: str) -> None:
        self.name, self.app = name, JUDGED[name]
        self._signed: dict[str, Bundle] = {}
        self.submits = self._sign(ids)
        self.key = next(job.app_id for job in self.submits if job.name == self.app)

    def _sign(self, ids: str, *only: str) -> list[Submit]:
        maria, _ = _maria()
        code = SOURCES[self.name].format(ids=ids).encode()
        job = JobFile(code, about(load_code(code).kind))
        made = []
        for name, contents in contents_of(_Analyser(), job, self.name, maria.name).items():
            if only and name not in only:
                continue
            before = self._signed.get(name)
            after = (0, b"") if before is None else (before.seal.counter, before.digest(self.key))
            key, self._signed[name] = signed_bundle(maria, name, contents, SIGNED_MS, after)  # type: ignore[arg-type]
            first = contents.functions[0]
            options: dict[str, Any] = {"bounded": False, "grace_ms": 1000, "bundle": self._signed[name]}
            made.append(Submit(key, name, str(first.plan["stream"]), first.plan, first.text, **options))
        return made

    def update(self, ids: str) -> Update:
        """The next version of the judged query."""
        (job,) = self._sign(ids, self.app)
        return Update(job.app_id, job.plan, job.text, False, 0, job.bundle)


class Programs:
    """The programs beside one agent: each answers between two of its turns, and not at all before `busy_until`."""

    def __init__(self) -> None:
        self.busy_until = 0.0
        self._runners: dict[int, Runner] = {}
        self._waiting: list[tuple[int, bytes]] = []
        self._said: list[ProgramSaid] = []

    def turn(self, agent: Agent, now: float, wall_ms: int) -> None:
        """Gives the agent what programs have said since the last turn, and carries out its orders."""
        said, self._said = self._said, []
        for one in said:
            agent.program_host.receive(one, now, wall_ms)
            agent.process_events(now, wall_ms)
        for order in agent.orders():
            match order:
                case StartProgram(key=key):
                    self._runners[key] = Runner(_Wire(self, key))
                case TellProgram(key=key, data=data):
                    self._waiting.append((key, data))
                case EndProgram(key=key):
                    self._runners.pop(key, None)
        if now >= self.busy_until:
            waiting, self._waiting = self._waiting, []
            for key, data in waiting:
                if (runner := self._runners.get(key)) is not None:
                    runner(data)

    def said(self, key: int, data: bytes) -> None:
        self._said.append(ProgramSaid(key, data))


class _Wire:
    """The wire between one program and its agent. These programs wait for no answers."""

    def __init__(self, programs: Programs, key: int) -> None:
        self._programs, self._key = programs, key

    def read(self) -> bytes:
        raise AssertionError("no job of the oracle waits for an answer")

    def write(self, data: bytes) -> None:
        self._programs.said(self._key, data)

    def done(self) -> None:
        """Nobody counts."""
