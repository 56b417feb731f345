"""Keeps the programs of one agent: the code of its jobs, each in a process of its own, as the core sees them.

    LOADING ── Loaded ──▶ READY ── Failed, or its process has ended ──▶ OVER
       └── Failed, or its process has ended ──▶ OVER

The core gives commands, which the shell carries out (`agent.programs.commands`); programs send frames back. A program
belongs to one local job, and is known by the digest of its code; `agent.runtime.program_host` carries out its calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from agent.programs import calls
from agent.programs.calls import JobDescription
from agent.programs.commands import EndProgram, ProgramCommand, StartProgram, TellProgram
from overlay import Id, Node, format_id

MULTICASTS_PER_S, MULTICASTS_BURST = 100.0, 200.0
LINES_PER_S, LINES_BURST = 50.0, 500.0
SHOWN_PER_S, SHOWN_BURST = 10.0, 20.0
REQUESTS_MAX = 64
"""Upper bound on messages of other jobs that a program has not answered yet; further ones are refused."""


@dataclass(slots=True)
class RateLimit:
    """Allows `burst` at once, then `per_s` on average. `refused` counts refusals since the last look."""

    per_s: float
    burst: float
    refused: int = 0
    _left: float = -1.0
    _at: float = 0.0

    def take(self, now: float) -> bool:
        """Takes one, if there is one left; returns whether there was.

        >>> limit = RateLimit(per_s=1, burst=2)
        >>> [limit.take(0.0) for _ in range(3)], limit.take(1.0), limit.refused
        ([True, True, False], True, 1)
        """
        left = self.burst if self._left < 0 else min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        self._left = left - 1 if left >= 1 else left
        self.refused += left < 1
        return left >= 1

    def take_refused(self) -> int:
        """Returns the number of refusals and starts counting anew."""
        refused, self.refused = self.refused, 0
        return refused


class _State(Enum):
    LOADING = auto()
    READY = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class Program:
    """The code of a job, running beside this agent. `digest`: the digest of its bundle's contents."""

    key: int
    app_id: Id
    app: str
    digest: bytes
    state: _State = _State.LOADING
    about: JobDescription | None = None
    failure: str | None = None
    """The reason why it is over."""
    is_root: bool = False
    version: int = 1
    tick_at: float = 0.0
    multicasts: RateLimit = field(default_factory=lambda: RateLimit(MULTICASTS_PER_S, MULTICASTS_BURST))
    lines: RateLimit = field(default_factory=lambda: RateLimit(LINES_PER_S, LINES_BURST))
    shown: RateLimit = field(default_factory=lambda: RateLimit(SHOWN_PER_S, SHOWN_BURST))

    @property
    def is_ready(self) -> bool:
        return self.state is _State.READY

    @property
    def maps(self) -> bool:
        """Whether the code maps events before they are counted."""
        return self.about is not None and self.about.maps

    @property
    def listens(self) -> bool:
        """Whether the code is called with the PAOs that children send."""
        return self.about is not None and self.about.receives

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the job's stages."""
        return tuple(self.about.stages) if self.about is not None else ()

    @property
    def is_over(self) -> bool:
        return self.state is _State.OVER


class Programs:
    """All programs of the agent of this `name`."""

    def __init__(self, name: str, node: Node) -> None:
        self.wall_ms = 0
        """The agent's clock, as of the event at hand."""
        self._name = name
        self._node = node
        self._programs: dict[int, Program] = {}
        self._orders: list[ProgramCommand] = []
        self._keys = itertools.count(1)

    def __iter__(self) -> Iterator[Program]:
        return iter(list(self._programs.values()))

    def __len__(self) -> int:
        return len(self._programs)

    def get(self, key: int) -> Program | None:
        return self._programs.get(key)

    def orders(self) -> list[ProgramCommand]:
        """Drains the orders for the shell."""
        orders, self._orders = self._orders, []
        return orders

    def start(self, app_id: Id, app: str, source: bytes, digest: bytes, *, is_keyed: bool = False) -> Program:
        """Has a job's code loaded. `is_keyed`: elements of the job are hosted in the program."""
        program = Program(next(self._keys), app_id, app, digest)
        self._programs[program.key] = program
        self._orders.append(StartProgram(program.key, app, is_keyed))
        load = calls.LoadCode(self.place(program), app, self._name, format_id(self._node.peer.node_id), source)
        self._tell(program, load)
        return program

    def loaded(self, program: Program, about: JobDescription, now: float) -> None:
        """Makes a program ready for calls."""
        program.state, program.about = _State.READY, about
        program.tick_at = now + (about.timer_s or 0.0)

    def end(self, program: Program) -> None:
        """Ends a program that is no longer needed."""
        if self._programs.pop(program.key, None) is not None:
            program.state = _State.OVER
            self._orders.append(EndProgram(program.key))

    def fail(self, program: Program, reason: str) -> None:
        """Ends a program that has failed."""
        program.failure = reason
        self.end(program)

    def place(self, program: Program) -> calls.ProgramPosition:
        """The place of a program in its job's tree."""
        node, app_id = self._node, program.app_id
        parent = None if program.is_root else node.parent(app_id)
        return calls.ProgramPosition(
            program.is_root,
            format_id((parent or node.peer).node_id),
            [format_id(child.node_id) for child in node.children(app_id)],
            self.wall_ms,
            program.version,
        )

    def call(self, program: Program | None, call: calls.ProgramCall) -> bool:
        """Calls a program, if there is one and it is ready; returns whether it did."""
        if program is None or not program.is_ready:
            return False
        self._tell(program, call)
        return True

    def answer(self, key: int, answer: calls.AnswerArrived) -> None:
        """Answers a request of a program."""
        if (program := self._programs.get(key)) is not None:
            self._orders.append(TellProgram(program.key, calls.encode(answer), is_call=False))

    def _tell(self, program: Program, call: calls.ProgramCall) -> None:
        self._orders.append(TellProgram(program.key, calls.encode(call)))

    def tick(self, now: float) -> None:
        """Calls `on_timer` of programs that are due, once for all calls that were missed."""
        for program in self._programs.values():
            about = program.about
            if not program.is_ready or about is None or about.timer_s is None or now < program.tick_at:
                continue
            missed = (now - program.tick_at) // about.timer_s
            program.tick_at += (missed + 1) * about.timer_s
            self._tell(program, calls.TimerTick(self.place(program)))
