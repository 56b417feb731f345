"""State columns that NumPy merges in place: integers that are summed, and numbers of which the least or greatest is
kept.

A column is one array or a few, its *parts*, which have a *neutral* value in place of NULL. Merging therefore ignores
NULLs, and a part that is neutral throughout may be missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cbt.algebra.key_index import Rows
from cbt.native.library import ANY, GREATEST_RANK, LAST_SUM, LEAST_RANK, SUM

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
"""Arrays by part, all of one length; parts that are neutral in all rows may be missing."""

_LIMB_BITS = 56  # so that 2**6 sums at least fit 64 bits
_LIMB = 2**_LIMB_BITS
_HALF_BITS = _LIMB_BITS // 2
_SUM_MAX = 2**62  # with a limb on top it still fits
_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
_INT64_MAX = 2**63 - 1
_MOST_OF_BYTES = {np.dtype(width).itemsize: int(np.iinfo(width).max) for width in _WIDTHS}
_SIGN = np.uint64(2**63)
_ALL_BITS = np.uint64(2**64 - 1)


class ArrayColumn(ABC):
    """The state column `name` of the type `dtype`, as the arrays `parts`."""

    parts: tuple[str, ...]
    merging: tuple[int, ...]
    """The kernel's number of how each part is merged."""

    def __init__(self, name: str, dtype: pl.DataType) -> None:
        self.name, self.dtype = name, dtype

    @abstractmethod
    def split(self, states: pl.Series) -> Arrays:
        """The column's parts. O(n)."""

    @abstractmethod
    def merge_runs(self, arrays: Arrays, starts: Rows) -> Arrays:
        """Merges each run of rows that begins at one of `starts`. O(n)."""

    @abstractmethod
    def series(self, arrays: Arrays, count: int) -> pl.Series:
        """The column of `count` rows, put together from its parts. O(n)."""

    @abstractmethod
    def store(self) -> ArrayStore:
        """A new store for a leaf's states of the column."""


class ArrayStore(ABC):
    """The parts of one column by slot; those that are neutral throughout are None."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        self.values: dict[str, Array | None] = dict.fromkeys(parts)

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self.values.values() if values is not None)

    def of(self, slots: Rows) -> Arrays:
        """The states of some slots. O(slots)."""
        return {part: values[slots] for part, values in self.values.items() if values is not None}

    @abstractmethod
    def append(self, first: int, count: int, arrays: Arrays) -> None:
        """Adds `count` slots; `first` is the number of slots before."""

    @abstractmethod
    def add(self, count: int, slots: Rows, arrays: Arrays, rows: Rows) -> None:
        """Merges the states of some rows into those of some of the `count` slots, each of which is there once at
        most."""


class SumColumn(ArrayColumn):
    """Sums of integers of 64 or 128 bits, as limbs of 56 bits, of which usually only the lowest exists."""

    def __init__(self, name: str, dtype: pl.DataType) -> None:
        super().__init__(name, dtype)
        self.parts = tuple(f"{name}/{place}" for place in range(3 if dtype == pl.Int128 else 2))
        self.merging = (*[SUM] * (len(self.parts) - 1), LAST_SUM)

    def split(self, states: pl.Series) -> Arrays:
        limbs = []
        rest = states.fill_null(0)
        for _ in self.parts[1:]:
            narrow = rest.cast(pl.Int64, strict=False)
            if narrow.null_count() == 0 and _most(values := narrow.to_numpy()) < _LIMB:
                limbs.append(values)
                break
            unit = pl.Series([_LIMB], dtype=rest.dtype)
            limbs.append((rest % unit).cast(pl.Int64).to_numpy())
            rest = rest // unit
        else:
            limbs.append(rest.cast(pl.Int64).to_numpy())
        return {part: limb for part, limb in zip(self.parts, limbs, strict=False) if limb.any()}

    def merge_runs(self, arrays: Arrays, starts: Rows) -> Arrays:
        merged: Arrays = {}
        carry: Array | None = None
        for part in self.parts:
            total, carry_on = (None, None) if part not in arrays else _sums_of_runs(arrays[part], starts)
            both = [values for values in (total, carry) if values is not None]
            if both:
                merged[part] = sum(both[1:], both[0])
            carry = carry_on
        return merged

    def series(self, arrays: Arrays, count: int) -> pl.Series:
        total = pl.Series(self.name, [0], dtype=self.dtype).new_from_index(0, count)
        for place, part in enumerate(self.parts):
            if part in arrays:
                unit = pl.Series([_LIMB**place], dtype=self.dtype)
                values = pl.Series(self.name, arrays[part], dtype=pl.Int64).cast(self.dtype)
                total = total + (values * unit if place else values)
        return total

    def store(self) -> ArrayStore:
        return _SumStore(self.parts)


class _SumStore(ArrayStore):
    """Limbs in the narrowest type that holds them."""

    def __init__(self, parts: tuple[str, ...]) -> None:
        super().__init__(parts)
        self._bounds = dict.fromkeys(parts, 0)  # no value is further from zero

    def append(self, first: int, count: int, arrays: Arrays) -> None:
        for part in self.values:
            if part in arrays or self.values[part] is not None:
                new = arrays.get(part, np.zeros(count, np.int8))
                values = self._widened(part, first, max(self._bounds[part], _most(new)))
                self.values[part] = np.concatenate([values, new.astype(values.dtype)])

    def add(self, count: int, slots: Rows, arrays: Arrays, rows: Rows) -> None:
        for part, states in arrays.items():
            self._add(part, count, slots, states[rows])

    def _add(self, part: str, count: int, slots: Rows | slice, states: Array) -> None:
        most = _most(states)
        bound = self._bounds[part] + most
        values = self.values[part]
        if values is not None and bound > _MOST_OF_BYTES[values.itemsize]:
            bound = _most(values) + most
        if bound > _INT64_MAX:
            self._carry(part, count)
            bound = _LIMB + most
        values = self._widened(part, count, bound)
        values[slots] += states.astype(values.dtype)

    def _carry(self, part: str, count: int) -> None:
        """Carries the overflow of each limb into the next; the highest has no next and wraps as its column would."""
        values, parts = self.values[part], list(self.values)
        assert values is not None
        if part != parts[-1]:
            self._add(parts[parts.index(part) + 1], count, slice(None), values >> _LIMB_BITS)
            values &= _LIMB - 1

    def _widened(self, part: str, count: int, bound: int) -> Array:
        """The part's array, with room for values up to `bound`."""
        values = self.values[part]
        if values is None:
            values = np.zeros(count, np.int8)
        if bound > _MOST_OF_BYTES[values.itemsize]:
            values = values.astype(next((width for width in _WIDTHS if bound <= np.iinfo(width).max), np.int64))
        self._bounds[part], self.values[part] = bound, values
        return values


