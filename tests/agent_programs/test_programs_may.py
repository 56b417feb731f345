"""What a contained program can do, and how little it is given."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from programs_run import GOOD, PATIENT, TRIED, beside_a_good_one, needs_containment, running

from agent.programs.commands import MIB, ProgramLimits, ProgramSaid
from agent.programs.watchdog import SPARE_S

pytestmark = [pytest.mark.trio, needs_containment]
IDLE_RESIDENT_KIB_MAX = 20 << 10
HEAVY = {"polars", "trio", "numpy", "msgspec", "cryptography", "zstandard", "sortedcontainers", "agent.runtime"}


async def test_python_works_in_a_program() -> None:
    async with beside_a_good_one() as programs:
        assert await programs.said(TRIED, "compute") == "computed"


@pytest.mark.parametrize("module", ["numpy", "sqlite3", "ssl", "asyncio", "subprocess", "multiprocessing", "uuid"])
async def test_modules_are_imported_when_they_are_needed(module: str) -> None:
    async with running() as programs:
        programs.start(TRIED)
        assert await programs.said(TRIED, f"use {module}") == module


async def test_a_program_asks_its_agent_in_the_middle_of_a_call() -> None:
    async with running() as programs:
        programs.start(TRIED)
        assert await programs.said(TRIED, "double ab") == "how many?"
        programs.answer(TRIED, b"3")
        assert await programs.next(TRIED) == ProgramSaid(TRIED, b"ababab")


async def test_calls_wait_for_each_other() -> None:
    async with running() as programs:
        programs.start(TRIED)
        for number in range(100):
            programs.call(TRIED, f"echo {number}")
        assert [await programs.next(TRIED) for _ in range(100)] == [
            ProgramSaid(TRIED, str(number).encode()) for number in range(100)
        ]


async def test_a_program_that_is_held_to_its_processors_waits_and_is_not_ended() -> None:
    limits = replace(PATIENT, cpu_s=0.5, cpu_window_s=8.0).for_elements(0.4, 256 * MIB)
    async with running(limits=limits) as programs:
        programs.start(TRIED)
        began = float(await programs.said(TRIED, "work 0"))
        started = trio.current_time()
        for _ in range(3):
            programs.call(TRIED, "work 0.4")
            programs.call(TRIED, "double ab")
            used = await programs.next(TRIED)
            assert await programs.next(TRIED) == ProgramSaid(TRIED, b"how many?")
            programs.answer(TRIED, b"2")
            assert await programs.next(TRIED) == ProgramSaid(TRIED, b"abab")
        assert isinstance(used, ProgramSaid)
        most_s = 0.4 * (trio.current_time() - started + SPARE_S) + 0.4
        assert 1.2 <= float(used.data) - began <= most_s


async def test_a_program_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_TEST_SECRET", "hidden")
    inherited = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(inherited, True)
    try:
        async with running(limits=replace(PATIENT, nice=ProgramLimits().nice)) as programs:
            programs.start(TRIED)
            given = {"HOME", "LC_CTYPE", "OMP_NUM_THREADS", "TZ", "LD_LIBRARY_PATH"}
            assert set(re.findall(r"\w+", await programs.said(TRIED, "environment"))) <= given
            assert await programs.said(TRIED, "descriptors") == "[0, 1, 2, 3, 4]"
            assert await programs.said(TRIED, "where") == "('/', 1, True, '')"
            pid = int(await programs.said(TRIED, "pid"))
            assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
            status = Path(f"/proc/{pid}/status").read_text()
            assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
            assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
            assert re.findall(r"^Cap(?:Prm|Eff|Inh|Amb):\s+(\d+)$", status, re.MULTILINE) == ["0" * 16] * 4
    finally:
        os.close(inherited)


async def test_a_program_is_light() -> None:
    async with running() as programs:
        programs.start(TRIED)
        assert set((await programs.said(TRIED, "modules")).split()) & HEAVY == set()
        pid = await programs.said(TRIED, "pid")
        status = Path(f"/proc/{pid}/status").read_text()
        (resident,) = re.findall(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        assert int(resident) <= IDLE_RESIDENT_KIB_MAX


async def test_a_program_reaches_no_other_one() -> None:
    async with beside_a_good_one() as programs:
        pid = await programs.said(GOOD, "pid")
        assert await programs.said(TRIED, f"read /proc/{pid}/mem") == "PermissionError"
