"""The states of PAOs: arrays that NumPy merges in place, and frames for all other states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import polars as pl
from polars.dataframe.group_by import GroupBy

from cbt.aggregates.extremes import extreme
from cbt.aggregates.user_code import attempt
from cbt.algebra.kernel_index import KernelIndex
from cbt.algebra.key_index import Rows
from cbt.algebra.pao import StateAlgebra
from cbt.layout.state_arrays import ArrayColumn, Arrays, ArrayStore, ExtremeColumn, SumColumn

_MERGED_ROWS_MIN = 1024


class StateColumns:
    """The state columns of a layout, how each merges, and those that are `arrays`.

    All other columns are in a frame beside the arrays. A column without a value in any row may be missing from it, and
    with no column left there is no frame.
    """

    def __init__(self, paos: Sequence[StateAlgebra]) -> None:
        self.types = {name: dtype for pao in paos for name, dtype in pao.state.items()}
        self._paos = paos
        merging = [expression for pao in paos for expression in pao.combine()]
        self._merging = dict(zip(self.types, merging, strict=True))
        looked_at = {root for name, one in self._merging.items() for root in one.meta.root_names() if root != name}
        columns = [_array_column(name, self.types[name], one) for name, one in self._merging.items()]
        self.arrays = {column.name: column for column in columns if column and column.name not in looked_at}
        self.parts = {
            part: merging
            for column in self.arrays.values()
            for part, merging in zip(column.parts, column.merging, strict=True)
        }
        """The parts of all arrays, and how the kernel merges them."""
        self._dense = [name for pao in paos for name in pao.state if name not in self.arrays and name not in pao.sparse]
        self._sparse = [name for name in self.types if name not in self.arrays and name not in self._dense]

    def split(self, states: pl.DataFrame) -> tuple[Arrays, pl.DataFrame | None]:
        """A frame's states as arrays, and a frame of the other columns. O(n)."""
        arrays: Arrays = {}
        for name, column in self.arrays.items():
            arrays |= column.split(states[name])
        others = states.select(self._dense).get_columns()
        others += [column for column in states.select(self._sparse) if column.null_count() < len(column)]
        return arrays, pl.DataFrame(others) if others else None

    def merge_runs(self, states: pl.DataFrame, rows: Rows, starts: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """Merges the states of each group; a group is a run of `rows` that begins at one of `starts`. O(n)."""
        if len(starts) == len(rows):
            return self.split(states[rows.astype(np.uint32)])
        arrays, others = self.split(states)
        merged: Arrays = {}
        for column in self.arrays.values():
            ordered = {part: arrays[part][rows] for part in column.parts if part in arrays}
            merged |= column.merge_runs(ordered, starts)
        return merged, None if others is None else self.merge(others, rows, starts)

    def merge(self, others: pl.DataFrame, rows: Rows, starts: Rows) -> pl.DataFrame:
        """Merges the states of the frame: each run of `rows` that begins at one of `starts`. O(n)."""
        ordered = others[rows.astype(np.uint32)]
        if len(starts) == len(rows):
            return ordered
        runs = ordered.with_columns(run_numbers(len(rows), starts))
        merged = self.merge_groups(runs.group_by("run", maintain_order=True), columns=others.columns)
        return merged.select(others.columns)

    def merge_groups(self, groups: GroupBy, *others: pl.Expr, columns: Iterable[str] | None = None) -> pl.DataFrame:
        """Each group's states (or some of their columns) merged, and other expressions. Raises UserDefinedError for
        code that fails.
        """
        wanted = set(self.types if columns is None else columns)

        def merged(paos: Sequence[StateAlgebra]) -> pl.DataFrame:
            names = [name for pao in paos for name in pao.state if name in wanted]
            return groups.agg(*others, *(self._merging[name] for name in names))

        return attempt(self._paos, "combine", merged)

    def frame(self, arrays: Arrays, others: pl.DataFrame | None, count: int) -> pl.DataFrame:
        """All columns of `count` rows, in their own types and order. O(n)."""
        columns = {} if others is None else {column.name: column for column in others}
        for name, column in self.arrays.items():
            columns[name] = column.series({part: arrays[part] for part in column.parts if part in arrays}, count)
        for name in self._sparse:
            if name not in columns:
                columns[name] = pl.Series(name, [None], dtype=self.types[name]).new_from_index(0, count)
        return pl.DataFrame([columns[name] for name in self.types])


class StateStore:
    """The states of a leaf's keys, by *slot*: the number under which a key was added.

    States in arrays are merged in place, unless the kernel has them: then `index` does. Others wait, with their slots,
    until as many wait as are merged already.
    """

    def __init__(self, columns: StateColumns, index: KernelIndex | None) -> None:
        self._columns, self._index = columns, index
        self._arrays: list[ArrayStore] = [column.store() for column in columns.arrays.values() if index is None]
        self._appended = 0
        self._merged: tuple[Rows, pl.DataFrame] | None = None
        self._waiting: list[tuple[Rows, pl.DataFrame]] = []
        self._waiting_rows = 0

    @property
    def _count(self) -> int:
        return self._appended if self._index is None else len(self._index)

    @property
    def nbytes(self) -> int:
        parts = self._waiting if self._merged is None else [self._merged, *self._waiting]
        frames = sum(slots.nbytes + int(others.estimated_size()) for slots, others in parts)
        return frames + sum(store.nbytes for store in self._arrays)

    def append(self, count: int, arrays: Arrays, others: pl.DataFrame | None) -> None:
        """Adds the states of `count` new slots, but those in arrays that the kernel has added."""
        for store in self._arrays:
            store.append(self._appended, count, arrays)
        self._appended += count
        if others is not None:
            self._wait(np.arange(self._count - count, self._count), others)

    def add(self, slots: Rows, arrays: Arrays, others: pl.DataFrame | None, rows: Rows) -> None:
        """Merges the states of some rows into those of known slots, each of which occurs at most once, but those in
        arrays that the kernel has merged."""
        for store in self._arrays:
            store.add(self._count, slots, {part: arrays[part] for part in store.values if part in arrays}, rows)
        if others is not None:
            self._wait(slots, others[rows.astype(np.uint32)])

    def of(self, slots: Rows) -> tuple[Arrays, pl.DataFrame | None]:
        """The states of some slots, merged, in the order asked for."""
        arrays: Arrays = {} if self._index is None else self._index.states(slots)
        for store in self._arrays:
            arrays |= store.of(slots)
        self._merge_waiting()
        if self._merged is None:
            return arrays, None
        settled, others = self._merged
        if len(settled) == self._count:
            return arrays, others[slots.astype(np.uint32)]
        rows = np.full(self._count, -1)
        rows[settled] = np.arange(len(settled))
        places = pl.Series(rows[slots])
        return arrays, others.select(pl.all().gather(places.set(places < 0, None)))

    def _wait(self, slots: Rows, others: pl.DataFrame) -> None:
        if not others.height:
            return
        self._waiting.append((slots, others))
        self._waiting_rows += others.height
        if self._waiting_rows > max(_MERGED_ROWS_MIN, 0 if self._merged is None else len(self._merged[0])):
            self._merge_waiting()

    def _merge_waiting(self) -> None:
        """Merges the waiting states into one row for each slot that has any."""
        if not self._waiting:
            return
        parts = self._waiting if self._merged is None else [self._merged, *self._waiting]
        slots = np.concatenate([slots for slots, _ in parts])
        few = int(slots.max()) < 2**16  # such numbers are sorted by their digits
        rows = np.argsort(slots.astype(np.uint16) if few else slots, kind="stable")
        starts = np.flatnonzero(np.diff(slots[rows], prepend=-1))
        others = pl.concat([others for _, others in parts], how="diagonal")
        self._merged = slots[rows][starts], self._columns.merge(others, rows, starts)
        self._waiting, self._waiting_rows = [], 0


def run_numbers(count: int, starts: Rows) -> pl.Series:
    """For each of `count` rows the number of the run that it is in."""
    begins = np.zeros(count, np.uint32)
    begins[starts] = 1
    return pl.Series("run", np.cumsum(begins, dtype=np.uint32)).set_sorted()


def _array_column(name: str, dtype: pl.DataType, merging: pl.Expr) -> ArrayColumn | None:
    """The array column that merges these states, or None if only a frame can."""
    if dtype in (pl.Int64, pl.Int128) and merging.meta.eq(pl.col(name).sum()):
        return SumColumn(name, dtype)
    if dtype in (pl.Int64, pl.Float64, pl.Boolean):
        for greatest in (False, True):
            if merging.meta.eq(extreme(pl.col(name), dtype, greatest=greatest)):
                return ExtremeColumn(name, dtype, greatest=greatest)
    return None
