"""The levels of KLL sketches: how many rows they hold, and halving those that hold too many, for many sketches at once.

Capacities are those of Apache DataSketches: k on the highest level, two thirds of that on the next, and so on down to
8. Beginning from the lowest, levels with too many rows are halved until the sketch has no more rows than its levels
hold together; a highest level that is halved gets a new one above it, and so makes room.
"""

import numpy as np
import polars as pl

LEVELS_MAX = 61
CAPACITY_MIN = 8

Longs = np.ndarray[tuple[int], np.dtype[np.int64]]
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]


def capacities(k: int) -> Longs:
    """The capacity of a level in rows, by its depth below the highest level.

    >>> capacities(200)[:9].tolist()
    [200, 133, 89, 59, 40, 26, 18, 12, 8]
    """
    exact = ((2 * k * 2**depth // 3**depth + 1) // 2 for depth in range(LEVELS_MAX))
    return np.maximum(np.fromiter(exact, dtype=np.int64), CAPACITY_MIN)


def sketch_capacity(k: int) -> Longs:
    """The capacity of a sketch in rows, by the number of its levels, from 0 on.

    >>> sketch_capacity(200)[:3].tolist()
    [0, 200, 333]
    """
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(capacities(k))])


def halve_levels(rows: pl.DataFrame, k: int, *, single: bool = False) -> pl.DataFrame:
    """Shrinks sketches to the rows that their levels hold. The total weight of each, the sum of n·2**level, stays.

    `rows`: `sketch`, any integer from 0; `level` Int64, 0 to 60; `value` Int64 or Float64, without NULL and NaN; `n`
    Int64, above 0. With `single`, a value that is on a level twice goes up as one instead. O(n log n).
    """
    levels = _Levels(rows, k, single=single)
    settled = [levels.settle(level) for level in range(LEVELS_MAX) if levels.reach(level)]
    return pl.concat([rows.clear(), *settled])


class _Levels:
    """Sketches whose levels are settled one by one, from the lowest to the highest."""

    def __init__(self, rows: pl.DataFrame, k: int, *, single: bool) -> None:
        self._capacities, self._room, self._single = capacities(k), sketch_capacity(k), single
        self._pending = {level: rows.filter(pl.col("level") == level).drop("level") for level in rows["level"].unique()}
        sketch = rows["sketch"].to_numpy()
        self._above = np.bincount(sketch)  # rows on levels that are not settled yet
        self._below = np.zeros_like(self._above)  # rows on those that are
        self._height = np.zeros_like(self._above)
        np.maximum.at(self._height, sketch, rows["level"].to_numpy() + 1)
        self._risen: list[pl.DataFrame] = []

    def reach(self, level: int) -> bool:
        return bool(self._risen) or level in self._pending

    def settle(self, level: int) -> pl.DataFrame:
        rows = self._take(level)
        if self._single:
            self._risen = [rows.with_columns(n=pl.col("n") // 2).filter(pl.col("n") > 0)]
            rows = rows.with_columns(n=pl.col("n") % 2).filter(pl.col("n") > 0)
        chosen = pl.Series(self._choose(rows, level)[rows["sketch"].to_numpy()], dtype=pl.Boolean)
        if chosen.any():
            left, risen = _halved(rows.filter(chosen), level)
            self._risen.append(risen)
            rows = pl.concat([rows.filter(~chosen), left])
        self._below += self._count(rows)
        for risen in self._risen:
            np.maximum.at(self._height, risen["sketch"].to_numpy(), level + 2)
        return rows.select("sketch", pl.lit(level, dtype=pl.Int64).alias("level"), "value", "n")

    def _take(self, level: int) -> pl.DataFrame:
        """All rows of the level, one for each value, in order."""
        risen, self._risen = self._risen, []
        if level not in self._pending and len(risen) == 1:
            return risen[0]
        own = self._pending.pop(level, None)
        if own is not None:
            self._above -= self._count(own)
            risen.append(own)
        # One after the other: by both columns at once, Polars sorts them half as fast.
        rows = pl.concat(risen).sort("value").sort("sketch", maintain_order=True)
        repeated = (pl.col("sketch") == pl.col("sketch").shift()) & (pl.col("value") == pl.col("value").shift())
        if not rows.select(repeated.any()).item():
            return rows
        return rows.group_by("sketch", "value", maintain_order=True).agg(pl.col("n").sum())

    def _choose(self, rows: pl.DataFrame, level: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which sketches have too many rows, and among them too many on this level, which is ahead of the last."""
        size = self._count(rows)
        kept = self._below + size + self._above + sum(self._count(risen) for risen in self._risen)
        depth = np.maximum(self._height - 1 - level, 0)
        over = (kept > self._room[self._height]) & (size >= self._capacities[depth])
        return over & (level < LEVELS_MAX - 1)

    def _count(self, rows: pl.DataFrame) -> Longs:
        return np.bincount(rows["sketch"].to_numpy(), minlength=len(self._above))


def _halved(rows: pl.DataFrame, level: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Every second value of each sketch, and the least one that is left on the level where their number is odd.

    A row with a count n is n equal values: how many of these rise follows from the row's place in the order.
    """
    sketch, n = rows["sketch"].to_numpy(), rows["n"].to_numpy()
    firsts = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(sketch[1:] != sketch[:-1]) + 1])
    owner = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(n)))
    odd = np.add.reduceat(n, firsts) % 2
    ends = np.cumsum(n)
    ends -= (ends[firsts] - n[firsts] + odd)[owner]
    begins = np.maximum(ends - n, 0)
    skip = 1 - _coins(rows, firsts, level)[owner]
    rising = pl.Series("n", (ends + skip) // 2 - (begins + skip) // 2)
    left = rows[firsts[odd == 1]].with_columns(n=pl.lit(1, dtype=pl.Int64))
    return left, rows.with_columns(rising).filter(pl.col("n") > 0)


def _coins(rows: pl.DataFrame, firsts: Longs, level: int) -> Longs:
    """The coin, 0 or 1 for each sketch: a hash of its rows, so that equal rows are halved alike."""
    bits = rows["value"].to_numpy().view(np.uint64) + rows["n"].to_numpy().view(np.uint64)
    mixed = (bits ^ bits >> np.uint64(32)) * np.uint64(0x9E37_79B9_7F4A_7C15)
    total = np.add.reduceat(mixed ^ mixed >> np.uint64(29), firsts) + np.uint64(level)
    total = (total ^ total >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
    total = (total ^ total >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
    return (total >> np.uint64(63)).astype(np.int64)
