"""Runs all programs of an agent: commands come in, frames and ends of programs go out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import trio

from agent.programs.commands import (
    EndProgram,
    ProgramCommand,
    ProgramEnded,
    ProgramLimits,
    ProgramSaid,
    StartProgram,
    TellProgram,
)
from agent.programs.confinement import unsupported
from agent.programs.process import ProgramProcess
from agent.programs.watchdog import size


class ProgramSupervisor:
    """The programs that one agent runs, each in a process of its own.

    `command` starts a program: Python with a module that calls `agent.programs.child.serve`. Tasks of `run` call
    `told`, never `order` itself. A program that ends or cannot be started yields one ProgramEnded; one that is ended by
    order yields nothing more. `element_limits`: those of programs in which elements are hosted.
    """

    def __init__(
        self,
        command: Sequence[str],
        limits: ProgramLimits,
        told: Callable[[ProgramSaid | ProgramEnded], None],
        element_limits: ProgramLimits | None = None,
    ) -> None:
        self._command = tuple(command)
        self._limits = limits
        self._element_limits = limits if element_limits is None else element_limits
        self._told = told
        self._programs: dict[int, ProgramProcess] = {}
        self._to_start: deque[ProgramProcess] = deque()
        self._has_to_start = trio.Event()
        self._stirred = trio.Event()
        self._next_check = math.inf
        self._started = self._failed = 0

    def statistics(self) -> dict[str, int]:
        """Programs that run now, and those that were started and that ended unasked so far."""
        return {"running": len(self._programs), "started": self._started, "failed": self._failed}

    def limit_memory(self, all_memory_bytes: int) -> None:
        """Lets all programs together use so much memory from now on."""
        self._limits = replace(self._limits, all_memory_bytes=all_memory_bytes)

    def order(self, order: ProgramCommand) -> None:
        """Carries out a command of the core. Never blocks or raises.

        Ignores commands to a program that has ended, and a second start of one that runs.
        """
        match order:
            case StartProgram(key=key):
                if key not in self._programs:
                    limits = self._element_limits if order.is_keyed else self._limits
                    self._start(ProgramProcess(order, limits, self._told))
            case TellProgram(key=key):
                if (program := self._programs.get(key)) is not None:
                    program.tell(order)
                    self._stir(program)
            case EndProgram(key=key):
                if (program := self._programs.pop(key, None)) is not None:
                    program.dismiss()

    async def run(self) -> None:
        """Runs programs until it is cancelled; then kills and reaps all."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            while True:
                await self._has_to_start.wait()
                self._has_to_start = trio.Event()
                while self._to_start:
                    nursery.start_soon(self._run, self._to_start.popleft())

    def _start(self, program: ProgramProcess) -> None:
        if len(self._programs) >= self._limits.programs:
            program.condemn(f"cannot be started: {self._limits.programs} programs run on this agent, and no more may")
        elif (reason := unsupported()) is not None:
            program.condemn(reason)
        else:
            self._programs[program.key] = program
            self._started += 1
        self._to_start.append(program)
        self._has_to_start.set()
        self._stir(program)

    async def _run(self, program: ProgramProcess) -> None:
        ended = await program.run(self._command)
        if self._programs.get(program.key) is program:
            del self._programs[program.key]
        if ended is not None:
            self._failed += 1
            self._told(ended)

    def _stir(self, program: ProgramProcess) -> None:
        """Wakes the watch if this program is due before its next check."""
        if program.next_check() < self._next_check:
            self._stirred.set()

    def _bound_memory(self) -> None:
        """Ends the largest programs until the others use no more memory together than all may."""
        used = {program: program.memory_bytes() for program in self._programs.values()}
        most = self._limits.all_memory_bytes
        for program in sorted(used, key=lambda one: used[one], reverse=True):
            if sum(used.values()) <= most:
                return
            program.condemn(
                f"the programs of this agent used more than {size(most)} of memory together, and this one most:"
                f" {size(used.pop(program))}"
            )

    async def _watch(self) -> None:
        """Checks programs when they are due: busy ones each second, idle ones seldom."""
        while True:
            now = trio.current_time()
            due = [program for program in self._programs.values() if program.next_check() <= now]
            for program in due:
                program.check()
            if due:
                self._bound_memory()
            self._next_check = min((program.next_check() for program in self._programs.values()), default=math.inf)
            with trio.move_on_at(self._next_check):
                await self._stirred.wait()
            self._stirred = trio.Event()
