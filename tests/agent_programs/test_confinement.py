"""When programs cannot be contained, and what an end is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from programs_run import needs_containment

from agent.programs.commands import ProgramLimits
from agent.programs.confinement import refusal
from agent.programs.exit_reason import WORDS_MAX, how_it_ended, last_words

HERE = Path(__file__).parent
LIMITS = ProgramLimits()


def said_by(code: str, *wrapper: str) -> str:
    """What Python prints that runs this, in a process of its own."""
    command = [*wrapper, sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip()


@needs_containment
def test_who_asks_is_not_contained() -> None:
    assert refusal() is None
    assert said_by(
        "from agent.programs.confinement import refusal; assert refusal() is None; print(open('/etc/passwd').read(4))"
    )


def test_other_machines_are_refused() -> None:
    """Linux lets a process see a machine of 32 bits."""
    reason = said_by(
        "import ctypes; ctypes.CDLL(None).personality(8);"
        "from agent.programs.confinement import refusal; print(refusal())"
    )
    assert reason.startswith("programs cannot be contained on ")
    assert reason.endswith(": it takes x86_64 or aarch64, and Python of 64 bits")


@needs_containment
def test_kernels_without_landlock_are_refused() -> None:
    code = "from agent.programs.confinement import refusal; print(refusal())"
    assert said_by(code, sys.executable, str(HERE / "other_kernel.py"), "without") == (
        "programs cannot be contained here: no Landlock in this kernel, or switched off (Function not implemented)"
    )


@needs_containment
def test_a_confinement_that_does_not_hold_is_none() -> None:
    code = """
from agent.programs.confinement import ConfinementError, confine
from agent.programs.commands import ProgramLimits
try:
    confine(ProgramLimits(), ["/"])
except ConfinementError as error:
    print(error)
"""
    assert said_by(code) == "programs cannot be contained here: Landlock is accepted and does not hold"


@pytest.mark.parametrize(
    ("code", "stderr", "reason"),
    [
        (0, "", "ended by itself with exit code 0"),
        (3, "a\nbye\n\n", "ended by itself with exit code 3: bye"),
        (70, "Traceback (most recent call last):\n  File\nKeyError: 1\n", "ended by an exception: KeyError: 1"),
        (70, "", "ended by an exception"),
        (71, "MemoryError\n", "used more than 256 MiB of memory"),
        (78, "programs cannot be contained here: why\n", "programs cannot be contained here: why"),
        (78, "", "could not be contained"),
        (-9, "", "was killed by signal 9 (killed)"),
        (-31, "", "was killed by signal 31 (a system call that no program may make)"),
        (-40, "", "was killed by signal 40"),
        (
            -11,
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n"
            '  File "job.py", line 3 in inner\n  File "job.py", line 9 in outer\n\nExtension modules: x\n',
            'was killed by signal 11 (segmentation fault): File "job.py", line 3 in inner',
        ),
    ],
)
def test_reasons(code: int, stderr: str, reason: str) -> None:
    assert how_it_ended(code, stderr, LIMITS) == reason


def test_last_words_are_one_line_of_plain_letters() -> None:
    assert last_words("x\n\x1b[31mred\x07\n") == "�[31mred�"
    assert last_words("\u2028\x85 \n") == ""
    assert len(last_words("y" * 10_000)) == WORDS_MAX
    assert last_words("Current thread 0x1") == "Current thread 0x1"
