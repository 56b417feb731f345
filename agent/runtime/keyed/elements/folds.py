"""Aggregates whose value after each event is told: a state in arrays by slot, and for a batch of events the values that
they leave behind, event by event. The result does not depend on how events are cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.keyed.elements.slots import Rows, SlotTable, Values
from cbt.native.library import FoldedRows, load

_LOW_BITS = 32
_LOW = (1 << _LOW_BITS) - 1
_HIGH_MAX = 1 << (63 - _LOW_BITS)


class Runs(NamedTuple):
    """Events in the order of their slots, those of one slot in theirs: the row of each, where each slot's run begins,
    the run of each event, and the runs' slots and last events."""

    rows: Rows
    starts: Rows
    run: Rows
    slots: Rows
    lasts: Rows

    @classmethod
    def of(cls, slots: Rows) -> Runs:
        """Orders the events of a batch by slot. O(n log n)."""
        row_bits = max(1, len(slots) - 1).bit_length()
        packed = slots.astype(np.uint64) << np.uint64(row_bits)
        packed |= np.arange(len(slots), dtype=np.uint64)
        packed.sort()
        rows = (packed & np.uint64((1 << row_bits) - 1)).astype(np.intp)
        ordered = (packed >> np.uint64(row_bits)).astype(np.intp)
        begins = np.ones(len(ordered), np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        starts = np.flatnonzero(begins)
        return cls(rows, starts, np.cumsum(begins) - 1, ordered[starts], np.append(starts[1:], len(rows)) - 1)

    def sums(self, values: Values, base: Values) -> Values:
        """The sum of each run up to each event, on top of a base for each run. Integers wrap, and unwrap."""
        total: Values = np.cumsum(values)
        before: Values = total[self.starts] - values[self.starts]
        sums: Values = total + (base - before)[self.run]
        return sums

    def restored(self, values: Values) -> Values:
        """Values in the order of the batch."""
        unordered = np.empty_like(values)
        unordered[self.rows] = values
        return unordered


class SlotBatch:
    """Events by their slots, each with a value of the aggregate's argument, if it has one."""

    def __init__(self, slots: Rows) -> None:
        self.slots = slots

    @cached_property
    def runs(self) -> Runs:
        """The events in the order of slots, which the kernel does without."""
        return Runs.of(self.slots)


class Fold(Protocol):
    """One aggregate: the types of its `states` by name, and the column it gives for a batch of events."""

    states: Mapping[str, Any]

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series: ...


class CountFold:
    """COUNT(*), and COUNT(x) where there is an argument."""

    def __init__(self, name: str) -> None:
        self.states: Mapping[str, Any] = {f"{name}.n": np.int64}
        self._n = f"{name}.n"

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series:
        if (library := load().library) is not None:
            rows = KernelRows(batch, table[self._n], None, valid_of(argument))
            library.elf_fold_counts(rows.address)
            return pl.Series(rows.n)
        runs = batch.runs
        return pl.Series(runs.restored(count(table[self._n], runs, argument)))


class SumFold:
    """SUM of integers, exact: `high` counts 2**32, `low` is below that. The column is of 128 bits if 64 are too few."""

    def __init__(self, name: str) -> None:
        self._high, self._low, self._n = (f"{name}.{part}" for part in ("high", "low", "n"))
        self.states: Mapping[str, Any] = {self._high: np.int64, self._low: np.int64, self._n: np.int64}

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series:
        high, low, n = self._sums(table, batch, argument)
        if ((high >= -_HIGH_MAX) & (high < _HIGH_MAX)).all():
            return nullable(pl.Series((high << _LOW_BITS) | low), n > 0)
        wide = pl.Series(high).cast(pl.Int128) * pl.Series([1 << _LOW_BITS], dtype=pl.Int128)
        return nullable(wide + pl.Series(low).cast(pl.Int128), n > 0)

    def _sums(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> tuple[Values, Values, Values]:
        values = integers(argument)
        if (library := load().library) is not None:
            rows = KernelRows(batch, table[self._n], values, valid_of(argument))
            high, low = np.empty((2, len(values)), np.int64)
            states = table[self._high].ctypes.data, table[self._low].ctypes.data
            library.elf_fold_integers(rows.address, *states, high.ctypes.data, low.ctypes.data)
            return high, low, rows.n
        runs = batch.runs
        n = count(table[self._n], runs, argument)
        values = values[runs.rows]
        low = runs.sums(values & _LOW, table[self._low][runs.slots])
        high = runs.sums(values >> _LOW_BITS, table[self._high][runs.slots]) + (low >> _LOW_BITS)
        low &= _LOW
        table[self._high][runs.slots], table[self._low][runs.slots] = high[runs.lasts], low[runs.lasts]
        return runs.restored(high), runs.restored(low), runs.restored(n)


class AverageFold(SumFold):
    """AVG of integers: the exact sum as the nearest double, divided by the number of values."""

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series:
        high, low, n = self._sums(table, batch, argument)
        totals = high.astype(np.float64) * 2.0**_LOW_BITS + low
        return nullable(pl.Series(totals / np.maximum(n, 1)), n > 0)


class NumberFold:
    """SUM of numbers, or AVG: doubles, added in the order of events."""

    def __init__(self, name: str, *, mean: bool) -> None:
        self._sum, self._n, self._mean = f"{name}.sum", f"{name}.n", mean
        self.states: Mapping[str, Any] = {self._sum: np.float64, self._n: np.int64}

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series:
        totals, n = self._sums(table, batch, argument)
        shown = totals / np.maximum(n, 1) if self._mean else totals
        return nullable(pl.Series(shown), (n > 0) & np.isfinite(shown))

    def _sums(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> tuple[Values, Values]:
        values = doubles(argument)
        if (library := load().library) is not None:
            rows, totals = KernelRows(batch, table[self._n], values, valid_of(argument)), np.empty(len(values))
            library.elf_fold_doubles(rows.address, table[self._sum].ctypes.data, totals.ctypes.data)
            return totals, rows.n
        runs = batch.runs
        n = count(table[self._n], runs, argument)
        # Each run begins with its base, so that sums are those of one event after the other.
        at = np.arange(len(values)) + runs.run + 1
        whole, run = np.empty(len(values) + len(runs.slots)), np.empty(len(values) + len(runs.slots), np.int64)
        bases = runs.starts + np.arange(len(runs.starts))
        whole[bases], run[bases] = table[self._sum][runs.slots], np.arange(len(runs.starts))
        whole[at], run[at] = values[runs.rows], runs.run
        frame = pl.DataFrame({"run": run, "value": whole})
        totals = frame.select(pl.col("value").cum_sum().over("run")).to_series().to_numpy()[at]
        table[self._sum][runs.slots] = totals[runs.lasts]
        return runs.restored(totals), runs.restored(n)


class ExtremeFold:
    """MIN or MAX of integers, times, truths or numbers, of which NaN is the greatest."""

    def __init__(self, name: str, kind: Any, *, greatest: bool) -> None:
        self._value, self._n, self._greatest, self._kind = f"{name}.value", f"{name}.n", greatest, kind
        self.states: Mapping[str, Any] = {self._value: kind, self._n: np.int64}

    def fold(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> pl.Series:
        shown, n = self._extremes(table, batch, argument)
        valid = n > 0
        if self._kind is np.float64:
            valid &= np.isfinite(shown)
        return nullable(pl.Series(shown), valid)

    def _extremes(self, table: SlotTable, batch: SlotBatch, argument: pl.Series | None) -> tuple[Values, Values]:
        is_double = self._kind is np.float64
        values = doubles(argument) + 0.0 if is_double else integers(argument)
        state, counts = table[self._value], table[self._n]
        if (library := load().library) is not None:
            rows, shown = KernelRows(batch, counts, values, valid_of(argument)), np.empty(len(values), self._kind)
            fold = library.elf_fold_double_extremes if is_double else library.elf_fold_integer_extremes
            fold(rows.address, state.ctypes.data, self._greatest, shown.ctypes.data)
            return shown, rows.n
        runs = batch.runs
        had = counts[runs.slots] > 0
        n = count(counts, runs, argument)
        both = np.concatenate([state[runs.slots], values[runs.rows]])
        order = np.argsort(both, kind="stable")
        ranks = np.empty(len(both), np.int64)
        ranks[order] = np.arange(1, len(both) + 1)
        if not self._greatest:
            ranks = len(both) + 1 - ranks
        ranks[: len(had)][~had] = 0
        if (valid := valid_of(argument)) is not None:
            ranks[len(had) :][~valid[runs.rows]] = 0
        # In the order of (run, rank) the greatest up to an event is that of its own run.
        own = ranks[len(had) :]
        own[runs.starts] = np.maximum(own[runs.starts], ranks[: len(had)])
        best = np.maximum.accumulate(own + runs.run * (len(both) + 1)) - runs.run * (len(both) + 1)
        at = best - 1 if self._greatest else len(both) - best
        shown = both[order[np.clip(at, 0, len(both) - 1)]]
        state[runs.slots] = np.where(best[runs.lasts] > 0, shown[runs.lasts], 0)
        return runs.restored(shown), runs.restored(n)


class KernelRows:
    """Rows as the kernel takes them: `n` is the number of values of each slot after each row."""

    def __init__(self, batch: SlotBatch, counts: Values, values: Values | None, valid: Values | None) -> None:
        self.n = np.empty(len(batch.slots), np.int64)
        self._kept = values, valid
        self._rows = FoldedRows(
            batch.slots.ctypes.data,
            None if values is None else values.ctypes.data,
            None if valid is None else valid.ctypes.data,
            len(batch.slots),
            counts.ctypes.data,
            self.n.ctypes.data,
        )

    @property
    def address(self) -> Any:
        return byref(self._rows)


def fold_of(name: str, function: str, type_: str) -> Fold:
    """The fold of an aggregate of the query language."""
    if function == "count":
        return CountFold(name)
    if function in ("sum", "avg"):
        if type_ == "integer":
            return AverageFold(name) if function == "avg" else SumFold(name)
        return NumberFold(name, mean=function == "avg")
    return ExtremeFold(name, np.float64 if type_ == "number" else np.int64, greatest=function == "max")


def count(state: Values, runs: Runs, argument: pl.Series | None) -> Values:
    """The number of values up to each event, in the order of runs; it is added to the state."""
    if argument is None or not argument.null_count():
        counts = np.arange(1, len(runs.rows) + 1) + (state[runs.slots] - runs.starts)[runs.run]
    else:
        there = argument.is_not_null().to_numpy()[runs.rows].astype(np.int64)
        counts = runs.sums(there, state[runs.slots])
    state[runs.slots] = counts[runs.lasts]
    return counts


def valid_of(argument: pl.Series | None) -> npt.NDArray[np.bool_] | None:
    """Which values are not NULL; None: all."""
    return None if argument is None or not argument.null_count() else argument.is_not_null().to_numpy()


def integers(argument: pl.Series | None) -> Values:
    """Integers, times or truths, 0 where there is none."""
    assert argument is not None
    whole = argument.fill_null(strategy="zero") if argument.null_count() else argument
    return np.ascontiguousarray((whole if whole.dtype == pl.Int64 else whole.cast(pl.Int64)).to_numpy())


def doubles(argument: pl.Series | None) -> Values:
    """Numbers, 0 where there is none."""
    assert argument is not None
    numbers = argument if argument.dtype == pl.Float64 else argument.cast(pl.Float64)
    return np.ascontiguousarray((numbers.fill_null(0.0) if numbers.null_count() else numbers).to_numpy())


def nullable(column: pl.Series, valid: npt.NDArray[np.bool_]) -> pl.Series:
    """A column with NULL where there is no value."""
    return column if valid.all() else column.set(pl.Series(~valid), None)
