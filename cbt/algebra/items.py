"""Aggregates whose state is a set or a sketch: many small rows for one key, each with an *item* as part of
its identity.

A Python object for each group would cost a Python call for each row. As rows, a set of distinct values, a histogram or
a sketch is lifted and merged by the same group-by as all other aggregates: by pane, keys and items.

A NULL value has the item NULL: a row that marks its group as present and counts nothing.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import polars as pl

from cbt.algebra.pao import Lifted, StateAlgebra


class ItemPao(StateAlgebra):
    """The algebra of one aggregate whose state is many rows. A row is `pane`, keys, the columns `items` and the columns
    `state`, all of them named `{aggregate}.{part}`.

    `error` is the relative or rank error that holds in 99 % of cases or more, None for what is exact.
    """

    name: str
    items: dict[str, pl.DataType]
    error: float | None = None

    @abstractmethod
    def lift(self, argument: pl.Series) -> Lifted:
        """Expressions for a block whose argument column is `argument`. `rows` holds the item columns, by which the
        block is then grouped, besides pane and keys.
        """

    def compact(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:  # noqa: ARG002 - sets keep all
        """Shrinks groups (by the columns `group`) that are too large. Correct for any part of a group's rows in any
        order, and deterministic.
        """
        return rows

    def limited(self) -> pl.Expr | None:
        """Whether a group has met its limit, an aggregation over its rows; None where there is no limit."""
        return None

    @abstractmethod
    def lower(self, rows: pl.DataFrame, group: list[str]) -> pl.DataFrame:
        """One row for each group: its columns and the result, named as the aggregate. In any order."""


def lift_items(pao: ItemPao, frame: pl.DataFrame, keys: Sequence[str], argument: str) -> pl.DataFrame:
    """The item rows of a block with the columns `pane`, `keys` and `argument`. O(n).

    >>> from cbt.aggregates.distinct import DistinctCount
    >>> events = pl.DataFrame({"pane": [0, 0, 0], "path": ["/a", "/b", "/a"], "user": [7, 8, 7]})
    >>> users = DistinctCount("users", "integer")
    >>> rows = lift_items(users, events, ["path"], "user")
    >>> lower_items(users, merge_items(users, [rows, rows], ["path"]), ["path"]).sort("path").rows()
    [(0, '/a', 1), (0, '/b', 1)]
    """
    group = ["pane", *keys]
    lifted = pao.lift(frame[argument])
    grouped = frame.with_columns(lifted.rows).group_by(*group, *pao.items).agg(lifted.groups)
    return pao.compact(grouped.select(*group, *pao.items, *lifted.states), group)


def merge_items(pao: ItemPao, frames: Iterable[pl.DataFrame], keys: Sequence[str]) -> pl.DataFrame:
    """The item rows of several frames as one frame. O(n)."""
    group = ["pane", *keys]
    rows = pl.concat(frames).group_by(*group, *pao.items).agg(pao.combine())
    return pao.compact(rows, group)


def subtract_items(pao: ItemPao, minuend: pl.DataFrame, less: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The item rows of `minuend` without its part `less`. O(n).

    Raises ValueError where the aggregate is not invertible.
    """
    states = pao.subtract()
    if states is None:
        raise ValueError(f"aggregate {pao.name!r}: a part of it cannot be taken away again")
    identity = ["pane", *keys, *pao.items]
    joined = minuend.join(less, on=identity, how="left", nulls_equal=True, suffix=":less")
    return joined.select(*identity, *states)


def lower_items(pao: ItemPao, rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The results of item rows: `pane`, `keys`, and one column named as the aggregate. O(n log n)."""
    return pao.lower(rows, ["pane", *keys])


def number_groups(rows: pl.DataFrame, group: list[str]) -> tuple[pl.Series, pl.DataFrame]:
    """The number of each row's group, UInt32, and the groups in the order of their numbers, from 0. O(n)."""
    number = max(group, key=len) + "'"
    groups = rows.select(group).unique(maintain_order=True).with_row_index(number)
    if groups.height == 1:
        return groups[number].new_from_index(0, rows.height), groups.drop(number)
    numbered = rows.select(group).join(groups, on=group, how="left", nulls_equal=True, maintain_order="left")
    return numbered[number], groups.drop(number)
