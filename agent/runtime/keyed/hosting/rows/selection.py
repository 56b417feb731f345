"""Chooses rows of frames that are often small."""

from __future__ import annotations

import numpy as np
import polars as pl

from agent.runtime.keyed.elements.runtime import NODE, SEQ, SOURCE
from agent.runtime.keyed.hosting.options import Bools
from agent.runtime.keyed.logical_nodes import NODES

Events = list[tuple[str, pl.DataFrame]]
"""Rows that elements have emitted, with the names of their types."""


def where(rows: pl.DataFrame, chosen: Bools) -> pl.DataFrame:
    """The rows for which this is true; the same frame where it is so for all. O(rows)."""
    if chosen.all():
        return rows
    places = np.flatnonzero(chosen)
    return rows[places] if len(places) else rows.clear()


def of_nodes(emitted: pl.DataFrame, nodes: Bools) -> pl.DataFrame:
    """The rows that elements of some logical nodes have emitted: a row's channel has its node. O(rows)."""
    return where(emitted, nodes[emitted[SOURCE].to_numpy() % NODES])


def events_of(events: Events, nodes: Bools) -> Events:
    """The events of some logical nodes, by type; types that have none are left out."""
    return [(name, rows) for name, emitted in events if (rows := of_nodes(emitted, nodes)).height]


def together(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Puts frames into one. Events for elements without keys, which have no node, are there once: what becomes of them
    is numbered by its place among that of the same event. O(rows)."""
    rows = pl.concat(frames, rechunk=True)
    if NODE in rows.columns or not _may_repeat(frames):
        return rows
    return rows.unique([SOURCE, SEQ], keep="first", maintain_order=True)


def _may_repeat(frames: list[pl.DataFrame]) -> bool:
    """Whether an event may be in two frames: its channel and its number are within those of the frames before."""
    first = [frames[0][name] for name in (SOURCE, SEQ)]
    lows, highs = [_least(one) for one in first], [_most(one) for one in first]
    for frame in frames[1:]:
        columns = [frame[name] for name in (SOURCE, SEQ)]
        ends = list(zip(map(_least, columns), map(_most, columns), strict=True))
        if all(least <= highs[at] and lows[at] <= most for at, (least, most) in enumerate(ends)):
            return True
        lows = [min(lows[at], least) for at, (least, _) in enumerate(ends)]
        highs = [max(highs[at], most) for at, (_, most) in enumerate(ends)]
    return False


def _least(column: pl.Series) -> int:
    return int(column.to_numpy().min(initial=2**63 - 1))


def _most(column: pl.Series) -> int:
    return int(column.to_numpy().max(initial=-(2**63)))
