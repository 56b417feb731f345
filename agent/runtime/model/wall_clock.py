"""The wall clock as the shell around an agent's core last told it."""

from __future__ import annotations


class WallClock:
    """`ms` is epoch milliseconds; the core sets it before each step."""

    def __init__(self) -> None:
        self.ms = 0
