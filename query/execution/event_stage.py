"""The part of a plan that runs on events, as Polars expressions."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from query.execution.ordering import directions, order_columns, plain_types, row_order, sort_columns
from query.execution.translation import Translator
from query.functions.aggregates import aggregate_function
from query.model.expression import Operation, Reference, calls
from query.model.streams import selects
from query.model.types import ARITHMETIC
from query.physical.values import Value, column
from query.plan.cost import cost
from query.plan.walk import conjunction, conjuncts, event_expressions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from query.execution.translation import Translator
    from query.model.expression import Expression
    from query.plan.plan import Plan, PlanBranch, PlanColumn, PlanOrder


SHARED_COST_MIN_NS = 5.0
"""Cost (ns for each event) below which a repeated expression is computed again rather than kept."""


def shared_calls(expressions: Iterable[Expression]) -> frozenset[Operation]:
    """The operations that occur more than once, without those that occur only inside a repeated one. O(n · depth)."""
    seen: set[Operation] = set()
    shared: set[Operation] = set()
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if not isinstance(expression, Operation) or expression in shared:
            continue
        if expression in seen and cost(expression) >= SHARED_COST_MIN_NS:
            shared.add(expression)
            continue
        seen.add(expression)
        pending.extend(expression.operands)
    return frozenset(shared)


COSTLY_NS = 20.0
"""Cost (ns for each event) above which a condition is tested only on events that the cheaper ones keep."""
COPIED_SHARE_MAX = 0.5
"""Largest share of a frame that is worth copying before costly conditions are tested."""


def cheap_and_costly(condition: Expression | None) -> tuple[Expression | None, Expression | None]:
    """The conditions tested first, and those tested on the events that are left; None where there are none."""
    conditions = conjuncts(condition)
    costly = next((n for n, one in enumerate(conditions) if cost(one) > COSTLY_NS), len(conditions))
    return conjunction(conditions[:costly]), conjunction(conditions[costly:])


class Where:
    """A condition over frames of events, translated by `translator`, which shares its intermediate columns with other
    expressions.

    `first` translates over the same columns: conditions tested first share nothing.
    """

    def __init__(self, condition: Expression | None, translator: Translator, first: Translator) -> None:
        cheap, rest = cheap_and_costly(condition)
        self._prepare = translator.prepare
        self._condition = None if condition is None else translator.translate(condition).as_boolean()
        self._cheap = self._rest = None
        if cheap is not None and rest is not None:
            self._first = first
            self._cheap = first.translate(cheap).as_boolean()
            self._rest = translator.translate(rest).as_boolean()

    def filter(self, frame: pl.DataFrame) -> pl.LazyFrame:
        """The events for which the condition is TRUE, with the columns that the translator prepared."""
        if self._condition is None:
            return frame.lazy()
        condition = self._condition
        if self._cheap is not None and self._rest is not None:
            passed = self._first.prepare(frame.lazy()).select(passed=self._cheap).collect()["passed"]
            if len(passed) == 1 != frame.height:  # constants give a single value for all events
                passed = passed.new_from_index(0, frame.height)
            if (passed.sum() or 0) <= COPIED_SHARE_MAX * frame.height:
                frame, condition = frame.filter(passed), self._rest
        return self._prepare(frame.lazy()).filter(condition)


_COMPILED_MAX = 256
# For integers up to this size any product of two, and any reasonable sum of products, fits 64 bits; for doubles it is
# finite. Then the bits of that number: the bits of negative numbers, NaN and infinities are above it, or negative.
_MOST: dict[pl.DataType, tuple[float, int]] = {pl.Int64(): (2**31, 2**31), pl.Float64(): (2.0**100, (1023 + 100) << 52)}
# The dtype of a needed column, and the known range of its numbers, if that is useful.
_Physical: TypeAlias = tuple[pl.DataType, tuple[float, float] | None]
_CALCULATING = ARITHMETIC | {"negate", "MOD"}
_KEPT = ("@time", "pane")
"""Columns of events beside those of the plan, which they keep."""
_EMPTY_DTYPES = {"string": pl.String(), "any": pl.String(), "boolean": pl.Boolean()}


class EventStage:
    """WHERE, keys and arguments (or the columns and order of a rows plan) over frames of events.

    Expressions are compiled once for each combination of column dtypes; applying them is linear in the frame's rows.
    `ordered`: rows are to be put in order, so they get the columns for it.
    """

    def __init__(self, plan: Plan, *, ordered: bool = True) -> None:
        self._plan = plan
        self._order = row_order(plan) if ordered else ()
        self._calculated = _calculated_with(plan)
        self._compiled: dict[tuple[_Physical, ...], _Compiled] = {}

    def keys(self) -> tuple[tuple[str, str], ...]:
        """(name, type) of each key, or of a rows plan's selected columns; times are integers (epoch ms)."""
        if self._plan.kind == "aggregate":
            return tuple((key.name, _stored_type(key.type)) for key in self._plan.keys)
        return tuple((f"c{n}", _stored_type(output.type)) for n, output in enumerate(self._plan.output))

    def aggregates(self) -> tuple[tuple[str, str, str | None, str, tuple[float | tuple[float, ...], ...]], ...]:
        """(name, function, argument column or None, argument type, parameters) of each aggregate."""
        functions = ((one, aggregate_function(one.function.upper())) for one in self._plan.aggregates)
        return tuple(
            (one.name, row.function, one.argument, _stored_type(one.type), row.arguments(one.parameters))
            for one, row in functions
        )

    def order(self) -> tuple[tuple[str, bool, str], ...]:
        """(name, descending, type) of each plain order column of a rows plan, most significant first."""
        plain = zip(directions(self._order), plain_types(self._order), strict=True)
        return tuple((f"o{n}", descending, type_) for n, (descending, type_) in enumerate(plain))

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The events WHERE keeps: `@time`, and `pane` if the frame has it, with keys and arguments, or with order and
        selected columns.

        Aggregates that need the time of events find it as `time`.
        """
        physical = self._physical(frame)
        if physical not in self._compiled:
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[physical] = _Compiled(self._plan, self._order, physical)
        return self._compiled[physical].apply(frame)

    def _physical(self, frame: pl.DataFrame) -> tuple[_Physical, ...]:
        """The dtypes and ranges of the columns. Computing their extremes costs a fraction of the 128-bit arithmetic, or
        the test of each result, that it saves, and changes no result.
        """
        schema = dict(zip(frame.columns, frame.dtypes, strict=True))
        dtypes = {needed.name: schema[needed.name] for needed in self._plan.event_columns}
        looked_at = [name for name in dtypes if name in self._calculated and dtypes[name] in _MOST]
        ranges = {}
        if looked_at:
            bits = frame.select(_bits(name, dtypes[name]) for name in looked_at).row(0)
            ranges = {name: _range(frame[name], most) for name, most in zip(looked_at, bits, strict=True)}
        return tuple((dtype, ranges.get(name)) for name, dtype in dtypes.items())


def _bits(name: str, dtype: pl.DataType) -> pl.Expr:
    """A number whose bits include those of every value; for integers, all bits combined, which is faster to compute
    than the maximum."""
    numbers = pl.col(name)
    return numbers.bitwise_or() if dtype == pl.Int64 else numbers.reinterpret(dtype=pl.UInt64).max()


def _range(numbers: pl.Series, bits: int | None) -> tuple[float, float] | None:
    most, bits_most = _MOST[numbers.dtype]
    if bits is None or 0 <= bits <= bits_most:
        return 0, 0 if bits is None else most
    low, high, total = numbers.min(), numbers.max(), numbers.sum()
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    # Extremes pass over NaN, of which a sum is NaN.
    return (-most, most) if -most <= low <= high <= most and isfinite(total) else None


class _Compiled:
    """The part of a plan on events, compiled for frames with certain physical columns."""

    def __init__(self, plan: Plan, order: Sequence[PlanOrder], physical: Sequence[_Physical]) -> None:
        is_told = plan.windowing is not None and plan.windowing.is_tumbling
        values = window_bounds(plan.window_ms if is_told else None)
        for needed, (dtype, within) in zip(plan.event_columns, physical, strict=True):
            values[needed.name] = _within(column(needed.name, dtype, needed.type), within)
        translator = Translator(values, shared_calls(event_expressions(plan)))
        self._where = Where(plan.where, translator, Translator(values))
        # A translator of its own: intermediate columns of the selection are computed only on events that WHERE keeps.
        self._selection = translator.continued()
        columns = self._group_columns(plan) if plan.kind == "aggregate" else self._row_columns(plan, order)
        self._columns = list(columns)
        known = {"@time", *(one.name for one in plan.event_columns)}
        self._plain = None if plan.where is not None else _plain_columns(self._columns, known)

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        kept = [name for name in _KEPT if name in frame.columns]
        if self._plain is not None:
            return _picked(frame, {**dict(zip(kept, kept, strict=True)), **self._plain})
        events = self._where.filter(frame)
        return self._selection.prepare(events).select(*kept, *self._columns).collect()

    def _group_columns(self, plan: Plan) -> Iterator[pl.Expr]:
        for key in plan.keys:
            yield self._stored(key.expression).alias(key.name)
        for argument in plan.arguments:
            yield self._stored(argument.expression).alias(argument.name)
        has_sessions = plan.windowing is not None and plan.windowing.session is not None
        if has_sessions or any(aggregate_function(one.function.upper()).timed for one in plan.aggregates):
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
        """A column as it leaves the stage: one that is NULL throughout still has a dtype."""
        value = self._selection.translate(expression)
        if value.kind == "null":
            return pl.lit(None, dtype=_EMPTY_DTYPES.get(expression.type, pl.Int64()))
        return value.expression


def _plain_columns(expressions: Sequence[pl.Expr], known: Collection[str]) -> dict[str, str] | None:
    """The columns that expressions name, by the names they give them; None where one is not among the known."""
    if not all(expression.meta.undo_aliases().meta.is_column() for expression in expressions):
        return None
    columns = {one.meta.output_name(): one.meta.root_names()[0] for one in expressions}
    return columns if set(columns.values()) <= set(known) else None


def _picked(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.DataFrame:
    """Columns of a frame by their new names, as they are: a hundredth of the price of a query."""
    owns = [*columns.values()]
    if len(set(owns)) < len(owns):
        return pl.DataFrame({name: frame[own] for name, own in columns.items()})
    picked = frame[:, owns]
    picked.columns = [*columns]
    return picked


def _within(value: Value, within: tuple[float, float] | None) -> Value:
    if within is None:
        return value
    low, high = within
    return replace(value, most=high) if value.kind == "double" else replace(value, low=int(low), high=int(high))


def _calculated_with(plan: Plan) -> frozenset[str]:
    """The columns that arithmetic reads."""
    every = (call for expression in event_expressions(plan) for call in calls(expression))
    operands = (operand for call in every if call.operator in _CALCULATING for operand in call.operands)
    return frozenset(operand.name for operand in operands if isinstance(operand, Reference))


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


_COMPILED_BRANCHES_MAX = 64


class BranchesStage:
    """All branches of a plan. The events of a stream that several branches read are in each of them."""

    def __init__(self, plan: Plan) -> None:
        self._branches = [_BranchStage(plan, branch, number) for number, branch in enumerate(plan.branches)]

    def columns(self, stream: str) -> list[PlanColumn]:
        """The columns to read of a stream, under names that are unique among branches."""
        return [column for branch in self._branches if selects(branch.stream, stream) for column in branch.columns]

    def apply(self, stream: str, events: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """The events of a stream as its branches project them; O(n) for each branch."""
        for branch in self._branches:
            if selects(branch.stream, stream):
                yield branch.apply(events)


class _BranchStage:
    def __init__(self, plan: Plan, branch: PlanBranch, number: int) -> None:
        self.stream = branch.stream
        self.columns = [replace(one, name=f"{number}.{one.name}") for one in branch.columns]
        self._plan = plan
        self._branch = branch
        self._compiled: dict[tuple[pl.DataType, ...], tuple[Translator, pl.Expr | None, Translator, list[pl.Expr]]] = {}

    def apply(self, events: pl.DataFrame) -> pl.DataFrame:
        dtypes = tuple(events.schema[one.name] for one in self.columns)
        if dtypes not in self._compiled:
            if len(self._compiled) >= _COMPILED_BRANCHES_MAX:
                self._compiled.clear()
            self._compiled[dtypes] = self._compile(dtypes)
        condition, where, selection, outputs = self._compiled[dtypes]
        kept = events.lazy()
        if where is not None:
            kept = condition.prepare(kept).filter(where)
        coerced = [name for name in ("@coerced",) if name in events.columns]
        return selection.prepare(kept).select("@time", *coerced, *outputs).collect()

    def _compile(self, dtypes: tuple[pl.DataType, ...]) -> tuple[Translator, pl.Expr | None, Translator, list[pl.Expr]]:
        values = window_bounds(self._plan.window_ms)
        for read, known, dtype in zip(self.columns, self._branch.columns, dtypes, strict=True):
            values[known.name] = column(read.name, dtype, known.type)
        condition, selection = Translator(values), Translator(values)
        where = self._branch.where
        filtering = None if where is None else condition.translate(where).as_boolean()
        named = zip(self._plan.columns, self._branch.outputs, strict=True)
        outputs = [selection.translate(output).expression.alias(one.name) for one, output in named]
        return condition, filtering, selection, outputs
