"""APPROX_PERCENTILE: the quantile sketch of Karnin, Lang and Liberty (KLL; "Optimal quantile approximation in streams",
FOCS 2016) with the capacities of Apache DataSketches, a row for each value on each level.

A value on level h stands for 2**h values. A level that has too many rows is *halved*: sorted, every second value goes
up a level, even or odd ones by a coin, which moves no rank by more than 2**h. Equal values on one level are one row
with a count, so that a sketch of few different values, however often they came, is exact.

The coin is a hash of what is halved: rows that are merged again in the same way give the same sketch, whatever their
order. NaN does not count, as in DataSketches. The least and the greatest value, which halving may lose, are kept in
rows of count 0 on the levels -1 and -2.
"""

from fractions import Fraction

import polars as pl

from cbt.algebra.items import ItemPao, number_groups
from cbt.algebra.pao import Lifted
from cbt.sketches.halving import LEVELS_MAX, halve_levels, sketch_capacity

LEAST_LEVEL, GREATEST_LEVEL = -1, -2
_DENOMINATOR_MAX = 10**6


class KllSketch(ItemPao):
    """APPROX_PERCENTILE(x, p): the smallest value that at least p of all values do not exceed, 0 <= p <= 1; NULL if
    there is none. Items `level`, `value`; state `n`, how often the value is on the level.

    `type_` is `integer` (lowers to Int64) or `number` (lowers to Float64). Kept are about 3·k rows a key. `error` is
    how far the rank of the result may be from p in 99 % of cases, as published with DataSketches: 2.296 / k**0.9723,
    1.33 % for k = 200. Raises ValueError for another type, p or k.
    """

    def __init__(self, name: str, type_: str, p: float, k: int = 200) -> None:
        if type_ not in ("integer", "number"):
            raise ValueError(f"aggregate {name!r}: there is no percentile of {type_}")
        if not 0 <= p <= 1:
            raise ValueError(f"aggregate {name!r}: a percentile of {p}, not between 0 and 1")
        if not 8 <= k <= 65535:
            raise ValueError(f"aggregate {name!r}: k is {k}, not one of 8 to 65535")
        self.name, self.k = name, k
        self.level, self.value, self.n = f"{name}.level", f"{name}.value", f"{name}.n"
        self.value_type = pl.Int64() if type_ == "integer" else pl.Float64()
        self.items = {self.level: pl.Int64(), self.value: self.value_type}
        self.state = {self.n: pl.Int64()}
        self.error = 2.296 / k**0.9723
        self._p = Fraction(str(p)).limit_denominator(_DENOMINATOR_MAX)

    def lift(self, argument: pl.Series) -> Lifted:
        values = argument.cast(self.value_type)
        if self.value_type == pl.Float64:
            values = values.fill_nan(None)
            values = values.set(values == 0, 0.0)  # which makes 0.0 of -0.0
        levels = pl.Series(self.level, [0], dtype=pl.Int64).new_from_index(0, len(values))
        count = pl.col(self.value).count().alias(self.n)
        return Lifted([levels, values.alias(self.value)], [count], [pl.col(self.n).cast(pl.Int64)])

    def combine(self) -> list[pl.Expr]:
        return [pl.col(self.n).sum()]

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        if rows.height <= self.k:
            return rows
        kept, height = f"{self.name}.kept", f"{self.name}.height"
        held = pl.Series(sketch_capacity(self.k))
        sizes = rows.group_by(group).agg(
            (pl.col(self.level) >= 0).sum().alias(kept), (self._level().max() + 1).alias(height)
        )
        large = sizes.filter(sizes[kept] > held.gather(sizes[height])).select(group)
        if large.is_empty():
            return rows
        if large.height == sizes.height:
            return self.shrink(rows, group)
        small = rows.join(large, on=group, how="anti", nulls_equal=True)
        return pl.concat([small, self.shrink(rows.join(large, on=group, how="semi", nulls_equal=True), group)])

    def shrink(self, rows: pl.DataFrame, group: list[str], *, single: bool = False) -> pl.DataFrame:
        """Halves levels until each group has no more rows than its levels hold. With `single` every count is 1 in the
        end, as DataSketches has it: n equal values are, exactly, one on each level whose bit is set in n.
        """
        sketches, groups = number_groups(rows, group)
        named = rows.select(sketches.alias("sketch"), level=self.level, value=self.value, n=self.n)
        values = named.filter(pl.col("level") >= 0, pl.col("n") > 0, pl.col("value").is_not_null())
        values = values.with_columns(self._clipped("level"))
        shrunk = halve_levels(_spread(values) if single else values, self.k, single=single)
        kept = pl.concat([shrunk, *_extremes(named)])
        return groups[kept["sketch"]].with_columns(
            kept["level"].alias(self.level), kept["value"].alias(self.value), kept["n"].alias(self.n)
        )

    def weigh(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        """Each group's values, ascending, and `{aggregate}.weight` Int64: how many values each stands for. The least
        and the greatest value may be there with the weight 0.
        """
        weight = pl.col(self.n) * pl.lit(2, dtype=pl.Int64).pow(self._level())
        weighed = rows.group_by(*group, self.value).agg(weight.sum().alias(f"{self.name}.weight"))
        return weighed.drop_nulls(self.value).sort(self.value)

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        weight = pl.col(f"{self.name}.weight")
        upto = weight.cum_sum() >= self._rank_of(weight.sum())
        result = pl.col(self.value).last() if self._p == 1 else pl.col(self.value).filter(upto).first()
        found = self.weigh(rows, group).group_by(group, maintain_order=True).agg(result.alias(self.name))
        return rows.select(group).unique().join(found, on=group, how="left", nulls_equal=True)

    def _rank_of(self, count: pl.Expr) -> pl.Expr:
        """ceil(p·count), in whole numbers: 0.07 of 100 is 7."""
        p, q = self._p.numerator, self._p.denominator
        return -(-(count * p) // q)

    def _level(self) -> pl.Expr:
        return self._clipped(self.level)

    def _clipped(self, level: str) -> pl.Expr:
        return pl.col(level).clip(0, LEVELS_MAX - 1)


def _spread(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of count 1 on the levels whose sum of weights is that of the rows."""
    weight = (pl.col("n") * pl.lit(2, dtype=pl.Int64).pow(pl.col("level"))).sum()
    weighed = rows.group_by("sketch", "value").agg(weight=weight)
    levels = [
        weighed.filter(pl.col("weight") // 2**level % 2 == 1).select(
            "sketch", pl.lit(level, dtype=pl.Int64).alias("level"), "value", pl.lit(1, dtype=pl.Int64).alias("n")
        )
        for level in range(min(weighed.select(pl.col("weight").max().fill_null(0)).item().bit_length(), LEVELS_MAX))
    ]
    return pl.concat([rows.clear(), *levels])


def _extremes(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """A row for the least and one for the greatest value of each sketch."""
    ends = {LEAST_LEVEL: pl.col("value").min(), GREATEST_LEVEL: pl.col("value").max()}
    present = rows.drop_nulls("value")
    return [
        present.group_by("sketch")
        .agg(value=end)
        .select("sketch", pl.lit(level, dtype=pl.Int64).alias("level"), "value", pl.lit(0, dtype=pl.Int64).alias("n"))
        for level, end in ends.items()
    ]
