"""The shell of programs: starts that fail, orders, cancellation, and programs whose agent dies."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from programs_run import COMMAND, GOOD, PATIENT, TRIED, beside_a_good_one, needs_containment, running

from agent.programs import process
from agent.programs.commands import ProgramEnded, ProgramLimits, ProgramSaid

pytestmark = [pytest.mark.trio, needs_containment]
HERE = Path(__file__).parent
DEADLINE_S = 120


def is_alive(pid: int) -> bool:
    """Whether it runs: one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_dead(pid: int) -> None:
    while is_alive(pid):
        await trio.sleep(0.01)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/no/such/python",), "cannot be started: No such file or directory"),
        ((str(HERE),), "cannot be started: Permission denied"),
        (("/bin/false",), "ended by itself with exit code 1"),
        ((sys.executable, "-I", "-c", "print('who?')"), "spoke"),
        ((sys.executable, "-I", "-m", "no_such_module"), "ended by itself with exit code 1: "),
    ],
)
async def test_what_is_no_program_ends_with_a_reason(
    command: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CLOSED_S", 60.0)  # a process may take its time to end
    async with running(command) as programs:
        programs.start(TRIED)
        ended = await programs.ended(TRIED)
        if reason != "spoke":
            assert ended.reason.startswith(reason)


async def test_what_does_not_start_in_time() -> None:
    async with running((sys.executable, "-I", "-c", "while True: pass"), ProgramLimits(start_s=0.2)) as programs:
        programs.start(TRIED)
        assert (await programs.ended(TRIED)).reason == "did not start within 0.2 s"


async def test_no_more_programs_than_the_limit() -> None:
    async with beside_a_good_one(replace(PATIENT, programs=2)) as programs:
        programs.start(3)
        assert await programs.next(3) == ProgramEnded(
            3, "cannot be started: 2 programs run on this agent, and no more may"
        )
        programs.end(TRIED)
        programs.start(3)
        assert await programs.said(3, "echo room") == "room"


async def test_a_program_ended_by_order_says_nothing_more() -> None:
    async with beside_a_good_one() as programs:
        pid = int(await programs.said(TRIED, "pid"))
        programs.call(TRIED, "loop")
        programs.end(TRIED)
        await until_dead(pid)
        programs.start(TRIED)
        assert await programs.said(TRIED, "echo again") == "again"
        assert [told for told in programs.told if told.key == TRIED] == []


async def test_a_program_ended_before_it_began() -> None:
    async with beside_a_good_one() as programs:
        programs.start(3)
        programs.end(3)
    assert programs.told == []


async def test_a_key_is_free_as_soon_as_its_program_is_over() -> None:
    async with beside_a_good_one() as programs:
        for _ in range(3):
            programs.call(TRIED, "exit_at_once 1")
            await programs.ended(TRIED)
            programs.start(TRIED)
        assert await programs.said(TRIED, "echo back") == "back"


async def test_orders_for_programs_that_are_over_are_passed_over() -> None:
    async with beside_a_good_one() as programs:
        programs.call(99, "loop")
        programs.end(99)
        programs.start(GOOD)
        assert await programs.said(GOOD, "echo same") == "same"


async def test_what_a_program_is_told_at_once_is_limited() -> None:
    async with beside_a_good_one(replace(PATIENT, frame_bytes=1000)) as programs:
        programs.answer(TRIED, bytes(1001))
        reason = (await programs.ended(TRIED)).reason
        assert reason == "was to be told 1,001 bytes at once: at most 1,000 are"


async def test_large_frames_go_both_ways() -> None:
    async with running() as programs:
        programs.start(TRIED)
        text = "x" * (4 << 20)
        assert await programs.said(TRIED, f"echo {text}") == text


async def test_cancelled_nobody_is_left() -> None:
    async with running() as programs:
        for key in (1, 2, 3):
            programs.start(key)
        pids = [int(await programs.said(key, "pid")) for key in (1, 2, 3)]
        programs.call(2, "loop")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert programs.told == []


@pytest.mark.parametrize("free", range(14))
async def test_an_agent_without_descriptors_goes_on(free: int) -> None:
    """It takes some to start a program; how many it has come to when there are no more does not matter."""
    async with beside_a_good_one() as programs:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1 + free, hard))
        try:
            programs.start(3)
            programs.call(3, "echo there")
            told = await programs.next(3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert told in (ProgramSaid(3, b"there"), ProgramEnded(3, "cannot be started: Too many open files"))
        if isinstance(told, ProgramEnded):
            programs.start(3)
            assert await programs.said(3, "echo there") == "there"


async def test_programs_die_with_their_agent() -> None:
    with trio.fail_after(DEADLINE_S):
        agent = subprocess.Popen([sys.executable, str(HERE / "short_lived_agent.py")], stdout=subprocess.PIPE)
        with agent:
            assert agent.stdout is not None
            pids = [int(agent.stdout.readline()) for _ in range(2)]
            assert all(map(is_alive, pids))
            agent.send_signal(signal.SIGKILL)
        for pid in pids:
            await until_dead(pid)


async def test_programs_are_refused_where_the_kernel_cannot_contain_them() -> None:
    command = (sys.executable, str(HERE / "other_kernel.py"), "without", *COMMAND)
    async with running(command) as programs:
        programs.start(TRIED)
        ended = await programs.ended(TRIED)
        assert ended.reason == (
            "programs cannot be contained here: no Landlock in this kernel, or switched off (Function not implemented)"
        )


async def test_kernels_that_claim_more_of_landlock_than_they_have() -> None:
    async with running((sys.executable, str(HERE / "other_kernel.py"), "unfinished", *COMMAND)) as programs:
        programs.start(TRIED)
        assert await programs.said(TRIED, "read /etc/passwd") == "PermissionError"


async def test_a_call_told_before_the_program_is_there_waits() -> None:
    async with running() as programs:
        programs.start(TRIED)
        programs.call(TRIED, "echo early")
        assert await programs.next(TRIED) == ProgramSaid(TRIED, b"early")
