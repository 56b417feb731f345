"""What the tests of programs share: real programs, run by the shell, with whatever they say and how they end."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from agent.programs.commands import EndProgram, ProgramEnded, ProgramLimits, ProgramSaid, StartProgram, TellProgram
from agent.programs.confinement import refusal
from agent.programs.program_supervisor import ProgramSupervisor

DEADLINE_S = 600
PATIENT = ProgramLimits(start_s=300, call_s=300, nice=0)
"""Limits that no program of a test meets on a busy machine unless it is about them."""
GOOD, TRIED = 1, 2
"""Keys: of a program that behaves, and of the one beside it."""
PYTHON = (sys.executable, "-I", "-B")
COMMAND = (*PYTHON, str(Path(__file__).with_name("tried.py")))
WITH_FIRST_LANDLOCK = (*PYTHON, str(Path(__file__).with_name("with_first_landlock.py")))
"""The same programs, as contained on Linux 5.13."""
needs_containment = pytest.mark.skipif(refusal() is not None, reason=refusal() or "")


class Programs:
    """Programs by their keys, and what was told of each."""

    def __init__(self, command: Sequence[str] = COMMAND, limits: ProgramLimits | None = None) -> None:
        self.processes = ProgramSupervisor(command, limits or PATIENT, self._hear)
        self.told: list[ProgramSaid | ProgramEnded] = []
        self._came = trio.Event()

    def _hear(self, told: ProgramSaid | ProgramEnded) -> None:
        self.told.append(told)
        self._came.set()
        self._came = trio.Event()

    def start(self, key: int) -> None:
        self.processes.order(StartProgram(key, f"program {key}"))

    def call(self, key: int, text: str) -> None:
        self.processes.order(TellProgram(key, text.encode()))

    def answer(self, key: int, data: bytes) -> None:
        self.processes.order(TellProgram(key, data, is_call=False))

    def end(self, key: int) -> None:
        self.processes.order(EndProgram(key))

    async def next(self, key: int) -> ProgramSaid | ProgramEnded:
        """What is told of a program next, and forgets it."""
        while True:
            for place, told in enumerate(self.told):
                if told.key == key:
                    return self.told.pop(place)
            await self._came.wait()

    async def said(self, key: int, text: str) -> str:
        """Calls a program: what it says."""
        self.call(key, text)
        told = await self.next(key)
        assert isinstance(told, ProgramSaid), told
        return told.data.decode()

    async def ended(self, key: int) -> ProgramEnded:
        """How a program ends, whatever it says before."""
        while True:
            told = await self.next(key)
            if isinstance(told, ProgramEnded):
                return told


@asynccontextmanager
async def running(command: Sequence[str] = COMMAND, limits: ProgramLimits | None = None) -> AsyncIterator[Programs]:
    programs = Programs(command, limits)
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(programs.processes.run)
            yield programs
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def beside_a_good_one(
    limits: ProgramLimits | None = None, command: Sequence[str] = COMMAND
) -> AsyncIterator[Programs]:
    """With two programs, GOOD and TRIED. Whatever becomes of the latter, the former has to be there in the end."""
    async with running(command, limits) as programs:
        programs.start(GOOD)
        programs.start(TRIED)
        assert await programs.said(GOOD, "echo before") == "before"
        yield programs
        assert await programs.said(GOOD, "echo after") == "after"
        assert [told for told in programs.told if told.key == GOOD] == []
