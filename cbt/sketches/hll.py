"""APPROX_COUNT_DISTINCT: HyperLogLog (Flajolet, Fusy, Gandouet and Meunier, 2007), a row for each register in use.

A value's hash names an address, the low 26 bits of its first word, and a rank: the leading zeros of the second word,
plus 1. While a group has few addresses, each is a row of its own, and the estimate is their number, corrected for
values that share one. When they become too many, the low bits of an address are its slot, and a register is the
greatest rank of its slot. These are the coupons and the registers of HLL_8 of Apache DataSketches, and there are as
many coupons as it keeps at most. (It passes over empty strings; here they are a value like any other.)

What is hashed: an `integer` as 64 bits, a `string` as UTF-8, values of other types as their canonical JSON text in
UTF-8, so that 1 and 1.0 are one value. (Spark's `hll_sketch_agg` takes no doubles: it gets the same text.)

The estimate is Ertl's improved raw estimator ("New cardinality estimation algorithms for HyperLogLog sketches",
arXiv:1702.01284, section 3): unbiased at all sizes without tables or thresholds, and the same however sketches were
merged. It needs two sums of powers of two over the registers, exact in doubles.
"""

import math

import numpy as np
import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.kinds import kind_columns, kind_texts, split_kinds
from cbt.algebra.pao import Lifted
from cbt.sketches.murmur import hash_longs, hash_strings

RANK_MAX = 63
ADDRESS_BITS = 26
_ZEROS_MAX = RANK_MAX - 1
_LOW_RANK_MAX = 31  # up to here ranks are summed apart, so that neither sum of 2**-rank has more than 53 bits
_DEVIATIONS_OF_99_PERCENT = 2.576
_LIMIT = 1 / (2 * math.log(2))

Doubles = np.ndarray[tuple[int], np.dtype[np.float64]]


