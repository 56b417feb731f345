"""Types of a block that is taken apart into records: their places in the block and their events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.parsing.fields import Field
from agent.sources import Block

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_NEWLINE, _RETURN = b"\n\r"


@dataclass(frozen=True, slots=True)
class RecordSpans:
    """The offsets at which records begin and end in their block, in order, without line breaks at their ends."""

    starts: Ints
    ends: Ints

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a block, and its events: the record of each (`owners`), its time if usable, and its fields.

    `is_nothing` marks records that are not meant to be events: blank lines and headers. `is_complete`: `fields` holds
    all values of the events.
    """

    spans: RecordSpans
    is_nothing: Mask
    owners: Ints
    times: pl.Series
    fields: dict[str, Field]
    is_complete: bool


class RecordReader(Protocol):
    """Takes the blocks of one file apart."""

    def read(self, block: Block, arrival_ms: int) -> Records:
        """`arrival_ms`: the time of events that carry none."""
        ...


def line_spans(data: bytes) -> RecordSpans:
    """The lines of a block; after its last line break there is none."""
    newlines = np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE).astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), newlines + 1])
    ends = np.append(newlines, len(data))
    if starts[-1] == len(data):
        starts, ends = starts[:-1], ends[:-1]
    return RecordSpans(starts, ends)


def is_empty(data: bytes, spans: RecordSpans) -> Mask:
    """Marks lines with nothing before their line break."""
    lengths = spans.ends - spans.starts
    body = np.frombuffer(data, np.uint8)
    is_return = np.zeros(len(spans), np.bool_)
    single = (lengths == 1) & (spans.ends < len(data))
    is_return[single] = body[spans.starts[single]] == _RETURN
    is_return |= lengths == 0
    return is_return


def eventless(block: Block) -> Records:
    """A block all of whose lines are malformed."""
    spans = line_spans(block.data)
    times = pl.Series([], dtype=pl.Int64)
    return Records(spans, is_empty(block.data, spans), np.empty(0, np.int64), times, {}, is_complete=True)
