"""Counts an archive's events and malformed lines by pane: from its log where that suffices, else with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from agent.archive.format.segments import EVENTS, TIME, Segment
from agent.runtime.model.panes import END, Counted, Counts, count_in
from elf.batch.table.layout import column
from elf.batch.table.overlaps import sharing_rows
from elf.batch.table.table import ArchiveTable, Range

if TYPE_CHECKING:
    from pyspark.sql import Column

    from elf.batch.table.stores import StoredSegment

PANE = "pane"


def pane_column(pane_ms: int | None) -> Column:
    """Spark column with the pane of a row's time."""
    time = column(TIME)
    return F.lit(0).cast("bigint") if pane_ms is None else time - F.pmod(time, F.lit(pane_ms).cast("bigint"))


def events_by_pane(groups: pl.DataFrame, events: str) -> Counted:
    """Sums of a column by pane; each group lies in one pane."""
    by_pane = groups.group_by(PANE).agg(pl.col(events).sum())
    return {pane: Counts(events=count) for pane, count in by_pane.iter_rows() if count}


def counted_of(table: ArchiveTable, wanted: Range, pane_ms: int | None, seen: Counted | None) -> Counted:
    """Counts of the rows in a range, each of which holds one event at most. `seen`: counts of the events, where known.

    Only segments that lie in several panes, or partly in the range, are read.
    """
    segments = table.segments(wanted)
    twice = sharing_rows(segments)
    counted: Counted = {} if seen is None else dict(seen)
    untold = []
    for one in segments:
        segment = one.segment
        is_told = segment.name not in twice and _is_within(segment, wanted)
        if is_told and (seen is not None or _is_in_one_pane(segment, pane_ms)):
            first = 0 if pane_ms is None else segment.from_ms // pane_ms * pane_ms
            count_in(counted, {END: Counts(malformed=segment.malformed)} if segment.malformed else {})
            count_in(counted, {first: Counts(events=segment.events)} if seen is None and segment.events else {})
        elif seen is None or segment.malformed:
            count_in(counted, {END: Counts(malformed=segment.overlong)} if segment.overlong else {})
            untold.append(one)
    if untold:
        count_in(counted, _read(table, untold, wanted, pane_ms, counts_events=seen is None))
    return counted


def _is_within(segment: Segment, wanted: Range) -> bool:
    since_ms, until_ms = wanted.since_ms, wanted.until_ms
    return (since_ms is None or segment.from_ms >= since_ms) and (until_ms is None or segment.to_ms < until_ms)


def _is_in_one_pane(segment: Segment, pane_ms: int | None) -> bool:
    return pane_ms is None or segment.from_ms // pane_ms == segment.to_ms // pane_ms


def _read(
    table: ArchiveTable, segments: Sequence[StoredSegment], wanted: Range, pane_ms: int | None, *, counts_events: bool
) -> Counted:
    rows = table.scan_segments(segments, wanted, [TIME, EVENTS])
    events = column(EVENTS)
    by_pane = rows.groupBy(pane_column(pane_ms).alias(PANE)).agg(F.count_if(events == 1), F.count_if(events == 0))
    counted: Counted = {}
    for pane, good, malformed in by_pane.collect():
        count_in(counted, {END: Counts(malformed=malformed)} if malformed else {})
        count_in(counted, {pane: Counts(events=good)} if counts_events and good else {})
    return counted
