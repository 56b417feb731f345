"""Gives the event loop's other tasks their turns between two pieces of long work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

TURNS_MIN = 4
TURNS_MAX = 64
"""Turns that all other tasks get between two pieces of work, by their length: a request, such as to stop a job,
takes a dozen of them. A turn without anything to do takes far less time than a piece of work."""
TURN_S = 0.001
"""Length of work that earns the others one more turn."""


class Turns:
    """The turns of one task, which works in pieces."""

    def __init__(self) -> None:
        self._worked_s = 0.0

    @contextmanager
    def piece(self) -> Iterator[None]:
        """Measures a piece of work."""
        began = time.perf_counter()
        yield
        self._worked_s = time.perf_counter() - began

    async def give_way(self) -> None:
        """Lets all other tasks have turns, the more the longer the last piece of work was."""
        turns = min(TURNS_MAX, max(TURNS_MIN, int(self._worked_s / TURN_S)))
        self._worked_s = 0.0
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
