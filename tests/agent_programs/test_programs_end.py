"""What ends a program, what is told of it, and that the agent and the program beside it go on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from programs_run import GOOD, PATIENT, TRIED, beside_a_good_one, needs_containment

from agent.programs.commands import MIB

pytestmark = [pytest.mark.trio, needs_containment]
LIMITS = replace(PATIENT, memory_bytes=128 * MIB)
ENDINGS = [
    ("hoard", "used more than 128 MiB of memory"),
    ("huge", "used more than 128 MiB of memory"),
    ("recurse", "ended by an exception: RecursionError: maximum recursion depth exceeded"),
    ("recurse_without_limit", "was killed by signal 11 (segmentation fault): File "),
    ("crash", "was killed by signal 11 (segmentation fault): File "),
    ("fail", "ended by an exception: ValueError: the third row has no price"),
    ("unknown", "ended by an exception: KeyError: 'unknown'"),
    ("exit_at_once 3", "ended by itself with exit code 3"),
    ("exit_politely 3", "ended by itself with exit code 3"),
    ("exit_at_once 0", "ended by itself with exit code 0"),
    ("kill_self", "was killed by signal 9 (killed)"),
    ("trace_parent", "was killed by signal 31 (a system call that no program may make)"),
    ("mount", "was killed by signal 31 (a system call that no program may make)"),
    ("say_for_ever", "said more than 10,000 things in one call"),
    ("say_much", "said more than 64 MiB in one call"),
    ("say_garbage", "said 4,294,967,295 bytes at once: at most 8,388,608 are taken"),
    ("say_half", "ended by itself with exit code 0"),
    ("be_done_for_ever", "spoke when it was not called"),
    ("close_everything", "closed its connection to the agent"),
]


@pytest.mark.parametrize(("attempt", "reason"), ENDINGS)
async def test_ended(attempt: str, reason: str) -> None:
    async with beside_a_good_one(LIMITS) as programs:
        programs.call(TRIED, attempt)
        ended = await programs.ended(TRIED)
        assert ended.reason.startswith(reason)
        assert "\n" not in ended.reason
    assert not [told for told in programs.told if told.key == TRIED]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="x32 calls are a matter of x86_64")
async def test_calls_of_another_kind_end_a_program() -> None:
    async with beside_a_good_one() as programs:
        programs.call(TRIED, "old_calls")
        assert "(a system call that no program may make)" in (await programs.ended(TRIED)).reason


async def test_a_traceback_is_told() -> None:
    async with beside_a_good_one() as programs:
        programs.call(TRIED, "fail")
        ended = await programs.ended(TRIED)
        assert "Traceback (most recent call last)" in ended.stderr
        assert "in fail\n" in ended.stderr
        assert ended.stderr.endswith("ValueError: the third row has no price\n")


async def test_programs_that_do_not_come_back() -> None:
    """All at once, so that they are waited for at the same time."""
    attempts = ["loop", "sleep", "loop_and_refuse_to_abort", "exit_slowly", "stop_self", "read_the_wire",
                "print_for_ever 1", "print_for_ever 2"]  # fmt: skip
    async with beside_a_good_one(replace(LIMITS, call_s=2.0)) as programs:
        for key, attempt in enumerate(attempts, 10):
            programs.start(key)
            programs.call(key, attempt)
        for key, attempt in enumerate(attempts, 10):
            ended = await programs.ended(key)
            assert ended.reason == "took longer than 2 s for a callback", attempt
            assert len(ended.stderr) <= LIMITS.stderr_bytes
            if attempt in ("loop", "sleep"):
                assert f"in {attempt}\n" in ended.stderr, "it says where it was"


@pytest.mark.parametrize("attempt", ["loop", "pretend_to_be_done"])
async def test_cpu_time_is_limited_whatever_a_program_says(attempt: str) -> None:
    async with beside_a_good_one(replace(LIMITS, cpu_s=0.5, cpu_window_s=8.0)) as programs:
        programs.call(TRIED, attempt)
        ended = await programs.ended(TRIED)
        assert ended.reason == "used more than 0.5 s of CPU time within 8 s"
        assert "in loop\n" in ended.stderr


async def test_a_program_that_does_not_read() -> None:
    async with beside_a_good_one() as programs:
        programs.call(TRIED, "sleep")
        for _ in range(20):
            programs.answer(TRIED, bytes(MIB))
        assert (await programs.ended(TRIED)).reason == "does not keep up: more than 16 MiB wait for it"


async def test_a_program_that_is_told_nothing_many_times() -> None:
    async with beside_a_good_one(replace(LIMITS, unsent_bytes=MIB)) as programs:
        programs.call(TRIED, "sleep")
        for _ in range(20_000):
            programs.answer(TRIED, b"")
        assert (await programs.ended(TRIED)).reason == "does not keep up: more than 1 MiB wait for it"


async def test_the_largest_ends_where_all_use_too_much_memory() -> None:
    """Neither uses more than one may."""
    async with beside_a_good_one(replace(LIMITS, all_memory_bytes=60 << 20)) as programs:
        assert await programs.said(GOOD, "hold 20") == "20"
        programs.call(TRIED, "hold_and_wait 50")
        reason = (await programs.ended(TRIED)).reason
        assert reason.startswith(
            "the programs of this agent used more than 60 MiB of memory together, and this one most"
        )
        assert await programs.said(GOOD, "echo here") == "here"


async def test_the_kernel_ends_programs_before_their_agent() -> None:
    async with beside_a_good_one() as programs:
        pid = int(await programs.said(TRIED, "pid"))
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
        assert int(Path("/proc/self/oom_score_adj").read_text()) < 1000
