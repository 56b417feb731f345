"""What one version of a job computes, put together from the plan's stages and the CBT.

Two kinds share one shape: with aggregates a job keeps PAOs in a compressed buffer tree; without, it keeps the first
rows of each pane. Everything above (worker, combiner, master) sees only this shape.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

import cbt
import query

PaneStore = cbt.CompressedBufferTree | cbt.RowBuffer


class JobFunction:
    """A plan made runnable.

    `needs` are the columns parsers must decode; `state_schema` is the shape of the frames that travel.
    """

    def __init__(self, plan: query.Plan, since_ms: int | None = None, until_ms: int | None = None) -> None:
        self.plan = plan
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._events = query.EventStage(plan)
        self._results = query.ResultStage(plan)
        self._empty_store = self.new_store()
        self._pane = cbt.pane_of(pl.col("@time"), plan.window_ms)

    @classmethod
    def from_wire(cls, plan: Mapping[str, Any], since_ms: int | None, until_ms: int | None) -> JobFunction:
        """Raises `query.PlanError` where the plan is not one."""
        return cls(query.Plan.from_wire(plan), since_ms, until_ms)

    @property
    def aggregates(self) -> bool:
        return self.plan.kind == "aggregate"

    @property
    def state_schema(self) -> pl.Schema:
        store = self._empty_store
        return store.layout.schema if isinstance(store, cbt.CompressedBufferTree) else store.schema

    def new_store(self) -> PaneStore:
        """An empty store for the job's open panes."""
        keys = [cbt.Key(*key) for key in self._events.keys()]  # noqa: SIM118 - not a dict
        if self.aggregates:
            return cbt.CompressedBufferTree(keys, [cbt.Aggregate(*a) for a in self._events.aggregates()])
        order = [cbt.Order(*order) for order in self._events.order()]
        assert self.plan.limit is not None
        return cbt.RowBuffer(keys, order, self.plan.limit)

    def in_range(self, events: pl.DataFrame) -> pl.DataFrame:
        """Only events from `since` on and before `until`, with their pane."""
        conditions = []
        if self._since_ms is not None:
            conditions.append(pl.col("@time") >= self._since_ms)
        if self._until_ms is not None:
            conditions.append(pl.col("@time") < self._until_ms)
        return (events.filter(*conditions) if conditions else events).with_columns(pane=self._pane)

    def select(self, events: pl.DataFrame) -> pl.DataFrame:
        """Matching events as keys and arguments (or rows), with their pane: what a store takes."""
        return self._events.apply(events).with_columns(pane=self._pane)

    def combine(self, states: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """Merges the states of disjoint contributors."""
        store = self._empty_store
        combiner = store.layout if isinstance(store, cbt.CompressedBufferTree) else store
        return combiner.combine(list(states))

    def windows(self, state: pl.DataFrame, panes: Collection[int]) -> dict[int, query.Rows]:
        """The finished rows of each of the windows, in order; `state` holds rows of no others."""
        store = self._empty_store
        if isinstance(store, cbt.RowBuffer):
            return self._results.windows(state, panes)
        layout = store.layout
        windows: dict[int, query.Rows] = {}
        for part in layout.alike(state):
            windows |= self._results.windows(layout.lower(part), part["pane"].unique())
        absent = [pane for pane in panes if pane not in windows]
        return windows | self._results.windows(layout.lower(layout.empty()), absent)
