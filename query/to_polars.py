"""The part of a plan that runs on events, as Polars expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from query.aggregates import AGGREGATES
from query.expression import Call, references
from query.ordering import directions, order_columns, plain_types, row_order, sort_columns
from query.translation import Translator
from query.types import NUMERIC
from query.values import Value, column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from query.expression import Expression
    from query.plan import Plan, PlanOrder

_COMPILED_MAX = 256
# Of integers up to this size any product of two, and any sum of those within reason, fits 64 bits.
_SMALL_MAX = 2**31
# The dtype of a needed column, and whether it is an integer column whose values are all small.
_Physical: TypeAlias = tuple[pl.DataType, bool]
_EMPTY_DTYPES = {"string": pl.String(), "any": pl.String(), "boolean": pl.Boolean()}


class EventStage:
    """WHERE, keys and arguments (or the columns and order of a rows plan) over frames of events.

    Expressions are compiled once for each combination of column dtypes that comes along; applying them is
    linear in the frame's rows.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._order = row_order(plan)
        self._calculated = _calculated_with(plan)
        self._compiled: dict[tuple[_Physical, ...], _Compiled] = {}

    def keys(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each key, or of a rows plan's selected columns; times are integers (epoch ms)."""
        if self._plan.kind == "aggregate":
            return tuple((key.name, _stored_type(key.type)) for key in self._plan.keys)
        return tuple((f"c{n}", _stored_type(output.type)) for n, output in enumerate(self._plan.output))

    def aggregates(self) -> tuple[tuple[str, str, str | None, str, tuple[float | tuple[float, ...], ...]], ...]:
        """(name, function, argument column or None, argument type, parameters) of each aggregate."""
        functions = ((one, AGGREGATES[one.function.upper()]) for one in self._plan.aggregates)
        return tuple(
            (one.name, row.function, one.argument, _stored_type(one.type), row.arguments(one.parameters))
            for one, row in functions
        )

    def order(self) -> tuple[tuple[str, bool, str], ...]:
        """(name, descending, type) of each plain order column of a rows plan, most significant first."""
        plain = zip(directions(self._order), plain_types(self._order), strict=True)
        return tuple((f"o{n}", descending, type_) for n, (descending, type_) in enumerate(plain))

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The events WHERE keeps: `@time` with keys and arguments, or with order and selected columns.

        Aggregates that look at the time of events find it as `time`.
        """
        physical = tuple(self._physical(frame, needed.name) for needed in self._plan.event_columns)
        if physical not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[physical] = _Compiled(self._plan, self._order, physical)
        return self._compiled[physical].apply(frame)

    def _physical(self, frame: pl.DataFrame, name: str) -> _Physical:
        dtype = frame.schema[name]
        if name not in self._calculated or dtype != pl.Int64:
            return dtype, False
        # Looking costs a fraction of what 128-bit arithmetic does, and changes no result.
        extremes = frame.select(low=pl.col(name).min(), high=pl.col(name).max()).row(0)
        return dtype, all(value is None or abs(value) <= _SMALL_MAX for value in extremes)


class _Compiled:
    """A plan's part on events for frames with certain physical columns."""

    def __init__(self, plan: Plan, order: Sequence[PlanOrder], physical: Sequence[_Physical]) -> None:
        is_told = plan.windowing is not None and plan.windowing.is_tumbling
        values = _window_bounds(plan.window_ms if is_told else None)
        for needed, (dtype, small) in zip(plan.event_columns, physical, strict=True):
            value = column(needed.name, dtype, needed.type)
            values[needed.name] = replace(value, low=-_SMALL_MAX, high=_SMALL_MAX) if small else value
        self._condition = Translator(values)
        self._where = None if plan.where is None else self._condition.translate(plan.where).as_boolean()
        # Its own translator: intermediate columns of the selection are made of the events WHERE keeps only.
        self._selection = Translator(values)
        columns = self._group_columns(plan) if plan.kind == "aggregate" else self._row_columns(plan, order)
        self._columns = list(columns)

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        events = frame.lazy()
        if self._where is not None:
            events = self._condition.prepare(events).filter(self._where)
        return self._selection.prepare(events).select("@time", *self._columns).collect()

    def _group_columns(self, plan: Plan) -> Iterator[pl.Expr]:
        for key in plan.keys:
            yield self._stored(key.expression).alias(key.name)
        for argument in plan.arguments:
            yield self._stored(argument.expression).alias(argument.name)
        has_sessions = plan.windowing is not None and plan.windowing.session is not None
        if has_sessions or any(AGGREGATES[one.function.upper()].timed for one in plan.aggregates):
            yield pl.col("@time").alias("time")

    def _row_columns(self, plan: Plan, order: Sequence[PlanOrder]) -> Iterator[pl.Expr]:
        plain = [
            plain
            for key in order
            for plain in order_columns(key, sort_columns(self._selection.bound(key.expression), key.expression.type))
        ]
        yield from (expression.alias(f"o{n}") for n, expression in enumerate(plain))
        for n, output in enumerate(plan.output):
            yield self._stored(output.expression).alias(f"c{n}")

    def _stored(self, expression: Expression) -> pl.Expr:
        """A column as it leaves the stage: in a frame where it is NULL throughout it still has a dtype."""
        value = self._selection.translate(expression)
        if value.kind == "null":
            return pl.lit(None, dtype=_EMPTY_DTYPES.get(expression.type, pl.Int64()))
        return value.expression


def _calculated_with(plan: Plan) -> frozenset[str]:
    """The columns that take part in arithmetic."""
    found: set[str] = set()
    pending = [key.expression for key in plan.keys] + [key.expression for key in plan.order]
    pending += [argument.expression for argument in plan.arguments]
    pending += [output.expression for output in plan.output]
    pending += [] if plan.where is None else [plan.where]
    while pending:
        expression = pending.pop()
        if not isinstance(expression, Call):
            continue
        if expression.type in NUMERIC:
            found.update(reference.name for reference in references(expression))
        else:
            pending.extend(expression.operands)
    return frozenset(found)


def _stored_type(type_: str) -> str:
    return "integer" if type_ == "timestamp" else type_


def _window_bounds(window_ms: int | None) -> dict[str, Value]:
    """The bounds of the window an event's time falls into; windows are aligned to the Unix epoch."""
    time = pl.col("@time")
    values = {"@time": Value(time, "integer", simple=True)}
    if window_ms is not None:
        start = time - time % window_ms
        values["window_start"] = Value(start, "integer")
        values["window_end"] = Value(start + window_ms, "integer")
    return values
