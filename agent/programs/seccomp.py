"""Assembles filters of system calls: programs of the classic Berkeley packet filter that the kernel runs at each call.

A filter sees `struct seccomp_data`: the call's number, the architecture and the six arguments, 64 bits each, of which
x86_64 and aarch64 put the lower half first. Conditions look at the lower half where the kernel takes an int.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
LOAD, RETURN = 0x20, 0x06
JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_ANY_BIT = 0x15, 0x35, 0x45
KILL, ALLOW, REFUSE = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
"""Verdicts on a call; REFUSE is combined with an error number."""
_X32_NUMBERS = 0x4000_0000
"""x86_64 has a second set of calls, under numbers from here on."""

Instruction = tuple[int, int, int, int]
"""Operation, how far to jump if true, if false, and a constant."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Holds if an argument is one of these."""

    argument: int
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Holds if an argument has none of these bits."""

    argument: int
    bits: int


@dataclass(frozen=True, slots=True)
class Null:
    """Holds if an argument is a null pointer."""

    argument: int


Condition = OneOf | Without | Null


@dataclass(frozen=True, slots=True)
class Filter:
    """Verdict on each call, by number. Calls not named are refused with EPERM."""

    architecture: int
    killed: Sequence[int]
    """Calls that end the process."""
    missing: Sequence[int]
    """Calls refused with ENOSYS, so that the C library falls back on others."""
    allowed: Sequence[int]
    allowed_if: Sequence[tuple[int, Sequence[Condition]]]
    """Calls allowed if all conditions hold; a number may come several times."""

    def assembled(self) -> bytes:
        """The filter as the kernel takes it."""
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in self.instructions())

    def instructions(self) -> list[Instruction]:
        program: list[Instruction] = [
            (LOAD, 0, 0, _ARCHITECTURE_AT),
            (JUMP_IF_EQUAL, 1, 0, self.architecture),
            (RETURN, 0, 0, KILL),
            (LOAD, 0, 0, _NUMBER_AT),
            (JUMP_IF_AT_LEAST, 0, 1, _X32_NUMBERS),
            (RETURN, 0, 0, KILL),
        ]
        for numbers, verdict in (
            (self.killed, KILL),
            (self.missing, REFUSE | errno.ENOSYS),
            (self.allowed, ALLOW),
        ):
            for number in numbers:
                program += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, verdict)]
        for number, conditions in self.allowed_if:
            program += _allow_if(number, conditions)
        return [*program, (RETURN, 0, 0, REFUSE | errno.EPERM)]


def _allow_if(number: int, conditions: Iterable[Condition]) -> list[Instruction]:
    """Allows a call if all conditions hold, else goes on behind itself. Built from its end, so that jumps are known."""
    block: list[Instruction] = [(RETURN, 0, 0, ALLOW)]
    for condition in reversed(list(conditions)):
        block = _check(condition, len(block)) + block
    return [(LOAD, 0, 0, _NUMBER_AT), (JUMP_IF_EQUAL, 0, len(block), number), *block]


def _check(condition: Condition, beyond: int) -> list[Instruction]:
    """Goes on right behind itself if the condition holds, else `beyond` instructions further."""
    lower = _ARGUMENTS_AT + 8 * condition.argument
    match condition:
        case OneOf(values=values):
            last = len(values) - 1
            tests = [
                (JUMP_IF_EQUAL, last - place, 0 if place < last else beyond, value)
                for place, value in enumerate(values)
            ]
            return [(LOAD, 0, 0, lower), *tests]
        case Without(bits=bits):
            return [(LOAD, 0, 0, lower), (JUMP_IF_ANY_BIT, beyond, 0, bits)]
        case Null():
            upper = lower + 4
            return [
                (LOAD, 0, 0, lower),
                (JUMP_IF_EQUAL, 0, beyond + 2, 0),
                (LOAD, 0, 0, upper),
                (JUMP_IF_EQUAL, 0, beyond, 0),
            ]
