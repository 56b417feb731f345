"""The root buffer: columnar, uncompressed, and lazy: raw blocks wait to be grouped together, groups wait to
be merged.
"""

import polars as pl

from cbt.layout import Layout

_BLOCK_ROWS = 2**16  # raw rows grouped at once: where keys repeat, four times fewer groups than of 7,000 rows
_BLOCK_BYTES = 2**24
_GROUPS_MAX = 16  # few keys make small groups, whose number has to be bounded too


class RootBuffer:
    """Takes raw frames in O(1), and yields their PAOs merged."""

    def __init__(self, layout: Layout, block_rows_max: int) -> None:
        self._layout = layout
        self._block_rows = min(_BLOCK_ROWS, block_rows_max)
        self.clear()

    def clear(self) -> None:
        self.replace(self._layout.empty())

    def replace(self, merged: pl.DataFrame) -> None:
        """Forgets everything and holds a merged frame instead."""
        self._merged = merged
        self._groups: list[pl.DataFrame] = []
        self._raw: list[pl.DataFrame] = []
        self._raw_rows = self._raw_bytes = 0

    @property
    def rows(self) -> int:
        """PAOs held, merged or not; raw rows do not count."""
        return self._merged.height + sum(group.height for group in self._groups)

    @property
    def memory_bytes(self) -> int:
        frames = [self._merged, *self._groups]
        return self._raw_bytes + sum(int(frame.estimated_size()) for frame in frames)

    def append(self, frame: pl.DataFrame) -> None:
        """Adds a raw frame that the layout has checked. Amortised O(n) for n rows."""
        self._raw.append(frame.select(self._layout.input_columns))
        self._raw_rows += frame.height
        self._raw_bytes += int(self._raw[-1].estimated_size())
        if self._raw_rows >= self._block_rows or self._raw_bytes >= _BLOCK_BYTES:
            self._group()
        if len(self._groups) >= _GROUPS_MAX:
            self.merged()

    def merged(self) -> pl.DataFrame:
        """All PAOs held, sorted and aggregated; they stay. O(n log n) if anything was added since the last
        call, else O(1).
        """
        self._group()
        if self._groups:
            self._merged = self._layout.combine([self._merged, *self._groups])
            self._groups = []
        return self._merged

    def _group(self) -> None:
        by_schema: dict[tuple[pl.DataType, ...], list[pl.DataFrame]] = {}
        for frame in self._raw:
            by_schema.setdefault(tuple(frame.dtypes), []).append(frame)
        self._groups += [self._layout.group(pl.concat(frames)) for frames in by_schema.values()]
        self._raw, self._raw_rows, self._raw_bytes = [], 0, 0
