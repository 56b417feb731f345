"""COLLECT and COLLECT_SET: the values of a group, up to a limit."""

import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.kinds import KINDS_OF_TYPE, any_kind, kind_columns, kind_texts, split_kinds, value_order
from cbt.algebra.pao import Lifted

MOST_MAX = 10_000


class Collection(ItemPao):
    """COLLECT(x, most): the first `most` values by the block's column `time`, those of one time in the order of MIN; or
    `distinct`, COLLECT_SET: the least `most` different values, ascending. NULL is passed over.

    Items: `t`, the time, unless `distinct`, and the value in the column of its kind; state `n`, how often it came at
    that time, unless `distinct`. Lowers to JSON text, `[value, ...]`, NULL where there is no value. One value more than
    is shown is kept, which tells that some were left out. Raises ValueError unless 1 <= most <= 10,000.
    """

    def __init__(self, name: str, type_: str, most: int, *, distinct: bool = False) -> None:
        if not 1 <= most <= MOST_MAX:
            raise ValueError(f"aggregate {name!r}: cannot collect {most} values, only 1 to {MOST_MAX:,}")
        self.name, self.most, self._distinct = name, most, distinct
        self._time, self._n = f"{name}.t", f"{name}.n"
        self._kinds = kind_columns(name, type_)
        self.items = self._kinds if distinct else {self._time: pl.Int64(), **self._kinds}
        self.state = {} if distinct else {self._n: pl.Int64()}
        self.inputs = () if distinct else ("time",)
        value = value_order(name, KINDS_OF_TYPE[type_])
        self._order = value if distinct else [pl.col(self._time), *value]

    def lift(self, argument: pl.Series) -> Lifted:
        kinds = split_kinds(argument, self._kinds)
        if self._distinct:
            return Lifted([*kinds], [], [])
        time = pl.when(pl.col(argument.name).is_not_null()).then(pl.col("time")).alias(self._time)
        count = pl.col(argument.name).count().cast(pl.Int64).alias(self._n)
        return Lifted([*kinds, time], [count], [pl.col(self._n)])

    def combine(self) -> list[pl.Expr]:
        return [] if self._distinct else [pl.col(self._n).sum()]

    def limited(self) -> pl.Expr:
        return self._count().sum() > self.most

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        total = f"{self.name}.total"
        if rows.select(self._count().sum()).item() <= self.most + 1:
            return rows
        totals = rows.group_by(group).agg(self._count().sum().alias(total))
        if not totals.select((pl.col(total) > self.most + 1).any()).item():
            return rows
        ordered = rows.sort(*self._order, nulls_last=True)
        count = self._count().alias(total)
        before = (count.cum_sum() - count).over(group).alias(total)
        room = self.most + 1 - pl.col(total)
        kept = ordered.with_columns(before).filter((room > 0) | ~any_kind(self._kinds))
        clipped = [] if self._distinct else [pl.min_horizontal(self._n, room).alias(self._n)]
        return kept.with_columns(clipped).drop(total)

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        ordered = self.compact(rows, group).filter(any_kind(self._kinds)).sort(*self._order, nulls_last=True)
        texts = kind_texts(ordered.select(*self._kinds).get_columns()).alias(self.name)
        repeated = ordered.select(*group, texts, self._count().alias(f"{self.name}.count")).select(
            *group, pl.col(self.name).repeat_by(f"{self.name}.count")
        )
        shown = pl.format("[{}]", pl.col(self.name).explode().drop_nulls().head(self.most).str.join(","))
        found = repeated.group_by(group, maintain_order=True).agg(shown.alias(self.name))
        return rows.select(group).unique().join(found, on=group, how="left", nulls_equal=True)

    def _count(self) -> pl.Expr:
        """The number of values a row stands for, clipped: a peer may claim any number."""
        n = pl.lit(1, dtype=pl.Int64) if self._distinct else pl.col(self._n).clip(0, self.most + 1)
        return pl.when(any_kind(self._kinds)).then(n).otherwise(0)
