"""Commands of the core to programs, events of programs to the core, and limits of programs.

A program is one process with the code of one job. The core chooses its key, which identifies the program until the core
ends it or is told that it ended.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StartProgram:
    """Start a program. `name` is for logs."""

    key: int
    name: str


@dataclass(frozen=True, slots=True)
class TellProgram:
    """Hand `data` to a program: a call, or (`is_call` False) the answer it waits for in the middle of one."""

    key: int
    data: bytes
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class EndProgram:
    """End a program at once. Nothing more is told of it."""

    key: int


ProgramCommand = StartProgram | TellProgram | EndProgram


@dataclass(frozen=True, slots=True)
class ProgramSaid:
    """A frame that a program sent during a call; never empty."""

    key: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """The last that is told of a program, unless it was ended by order.

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
    """From the order to a contained process that can be called, by the wall clock."""
    call_s: float = 10.0
    """For one call, by the wall clock, with what it waits for."""
    cpu_s: float = 30.0
    """CPU time in any `cpu_window_s`."""
    cpu_window_s: float = 60.0
    open_files: int = 32
    """File descriptors, five of which every program has."""
    frame_bytes: int = 8 * MIB
    """Each thing that a program is told, or says."""
    frames_in_call: int = 10_000
    """Upper bound on frames a program sends during one call."""
    bytes_in_call: int = 64 * MIB
    """Upper bound on bytes a program sends during one call."""
    unsent_bytes: int = 16 * MIB
    """Upper bound on bytes that wait until the program reads them."""
    stderr_bytes: int = 64 << 10
    """Length of the end of a program's output that is kept."""
    nice: int = 10
    """Programs stand back behind the agent and what else runs on the machine."""
    programs: int = 64
    """Programs of one agent; a further one is not started."""

    def to_text(self) -> str:
        return " ".join(map(str, astuple(self)))

    @classmethod
    def from_text(cls, text: str) -> ProgramLimits:
        """The inverse of `to_text`."""
        kinds = [type(value) for value in astuple(cls())]
        return cls(*(kind(word) for kind, word in zip(kinds, text.split(), strict=True)))
