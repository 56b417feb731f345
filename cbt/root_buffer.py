"""The root buffer: raw rows as they came, columnar and uncompressed, until there are enough to sort them together."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from cbt.batch import Batch, lift
from cbt.fragment import Panes
from cbt.layout import Layout

_BLOCK_ROWS = 2**19  # sorted at once; of more, the sort does not fit the processor's cache


class RootBuffer:
    """Takes raw frames in O(1), and yields them lifted and sorted, pane by pane."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.clear()

    def clear(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self.rows = self.memory_bytes = 0

    def append(self, frame: pl.DataFrame) -> None:
        """Adds a raw frame that the layout has checked."""
        if not frame.height:
            return
        self._frames.append(frame.select(self._layout.input_columns))
        self.rows += frame.height
        self.memory_bytes += int(self._frames[-1].estimated_size())

    def forget(self, panes: Panes) -> None:
        """Drops the rows of some panes. O(rows)."""
        frames = self._frames
        self.clear()
        for frame in frames:
            self.append(frame.filter(~pl.col("pane").is_between(*panes)))

    def lifted(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """The PAO frame of some panes, if they have rows; the buffer stays. O(n log n)."""
        frames = [frame.filter(pl.col("pane").is_between(*panes)) for frame in self._frames]
        groups = [self._layout.group(block) for block in _blocks(frames) if block.height]
        if groups:
            yield self._layout.combine(groups)

    def drain(self) -> Iterator[list[Batch]]:
        """Everything, as batches of PAOs, block by block; the buffer is empty then. O(n log n)."""
        frames = self._frames
        self.clear()
        for block in _blocks(frames):
            yield lift(self._layout, block)


def _blocks(frames: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    by_schema: dict[tuple[pl.DataType, ...], list[pl.DataFrame]] = {}
    for frame in frames:
        by_schema.setdefault(tuple(frame.dtypes), []).append(frame)
    for alike in by_schema.values():
        yield from pl.concat(alike, rechunk=True).iter_slices(_BLOCK_ROWS)
