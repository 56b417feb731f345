"""Types that parsers take and return, and the traits that every format declares in its row of the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import polars as pl

from agent.parsing.native import Clauses
from agent.parsing.record_reader import RecordReader
from agent.sources import Block

TIME = "@time"
COERCED = "@coerced"

NO_WATERMARK_MS = -(2**63)
"""Watermark that promises nothing: events of any time may still come."""


@dataclass(frozen=True, slots=True)
class Format:
    """The format of one file. `kind` is the name of a registered `LineFormat`.

    `time_field` names the column with the event's time; None: the time of arrival. `header` holds the names
    of the columns, for a format with open columns those seen so far; None: the file is empty.
    """

    kind: str
    time_field: str | None
    header: tuple[str, ...] | None = None

    @property
    def traits(self) -> LineFormat:
        return LINE_FORMATS[self.kind]

    @property
    def quotes_span_lines(self) -> bool:
        return self.traits.quotes_span_lines

    @property
    def has_header_line(self) -> bool:
        return self.traits.has_header_line

    @property
    def parsing_key(self) -> Format:
        """The format without the columns seen so far where they make no difference to its parser."""
        return replace(self, header=()) if self.traits.has_open_columns else self


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One row of the registry of formats: how files of a kind are told from others, described and read."""

    name: str
    parser: Callable[[Format, Sequence[SourceColumn]], Parser]
    """The parser of a file's blocks that reads only the given columns."""
    records: Callable[[Format], RecordReader]
    """The reader that takes a file's blocks apart for the archive."""
    evidence: Callable[[bytes], tuple[int, int]]
    """The numbers of lines in a sample that are events of this format and that are not."""
    recognise: Callable[[bytes, str, str | None], Format]
    """The format of the file with this sample, name and, if given, time field. Raises SourceError."""
    schema: Callable[[Format], tuple[dict[str, str], bool]]
    """The columns of a file with their types, and whether it may have others."""
    tier: int = 0
    """Rank in detection: within a tier the format with the most events wins; a later tier is tried if none fits."""
    quotes_span_lines: bool = False
    """Quoted fields may hold line breaks, so that a record may span lines."""
    has_header_line: bool = False
    """The first line names the columns, whose values are texts."""
    has_open_columns: bool = False
    """Any line may bring new columns; a file's header lists those seen so far."""
    passing_parser: Callable[[Format, Sequence[SourceColumn], Clauses], Parser] | None = None
    """A parser that may pass over events that fail the clauses; None: there is none."""
    fixed_time_field: str | None = None
    """The time field of every file of the format, whatever another is asked for."""


LINE_FORMATS: dict[str, LineFormat] = {}
"""Formats by name, in the order in which people see them listed; `agent.parsing.registry` fills it."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column that queries need.

    `path` leads to it through nested objects; a path of one part is a key as it stands. `type` is any,
    number, integer, string, boolean or timestamp. `name` is that of the parsed column.
    """

    name: str
    path: tuple[str, ...]
    type: str

    @property
    def field(self) -> str:
        """The path as one name, with dots."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Events of a block that fail the clauses of their parser: only their times are known (`@time`), and which columns
    have a value in any of them. They have no value that does not fit its use."""

    times: pl.DataFrame
    valued: frozenset[str]


class Abandoned(NamedTuple):
    """Lines of a block that were not decoded, and the time of the newest of those of them that were looked at."""

    lines: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """The events of one block as frames, and the number of lines or records that are none.

    Every frame has `@time` (Int64, epoch milliseconds) and all needed columns, each of one physical type:
    String, Int64, Float64, Boolean, Datetime("ms", "UTC") or Null. A column that mixes types splits the
    block's events over several frames. `@coerced` (UInt32, values of the event that did not fit their use)
    is there when not all zero.

    `watermark_ms` is set by readers of several files: no file still holds earlier events, as far as their order tells
    (NO_WATERMARK_MS: unknown). None: the watermark is the newest event's time. `passed_over`: events that are in no
    frame. `abandoned`: lines that were not decoded, as their events would be late.
    """

    frames: tuple[pl.DataFrame, ...]
    malformed: int
    watermark_ms: int | None = None
    passed_over: PassedOver | None = None
    abandoned: Abandoned | None = None

    @property
    def all_frames(self) -> tuple[pl.DataFrame, ...]:
        """The frames and, last, the times of events that were passed over."""
        return self.frames if self.passed_over is None else (*self.frames, self.passed_over.times)


class Parser(Protocol):
    """Parses the blocks of one file, in any order."""

    def parse(self, block: Block, arrival_ms: int) -> Parsed:
        """The events of a block; `arrival_ms` is their time when the format has no time field."""
        ...