class HllSketch(ItemPao):
    """APPROX_COUNT_DISTINCT(x) with 2**lg_k registers, 4 <= lg_k <= 21; NULL does not count. Item `slot`, of an address
    `-1 - address`; state `rank`. Lowers to Int64. The relative standard error is 1.04 / sqrt(2**lg_k); `error` is 2.576
    of these, 4.2 % by default.

    Raises ValueError for another lg_k.
    """

    def __init__(self, name: str, type_: str, lg_k: int = 12) -> None:
        if not 4 <= lg_k <= 21:
            raise ValueError(f"aggregate {name!r}: lg_k is {lg_k}, not one of 4 to 21")
        self.name, self.lg_k = name, lg_k
        self.coupons_max = 3 * 2**lg_k // 32 if lg_k > 7 else 7
        self.slot, self.rank = f"{name}.slot", f"{name}.rank"
        self.items = {self.slot: pl.Int64()}
        self.state = {self.rank: pl.Int8()}
        self.error = _DEVIATIONS_OF_99_PERCENT * 1.04 / math.sqrt(2**lg_k)
        self._type, self._kinds = type_, kind_columns(name, type_)

    def lift(self, argument: pl.Series) -> Lifted:
        hashes = self._hashes(argument)
        addresses = (hashes & pl.Series([2**ADDRESS_BITS - 1], dtype=pl.UInt128)).cast(pl.Int64)
        slots = (-1 - addresses).alias(self.slot)
        zeros = hashes.to_frame("hash").select(pl.col("hash").bitwise_leading_zeros()).to_series()
        ranks = (zeros.clip(upper_bound=_ZEROS_MAX) + 1).cast(pl.Int8).alias(self.rank)
        return Lifted([slots, ranks], self.combine(), [pl.col(self.rank)])

    def _hashes(self, argument: pl.Series) -> pl.Series:
        kinds = split_kinds(argument, self._kinds)
        if self._type == "integer":
            return hash_longs(kinds[0])
        return hash_strings(kinds[0] if self._type == "string" else kind_texts(kinds))

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self.rank).max()]

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        is_coupon = pl.col(self.slot) < 0
        if rows.height <= self.coupons_max and rows.select(is_coupon.all()).item():
            return rows
        coupons, registers = f"{self.name}.coupons", f"{self.name}.registers"
        sizes = rows.group_by(group).agg(is_coupon.sum().alias(coupons), is_coupon.not_().any().alias(registers))
        crowded = (pl.col(coupons) > self.coupons_max) | (pl.col(registers) & (pl.col(coupons) > 0))
        crowded_groups = sizes.filter(crowded).select(group)
        if crowded_groups.is_empty():
            return rows
        if crowded_groups.height == sizes.height:
            return self._as_registers(rows, group)
        others = rows.join(crowded_groups, on=group, how="anti", nulls_equal=True)
        inside = rows.join(crowded_groups, on=group, how="semi", nulls_equal=True)
        return pl.concat([others, self._as_registers(inside, group)])

    def _as_registers(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        slot = pl.col(self.slot)
        registers = pl.when(slot < 0).then((-1 - slot) % 2**self.lg_k).otherwise(slot)
        return rows.with_columns(registers.alias(self.slot)).group_by(*group, self.slot).agg(self.combine())

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        rows = self.compact(rows, group)
        low = pl.col(self.rank) <= _LOW_RANK_MAX
        power = pl.lit(2.0).pow(-pl.col(self.rank).cast(pl.Float64))
        parts = {
            "coupons": (pl.col(self.slot) < 0).sum(),
            "used": (pl.col(self.slot) >= 0).sum(),
            "full": (pl.col(self.rank) == RANK_MAX).sum(),
            "low": power.filter(low).sum(),
            "high": power.filter(~low).sum(),
        }
        sums = rows.group_by(group).agg(part.alias(f"{self.name}.{what}") for what, part in parts.items())
        coupons, used, full, low_sum, high_sum = (sums[f"{self.name}.{what}"].to_numpy() for what in parts)
        estimates = _estimates(2**self.lg_k, used, full, low_sum + high_sum)
        few = -np.log1p(coupons / -(2**ADDRESS_BITS)) * 2**ADDRESS_BITS
        counts = pl.Series(self.name, np.rint(np.where(coupons > 0, few, estimates))).cast(pl.Int64)
        return sums.select(group).with_columns(counts)


def _estimates(m: int, used: Doubles, full: Doubles, powers: Doubles) -> Doubles:
    """The number of values in each of several sketches of m registers, of which `used` are not 0, `full` have the
    greatest rank, and `powers` is the sum of 2**-rank over the used ones.
    """
    between = powers - full * 2.0**-RANK_MAX
    denominator = between + m * _tau(1 - full / m) * 2.0**-_ZEROS_MAX + m * _sigma(1 - used / m)
    return np.asarray(_LIMIT * m * m / denominator, dtype=np.float64)


def _sigma(x: Doubles) -> Doubles:
    """x + sum of x**(2**k)·2**(k-1) over k >= 1, for 0 <= x <= 1; infinite at 1."""
    total, factor, last = x.copy(), 0.5, np.full_like(x, -1)
    with np.errstate(over="ignore"):
        while (moving := (total != last) & (x < 1)).any():
            last = total
            x, factor = x * x, factor * 2
            total = np.where(moving, total + x * factor, total)
    return np.where(x < 1, total, np.inf)


def _tau(x: Doubles) -> Doubles:
    """(1 - x - sum of (1 - x**(2**-k))**2·2**-k over k >= 1) / 3, for 0 <= x <= 1."""
    inside = (x > 0) & (x < 1)
    total, factor, last = 1 - x, 1.0, np.full_like(x, -1)
    while ((total != last) & inside).any():
        last = total
        x, factor = np.sqrt(x), factor / 2
        total = total - (1 - x) ** 2 * factor
    return np.where(inside, total / 3, 0.0)
