"""What the parsers are told and what they return."""

from dataclasses import dataclass
from typing import Protocol

import polars as pl

from agent.sources import Block

TIME = "@time"
COERCED = "@coerced"

NO_WATERMARK_MS = -(2**63)
"""Says that anything may still come."""

KINDS = ("json", "combined", "csv", "tsv")


@dataclass(frozen=True, slots=True)
class Format:
    """How one file is read: `kind` is json, combined, csv or tsv.

    `time_field` names the column with the event's time; None: the time of arrival. `header` holds the names
    of the columns, of JSON those that were seen; None: the file is empty.
    """

    kind: str
    time_field: str | None
    header: tuple[str, ...] | None = None


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
        """What it is called where nothing is nested."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The events of one block as frames, and how many lines or records were none.

    Every frame has `@time` (Int64, epoch milliseconds) and all needed columns, each of one physical type:
    String, Int64, Float64, Boolean, Datetime("ms", "UTC") or Null. A column that mixes types splits the
    block's events over several frames. `@coerced` (UInt32, values of the event that did not fit their use)
    is there when not all zero.

    `watermark_ms` is known to those who read many files side by side: no file still holds earlier events, as far as
    their order tells (NO_WATERMARK_MS: nobody knows). None: that is the newest event's time.
    """

    frames: tuple[pl.DataFrame, ...]
    malformed: int
    watermark_ms: int | None = None


class Parser(Protocol):
    """Parses the blocks of one file, in any order."""

    def parse(self, block: Block, arrival_ms: int) -> Parsed:
        """The events of a block; `arrival_ms` is their time when the format has no time field."""
        ...
