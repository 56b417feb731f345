"""Exact COUNT(DISTINCT x): a row for each value."""

import polars as pl

from cbt.items import ItemPao
from cbt.kinds import any_kind, kind_columns, split_kinds
from cbt.pao import Lifted


class DistinctCount(ItemPao):
    """COUNT(DISTINCT x) of values of any type; NULL does not count. Lowers to Int64, 0 where there are only NULLs.

    Values are told apart as in canonical JSON: 1 and 1.0 are one value, so are 0 and -0.0, and all NaNs; 1, "1" and
    true are three.
    """

    def __init__(self, name: str, type_: str) -> None:
        self.name = name
        self.items = kind_columns(name, type_)
        self.state = {}

    def lift(self, argument: pl.Series) -> Lifted:
        return Lifted([*split_kinds(argument, self.items)], [], [])

    def combine(self) -> list[pl.Expr]:
        return []

    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        return rows.group_by(group).agg(any_kind(self.items).sum().cast(pl.Int64).alias(self.name))
