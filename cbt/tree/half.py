"""A half of a tree, by the hash of keys, or the whole of one: its root table and the nodes below.

Two halves share nothing, so that two threads can work on them at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import polars as pl

from cbt.layout.layout import Layout
from cbt.tree.batch import RowBatch, lift
from cbt.tree.fragment import EVERY_PANE, Panes
from cbt.tree.interior import Interior
from cbt.tree.root_table import RootTable

WHOLE, LOWER, UPPER = range(3)
"""Numbers of halves: of a tree that is not divided, and of one that is."""
_MIDDLE = np.uint64(2**63)
_GROUPS_MIN, _GROUPS_MAX = 2**16, 2**18
"""Bounds on the groups that a full root table has, if it may have that many."""
_GROUPS_STEP = 2**14  # by which a table follows what is below it
_ROWS_OF_GROUP_MIN = 1.25  # of a table that is worth its size
_ROOT_SHARE = 32  # keys below a root for each group that it may have, whatever rows find in it


class Half:
    """The rows of one half; without a `table`, only those that come as batches."""

    def __init__(
        self, layout: Layout, number: int, table: RootTable | None, new_interior: Callable[[], Interior]
    ) -> None:  # fmt: skip
        self.number, self.table = number, table
        self._layout, self._new_interior = layout, new_interior
        self._buffer_rows = table.entries_max if table is not None else 0
        self.clear()

    def clear(self) -> None:
        """Forgets everything."""
        self.interior = self._new_interior()
        if self.table is not None:
            self.table.clear()
        self._groups_max = _GROUPS_MIN

    def insert(self, frame: pl.DataFrame) -> pl.DataFrame | None:
        """Takes the half's rows of a frame. Returns the rows from the first on that have to go another way, if any."""
        assert self.table is not None
        share = self.interior.stored_rows // _ROOT_SHARE // _GROUPS_STEP * _GROUPS_STEP
        groups_max = max(self._groups_max, min(_GROUPS_MAX, share))
        self.table.entries_max = min(self._buffer_rows, groups_max)
        for part in self.table.insert(frame):
            if isinstance(part, pl.DataFrame):
                return part
            self._judge()
            self.interior.add(part)
        return None

    def insert_all(self, frame: pl.DataFrame) -> None:
        """`insert`, by the other way as well."""
        rest = self.insert(frame)
        if rest is not None:
            self.add(lift(self._layout, rest))

    def takes(self, frame: pl.DataFrame) -> bool:
        """Whether the table takes the rows of such a frame, but for rare values."""
        schema = dict(zip(frame.columns, frame.dtypes, strict=True))
        return self.table is not None and self.table.additions(schema) is not None

    def add(self, batches: Iterable[RowBatch]) -> None:
        """Adds the half's part of batches."""
        own = [part for batch in batches if len(part := self._own(batch))]
        if own:
            self.interior.add(own)

    def drain(self) -> None:
        """Moves the root table's groups to the nodes."""
        if self.table is not None and self.table.groups:
            self.interior.add(self.table.drain())

    def forget(self, panes: Panes) -> None:
        """Drops the rows of some panes."""
        if panes == EVERY_PANE:
            self.clear()
            return
        if self.table is not None:
            self.table.forget(panes)
        self.interior.forget(panes)

    def frames(self, panes: Panes) -> Iterator[pl.DataFrame]:
        """The PAOs of some panes in the table."""
        return iter(()) if self.table is None else self.table.frames(panes)

    @property
    def groups(self) -> int:
        """The number of PAOs in the table."""
        return 0 if self.table is None else self.table.groups

    @property
    def nbytes(self) -> int:
        """Bytes in memory. O(nodes)."""
        return self.interior.root.nbytes + (0 if self.table is None else self.table.memory_bytes)

    def check(self) -> None:
        """Asserts every invariant."""
        self.interior.check()
        if self.table is not None:
            assert self.table.groups < max(1, self._buffer_rows), "the root's table is not full"
        for leaf in self.interior.root.leaves():
            upper = leaf.frame()["hash"].to_numpy() >= _MIDDLE
            assert self.number == WHOLE or (upper == (self.number == UPPER)).all(), "hashes are in their half"

    def _own(self, batch: RowBatch) -> RowBatch:
        if self.number == WHOLE:
            return batch
        middle = int(np.searchsorted(batch.hashes, _MIDDLE))
        return batch.part(0, middle) if self.number == LOWER else batch.part(middle, len(batch))

    def _judge(self) -> None:
        """Decides, of a table that was full, how large the next one may be."""
        assert self.table is not None
        is_worth_it = self.table.rows_of_group >= _ROWS_OF_GROUP_MIN
        self._groups_max = min(_GROUPS_MAX, 2 * self._groups_max) if is_worth_it else _GROUPS_MIN
