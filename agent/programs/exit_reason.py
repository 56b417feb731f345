"""Explains the end of a program in one line for people."""

from __future__ import annotations

import signal

from agent.programs.commands import ProgramLimits
from agent.programs.frames import EXIT_EXCEPTION, EXIT_MEMORY, EXIT_UNCONTAINED
from agent.programs.watchdog import size

WORDS_MAX = 300
_SIGNALS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGSYS: "a system call that no program may make",
    signal.SIGABRT: "aborted",
    signal.SIGKILL: "killed",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
}


def how_it_ended(code: int, stderr: str, limits: ProgramLimits) -> str:
    """`code`: the exit code, or minus the signal that killed it."""
    if code == EXIT_MEMORY:
        return f"used more than {size(limits.memory_bytes)} of memory"
    words = last_words(stderr)
    if code == EXIT_UNCONTAINED:
        return words or "could not be contained"
    if code == EXIT_EXCEPTION:
        return f"ended by an exception: {words}" if words else "ended by an exception"
    if code >= 0:
        how = f"ended by itself with exit code {code}"
    else:
        how = f"was killed by signal {-code}"
        if (name := _SIGNALS.get(-code)) is not None:  # type: ignore[call-overload]
            how += f" ({name})"
    return f"{how}: {words}" if words else how


def last_words(stderr: str) -> str:
    """The line that says most: of a crash the innermost frame, else the last one. Printable, cut to WORDS_MAX."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if not lines:
        return ""
    crash = [place for place, line in enumerate(lines[:-1]) if line.startswith(("Current thread 0x", "Thread 0x"))]
    line = lines[crash[-1] + 1] if crash else lines[-1]
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)[:WORDS_MAX]
