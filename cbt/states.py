"""The states of PAOs in arrays: counts in NumPy, as narrow as they may be, everything else in frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.pao import Pao

Rows = npt.NDArray[np.intp]
Counts = npt.NDArray[np.signedinteger]
Sums = dict[str, Counts]

_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
_SETTLED_ROWS_MIN = 1024


class StateColumns:
    """The state columns of a layout, and how each merges. `counts` are those that just add up in 64 bits."""

    def __init__(self, paos: Sequence[Pao]) -> None:
        self.types = {name: dtype for pao in paos for name, dtype in pao.state.items()}
        merging = [expression for pao in paos for expression in pao.combine()]
        self.merging = dict(zip(self.types, merging, strict=True))
        self.counts = [
            name
            for name, expression in self.merging.items()
            if self.types[name] == pl.Int64 and expression.meta.eq(pl.col(name).sum())
        ]
        self.others = [name for name in self.types if name not in self.counts]

    def split(self, states: pl.DataFrame) -> tuple[Sums, pl.DataFrame | None]:
        """A frame's counts, and the rest of it."""
        sums: Sums = {name: states[name].to_numpy() for name in self.counts}
        return sums, states.select(self.others) if self.others else None

    def merge_runs(self, states: pl.DataFrame, rows: Rows, starts: Rows) -> tuple[Sums, pl.DataFrame | None]:
        """Merges the states of each group; a group is a run of `rows` that begins at one of `starts`."""
        sums: Sums = {name: np.add.reduceat(states[name].to_numpy()[rows], starts) for name in self.counts}
        return sums, self.merge(states.select(self.others), rows, starts) if self.others else None

    def merge(self, others: pl.DataFrame, rows: Rows, starts: Rows) -> pl.DataFrame:
        """Merges the states that are no counts of each run of `rows` that begins at one of `starts`."""
        ordered = others[rows.astype(np.uint32)]
        if len(starts) == len(rows):
            return ordered
        runs = ordered.with_columns(run_numbers(len(rows), starts))
        merging = [self.merging[name] for name in self.others]
        return runs.group_by("run", maintain_order=True).agg(merging).select(self.others)

    def frame(self, sums: Sums, others: pl.DataFrame | None) -> pl.DataFrame:
        """All columns in their own types and order again."""
        columns = {name: pl.Series(name, values, dtype=pl.Int64) for name, values in sums.items()}
        if others is not None:
            columns |= {column.name: column for column in others}
        return pl.DataFrame([columns[name] for name in self.types])


class StateStore:
    """The states of a leaf's keys, by *slot*: the number under which a key was added.

    Counts are added to in place. Other states wait, with their slots, until there are as many as are settled.
    """

    def __init__(self, columns: StateColumns) -> None:
        self._columns = columns
        self._counts = {name: _NarrowCounts() for name in columns.counts}
        self._settled: pl.DataFrame | None = None
        self._waiting: list[tuple[Rows, pl.DataFrame]] = []
        self._waiting_rows = 0

    @property
    def nbytes(self) -> int:
        frames = [others for _, others in self._waiting]
        frames += [] if self._settled is None else [self._settled]
        counts = sum(counts.values.nbytes for counts in self._counts.values())
        return counts + sum(int(frame.estimated_size()) for frame in frames)

    def append(self, first_slot: int, sums: Sums, others: pl.DataFrame | None) -> None:
        """Adds the states of new slots, from `first_slot` on."""
        for name, counts in self._counts.items():
            counts.append(sums[name])
        if others is not None:
            self._wait(np.arange(first_slot, first_slot + others.height), others)

    def add(self, slots: Rows, sums: Sums, others: pl.DataFrame | None) -> None:
        """Merges states into those of known slots, each of which is there once at most."""
        for name, counts in self._counts.items():
            counts.add(slots, sums[name])
        if others is not None:
            self._wait(slots, others)

    def of(self, slots: Rows) -> tuple[Sums, pl.DataFrame | None]:
        """The states of some slots, merged, in the order asked for."""
        sums: Sums = {name: counts.values[slots] for name, counts in self._counts.items()}
        if not self._columns.others:
            return sums, None
        self._settle()
        assert self._settled is not None
        return sums, self._settled[slots.astype(np.uint32)]

    def _wait(self, slots: Rows, others: pl.DataFrame) -> None:
        if not others.height:
            return
        self._waiting.append((slots, others))
        self._waiting_rows += others.height
        if self._waiting_rows > max(_SETTLED_ROWS_MIN, 0 if self._settled is None else self._settled.height):
            self._settle()

    def _settle(self) -> None:
        """Every slot's states as one row."""
        if not self._waiting:
            return
        parts = self._waiting
        if self._settled is not None:
            parts = [(np.arange(self._settled.height), self._settled), *parts]
        slots = np.concatenate([slots for slots, _ in parts])
        few = int(slots.max()) < 2**16  # such numbers are sorted by their digits
        rows = np.argsort(slots.astype(np.uint16) if few else slots, kind="stable")
        starts = np.flatnonzero(np.diff(slots[rows], prepend=-1))
        self._settled = self._columns.merge(pl.concat([others for _, others in parts]), rows, starts)
        self._waiting, self._waiting_rows = [], 0


class _NarrowCounts:
    """Integers in the narrowest type that holds them."""

    def __init__(self) -> None:
        self.values: Counts = np.empty(0, np.int8)
        self._bound = 0  # no value is further from zero

    def append(self, values: Counts) -> None:
        self._make_room(max(self._bound, _most(values)))
        self.values = np.concatenate([self.values, values.astype(self.values.dtype)])

    def add(self, slots: Rows, values: Counts) -> None:
        if not len(values):
            return
        bound = self._bound + _most(values)
        if bound > np.iinfo(self.values.dtype).max:
            bound = _most(self.values) + _most(values)
        self._make_room(bound)
        self.values[slots] += values.astype(self.values.dtype)

    def _make_room(self, bound: int) -> None:
        if bound > np.iinfo(self.values.dtype).max:
            self.values = self.values.astype(
                next((width for width in _WIDTHS if bound <= np.iinfo(width).max), np.int64)
            )
        self._bound = bound


def run_numbers(count: int, starts: Rows) -> pl.Series:
    """For each of `count` rows the number of the run that it is in."""
    begins = np.zeros(count, np.uint32)
    begins[starts] = 1
    return pl.Series("run", np.cumsum(begins, dtype=np.uint32)).set_sorted()


def _most(values: Counts) -> int:
    return int(max(-int(values.min()), int(values.max()))) if len(values) else 0
