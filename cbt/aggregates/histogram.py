"""Histograms: how many values are in each bucket, of one width or between given bounds."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.pao import Lifted
from cbt.algebra.scalars import canonical_json

REACH_MAX = 2**53  # beyond it doubles do not count whole numbers exactly

Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]
Longs = np.ndarray[tuple[int], np.dtype[np.int64]]


class Histogram(ItemPao):
    """HISTOGRAM(x) of an `integer` or `number`, by a `width` (buckets begin at its multiples) or by ascending `bounds`.
    A bucket holds low <= x < high; NULL does not count, NaN is above every number. Item `bucket`, state `n`.

    Lowers to JSON text, `[[low, high, count], ...]`, ascending, without empty buckets; NULL where there is no value. An
    open end is null: below the first and above the last bound, and more than `reach` widths from 0, at most 2**53.
    Integers are compared as doubles. Invertible.

    Raises ValueError for another type, for both or neither of width and bounds, or where these are not finite or do not
    ascend.
    """

    def __init__(
        self,
        name: str,
        type_: str,
        *,
        width: float | None = None,
        bounds: Sequence[float] | None = None,
        reach: int = REACH_MAX,
    ) -> None:
        if type_ not in ("integer", "number"):
            raise ValueError(f"aggregate {name!r}: there is no histogram of {type_}")
        if (width is None) == (bounds is None):
            raise ValueError(f"aggregate {name!r}: a histogram has either a width or bounds")
        if not 1 <= reach <= REACH_MAX:
            raise ValueError(f"aggregate {name!r}: a histogram that reaches {reach} buckets to each side")
        self.name, self.bucket, self.n = name, f"{name}.bucket", f"{name}.n"
        self.items = {self.bucket: pl.Int64()}
        self.state = {self.n: pl.Int64()}
        self._edges = _Multiples(name, width, reach) if width is not None else _Bounds(name, bounds or [])

    def lift(self, argument: pl.Series) -> Lifted:
        doubles = argument.cast(pl.Float64)
        buckets = pl.Series(self.bucket, self._edges.bucket_of(doubles.fill_null(0.0).to_numpy()), dtype=pl.Int64)
        count = pl.col(argument.name).count().cast(pl.Int64).alias(self.n)
        return Lifted([buckets.set(argument.is_null(), None)], [count], [pl.col(self.n)])

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self.n).sum()]

    def subtract(self) -> list[pl.Expr]:
        return [(pl.col(self.n) - pl.col(f"{self.n}:less").fill_null(0)).alias(self.n)]

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        filled = rows.filter(pl.col(self.bucket).is_not_null(), pl.col(self.n) != 0).sort(self.bucket)
        low, high = self._edges.ends_of(filled[self.bucket].to_numpy())
        ends = [canonical_json(pl.Series(end, nan_to_null=True)).fill_null("null") for end in (low, high)]
        texts = filled.select(*group, pl.format("[{},{},{}]", *ends, self.n).alias(self.name))
        joined = pl.format("[{}]", pl.col(self.name).str.join(","))
        found = texts.group_by(group, maintain_order=True).agg(joined.alias(self.name))
        return rows.select(group).unique().join(found, on=group, how="left", nulls_equal=True)


class _Bounds:
    """Bucket i is below bound i; the last one is above all bounds."""

    def __init__(self, name: str, bounds: Sequence[float]) -> None:
        self._bounds = np.array(bounds, dtype=np.float64)
        if not len(bounds) or not np.isfinite(self._bounds).all() or (self._bounds[1:] <= self._bounds[:-1]).any():
            raise ValueError(f"aggregate {name!r}: the bounds of a histogram are finite and ascend")

    def bucket_of(self, values: Doubles) -> Longs:
        return np.searchsorted(self._bounds, values, side="right").astype(np.int64)

    def ends_of(self, buckets: Longs) -> tuple[Doubles, Doubles]:
        ends = np.concatenate([[np.nan], self._bounds, [np.nan]])
        within = np.clip(buckets, 0, len(self._bounds))  # a peer may say anything
        return ends[within], ends[within + 1]


class _Multiples:
    """Bucket i begins at the double nearest to i widths, where the width is the decimal number that it is written as:
    with a width of 0.1, bucket 3 begins at 0.3.
    """

    def __init__(self, name: str, width: float, reach: int) -> None:
        if not 0 < width < float("inf"):
            raise ValueError(f"aggregate {name!r}: a bucket of width {width}")
        self._width, self._below, self._above = float(width), -reach, reach
        exact = Fraction(repr(width))
        wide = max(exact.numerator, exact.denominator) > 2**53
        self._times, self._over = (self._width, 1.0) if wide else (float(exact.numerator), float(exact.denominator))

    def bucket_of(self, values: Doubles) -> Longs:
        with np.errstate(over="ignore", invalid="ignore"):
            guess = np.floor(values / self._width)
        bucket = np.clip(
            np.nan_to_num(guess, nan=self._above, posinf=self._above, neginf=self._below), self._below, self._above
        )
        bucket -= (self._edge(bucket) > values) & (bucket > self._below)
        bucket += (self._edge(bucket + 1) <= values) & (bucket < self._above)
        return np.asarray(bucket, dtype=np.int64)

    def ends_of(self, buckets: Longs) -> tuple[Doubles, Doubles]:
        low, high = self._edge(buckets.astype(np.float64)), self._edge((buckets + 1).astype(np.float64))
        return np.where(buckets == self._below, np.nan, low), np.where(buckets == self._above, np.nan, high)

    def _edge(self, bucket: Doubles) -> Doubles:
        with np.errstate(over="ignore"):
            return bucket * self._times / self._over
