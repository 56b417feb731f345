"""Turns blocks of one file into rows of the archive, one for each record, event or not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from agent.parsing import Format
from agent.parsing.columns import same_times
from agent.parsing.fields import Field
from agent.parsing.record_reader import Mask, Records, eventless
from agent.sources import Block


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """The file that rows come from: `file_id` tells it from all others of its agent, whatever their names."""

    stream: str
    agent: str
    path: str
    file_id: int
    format: Format


@dataclass(frozen=True, slots=True)
class ArchiveRows:
    """Consecutive records of a file, one row each.

    `times` holds the time of the record's event, of the first one if a line has several; other records have the time of
    the event before. `events` is the number of events in a record: 0 where it is malformed, NULL for blank lines and
    headers. Only records of exactly one event have values in `fields`. `first_ms` and `last_ms` span all times.
    `malformed` counts as agents do: lines that are no event, events without a usable time, and `overlong` lines, which
    have no rows.
    """

    file: FileOrigin
    begin: int
    end: int
    times: pl.Series
    offsets: pl.Series
    events: pl.Series
    lines: pl.Series
    fields: dict[str, Field]
    is_complete: bool
    first_ms: int
    last_ms: int
    malformed: int
    overlong: int
    bytes: int

    def __len__(self) -> int:
        return len(self.times)


class RowReader:
    """Reads the blocks of one file, in order. Equal blocks of equal files become equal rows.

    `before_ms` is the time of the last event read, or before the first block, if known. `fault` says why the last block
    could not be taken apart, if it could not; all of its lines then count as malformed.
    """

    def __init__(self, file: FileOrigin, before_ms: int | None = None) -> None:
        self.file = replace(file, format=file.format.parsing_key)
        self.before_ms = before_ms
        self.fault: str | None = None
        self._records = file.format.traits.records(file.format)

    def read(self, block: Block, arrival_ms: int) -> ArchiveRows | None:
        """The rows of a block; None if it has no line. `arrival_ms`: the time of events that carry none."""
        self.fault = None
        if not block.data:
            return None
        try:
            found = self._records.read(block, arrival_ms)
        except (Exception, pl.exceptions.PanicException) as error:  # a row is due for each line, whatever is in it
            found, self.fault = eventless(block), f"lines cannot be parsed: {error!r}"[:500]
        rows = _rows(self.file, block, found, self.before_ms, arrival_ms)
        self.before_ms = rows.times[-1]
        return rows


def _rows(file: FileOrigin, block: Block, found: Records, before_ms: int | None, arrival_ms: int) -> ArchiveRows:
    count = len(found.spans)
    is_usable = found.times.is_not_null().to_numpy()
    totals = np.bincount(found.owners, minlength=count)
    usable = np.bincount(found.owners[is_usable], minlength=count)
    data, spans = block.data, found.spans
    times = _row_times(found, is_usable, before_ms, arrival_ms)
    lines = [data[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
    every_time = pl.concat([times, found.times.drop_nulls()])
    return ArchiveRows(
        file=file,
        begin=block.origin.offset,
        end=block.origin.offset + len(data),
        times=times,
        offsets=pl.Series((spans.starts + block.origin.offset).astype(np.uint64)),
        events=pl.Series(usable.astype(np.int32)).set(pl.Series(found.is_nothing), None),
        lines=pl.Series(lines, dtype=pl.Binary),
        fields=_row_fields(found, (totals == 1) & (usable == 1)),
        is_complete=found.is_complete and bool((totals <= 1).all()),
        first_ms=every_time.min(),  # type: ignore[arg-type]
        last_ms=every_time.max(),  # type: ignore[arg-type]
        malformed=int((~is_usable).sum()) + int(((totals == 0) & ~found.is_nothing).sum()) + block.overlong,
        overlong=block.overlong,
        bytes=len(data),
    )


def _row_times(found: Records, is_usable: Mask, before_ms: int | None, arrival_ms: int) -> pl.Series:
    """The time of each record: its own, else that of the event before, else that of the first event after."""
    firsts, at = np.unique(found.owners[is_usable], return_index=True)
    if not len(firsts):
        return same_times(arrival_ms if before_ms is None else before_ms, len(found.spans))
    times = found.times.drop_nulls().to_numpy()[at]
    nearest = np.searchsorted(firsts, np.arange(len(found.spans)), "right") - 1
    own = times[np.maximum(nearest, 0)]
    if before_ms is not None:
        own = np.where(nearest < 0, before_ms, own)
    return pl.Series(own)


def _row_fields(found: Records, is_one: Mask) -> dict[str, Field]:
    """The fields of the event that a record is, where it is one."""
    if len(found.owners) == len(is_one) and is_one.all() and (np.diff(found.owners) > 0).all():
        return found.fields
    event = np.zeros(len(is_one), np.int64)
    event[found.owners] = np.arange(len(found.owners))
    rows = pl.Series(event).set(pl.Series(~is_one), None)
    return {name: field.gather(rows) for name, field in found.fields.items()}
