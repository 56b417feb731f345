"""Plans computed by Spark itself over stored columns, where that gives exactly the agents' results.

Spark filters, groups and aggregates; each group's values become the partial state that agents would have sent. The
job's master code then applies windows, HAVING, order and limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import cbt
import query
from agent.archive.format.segments import EVENTS, TIME
from agent.runtime.function.job_function import JobFunction
from elf.batch.query.column_states import ColumnState, InexactError, column_state
from elf.batch.query.event_counts import PANE, counted_of, events_by_pane, pane_column
from elf.batch.query.partial_states import StateCombiner
from elf.batch.query.stored_columns import stored_columns, stored_names
from elf.batch.table.layout import column as stored_column
from elf.batch.table.table import ArchiveTable, Range
from query.spark import NotExactError, SparkTranslator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SEEN = "@events"
_SLICE_ROWS = 1 << 18


@dataclass(frozen=True, slots=True)
class NativePlan:
    """A plan for Spark. `groups`: the frame computed by pane, `keys` and the arguments of sets and sketches.
    `counts_events`: the groups hold all events, so that their counts are the counts of events.
    """

    function: JobFunction
    table: ArchiveTable
    wanted: Range
    groups: DataFrame
    keys: Sequence[str]
    states: Sequence[ColumnState]
    counts_events: bool

    def combined(self) -> StateCombiner:
        """The combined state of all rows. Raises InexactError where a sum turns out not to be exact."""
        groups = pl.from_arrow(self.groups.toArrow())
        assert isinstance(groups, pl.DataFrame)
        checks = [one.is_exact for one in self.states if one.is_exact is not None]
        if checks and not groups.select(pl.all_horizontal(checks).all()).item():
            raise InexactError
        if PANE not in groups.columns:
            groups = groups.with_columns(pl.lit(0, pl.Int64).alias(PANE))
        layout = layout_of(self.function)
        combining = StateCombiner(self.function)
        states = [state for one in self.states for state in one.states]
        for part in groups.iter_slices(_SLICE_ROWS):
            combining.add(layout.from_groups(part.select(PANE, *self.keys, *states)))
        seen = events_by_pane(groups, _SEEN) if self.counts_events else None
        combining.count(counted_of(self.table, self.wanted, self.function.pane_ms, seen))
        return combining


def native_plan(plan: query.Plan, table: ArchiveTable, wanted: Range) -> NativePlan:
    """The native plan of a query. Raises NotExactError, with the reason, where Spark would not compute it exactly."""
    _check_shape(plan)
    segments = [one.segment for one in table.segments(wanted)]
    columns = SparkTranslator(stored_columns(plan, segments))
    function = JobFunction(plan, wanted.since_ms, wanted.until_ms)
    arguments = {one.name: columns.translate(one.expression) for one in plan.arguments}
    rows = sum(segment.rows for segment in segments)
    states = [
        column_state(one, None if one.argument is None else arguments[one.argument], rows)
        for one in layout_of(function).aggregates
    ]
    keys = {key.name: _key(columns, key) for key in plan.keys}
    keys |= {one.grouped_by[0]: one.grouped_by[1] for one in states if one.grouped_by is not None}
    read = table.scan(wanted, [TIME, EVENTS, *stored_names(plan, segments)])
    if any(segment.events != segment.rows for segment in segments):
        read = read.where(stored_column(EVENTS) == 1)
    if plan.where is not None:
        read = read.where(columns.condition(plan.where))
    panes = [] if plan.pane_ms is None else [pane_column(plan.pane_ms).alias(PANE)]
    computed = [column for one in states for column in one.computed]
    groups = read.groupBy(*panes, *(column.alias(name) for name, column in keys.items()))
    counts_events = plan.where is None
    seen = [F.count(F.lit(1)).alias(_SEEN)] if counts_events or not computed else []
    return NativePlan(function, table, wanted, groups.agg(*computed, *seen), list(keys), states, counts_events)


def layout_of(function: JobFunction) -> cbt.Layout:
    """Layout of the states of a function with aggregates."""
    store = function.new_store()
    assert isinstance(store, cbt.CompressedBufferTree)
    return store.layout


def _check_shape(plan: query.Plan) -> None:
    if plan.kind != "aggregate":
        raise NotExactError("it selects events, and aggregates nothing")
    if plan.join is not None or plan.branches:
        raise NotExactError("it joins or unites what it reads")
    if plan.windowing is not None and plan.windowing.session is not None:
        raise NotExactError("sessions are made of single events")


def _key(columns: SparkTranslator, key: query.PlanKey) -> Column:
    typed = columns.translate(key.expression)
    if typed.kind == "null":
        raise NotExactError("it groups by a column without values")
    return typed.column
