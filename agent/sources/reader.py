"""Protocols between sources and feeds: a source opens readers, and a feed polls a reader for blocks.

A reader returns what it has when it is polled, so a source that is sent its lines buffers them, bounded, until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from agent.sources.blocks import Block

ReadFrom = Literal["end", "beginning"]
StreamClock = Literal["wall", "events"]


class Form(Protocol):
    """The traits of a format that readers depend on; see `agent.parsing.Format`."""

    @property
    def time_field(self) -> str | None: ...
    @property
    def header(self) -> tuple[str, ...] | None: ...
    @property
    def quotes_span_lines(self) -> bool: ...
    @property
    def has_header_line(self) -> bool: ...


F = TypeVar("F", bound=Form)
Recognise = Callable[[bytes, str], F]
"""Tells the format of a part from its first lines and its name; raises SourceError where it fits none."""


@dataclass(slots=True, eq=False)
class SourcePart:
    """A part of a source that keeps its own order: a file, or a sender. `path` names it.

    The parser of its lines sets `reached_ms`, the time of its newest event so far.
    """

    path: str
    reached_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SourceBlock(Generic[F]):
    """A block with the part it comes from and the format it is in."""

    part: SourcePart
    block: Block
    form: F


@dataclass(frozen=True, slots=True)
class ReaderStatistics:
    """Totals of a reader; `files` and `unreadable` are numbers at the moment.

    `truncated` counts files cut off under their reader, `broken` reads that failed and compressed files that ended
    too soon, `gone` files of an earlier reading whose rest cannot be read, `missed` files that could not be opened
    before they lost their name, and `losses` all times at which lines are known to have been lost.
    """

    files: int = 0
    unreadable: int = 0
    bytes_read: int = 0
    truncated: int = 0
    broken: int = 0
    gone: int = 0
    missed: int = 0
    losses: int = 0


class StreamReader(Protocol[F]):
    """Reads all parts of a source, a bounded amount at a time. Blocks, so it runs in a thread.

    `at_end`: the last `poll` brought the last of what was there when it began.
    """

    @property
    def at_end(self) -> bool: ...

    def behind(self) -> Sequence[SourcePart]:
        """The parts that hold more."""
        ...

    def poll(self, now: float) -> list[SourceBlock[F]]:
        """The next blocks, if there are any. `now`: seconds, monotonic."""
        ...

    def is_quiet(self, now: float) -> bool:
        """Whether `poll` would certainly find nothing. Does not block."""
        ...

    def faults(self) -> list[str]:
        """Drains the lines that say what cannot be read and why; each fault is reported once."""
        ...

    def statistics(self) -> ReaderStatistics: ...

    def close(self) -> None:
        """Closes all files and connections."""
        ...


class EventSource(Protocol):
    """A configured source of a stream. Its methods block."""

    @property
    def locations(self) -> tuple[str, ...]:
        """Names of the places events come from, as `elf status` shows them."""
        ...

    def open(self, recognise: Recognise[F], *, bounded: bool, read_from: ReadFrom) -> StreamReader[F]:
        """Starts one reading: if bounded, of what there is now; else of what comes, and before it of what `read_from`
        includes.
        """
        ...

    def heads(self, count: int, bytes_max: int) -> Iterator[tuple[str, bytes]]:
        """The names and first lines of the parts that changed last, without parts that cannot be read."""
        ...
