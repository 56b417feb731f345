"""The code of a job's elements, as their agent calls it: in the contained program beside it, or in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from agent.programs import calls
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.keyed.elements.runtime import ElementRuntime

ElementAct = calls.ElementsProcessed | calls.StatesTaken
"""An answer of a program to a call of elements."""
ALONE = calls.ProgramPosition(is_root=False, parent="", children=[], now_ms=0, version=1)
"""The place of code that runs in this process, where trees mean nothing."""


class ElementProgram(Protocol):
    """Takes calls in order; answers come later."""

    def call(self, call: calls.ProgramCall) -> bool:
        """Sends one call; False if there is no such program now."""
        ...

    def place(self) -> calls.ProgramPosition:
        """The place of the program, which each call brings."""
        ...

    @property
    def has_acts(self) -> bool:
        """Whether answers wait that come by no other way than `take_acts`."""
        ...

    def take_acts(self) -> list[ElementAct]:
        """Hands out these answers."""
        ...

    @property
    def failure(self) -> str | None:
        """The reason why the code cannot go on, as one line, which nobody else tells."""
        ...


@runtime_checkable
class CodeElements(ElementRuntime, Protocol):
    """Elements whose code is in a program."""

    def answered(self, act: ElementAct) -> bool:
        """Takes an answer of the program; False if it was not asked for it."""
        ...


class ContainedProgram:
    """The program of a local job; its answers come through the agent's host of programs."""

    def __init__(self, local: LocalJob, programs: Programs) -> None:
        self._local = local
        self._programs = programs

    def call(self, call: calls.ProgramCall) -> bool:
        """Sends one call."""
        return self._programs.call(self._local.program, call)

    def place(self) -> calls.ProgramPosition:
        """The program's place in the job's tree."""
        program = self._local.program
        return ALONE if program is None else self._programs.place(program)

    has_acts = False
    failure = None
    """Its agent's host of programs tells the master of one."""

    def take_acts(self) -> list[ElementAct]:
        """None: they come as they are."""
        return []


RunHere = Callable[[bytes], list[bytes]]
"""Runs a call of code in this process, as programs read it; returns what it says."""


class ProgramHere:
    """Code that runs in this process, with its rights."""

    def __init__(self, run: RunHere) -> None:
        self._run = run
        self._acts: deque[ElementAct] = deque()
        self.failure: str | None = None

    def call(self, call: calls.ProgramCall) -> bool:
        """Runs one call, and keeps the answers. False: the code has failed."""
        for frame in self._run(calls.encode(call)):
            act = calls.read_act(frame)
            if isinstance(act, calls.CallbackFailed):
                self.failure = act.reason
            elif isinstance(act, ElementAct):
                self._acts.append(act)
        return self.failure is None

    def place(self) -> calls.ProgramPosition:
        """A place that means nothing."""
        return ALONE

    @property
    def has_acts(self) -> bool:
        """Whether there are answers."""
        return bool(self._acts)

    def take_acts(self) -> list[ElementAct]:
        """The answers since the last call of this."""
        acts, self._acts = list(self._acts), deque()
        return acts
