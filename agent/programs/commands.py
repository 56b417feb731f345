"""Commands of the core to programs, events of programs to the core, and limits of programs.

A program is one process with the code of one job. The core chooses its key, which identifies the program until the core
ends it or is told that it ended.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace

MIB = 1 << 20
ELEMENTS_CALL_S = 60.0
ELEMENTS_NICE = 2
"""Niceness of a program in which elements are hosted: what the agent does waits for it, and its `cores` bound it. With
that of other programs it would get nothing where agents are busy."""
ELEMENTS_FRAME_BYTES, ELEMENTS_UNSENT_BYTES = 32 * MIB, 512 * MIB


@dataclass(frozen=True, slots=True)
class StartProgram:
    """Starts a program. `name` is for logs. `is_keyed`: elements of its job are hosted in it, and it may be busy."""

    key: int
    name: str
    is_keyed: bool = False


@dataclass(frozen=True, slots=True)
class TellProgram:
    """Sends `data` to a program: a call, or (`is_call` False) the answer it waits for during one."""

    key: int
    data: bytes
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class EndProgram:
    """Ends a program at once, without a report."""

    key: int


ProgramCommand = StartProgram | TellProgram | EndProgram


@dataclass(frozen=True, slots=True)
class ProgramSaid:
    """A frame that a program sent during a call; never empty."""

    key: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """The end of a program, unless a command ended it.

    `reason`: one line for people. `stderr`: the end of what it printed, with its traceback if it had one; any text.
    """

    key: int
    reason: str
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class ProgramLimits:
    """Limits of each program; a program that exceeds one is ended, and no other."""

    memory_bytes: int = 256 * MIB
    """Address space, Python's own included (about 17 MiB)."""
    start_s: float = 30.0
    """Upper bound on the time from the command to a contained process that can be called."""
    call_s: float = 10.0
    """Upper bound on the time of one call, waiting included."""
    cpu_s: float = 30.0
    """Upper bound on CPU time in any `cpu_window_s`."""
    cpu_window_s: float = 60.0
    open_files: int = 32
    """File descriptors, five of which every program has."""
    frame_bytes: int = 8 * MIB
    """Upper bound on each frame in either direction."""
    frames_in_call: int = 10_000
    """Upper bound on frames a program sends during one call."""
    bytes_in_call: int = 64 * MIB
    """Upper bound on bytes a program sends during one call."""
    unsent_bytes: int = 16 * MIB
    """Upper bound on bytes that wait until the program reads them."""
    stderr_bytes: int = 64 << 10
    """Length of the end of a program's output that is kept."""
    nice: int = 10
    """Niceness of programs, which yield to the agent and other processes."""
    programs: int = 64
    """Upper bound on the programs of one agent."""
    all_memory_bytes: int = 1024 * MIB
    """Upper bound on the memory in use by all programs of one agent, without what they share; past it the largest
    ends."""
    cores: float = math.inf
    """Processors that it may keep busy. If not all, its next call waits where it has used more, and `cpu_s` is an
    upper bound on what it uses while it is not called."""

    def for_elements(self, cores: float, memory_bytes: int) -> ProgramLimits:
        """The limits of a program in which elements are hosted: who sends it events waits where it is busy, and nobody
        ends it for that. Other calls of it wait, too."""
        return replace(
            self,
            memory_bytes=memory_bytes,
            cores=cores,
            nice=ELEMENTS_NICE,
            call_s=ELEMENTS_CALL_S,
            unsent_bytes=ELEMENTS_UNSENT_BYTES,
            frame_bytes=ELEMENTS_FRAME_BYTES,
            bytes_in_call=max(self.bytes_in_call, memory_bytes),
        )

    def to_text(self) -> str:
        return " ".join(map(str, astuple(self)))

    @classmethod
    def from_text(cls, text: str) -> ProgramLimits:
        """The inverse of `to_text`."""
        kinds = [type(value) for value in astuple(cls())]
        return cls(*(kind(word) for kind, word in zip(kinds, text.split(), strict=True)))
