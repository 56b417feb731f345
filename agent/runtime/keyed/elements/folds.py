"""Aggregates whose value after each event is told: a state in arrays by slot, and for a batch of events the values that
they leave behind, event by event. The result does not depend on how events are cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from agent.runtime.keyed.elements.slots import Rows, SlotTable, Values

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


class Fold(Protocol):
    """One aggregate: the types of its `states` by name, and the column it gives for a batch of events."""

    states: Mapping[str, Any]

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series: ...


class CountFold:
    """COUNT(*), and COUNT(x) where there is an argument."""

    def __init__(self, name: str) -> None:
        self.states: Mapping[str, Any] = {f"{name}.n": np.int64}
        self._n = f"{name}.n"

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series:
        return pl.Series(runs.restored(count(table[self._n], runs, argument)))


class SumFold:
    """SUM of integers, exact: `high` counts 2**32, `low` is below that. The column is of 128 bits if 64 are too few."""

    def __init__(self, name: str) -> None:
        self._high, self._low, self._n = (f"{name}.{part}" for part in ("high", "low", "n"))
        self.states: Mapping[str, Any] = {self._high: np.int64, self._low: np.int64, self._n: np.int64}

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series:
        high, low, n = self._sums(table, runs, argument)
        valid = runs.restored(n > 0)
        if ((high >= -_HIGH_MAX) & (high < _HIGH_MAX)).all():
            return nullable(pl.Series(runs.restored((high << _LOW_BITS) | low)), valid)
        wide = pl.Series(runs.restored(high)).cast(pl.Int128) * pl.Series([1 << _LOW_BITS], dtype=pl.Int128)
        return nullable(wide + pl.Series(runs.restored(low)).cast(pl.Int128), valid)

    def _sums(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> tuple[Values, Values, Values]:
        n = count(table[self._n], runs, argument)
        values = integers(argument, runs)
        low = runs.sums(values & _LOW, table[self._low][runs.slots])
        high = runs.sums(values >> _LOW_BITS, table[self._high][runs.slots]) + (low >> _LOW_BITS)
        low &= _LOW
        table[self._high][runs.slots], table[self._low][runs.slots] = high[runs.lasts], low[runs.lasts]
        return high, low, n


class AverageFold(SumFold):
    """AVG of integers: the exact sum as the nearest double, divided by the number of values."""

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series:
        high, low, n = self._sums(table, runs, argument)
        totals = high.astype(np.float64) * 2.0**_LOW_BITS + low
        return nullable(pl.Series(runs.restored(totals / np.maximum(n, 1))), runs.restored(n > 0))


class NumberFold:
    """SUM of numbers, or AVG: doubles, added in the order of events."""

    def __init__(self, name: str, *, mean: bool) -> None:
        self._sum, self._n, self._mean = f"{name}.sum", f"{name}.n", mean
        self.states: Mapping[str, Any] = {self._sum: np.float64, self._n: np.int64}

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series:
        n = count(table[self._n], runs, argument)
        values = doubles(argument, runs, 0.0)
        # Each run begins with its base, so that sums are those of one event after the other.
        at = np.arange(len(values)) + runs.run + 1
        whole, run = np.empty(len(values) + len(runs.slots)), np.empty(len(values) + len(runs.slots), np.int64)
        bases = runs.starts + np.arange(len(runs.starts))
        whole[bases], run[bases] = table[self._sum][runs.slots], np.arange(len(runs.starts))
        whole[at], run[at] = values, runs.run
        frame = pl.DataFrame({"run": run, "value": whole})
        totals = frame.select(pl.col("value").cum_sum().over("run")).to_series().to_numpy()[at]
        table[self._sum][runs.slots] = totals[runs.lasts]
        shown = totals / np.maximum(n, 1) if self._mean else totals
        return nullable(pl.Series(runs.restored(shown)), runs.restored((n > 0) & np.isfinite(shown)))


class ExtremeFold:
    """MIN or MAX of integers, times, truths or numbers, of which NaN is the greatest."""

    def __init__(self, name: str, kind: Any, *, greatest: bool) -> None:
        self._value, self._n, self._greatest, self._kind = f"{name}.value", f"{name}.n", greatest, kind
        self.states: Mapping[str, Any] = {self._value: kind, self._n: np.int64}

    def fold(self, table: SlotTable, runs: Runs, argument: pl.Series | None) -> pl.Series:
        had = table[self._n][runs.slots] > 0
        n = count(table[self._n], runs, argument)
        assert argument is not None
        there = argument.is_not_null().to_numpy()[runs.rows]
        values = doubles(argument, runs, 0.0) + 0.0 if self._kind is np.float64 else integers(argument, runs)
        both = np.concatenate([table[self._value][runs.slots], values])
        order = np.argsort(both, kind="stable")
        ranks = np.empty(len(both), np.int64)
        ranks[order] = np.arange(1, len(both) + 1)
        if not self._greatest:
            ranks = len(both) + 1 - ranks
        ranks[: len(had)][~had] = 0
        ranks[len(had) :][~there] = 0
        # In the order of (run, rank) the greatest up to an event is that of its own run.
        own = ranks[len(had) :]
        own[runs.starts] = np.maximum(own[runs.starts], ranks[: len(had)])
        best = np.maximum.accumulate(own + runs.run * (len(both) + 1)) - runs.run * (len(both) + 1)
        at = best - 1 if self._greatest else len(both) - best
        shown = both[order[np.clip(at, 0, len(both) - 1)]]
        table[self._value][runs.slots] = np.where(best[runs.lasts] > 0, shown[runs.lasts], 0)
        valid = n > 0
        if self._kind is np.float64:
            valid &= np.isfinite(shown)
        return nullable(pl.Series(runs.restored(shown)), runs.restored(valid))


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


def integers(argument: pl.Series | None, runs: Runs) -> Values:
    assert argument is not None
    return argument.fill_null(strategy="zero").cast(pl.Int64).to_numpy()[runs.rows]


def doubles(argument: pl.Series | None, runs: Runs, nothing: float) -> Values:
    assert argument is not None
    return argument.cast(pl.Float64).fill_null(nothing).to_numpy()[runs.rows]


def nullable(column: pl.Series, valid: npt.NDArray[np.bool_]) -> pl.Series:
    """A column with NULL where there is no value."""
    return column if valid.all() else column.set(pl.Series(~valid), None)
