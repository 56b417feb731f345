"""Frames cut so that all rows of a group are in one frame, as compacting and lowering sketches requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from cbt.aggregates.item_rows import upper_halves
from cbt.algebra.key_index import Rows
from cbt.layout.layout import Layout


def whole_groups(layout: Layout, frames: Iterable[pl.DataFrame], rows_max: int) -> Iterator[pl.DataFrame]:
    """The rows of ordered frames, themselves in order, in frames of whole groups, compacted. O(n log n).

    Frames have at most `rows_max` rows before they are compacted, unless a group, or some whose hashes begin alike,
    have more. One frame and one group are held at a time.

    >>> from cbt import Aggregate, Key
    >>> layout = Layout([Key("path", "string")], [Aggregate("users", "count_distinct", "user", "integer")])
    >>> events = pl.DataFrame({"pane": [0] * 6, "path": ["/a", "/b"] * 3, "user": range(6)})
    >>> pieces = layout.lift(events).iter_slices(3)
    >>> [frame.height for frame in whole_groups(layout, pieces, rows_max=4)]
    [4, 4]
    """
    held: list[pl.DataFrame] = []  # the first rows of a group that may go on
    for frame in frames:
        begins = _begins(frame, held[-1] if held else None)
        if not len(begins):
            held.append(frame)
            continue
        rows = pl.concat([*held, frame])
        for start, end in _cuts(begins + (rows.height - frame.height), rows_max):
            yield layout.compact(rows.slice(start, end - start))
        held = [frame.slice(int(begins[-1]))]
    if held:
        yield layout.compact(pl.concat(held))


def _begins(frame: pl.DataFrame, before: pl.DataFrame | None) -> Rows:
    """The rows of a frame whose group differs from the row before."""
    panes, halves = frame["pane"].to_numpy(), upper_halves(frame)
    begins = np.ones(len(panes), dtype=bool)
    np.logical_or(panes[1:] != panes[:-1], halves[1:] != halves[:-1], out=begins[1:])
    if before is not None and len(panes):
        begins[0] = (panes[0], halves[0]) != (before["pane"][-1], upper_halves(before.tail(1))[0])
    return np.flatnonzero(begins)


def _cuts(begins: Rows, rows_max: int) -> Iterator[tuple[int, int]]:
    """Ranges from 0 to the last of `begins` that end there, of at most `rows_max` rows if groups allow it."""
    cuts = [0]
    last = int(begins[-1])
    while cuts[-1] < last:
        within = int(np.searchsorted(begins, cuts[-1] + rows_max, side="right")) - 1
        cut = int(begins[within]) if within >= 0 else 0
        cuts.append(cut if cut > cuts[-1] else int(begins[np.searchsorted(begins, cuts[-1], side="right")]))
    yield from pairwise(cuts)
