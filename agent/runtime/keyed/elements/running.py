"""Aggregates without windows: after each event, the element of its key tells what it has counted so far."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import polars as pl

import query
from agent.programs.element_graph import Element, EventType
from agent.runtime.keyed.elements.folds import SlotBatch, fold_of
from agent.runtime.keyed.elements.outputs import output_fields, plan_of, with_text_keys
from agent.runtime.keyed.elements.read_columns import ReadColumns
from agent.runtime.keyed.elements.runtime import DTYPES, EVENT_TIME, NODE, Emitted, Tables
from agent.runtime.keyed.elements.slots import SlotTable

STATES = "states"
"""The name of the table."""


class RunningAggregate:
    """Has the interface of `ElementRuntime`. Changes are kept for `take_changes` if it `tracks`."""

    def __init__(self, element: Element, types: Mapping[str, EventType], *, tracks: bool) -> None:
        self._plan = with_text_keys(plan_of(element))
        self._columns = ReadColumns(plan_of(element), self._plan, types[element.inputs[0].type])
        self._output = element.output
        self._fields = output_fields(element, types)
        self._ttl_ms = None if element.ttl_s is None else int(element.ttl_s * 1000)
        self._events = query.EventStage(self._plan)
        self._folds = [(one, fold_of(one.name, one.function, one.type)) for one in self._plan.aggregates]
        self._shown = ShownFields(self._plan, self._fields)
        fields = dict(types[element.inputs[0].type].fields)
        self._key = list(element.inputs[0].key or [])
        states = {name: kind for _, fold in self._folds for name, kind in fold.states.items()}
        self._table = SlotTable({name: DTYPES[fields[name]] for name in self._key}, states, tracks=tracks)
        self._tracks = tracks
        self._expired_ms = 0
        self.late = self.dropped = 0

    def process(self, type_: str, rows: pl.DataFrame, done: Callable[[list[Emitted]], None]) -> None:  # noqa: ARG002
        if not rows.height:
            done([])
            return
        slots = self._table.find(rows)
        selected = self._events.apply(self._columns.frame(rows))
        batch = SlotBatch(slots)
        columns = {key.name: selected[key.name] for key in self._plan.keys}
        for one, fold in self._folds:
            argument = None if one.argument is None else selected[one.argument]
            columns[one.name] = fold.fold(self._table, batch, argument)
        self._table.touch(slots, rows[EVENT_TIME].to_numpy())
        shown = self._shown.of(columns)
        done([Emitted(self._output, pl.DataFrame([rows[EVENT_TIME], rows[NODE], *shown]))])

    def advance(self, watermark_ms: int, done: Callable[[list[Emitted]], None]) -> None:
        if self._ttl_ms is not None and watermark_ms - self._expired_ms > self._ttl_ms // 16:
            self._expired_ms = watermark_ms
            self._table.expire(watermark_ms - self._ttl_ms)
        done([])

    def take_changes(self, done: Callable[[Tables], None]) -> None:
        done({STATES: self._table.changes()} if self._tracks else {})

    def states(self, nodes: Collection[int], done: Callable[[Tables], None]) -> None:
        done({STATES: self._table.frame(self._table.on_nodes(nodes))})

    def put(self, tables: Tables) -> None:
        if STATES in tables:
            self._table.put(tables[STATES])

    def drop(self, nodes: Collection[int]) -> None:
        self._table.drop(nodes)

    def evict(self, bytes_max: int, watermark_ms: int) -> int:
        return self._table.make_room(bytes_max, None if self._ttl_ms is None else watermark_ms - self._ttl_ms)

    @property
    def evicted(self) -> int:
        return self._table.evicted

    @property
    def coerced(self) -> int:
        """Number of values that were not of the type that the aggregate reads."""
        return self._columns.coerced

    @property
    def memory_bytes(self) -> int:
        return self._table.memory_bytes

    @property
    def elements(self) -> int:
        return self._table.count


class ShownFields:
    """The fields of what an aggregate emits, of its keys and aggregates."""

    def __init__(self, plan: query.Plan, fields: Sequence[tuple[str, str]]) -> None:
        self._fields = [(name, DTYPES[type_]) for name, type_ in fields]
        self._sources = [getattr(output.expression, "name", None) for output in plan.output]
        self._results = None if None not in self._sources else query.ResultStage(plan)

    def of(self, columns: Mapping[str, pl.Series]) -> list[pl.Series]:
        """The fields as columns. O(n)."""
        if self._results is None:
            named = zip(self._sources, self._fields, strict=True)
            return [columns[str(source)].cast(kind, strict=False).alias(name) for source, (name, kind) in named]
        frame = self._results.values(pl.DataFrame(columns))
        return fields_of(frame, self._fields)


def fields_of(frame: pl.DataFrame, fields: Sequence[tuple[str, pl.DataType]]) -> list[pl.Series]:
    """The columns of a result stage as fields. Integers beyond 64 bits and doubles that are not finite are NULL."""
    found = []
    for number, (name, kind) in enumerate(fields):
        column = frame[f"v{number}"]
        if f"v{number}.double" in frame.columns and kind == pl.Float64:
            column = column.cast(pl.Float64).zip_with(frame[f"v{number}.double"].is_null(), frame[f"v{number}.double"])
        column = column.cast(kind, strict=False)
        if kind == pl.Float64:
            column = column.set(~column.is_finite().fill_null(value=True), None)
        found.append(column.alias(name))
    return found
