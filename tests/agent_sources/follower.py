"""A tail that remembers what it has read, with a clock of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.parsing import Format
from agent.sources.file.tail import TailReader
from agent.sources.reader import SourceBlock


def as_lines(head: bytes, file: str) -> Format:  # noqa: ARG001
    """Takes any file for text with a time, so that tests can write what they like."""
    return Format("json", "time", ("time",))


class Follower:
    """A tail with what it has handed out; every poll is a tenth of a second later."""

    def __init__(self, *patterns: str | Path, **options: Any) -> None:
        recognise = options.pop("recognise", as_lines)
        self.tail: TailReader[Format] = TailReader([str(pattern) for pattern in patterns], recognise, **options)
        self.now = 0.0
        self.pieces: list[SourceBlock[Format]] = []
        self.faults: list[str] = []

    def poll(self, times: int = 1, *, later: float = 0.1) -> bytes:
        """What so many polls hand out."""
        fresh: list[SourceBlock[Format]] = []
        for _ in range(times):
            self.now += later
            fresh += self.tail.poll(self.now)
        self.pieces += fresh
        self.faults += self.tail.faults()
        return b"".join(piece.block.data for piece in fresh)

    def poll_until_end(self) -> bytes:
        data = self.poll()
        for _ in range(10_000):
            if self.tail.at_end:
                return data
            data += self.poll()
        raise AssertionError("never at the end")

    @property
    def content(self) -> bytes:
        return b"".join(piece.block.data for piece in self.pieces)

    @property
    def overlong(self) -> int:
        return sum(piece.block.overlong for piece in self.pieces)