class ExtremeColumn(ArrayColumn):
    """Int64, Float64 or Boolean columns of which the greatest value is kept, or the least; NaN is greater than all
    numbers, NULL does not count.

    Values are stored as unsigned numbers in the same order, beside a flag for presence.
    """

    def __init__(self, name: str, dtype: pl.DataType, *, greatest: bool) -> None:
        super().__init__(name, dtype)
        self.greatest = greatest
        self.parts = self._rank, self._there = f"{name}/rank", f"{name}/there"
        self.merging = GREATEST_RANK if greatest else LEAST_RANK, ANY
        self._merging = {self._rank: np.maximum if greatest else np.minimum, self._there: np.maximum}
        self._neutral = {self._rank: np.uint64(0) if greatest else _ALL_BITS, self._there: np.bool_(False)}

    def split(self, states: pl.Series) -> Arrays:
        if states.null_count() == len(states):
            return {}
        there = states.is_not_null().to_numpy()
        return {self._rank: np.where(there, _ranks(states), self._neutral[self._rank]), self._there: there}

    def merge_runs(self, arrays: Arrays, starts: Rows) -> Arrays:
        return {part: np.asarray(self._merging[part].reduceat(values, starts)) for part, values in arrays.items()}

    def series(self, arrays: Arrays, count: int) -> pl.Series:
        if not arrays:
            return pl.Series(self.name, [None], dtype=self.dtype).new_from_index(0, count)
        values, there = pl.Series(self.name, _unranked(arrays[self._rank], self.dtype)), arrays[self._there]
        return values if there.all() else values.set(pl.Series(~there), None)

    def store(self) -> ArrayStore:
        return _ExtremeStore(self._merging, self._neutral)


class _ExtremeStore(ArrayStore):
    def __init__(self, merging: Mapping[str, np.ufunc], neutral: Mapping[str, Any]) -> None:
        super().__init__(tuple(merging))
        self._merging, self._neutral = merging, neutral

    def append(self, first: int, count: int, arrays: Arrays) -> None:
        for part, values in self.values.items():
            if part in arrays or values is not None:
                old = self._nothing(part, first) if values is None else values
                self.values[part] = np.concatenate([old, arrays.get(part, self._nothing(part, count))])

    def add(self, count: int, slots: Rows, arrays: Arrays, rows: Rows) -> None:
        for part, states in arrays.items():
            values = self.values[part]
            if values is None:
                values = self.values[part] = self._nothing(part, count)
            values[slots] = self._merging[part](values[slots], states[rows])

    def _nothing(self, part: str, count: int) -> Array:
        return np.full(count, self._neutral[part])


def _sums_of_runs(limb: Array, starts: Rows) -> tuple[Array, Array | None]:
    """The sums of runs, and the carry into the next limb if they are too large for one."""
    longest = int(np.diff(starts, append=len(limb)).max())
    if _most(limb) * longest < _SUM_MAX:
        return np.asarray(np.add.reduceat(limb, starts)), None
    half = 2**_HALF_BITS - 1
    high, low = np.add.reduceat(limb >> _HALF_BITS, starts), np.add.reduceat(limb & half, starts)
    return ((high & half) << _HALF_BITS) + low, high >> _HALF_BITS


def _ranks(values: pl.Series) -> Array:
    """Int64, Float64 or Boolean as UInt64 in the same order; NULL as anything."""
    if values.dtype == pl.Boolean:
        return np.asarray(values.fill_null(value=False).cast(pl.UInt64).to_numpy())
    if values.dtype == pl.Int64:
        return values.fill_null(0).to_numpy().view(np.uint64) ^ _SIGN
    bits = values.fill_null(0.0).fill_nan(float("nan")).to_numpy().view(np.uint64)
    return bits ^ np.where(bits >= _SIGN, _ALL_BITS, _SIGN)


def _unranked(ranks: Array, dtype: pl.DataType) -> Array:
    if dtype == pl.Boolean:
        return np.asarray(ranks == 1)
    if dtype == pl.Int64:
        return (ranks ^ _SIGN).view(np.int64)
    return (ranks ^ np.where(ranks < _SIGN, _ALL_BITS, _SIGN)).view(np.float64)


def _most(values: Array) -> int:
    return int(max(-int(values.min()), int(values.max()))) if len(values) else 0
