"""The part of a plan that runs on events, as Polars expressions."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from query.aggregates import AGGREGATES
from query.expression import Call, Reference
from query.ordering import directions, order_columns, plain_types, row_order, sort_columns
from query.rewrite.expressions import event_expressions
from query.sharing import shared_calls
from query.translation import Translator
from query.types import ARITHMETIC
from query.values import Value, column
from query.where import Where

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from query.expression import Expression
    from query.plan import Plan
    from query.plan_parts import PlanOrder

_COMPILED_MAX = 256
# Of integers up to this size any product of two, and any sum of those within reason, fits 64 bits; of doubles, is
# finite. Beside it the bits of that number: those of negative numbers, NaN and what is infinite are above.
_MOST: dict[pl.DataType, tuple[float, int]] = {pl.Int64(): (2**31, 2**31), pl.Float64(): (2.0**100, (1023 + 100) << 52)}
# The dtype of a needed column, and the range that its numbers are known to lie in, if that is of use.
_Range: TypeAlias = tuple[float, float]
_Physical: TypeAlias = tuple[pl.DataType, _Range | None]
_Extremes: TypeAlias = tuple[int | None, ...]
_CALCULATING = ARITHMETIC | {"negate", "MOD"}
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
        self._guesses: dict[tuple[pl.DataType, ...], tuple[_Physical, ...]] = {}
        """By the dtypes of columns, the ranges that numbers mostly lie in, if not those taken for granted."""

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
        dtypes = {needed.name: frame.schema[needed.name] for needed in self._plan.event_columns}
        looked_at = [name for name in dtypes if name in self._calculated and dtypes[name] in _MOST]
        if not looked_at:
            return self._stage(_physical(dtypes, {})).apply(frame)
        guess = self._guesses.get(tuple(dtypes.values()))
        if guess is None:
            guess = _physical(dtypes, {name: (0, _MOST[dtypes[name]][0]) for name in looked_at})
        rows, bits = _both(self._stage(guess), frame, looked_at)
        ranges = {name: _range(frame[name], most) for name, most in zip(looked_at, bits, strict=True)}
        wider = _wider(guess, _physical(dtypes, ranges))
        if rows is not None and wider == guess:
            return rows
        # Of a frame with numbers beyond any range, the next ones are not expected to have them too.
        self._guesses[tuple(dtypes.values())] = tuple(
            usual if known[1] is None else known for usual, known in zip(guess, wider, strict=True)
        )
        return self._stage(wider).apply(frame)

    def _stage(self, physical: tuple[_Physical, ...]) -> _Compiled:
        if physical not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
                self._guesses.clear()
            self._compiled[physical] = _Compiled(self._plan, self._order, physical)
        return self._compiled[physical]


def _both(stage: _Compiled, frame: pl.DataFrame, looked_at: Sequence[str]) -> tuple[pl.DataFrame | None, _Extremes]:
    """The rows of a stage that knows in which ranges numbers lie, and the extremes which tell whether they do.

    Both at once: to know the ranges spares 128-bit arithmetic or a test of each result, and to look at the extremes
    costs a fraction of that, on another thread. No rows where that stage fails.
    """
    extremes = frame.lazy().select(pl.col(looked_at).reinterpret(dtype=pl.UInt64).max())
    try:
        rows, bits = pl.collect_all([stage.lazily(frame), extremes])
    except pl.exceptions.PolarsError:
        return None, extremes.collect().row(0)
    return rows, bits.row(0)


def _physical(dtypes: Mapping[str, pl.DataType], ranges: Mapping[str, _Range | None]) -> tuple[_Physical, ...]:
    return tuple((dtype, ranges.get(name)) for name, dtype in dtypes.items())


def _wider(one: Sequence[_Physical], other: Sequence[_Physical]) -> tuple[_Physical, ...]:
    """What holds of columns where either holds."""
    return tuple(
        (dtype, None if mine is None or theirs is None else (min(mine[0], theirs[0]), max(mine[1], theirs[1])))
        for (dtype, mine), (_, theirs) in zip(one, other, strict=True)
    )


def _range(numbers: pl.Series, bits: int | None) -> tuple[float, float] | None:
    most, bits_most = _MOST[numbers.dtype]
    if bits is None or bits <= bits_most:
        return 0, 0 if bits is None else most
    low, high, total = numbers.min(), numbers.max(), numbers.sum()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    # Extremes pass over NaN, of which a sum is NaN.
    return (-most, most) if -most <= low <= high <= most and isfinite(total) else None


class _Compiled:
    """A plan's part on events for frames with certain physical columns."""

    def __init__(self, plan: Plan, order: Sequence[PlanOrder], physical: Sequence[_Physical]) -> None:
        is_told = plan.windowing is not None and plan.windowing.is_tumbling
        values = window_bounds(plan.window_ms if is_told else None)
        self._needed = [column.name for column in plan.event_columns]
        for needed, (dtype, within) in zip(plan.event_columns, physical, strict=True):
            values[needed.name] = _within(column(needed.name, dtype, needed.type), within)
        translator = Translator(values, shared_calls(event_expressions(plan)))
        self._where = Where(plan.where, translator, Translator(values))
        # Its own translator: intermediate columns of the selection are made of the events WHERE keeps only.
        self._selection = translator.continued()
        columns = self._group_columns(plan) if plan.kind == "aggregate" else self._row_columns(plan, order)
        self._columns = list(columns)

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        return self.lazily(frame).collect()

    def lazily(self, frame: pl.DataFrame) -> pl.LazyFrame:
        """The same, as far as possible still to be computed."""
        events = self._where.kept(frame.select("@time", *self._needed))
        return self._selection.prepare(events).select("@time", *self._columns)

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


def _within(value: Value, within: tuple[float, float] | None) -> Value:
    if within is None:
        return value
    low, high = within
    return replace(value, most=high) if value.kind == "double" else replace(value, low=int(low), high=int(high))


def _calculated_with(plan: Plan) -> frozenset[str]:
    """The columns that arithmetic is done on."""
    found: set[str] = set()
    pending = list(event_expressions(plan))
    while pending:
        expression = pending.pop()
        if isinstance(expression, Call):
            if expression.operator in _CALCULATING:
                found.update(operand.name for operand in expression.operands if isinstance(operand, Reference))
            pending.extend(expression.operands)
    return frozenset(found)


def _stored_type(type_: str) -> str:
    return "integer" if type_ == "timestamp" else type_


def window_bounds(window_ms: int | None) -> dict[str, Value]:
    """The bounds of the window an event's time falls into; windows are aligned to the Unix epoch."""
    time = pl.col("@time")
    values = {"@time": Value(time, "integer", simple=True)}
    if window_ms is not None:
        start = time - time % window_ms
        values["window_start"] = Value(start, "integer")
        values["window_end"] = Value(start + window_ms, "integer")
    return values
