"""What an agent's core has its shell do with programs, and what it is told of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StartProgram:
    """Starts a process under a key of the core's choice; `name` is for people."""

    key: int
    name: str


@dataclass(frozen=True, slots=True)
class TellProgram:
    """Sends a frame. `is_call`: the program is to be done with it within the time that a call may take."""

    key: int
    data: bytes
    is_call: bool = True


@dataclass(frozen=True, slots=True)
class EndProgram:
    """Ends a process; nothing more is told of it."""

    key: int


@dataclass(frozen=True, slots=True)
class ProgramSaid:
    """A program has sent a frame."""

    key: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """A process has ended, or could not be started; why, in one line."""

    key: int
    reason: str


Order = StartProgram | TellProgram | EndProgram
