"""The root buffer: raw rows, columnar and uncompressed, until there are enough to sort together."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future

import polars as pl

from cbt.layout.layout import Layout
from cbt.tree.batch import RowBatch, lift
from cbt.tree.fragment import Panes

_BLOCK_ROWS = 2**19  # rows sorted at once; a larger sort does not fit the processor's cache


class RootBuffer:
    """Takes raw frames in O(1), and yields them lifted and sorted, pane by pane.

    With an `executor` its last block is lifted there, while earlier rows go down the tree, as the two alternating
    buffers of the paper's root do.
    """

    def __init__(self, layout: Layout, executor: Executor | None = None) -> None:
        self._layout, self._executor = layout, executor
        self.clear()

    def clear(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._ahead: tuple[Future[list[RowBatch]], int, int] | None = None
        self.rows = self._bytes = 0

    @property
    def memory_bytes(self) -> int:
        return self._bytes + (self._ahead[2] if self._ahead else 0)

    @property
    def rows_ahead(self) -> int:
        """Rows of the block that is being lifted, which `rows` does not count."""
        return self._ahead[1] if self._ahead else 0

    def append(self, frame: pl.DataFrame) -> None:
        """Adds a raw frame that the layout has checked."""
        if not frame.height:
            return
        self._frames.append(frame.select(self._layout.input_columns))
        self.rows += frame.height
        self._bytes += int(self._frames[-1].estimated_size())

    def forget(self, panes: Panes) -> None:
        """Drops the rows of some panes; no block is being lifted. O(rows)."""
        frames = self._take()
        for frame in frames:
            self.append(frame.filter(~pl.col("pane").is_between(*panes)))

    def lifted(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """The PAO frame of some panes, if they have rows; the buffer stays. No block is being lifted. O(n log n)."""
        frames = [frame.filter(pl.col("pane").is_between(*panes)) for frame in self._frames]
        groups = [self._layout.group(block) for block in _blocks(frames) if block.height]
        if groups:
            yield self._layout.combine(groups)

    def drain(self) -> Iterator[list[RowBatch]]:
        """All rows but those of the block that is lifted next, as batches of PAOs, block by block. O(n log n)."""
        for block in _blocks(self._take()):
            if self._executor is None:
                yield lift(self._layout, block)
                continue
            lifting = self._executor.submit(lift, self._layout, block)
            before, self._ahead = self._ahead, (lifting, block.height, int(block.estimated_size()))
            if before:
                yield before[0].result()

    def drain_ahead(self) -> Iterator[list[RowBatch]]:
        """The block that is being lifted, if there is one."""
        before, self._ahead = self._ahead, None
        if before:
            yield before[0].result()

    def _take(self) -> list[pl.DataFrame]:
        frames, self._frames = self._frames, []
        self.rows = self._bytes = 0
        return frames


def _blocks(frames: list[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    by_schema: dict[tuple[pl.DataType, ...], list[pl.DataFrame]] = {}
    for frame in frames:
        by_schema.setdefault(tuple(frame.dtypes), []).append(frame)
    for alike in by_schema.values():
        yield from pl.concat(alike, rechunk=True).iter_slices(_BLOCK_ROWS)
