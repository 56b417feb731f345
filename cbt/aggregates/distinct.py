"""Exact COUNT(DISTINCT x): a row for each value, up to a limit if there is one.

Beyond its limit a group keeps the values with the lowest hashes. A value among the lowest of all is among the lowest of
any part, hence the same values are kept however rows were merged. Their greatest hash then tells how many there are
(Bar-Yossef et al., 2002; the estimator is Beyer et al.'s, 2007).
"""

from math import sqrt

import polars as pl

from cbt.algebra.hashing import key_hash
from cbt.algebra.items import ItemPao
from cbt.algebra.kinds import any_kind, kind_columns, split_kinds
from cbt.algebra.pao import Lifted

_HASHES = 2.0**64
_DEVIATIONS_OF_99_PERCENT = 2.576


class DistinctCount(ItemPao):
    """COUNT(DISTINCT x) of values of any type; NULL does not count. Lowers to Int64, 0 where there are only NULLs.

    Values are told apart as in canonical JSON: 1 and 1.0 are one value, so are 0 and -0.0, and all NaNs; 1, "1" and
    true are three. Exact up to `most` values of a group, 2 or more; with more it is an estimate, within the relative
    `limited_error` in 99 % of cases. Without `most` nothing is left out. Raises ValueError for another `most`.
    """

    def __init__(self, name: str, type_: str, most: int | None = None) -> None:
        if most is not None and most < 2:
            raise ValueError(f"aggregate {name!r}: cannot count distinct values up to {most}")
        self.name, self.most = name, most
        self.items = kind_columns(name, type_)
        self.state = {}
        self.limited_error = _DEVIATIONS_OF_99_PERCENT / sqrt(most - 1) if most else 0.0
        self._rank = f"{name}.hash"

    def lift(self, argument: pl.Series) -> Lifted:
        return Lifted([*split_kinds(argument, self.items)], [], [])

    def combine(self) -> list[pl.Expr]:
        return []

    def limited(self) -> pl.Expr | None:
        return None if self.most is None else self._count() > self.most

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        if self.most is None or rows.height <= self.most + 1:
            return rows
        count = f"{self.name}.count"
        crowded = rows.group_by(group).agg(self._count().alias(count)).filter(pl.col(count) > self.most + 1)
        if crowded.is_empty():
            return rows
        inside = rows.join(crowded, on=group, how="semi", nulls_equal=True)
        outside = rows.join(crowded, on=group, how="anti", nulls_equal=True)
        ranked = self._ranked(inside).sort(self._rank, *self.items, nulls_last=True)
        lowest = pl.int_range(pl.len()).over(group) <= self.most
        kept = pl.concat([ranked.filter(any_kind(self.items)).filter(lowest), ranked.filter(~any_kind(self.items))])
        return pl.concat([outside, kept.drop(self._rank)])

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        if self.most is None:
            return rows.group_by(group).agg(self._count().alias(self.name))
        count, greatest = f"{self.name}.count", pl.col(self._rank).filter(any_kind(self.items)).max()
        ranked = self._ranked(self.compact(rows, group))
        groups = ranked.group_by(group).agg(self._count().alias(count), greatest.alias(self._rank))
        estimate = (self.most * (_HASHES / (pl.col(self._rank).cast(pl.Float64) + 1))).cast(pl.Int64, strict=False)
        shown = pl.when(pl.col(count) > self.most).then(pl.max_horizontal(estimate, count)).otherwise(count)
        return groups.select(*group, shown.alias(self.name))

    def _count(self) -> pl.Expr:
        return any_kind(self.items).sum().cast(pl.Int64)

    def _ranked(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.with_columns(key_hash(rows.select(*self.items), 0).alias(self._rank))
