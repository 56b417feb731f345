"""Things that the programs of these tests try: a call names one, and its answer goes back as text."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from urllib.parse import unquote

from agent.programs.agent_pipe import AgentPipe

LIBC = ctypes.CDLL(None, use_errno=True)
TRIED: dict[str, Callable[..., object]] = {}
WIRES: list[AgentPipe] = []


def tried(attempt: Callable[..., object]) -> Callable[..., object]:
    TRIED[attempt.__name__] = attempt
    return attempt


def make_runner(wire: AgentPipe) -> Callable[[bytes], None]:
    WIRES.append(wire)

    def run(call: bytes) -> None:
        name, *arguments = map(unquote, call.decode().split(" "))
        try:
            answer = str(TRIED[name](*arguments))
        except OSError as error:
            answer = type(error).__name__
        if answer:
            wire.write(answer.encode())

    return run


def checked(answer: int) -> int:
    """What the C library answers."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
