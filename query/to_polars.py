"""The part of a plan that runs on events, as Polars expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from query.ordering import directions, plain_types, row_order, sort_columns
from query.translation import Value, column, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from query.plan import Plan

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
        self._compiled: dict[tuple[pl.DataType, ...], tuple[pl.Expr | None, list[pl.Expr]]] = {}

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
        where, columns = self._expressions(frame)
        events = frame.lazy()
        if where is not None:
            events = events.filter(where)
        return events.select("@time", *columns).collect()

    def _expressions(self, frame: pl.DataFrame) -> tuple[pl.Expr | None, list[pl.Expr]]:
        dtypes = tuple(frame.schema[needed.name] for needed in self._plan.columns)
        if dtypes not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[dtypes] = self._compile(dtypes)
        return self._compiled[dtypes]

    def _compile(self, dtypes: tuple[pl.DataType, ...]) -> tuple[pl.Expr | None, list[pl.Expr]]:
        plan = self._plan
        values = _window_bounds(plan.window_ms)
        for needed, dtype in zip(plan.columns, dtypes, strict=True):
            values[needed.name] = column(needed.name, dtype, needed.type)
        where = None if plan.where is None else translate(plan.where, values).as_boolean()
        selected = self._group_columns(values) if plan.kind == "aggregate" else self._row_columns(values)
        return where, list(selected)

    def _group_columns(self, values: dict[str, Value]) -> Iterator[pl.Expr]:
        for key in self._plan.keys:
            yield _stored(translate(key.expression, values), key.type).alias(key.name)
        for argument in self._plan.arguments:
            yield _stored(translate(argument.expression, values), argument.type).alias(argument.name)

    def _row_columns(self, values: dict[str, Value]) -> Iterator[pl.Expr]:
        plain = [
            plain
            for key in self._order
            for plain in sort_columns(translate(key.expression, values), key.expression.type)
        ]
        yield from (expression.alias(f"o{n}") for n, expression in enumerate(plain))
        for n, output in enumerate(self._plan.output):
            yield _stored(translate(output.expression, values), output.type).alias(f"c{n}")


def _stored_type(type_: str) -> str:
    return "integer" if type_ == "timestamp" else type_


def _stored(value: Value, type_: str) -> pl.Expr:
    """A column as it leaves the stage: a frame where it is NULL throughout still gives it a dtype."""
    if value.kind == "null":
        return pl.lit(None, dtype=_EMPTY_DTYPES.get(type_, pl.Int64()))
    return value.expression


def _window_bounds(window_ms: int | None) -> dict[str, Value]:
    """The bounds of the window an event's time falls into; windows are aligned to the Unix epoch."""
    time = pl.col("@time")
    values = {"@time": Value(time, "integer")}
    if window_ms is not None:
        start = time - time % window_ms
        values["window_start"] = Value(start, "integer")
        values["window_end"] = Value(start + window_ms, "integer")
    return values
