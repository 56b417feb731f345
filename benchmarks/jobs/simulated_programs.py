"""The code of jobs beside simulated agents: the real runner, in virtual time, with what real processes take for it.

A program's process, its start, the loading of the code and the pipe to its agent are not there. Their times are those
of real ones, measured just before; the calls in between are real, and charged by the CPU time that they take.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import query
from agent.daemon.trust import FleetCreators
from agent.programs import calls
from agent.programs.commands import EndProgram, ProgramCommand, ProgramSaid, StartProgram, TellProgram
from agent.runtime.model.bundle import Bundle, Contents, Function
from elf.program.code import about, load_code
from elf.program.runner import Runner
from elf.signing.creator import creator_in, signed_bundle
from overlay import Authority, CreatorFiles, CreatorTrust, Id, Identity, Node, Revocations, Simulator, Trust
from overlay import read_public_key as public_key_in

from .real_programs import Times

STREAM = "web"
Tell = Callable[[ProgramSaid], None]


@dataclass(slots=True)
class _Child:
    """One program, and until when it is busy. What it says in a call is `said`."""

    runner: Runner
    wire: "_Wire"
    busy_until: float


@dataclass(slots=True)
class _Wire:
    """What `Runner` writes to; the jobs that run here never wait for an answer in the middle of a call."""

    said: list[bytes] = field(default_factory=list)

    def read(self) -> bytes:
        raise AssertionError("a simulated program waits for nothing")

    def write(self, data: bytes) -> None:
        self.said.append(data)

    def done(self) -> None:
        """Nobody counts."""


class SimulatedPrograms:
    """Of all agents, whose creator's files are in a folder. `times`: what real processes take.

    `multicasts`: the virtual times at which a master's code has said something to all; `heard`: those at which the code
    of an agent has handled such a word.
    """

    def __init__(self, seed: int, folder: Path, times: Times) -> None:
        self.multicasts: list[float] = []
        self.heard: list[float] = []
        self._random = random.Random(seed)
        self._times = times
        self._children: dict[tuple[int, int], _Child] = {}
        authority = Authority.create("bench")
        files = CreatorFiles(folder / "creator")
        files.create("demo", None)
        files.certificate_file.write_bytes(authority.trust("demo", public_key_in(files.public_file)))
        self._creator = creator_in(folder / "creator")
        ca, certificate, key = (folder / name for name in ("ca.crt", "agent.crt", "agent.key"))
        ca.write_bytes(authority.certificate_pem)
        authority.issue("agent", node_id=1).save(certificate, key)
        self._identity = Identity.load(ca, certificate, key)

    def new_creators(self) -> FleetCreators:
        """One agent's judgement of creators."""
        return FleetCreators(CreatorTrust(Trust(self._identity, Revocations([]), time.time)), "bench")

    def sign(self, app: str, code: bytes, after: tuple[int, bytes] = (0, b"")) -> tuple[str, Id, Bundle]:
        """A job's query, its id, and what its creator has signed."""
        described = about(load_code(code).kind)
        plan = query.analyze(query.parse(described.query), {STREAM: query.Schema({}, open=True)})
        contents = Contents([Function("query", plan.to_wire(), described.query)], code, described.drives)
        return described.query, *signed_bundle(self._creator, app, contents, time.time_ns() // 1_000_000, after)

    def carry_out(self, simulator: Simulator, node: Node, order: ProgramCommand, at: float, tell: Tell) -> None:
        """What an agent wants at a time; `tell` hears what its program says, when it does."""
        key = (node.peer.node_id, order.key)
        match order:
            case StartProgram():
                wire = _Wire()
                self._children[key] = _Child(Runner(wire), wire, at + self._random.choice(self._times.start_s))
            case EndProgram():
                self._children.pop(key, None)
            case TellProgram(data=data):
                child = self._children[key]

                def run() -> None:
                    if self._children.get(key) is child:
                        self._run(simulator, order.key, child, data, tell)

                simulator.call(at + self._times.wire_s, run)

    def _run(self, simulator: Simulator, key: int, child: _Child, data: bytes, tell: Tell) -> None:
        """Handles a call as soon as the program is free for it. That of its start includes the loading of code."""
        now, call = simulator.now, calls.read_call(data)
        is_load = isinstance(call, calls.LoadCode)
        if now < child.busy_until and not is_load:
            simulator.call(child.busy_until, lambda: self._run(simulator, key, child, data, tell))
            return
        began = time.process_time()
        child.runner(data)
        if not is_load:
            child.busy_until = now + time.process_time() - began
        done = child.busy_until
        if isinstance(call, calls.MulticastArrived):
            self.heard.append(done)
        said, child.wire.said = child.wire.said, []
        self.multicasts += [done for one in said if isinstance(calls.read_act(one), calls.MulticastCall)]
        for one in said:
            self._bring(simulator, done, ProgramSaid(key, one), tell)

    def _bring(self, simulator: Simulator, done: float, said: ProgramSaid, tell: Tell) -> None:
        simulator.call(done + self._times.wire_s, lambda: tell(said))
