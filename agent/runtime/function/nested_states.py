"""Turns states of one function into states of another one, which reads the rows of its windows (Enorm, figure 5.3).

Where aggregates nest (SUM of COUNT, MIN of MIN ...), the reader's state over rows is the merged state of those that the
rows are made of. So there is no need to make rows and to count them again: keys are projected, states are renamed or
computed, and merged where the reader's keys are coarser. That is done only where each state is the one that would come
of the row. Elsewhere rows are read; both may be mixed.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

import cbt
import query
from agent.parsing import COERCED, TIME
from agent.parsing.columns import parsed
from agent.runtime.function.state_rows import StateFunction, StateRows
from agent.runtime.function.upstream_rows import column_of_rows

EXACT_MAX = 10**15
"""Upper bound on whole numbers that are shown with all of their digits beside doubles."""


class NestedState(NamedTuple):
    """The state of a window's rows, in a pane of their reader. `rows`: their number; `coerced`: the values that do not
    fit their use."""

    frame: pl.DataFrame
    rows: int
    coerced: int


class NestedStates:
    """The way from the states of windows of a function to those of its reader's panes."""

    def __init__(self, plans: query.NestedPlans, reader: StateFunction, layout: cbt.Layout, inner: cbt.Layout) -> None:
        self._plans, self._reader, self._layout, self._inner = plans, reader, layout, inner
        self._rows, self._keys = query.ResultStage(plans.rows), query.EventStage(plans.keys)
        self._columns = [one for one in reader.columns_of(plans.keys.stream) if one.name in _names(plans.keys)]
        self._nesting = [inner.paos_by_name[name] for name in dict.fromkeys(plans.aggregates.values())]

    @classmethod
    def between(cls, reader: StateFunction, read: StateFunction) -> NestedStates | None:
        """The way between two functions, if there is one. Rows of a query over the rows of `read` are not those of its
        windows: it is in the way where the reader is another one."""
        layout, inner = reader.store_layout, read.layout
        is_plain = reader.lookup is None and reader.sessions is None and not reader.folds and not reader.self_paced
        if layout is None or inner is None or not is_plain or reader.range[1:] != (None, None):
            return None
        if read.plan.outer not in (None, reader.plan):
            return None
        plans = query.nested_plans(reader.plan, read.plan)
        return None if plans is None else cls(plans, reader, layout, inner)

    def taken(self, rows: StateRows, pane: int) -> NestedState | None:
        """The state of a window's rows in a pane of their reader; None where the rows tell more than states do.
        O(n), and O(n log n) where keys differ."""
        groups = self._inner.main_rows(rows.state)
        if not self._are_shown_whole(groups):
            return None
        same = self._same_keys(groups, pane)
        identity, coerced = self._new_keys(groups, pane) if same is None else (same, 0)
        frame = self._layout.over(identity, self._inner, groups, self._plans.aggregates)
        if frame is None:
            return None
        return NestedState(frame if same is not None else self._reader.combine([frame]), groups.height, coerced)

    def _are_shown_whole(self, groups: pl.DataFrame) -> bool:
        """Whether the numbers of the rows are those of the states: doubles are rounded when they are shown, and so are
        whole numbers beside them."""
        for pao in self._nesting:
            numbers = [groups[name] for name, dtype in pao.state.items() if dtype == pl.Int64()]
            doubles = [groups[name] for name, dtype in pao.state.items() if dtype == pl.Float64()]
            if all(one.null_count() == len(one) for one in doubles):
                continue
            if not all(map(query.are_shown_whole, doubles)) or any(map(_is_large, numbers)):
                return False
        return True

    def _same_keys(self, groups: pl.DataFrame, pane: int) -> pl.DataFrame | None:
        """The identity of the groups where the reader's keys are theirs; None where they differ."""
        names, keys = self._plans.same_keys, self._inner.keys
        if names is None or self._layout.seed != self._inner.seed:
            return None
        if any(key.type == "any" and not groups[key.name].str.starts_with('"').all() for key in keys):
            return None
        own = [groups[name].alias(key.name) for name, key in zip(names, self._layout.keys, strict=True)]
        return groups.select(pl.lit(pane, dtype=pl.Int64).alias("pane"), "hash", *own)

    def _new_keys(self, groups: pl.DataFrame, pane: int) -> tuple[pl.DataFrame, int]:
        """The identity of each group by the reader's keys, as these come of the rows, and the number of values that do
        not fit their use."""
        rows = self._rows.rows(groups.select("pane", *(key.name for key in self._inner.keys)))
        places = pl.Series(TIME, range(groups.height), dtype=pl.Int64)
        frames = parsed(places, [column_of_rows(column, rows) for column in self._columns], 0).frames
        coerced = sum(int(frame[COERCED].sum()) for frame in frames if COERCED in frame.columns)
        parts = []
        for frame in frames:
            block = self._keys.apply(frame)
            keys = self._layout.keys_of(block)
            parts.append(keys.with_columns(self._layout.hashes(keys), block[TIME]))
        identity = pl.concat(parts).sort(TIME).with_columns(pl.lit(pane, dtype=pl.Int64).alias("pane"))
        return identity.select("pane", "hash", *(key.name for key in self._layout.keys)), coerced


def _names(plan: query.Plan) -> set[str]:
    return {column.name for column in plan.columns}


def _is_large(numbers: pl.Series) -> bool:
    """Whether some whole number may be shown rounded."""
    least, most = numbers.min(), numbers.max()
    return any(isinstance(one, int) and abs(one) >= EXACT_MAX for one in (least, most))
