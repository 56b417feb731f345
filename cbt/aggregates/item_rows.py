"""Sets and sketches in PAO frames: beside the *main row* of a group, a row for each item of each such aggregate.

The column `:part` is NULL in main rows, which hold the states of ordinary aggregates, and else the number of the item
aggregate; the item columns of all of these follow. In columns that are not its own, a row has NULL or the state of no
values. So a group is one or many rows, which are merged, buffered and sent like any others.

The upper half of an item row's hash is that of its group's key hash, the lower one is made of the item. So a group's
rows stand together in the order of hashes, and ranges of hashes that begin at multiples of 2**32 part no group. Groups
that share the upper half may stand mixed; they are told apart by their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from cbt.algebra.columns import changed
from cbt.algebra.hashing import key_hash
from cbt.algebra.items import ItemPao, number_groups

PART = ":part"
_GROUP = ":group"
_PARTS_MAX = 127
_HALF_BITS = np.uint64(32)
UPPER_HALF = 0xFFFF_FFFF_0000_0000


class ItemRows:
    """The item rows of frames with the columns `keys` and the aggregates `paos`, at most 127 or it is a ValueError."""

    def __init__(self, keys: Sequence[str], paos: Sequence[ItemPao], seed: int) -> None:
        if len(paos) > _PARTS_MAX:
            raise ValueError(f"{len(paos)} aggregates that are sets or sketches; {_PARTS_MAX} are allowed")
        self._keys, self.paos, self._seed = list(keys), tuple(paos), seed
        items = [column for pao in paos for column in pao.items.items()]
        self.columns: list[tuple[str, pl.DataType]] = [(PART, pl.Int8()), *items] if paos else []
        """Columns that tell the rows of a group apart."""
        self._shrinking = [part for part, pao in enumerate(paos) if type(pao).compact is not ItemPao.compact]

    @property
    def shrinks(self) -> bool:
        return bool(self._shrinking)

    def hashes(self, rows: pl.DataFrame, keys: pl.Series) -> pl.Series:
        """The rows' hashes, where `keys` are those of their keys. O(n)."""
        hashes, parts = keys.to_numpy().copy(), rows[PART]
        for part, pao in enumerate(self.paos):
            own = (parts == part).fill_null(False).arg_true().to_numpy()
            if len(own):
                hashes[own] = self._hash(hashes[own], part, rows.select(*pao.items)[own])
        return pl.Series("hash", hashes)

    def _hash(self, groups: np.ndarray[Any, Any], part: int, items: pl.DataFrame) -> np.ndarray[Any, Any]:
        lower = key_hash([pl.Series([part], dtype=pl.Int64), *items.get_columns()], self._seed)
        return groups & np.uint64(UPPER_HALF) | lower.to_numpy() >> _HALF_BITS

    def compact(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
        """Shrinks groups that are too large: the rows that stay and the rows that replace others, with their own
        columns only. O(n log n).
        """
        stay = frame
        others: list[pl.DataFrame] = []
        if not self._shrinking or frame.is_empty():
            return stay, others
        groups = group_numbers(frame, self._keys)
        for part in self._shrinking:
            pao = self.paos[part]
            rows = _rows_of(frame, groups, part, pao)
            compact = pao.compact(rows, [_GROUP])
            if compact is not rows:
                stay = stay.filter(pl.col(PART).ne_missing(part))
                others.append(self._identified(frame, groups, part, compact))
        return stay, others

    def bag(self, frame: pl.DataFrame, part: int) -> pl.DataFrame:
        """The rows of one aggregate, ordered by the numbers of their groups in `:group`. O(n log n)."""
        rows = _rows_of(frame, group_numbers(frame, self._keys), part, self.paos[part])
        return rows.sort(_GROUP, *self.paos[part].items, nulls_last=True)

    def replaced(self, frame: pl.DataFrame, part: int, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows that stay and, with their own columns only, those that replace all rows of one aggregate: `rows`,
        with the numbers of their groups in `:group`. O(n)."""
        groups = group_numbers(frame, self._keys)
        stay = frame.filter(pl.col(PART).ne_missing(part))
        return stay, self._identified(frame, groups, part, rows)

    def _identified(self, frame: pl.DataFrame, groups: pl.Series, part: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of one aggregate by the numbers of their groups, with what identifies them in a frame."""
        identities = frame.select("pane", "hash", *self._keys)[groups.arg_unique()][rows[_GROUP]]
        hashes = self._hash(identities["hash"].to_numpy(), part, rows.select(*self.paos[part].items))
        own = identities.with_columns(pl.Series("hash", hashes), pl.lit(part, dtype=pl.Int8).alias(PART))
        return own.hstack(rows.drop(_GROUP))

    def lower(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Mapping[ItemPao, pl.Series]]:
        """The main rows of whole groups, and each aggregate's results for them. O(n log n)."""
        groups = group_numbers(frame, self._keys)
        is_main = frame[PART].is_null()
        order = groups.filter(is_main).to_frame()
        results = {
            pao: order.join(
                pao.lower(_rows_of(frame, groups, part, pao), [_GROUP]), on=_GROUP, how="left", maintain_order="left"
            )[pao.name]
            for part, pao in enumerate(self.paos)
        }
        return frame.filter(is_main), results

    def limited(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The number of groups in a pane that met an aggregate's limit: `pane`, `aggregate`, `groups`. O(n)."""
        found = [pl.DataFrame(schema={"pane": pl.Int64, "aggregate": pl.String, "groups": pl.Int64})]
        limits = [(part, pao, limit) for part, pao in enumerate(self.paos) if (limit := pao.limited()) is not None]
        groups = group_numbers(frame, self._keys) if limits else None
        for part, pao, limit in limits:
            rows = frame.with_columns(groups).filter(pl.col(PART) == part)
            met = rows.group_by("pane", _GROUP).agg(limit.alias("met"))
            counts = met.group_by("pane").agg(pl.col("met").sum().cast(pl.Int64).alias("groups"))
            named = counts.select("pane", pl.lit(pao.name).alias("aggregate"), "groups")
            found.append(named.filter(pl.col("groups") > 0))
        return pl.concat(found)

    def rows_of_groups(self, frame: pl.DataFrame, chosen: pl.Series) -> pl.Series:
        """Which rows are of groups whose main rows are chosen. O(n)."""
        groups = group_numbers(frame, self._keys)
        return groups.is_in(groups.filter(frame[PART].is_null()).filter(chosen).implode())


def upper_halves(frame: pl.DataFrame) -> np.ndarray[Any, Any]:
    """The upper halves of the hashes, equal in all rows of a group. O(n)."""
    return frame["hash"].to_numpy() >> _HALF_BITS


def group_numbers(frame: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """The number of each row's group, UInt32, in the order in which groups appear. O(n)."""
    groups = frame.select("pane", pl.Series("hash", upper_halves(frame)), *keys)
    pane, upper = pl.col("pane"), pl.col("hash")
    marks = groups.select(
        begins=changed(["pane", "hash"]),
        mixed=changed(keys) & ~changed(["pane", "hash"]) if keys else pl.lit(False),
        behind=(pane < pane.shift()) | ((pane == pane.shift()) & (upper < upper.shift())),
    )
    if marks["mixed"].any() or marks["behind"].any():
        return number_groups(groups, groups.columns)[0].alias(_GROUP)
    return (marks["begins"].cum_sum() - 1).cast(pl.UInt32).alias(_GROUP)


def _rows_of(frame: pl.DataFrame, groups: pl.Series, part: int, pao: ItemPao) -> pl.DataFrame:
    own = frame[PART] == part
    return frame.select(*pao.items, *pao.state).insert_column(0, groups).filter(own)
