"""The part of a plan that runs on events, as Polars expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from query.ordering import directions, plain_types, row_order, sort_columns
from query.translation import Translator
from query.values import Value, column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from query.expression import Expression
    from query.plan import Plan, PlanOrder

_COMPILED_MAX = 256
_EMPTY_DTYPES = {"string": pl.String(), "any": pl.String(), "boolean": pl.Boolean()}


class EventStage:
    """WHERE, keys and arguments (or the columns and order of a rows plan) over frames of events.

    Expressions are compiled once for each combination of column dtypes that comes along; applying them is
    linear in the frame's rows.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._order = row_order(plan)
        self._compiled: dict[tuple[pl.DataType, ...], _Compiled] = {}

    def keys(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each key, or of a rows plan's selected columns; times are integers (epoch ms)."""
        if self._plan.kind == "aggregate":
            return tuple((key.name, _stored_type(key.type)) for key in self._plan.keys)
        return tuple((f"c{n}", _stored_type(output.type)) for n, output in enumerate(self._plan.output))

    def aggregates(self) -> tuple[tuple[str, str, str | None, str], ...]:
        """(name, function, argument column or None, argument type) of each aggregate."""
        return tuple(
            (aggregate.name, aggregate.function, aggregate.argument, _stored_type(aggregate.type))
            for aggregate in self._plan.aggregates
        )

    def order(self) -> tuple[tuple[str, bool, str], ...]:
        """(name, descending, type) of each plain order column of a rows plan, most significant first."""
        plain = zip(directions(self._order), plain_types(self._order), strict=True)
        return tuple((f"o{n}", descending, type_) for n, (descending, type_) in enumerate(plain))

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The events WHERE keeps: `@time` with keys and arguments, or with order and selected columns."""
        dtypes = tuple(frame.schema[needed.name] for needed in self._plan.columns)
        if dtypes not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[dtypes] = _Compiled(self._plan, self._order, dtypes)
        return self._compiled[dtypes].apply(frame)


class _Compiled:
    """A plan's part on events for frames of certain dtypes."""

    def __init__(self, plan: Plan, order: Sequence[PlanOrder], dtypes: Sequence[pl.DataType]) -> None:
        values = _window_bounds(plan.window_ms)
        for needed, dtype in zip(plan.columns, dtypes, strict=True):
            values[needed.name] = column(needed.name, dtype, needed.type)
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

    def _row_columns(self, plan: Plan, order: Sequence[PlanOrder]) -> Iterator[pl.Expr]:
        plain = [
            plain
            for key in order
            for plain in sort_columns(self._selection.bound(key.expression), key.expression.type)
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
