"""Leaves on disk: a leaf's rows in a file, and later rows as fragments, as in an inner node's buffer."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from cbt.layout.layout import Layout
from cbt.tree.fragment import Bound, Fragment, unpacked
from cbt.tree.leaf import Leaf
from cbt.tree.spill_files import SpillFile, SpillFiles

_LATE_SHARE = 4  # late rows that make the leaf due for merging, as a share of its rows
_PIECES_MAX = 32


class _Run(NamedTuple):
    file: SpillFile
    rows: int
    raw_bytes: int

    @classmethod
    def written(cls, fragment: Fragment, files: SpillFiles) -> _Run:
        return cls(files.write(fragment.data), fragment.rows, fragment.raw_bytes)


class SpilledLeaf:
    """A leaf whose rows are in a file; late rows wait in memory until they are written to files of their own. Raises
    SpillError if the leaf cannot be written.
    """

    __slots__ = ("_late", "_layout", "_runs", "low", "pane")

    def __init__(self, layout: Layout, leaf: Leaf, files: SpillFiles) -> None:
        self.low, self.pane = leaf.low, leaf.pane
        self._layout = layout
        self._runs = [_Run.written(Fragment.pack(leaf.frame()), files)]
        self._late: list[Fragment] = []

    def __len__(self) -> int:
        """The rows of all its pieces; a key may be in several."""
        return sum(run.rows for run in self._runs) + sum(fragment.rows for fragment in self._late)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return sum(len(fragment.data) for fragment in self._late)

    @property
    def raw_bytes(self) -> int:
        """Bytes in memory, as they would be uncompressed."""
        return sum(fragment.raw_bytes for fragment in self._late)

    @property
    def disk_bytes(self) -> int:
        return sum(run.file.nbytes for run in self._runs)

    def add(self, frame: pl.DataFrame) -> None:
        """Adds PAOs of the leaf's range. O(bytes)."""
        self._late.append(Fragment.pack(frame))

    def due_for_merge(self, rows_min: int, bytes_min: int) -> bool:
        """Whether the late rows are a fair share of the leaf and more than `rows_min` or `bytes_min`, or in many
        pieces."""
        first, *others = self._runs
        late_bytes = self.raw_bytes + sum(run.raw_bytes for run in others)
        return (
            len(self) - first.rows > max(rows_min, first.rows // _LATE_SHARE)
            or late_bytes > max(bytes_min, first.raw_bytes // _LATE_SHARE)
            or len(others) + len(self._late) > _PIECES_MAX
        )

    def write_late(self, files: SpillFiles) -> None:
        """Moves late rows to a file. O(bytes moved). Raises SpillError, and then everything stays where it is."""
        fragment = self._late[0]
        if len(self._late) > 1:
            fragment = Fragment.pack(pl.concat(late.unpack(self._layout.schema) for late in self._late))
        self._runs.append(_Run.written(fragment, files))
        self._late = []

    def read(self) -> pl.DataFrame:
        """The rows of all pieces, unmerged. O(bytes). Raises SpillError if a file cannot be read."""
        schema = self._layout.schema
        runs = [unpacked(run.file.read(), schema) for run in self._runs]
        return pl.concat([*runs, *(fragment.unpack(schema) for fragment in self._late)])

    def frame(self) -> pl.DataFrame:
        """All PAOs, in order. O(bytes), and O(n log n) if rows came late. Raises SpillError as `read` does."""
        is_whole = len(self._runs) == 1 and not self._late
        return self.read() if is_whole else self._layout.merge([self.read()])

    def check(self, low: Bound, high: Bound) -> None:
        """Asserts the invariants of a leaf on disk."""
        frame = self.frame()
        assert 0 < frame.height <= len(self)
        assert frame.schema == self._layout.schema
        assert set(frame["pane"]) == {self.pane}
        assert self._layout.merge([frame]).equals(frame), "a leaf is sorted and aggregated"
        assert low <= (self.pane, frame["hash"][0]) <= (self.pane, frame["hash"][-1]) < high, "keys lie in their range"
