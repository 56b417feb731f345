"""APPROX_TOP_K: frequent items (Misra and Gries, 1982), merged as in "Mergeable summaries" (Agarwal and others, PODS
2012), a row for each item that is kept.

A group keeps at most `capacity` items. Where it has more, the count of the first one too many, in descending order, is
taken off all counts, and items of which nothing is left go. What was taken off in all is the group's *offset*: no
item's count is too low by more than the offset, in whatever order sketches were merged, since each time `capacity` + 1
items lost as much. So the offset is at most the number of values / (`capacity` + 1): an error bound that always holds.

The offset is the count of the row without an item. `weight` is the number of values that a row has brought; the values
of dropped items count in the offset row. Their sum is the number of values of the group.
"""

import math

import polars as pl

from cbt.algebra.items import ItemPao
from cbt.algebra.kinds import any_kind, kind_columns, kind_texts, split_kinds
from cbt.algebra.pao import Lifted

_LOAD = 0.75
_LG_SIZE_MIN = 3


class FrequentItems(ItemPao):
    """APPROX_TOP_K(x, top): the most frequent values with their counts; NULL does not count. Items: the value in the
    column of its kind, `i`, `s`...; states `n` and `weight`.

    Lowers to JSON text, `[[value, count, error], ...]` by descending count and then by text, values as canonical JSON:
    the true count is between `count - error` and `count`. NULL where there is no value. Capacity is that of the
    `max_items_tracked` of Spark's `approx_top_k`: 3/4 of the power of two that holds them. `error` is the greatest
    `error` of any count, as a part of the number of values; it holds always.

    Raises ValueError unless 1 <= top <= max_items_tracked <= 1,000,000.
    """

    def __init__(self, name: str, type_: str, top: int = 5, max_items_tracked: int = 10_000) -> None:
        if not 1 <= top <= max_items_tracked <= 1_000_000:
            raise ValueError(f"aggregate {name!r}: cannot find {top} items among {max_items_tracked}")
        self.name, self.type, self.top, self.max_items_tracked = name, type_, top, max_items_tracked
        self.lg_size = max(_LG_SIZE_MIN, math.ceil(math.log2(max_items_tracked / _LOAD)))
        self.capacity = int(_LOAD * 2**self.lg_size)
        self.n, self.weight = f"{name}.n", f"{name}.weight"
        self.items = kind_columns(name, type_)
        self.state = {self.n: pl.Int64(), self.weight: pl.Int64()}
        self.error = 1 / (self.capacity + 1)

    def lift(self, argument: pl.Series) -> Lifted:
        count = pl.col(argument.name).count().cast(pl.Int64)
        return Lifted([*split_kinds(argument, self.items)], [count.alias(self.n)], [pl.col(self.n), self._weight()])

    def _weight(self) -> pl.Expr:
        return pl.col(self.n).alias(self.weight)

    def combine(self) -> list[pl.Expr]:
        return [pl.col(name).sum() for name in self.state]

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        if rows.height <= self.capacity:
            return rows
        cut = f"{self.name}.cut"
        counts = pl.col(self.n).filter(any_kind(self.items))
        first_too_many = counts.top_k(self.capacity + 1).min()
        cuts = rows.group_by(group).agg(pl.when(counts.len() > self.capacity).then(first_too_many).alias(cut))
        cuts = cuts.drop_nulls(cut)
        if cuts.is_empty():
            return rows
        marked = rows.join(cuts, on=group, how="left", nulls_equal=True)
        kept = marked.filter(any_kind(self.items), pl.col(cut).is_null() | (pl.col(self.n) > pl.col(cut)))
        gone = marked.filter(any_kind(self.items), pl.col(self.n) <= pl.col(cut))
        lost = gone.group_by(group).agg(pl.col(cut).first().alias(self.n), pl.col(self.weight).sum())
        offsets = pl.concat([marked.filter(~any_kind(self.items)).select(*group, *self.state), lost])
        totals = offsets.group_by(group).agg(self.combine())
        reduced = kept.with_columns(pl.col(self.n) - pl.col(cut).fill_null(0)).drop(cut)
        return pl.concat([reduced, totals], how="diagonal").select(rows.columns)

    def bounds(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        """The items that are kept: `group`, item columns, `{aggregate}.lower` and `{aggregate}.upper`, which the true
        count is not below and not above. An item that is not kept has come at most upper - lower times.
        """
        offsets = rows.filter(~any_kind(self.items)).group_by(group).agg(pl.col(self.n).sum().alias(f"{self.name}.off"))
        kept = rows.filter(any_kind(self.items), pl.col(self.n) > 0)
        offset = pl.col(f"{self.name}.off").fill_null(0)
        lower = pl.col(self.n).alias(f"{self.name}.lower")
        upper = (pl.col(self.n) + offset).alias(f"{self.name}.upper")
        return kept.join(offsets, on=group, how="left", nulls_equal=True).select(*group, *self.items, lower, upper)

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        bounds = self.bounds(rows, group)
        upper, lower = pl.col(f"{self.name}.upper"), pl.col(f"{self.name}.lower")
        least = lower.top_k(self.top).min().over(group)
        candidates = bounds.filter(lower >= least)
        texts = kind_texts(candidates.select(*self.items).get_columns()).alias(self.name)
        ordered = candidates.with_columns(texts).sort(-lower, self.name)
        entry = pl.format("[{},{},{}]", pl.col(self.name), upper, upper - lower).head(self.top).str.join(",")
        found = ordered.group_by(group).agg(pl.format("[{}]", entry).alias(self.name))
        return rows.select(group).unique().join(found, on=group, how="left", nulls_equal=True)
