"""What readers of whole streams hand out: blocks, each with its file and with how to read it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from agent.sources.blocks import Block


class Form(Protocol):
    """What readers have to know of a file's format; see `agent.parsing.Format`."""

    @property
    def quotes_span_lines(self) -> bool: ...
    @property
    def has_header_line(self) -> bool: ...
    @property
    def time_field(self) -> str | None: ...
    @property
    def header(self) -> tuple[str, ...] | None: ...


F = TypeVar("F", bound=Form)
Recognise = Callable[[bytes, str], F]
"""The format of the file of that name, from its first lines; raises SourceError where it fits none."""


@dataclass(slots=True, eq=False)
class LogFile:
    """A file of a stream. `reached_ms` is for those who parse it: the time of its newest event so far."""

    path: str
    reached_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FileBlock(Generic[F]):
    """A block, whose it is, and how it is to be parsed."""

    file: LogFile
    block: Block
    form: F


@dataclass(frozen=True, slots=True)
class ReaderStatistics:
    """What a reader has done so far; `files` and `unreadable` are those of now.

    `truncated` counts files cut off under their reader, `broken` reads that failed and compressed files that ended
    too soon.
    """

    files: int = 0
    unreadable: int = 0
    bytes_read: int = 0
    truncated: int = 0
    broken: int = 0


class StreamReader(Protocol[F]):
    """Reads all files of a stream, a bounded amount at a time. Blocks on files, so it wants a thread.

    `at_end`: by the last `poll` everything had been handed out that was there when it began.
    """

    @property
    def at_end(self) -> bool: ...

    def behind(self) -> Sequence[LogFile]:
        """The files that hold more."""
        ...

    def poll(self, now: float) -> list[FileBlock[F]]:
        """The next pieces, if there are any. `now`: seconds, monotonic."""
        ...

    def is_quiet(self, now: float) -> bool:
        """Whether it is certain that `poll` would find nothing. Does not block."""
        ...

    def faults(self) -> list[str]:
        """What cannot be read, and why: lines said once, drained."""
        ...

    def statistics(self) -> ReaderStatistics: ...

    def close(self) -> None:
        """Lets go of all files."""
        ...
