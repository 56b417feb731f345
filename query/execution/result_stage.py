"""The part of a plan that runs when a window is finished: output expressions, order, limit, plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from query.execution.ordering import directions, in_order, order_columns, row_order, sort_columns
from query.execution.rows import ResultRows, ResultTable
from query.execution.translation import Translator
from query.functions.aggregates import aggregate_function
from query.model.canonical import is_quoted, kind_of, physical, quoted_sort_columns, text_sort_columns
from query.model.expression import Operation, Reference, references
from query.physical.values import NULL, Value, column
from query.plan.plan import PlanOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import polars as pl

    from query.execution.rows import Row
    from query.model.expression import Expression
    from query.plan.plan import Output, Plan


class ResultStage:
    """Turns the lowered frames of finished windows into the rows people see."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._outputs = [(output.name, output.type) for output in plan.output]
        ties = (PlanOrder(Reference(key.name, key.type), False) for key in plan.keys)
        self._has_sessions = plan.windowing is not None and plan.windowing.session is not None
        starts = [PlanOrder(Reference("window_start", "timestamp"), False)] if self._has_sessions else []
        self._order = row_order(plan) if plan.kind == "rows" else (*plan.order, *ties, *starts)
        self._types = {reference.name: reference.type for reference in self._references()}

    def windows(self, frame: pl.DataFrame, panes: Iterable[int]) -> dict[int, ResultRows]:
        """The rows of each window, by its start, in order and limited; O(n log n) in the frame's rows.

        `frame` has `pane`, the start of the row's window (epoch ms), and a column for each key and aggregate (k0, a0
        ...), of sessions also `session.start` and `session.end`, or for a rows plan for each order and selected column
        (o0, c0 ...). `panes` are the windows to return: those without a row in the frame are included, with one row for
        an aggregate without keys.
        """
        panes = set(panes)
        shown = self.shown(frame, panes)
        table = ResultTable(shown, self._outputs)
        windows = {pane: ResultRows(table, 0, 0) for pane in panes}
        start = 0
        for run in shown["pane"].rle().to_list():
            windows[run["value"]] = ResultRows(table, start, run["len"])
            start += run["len"]
        return windows

    def shown(self, frame: pl.DataFrame, panes: Iterable[int] = ()) -> pl.DataFrame:
        """The rows of all windows as columns, ordered by `pane`; arguments as of `windows`."""
        if self._plan.kind == "rows":
            return self._ordered(frame, "o").rename({f"c{n}": f"v{n}" for n in range(len(self._outputs))})
        parts = [self._evaluated(part) for part in self._homogeneous(self._complete(frame, panes))]
        return self._ordered(pl.concat(parts, how="vertical_relaxed"), "s")

    def table(self, make: Callable[[], pl.DataFrame]) -> ResultTable:
        """A table whose frame, that of the rows of a window, is made when somebody reads it."""
        return ResultTable(make, self._outputs)

    @property
    def chooses(self) -> bool:
        """Whether groups may be left out by HAVING, or LIMIT."""
        return self._plan.kind == "aggregate" and (self._plan.having is not None or self._plan.limit is not None)

    def chosen(self, frame: pl.DataFrame) -> pl.Series:
        """Which groups of one window are shown, by HAVING and LIMIT: of a frame as `windows` takes it, whose results
        are all whole. More groups beside them can only take the place of some. O(n log n)."""
        numbered = self._complete(frame, ()).with_row_index("row")
        parts = [self._evaluated(part, "row") for part in self._homogeneous(numbered)]
        shown = self._ordered(pl.concat(parts, how="vertical_relaxed"), "s")
        return numbered["row"].is_in(shown["row"].implode())

    def rows(self, frame: pl.DataFrame) -> ResultRows:
        """The rows of a frame's keys and aggregates, in the frame's order, with none left out. O(n)."""
        return ResultRows(ResultTable(self.values(frame), self._outputs), 0, frame.height)

    def values(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The output columns v0, v1 ... of a frame's keys and aggregates, row by row, as `ResultTable` takes them."""
        numbered = frame.with_columns(pane=pl.int_range(pl.len(), dtype=pl.Int64))
        parts = [self._evaluated(part) for part in self._homogeneous(numbered)]
        return pl.concat(parts, how="vertical_relaxed").sort("pane")

    def _references(self) -> Iterator[Reference]:
        for expression in self._expressions():
            yield from references(expression)

    def _expressions(self) -> Iterator[Expression]:
        yield from (output.expression for output in self._plan.output)
        yield from (key.expression for key in self._order)
        if self._plan.having is not None:
            yield self._plan.having

    def _ordered(self, frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
        descending = {"pane": False} | {f"{prefix}{n}": one for n, one in enumerate(directions(self._order))}
        alike = [name for name in descending if _is_one_value(frame[name])]
        frame = frame.drop(name for name in alike if name != "pane")
        differing = {name: one for name, one in descending.items() if name not in alike}
        frame = in_order(frame, differing) if differing else frame
        if self._plan.limit is None:
            return frame
        return frame.filter(pl.int_range(pl.len()).over("pane") < self._plan.limit)

    def _complete(self, frame: pl.DataFrame, panes: Iterable[int]) -> pl.DataFrame:
        """Adds the row of aggregates over no events, and makes doubles NULL that JSON cannot show."""
        absent = [] if self._plan.keys else sorted(set(panes) - set(frame["pane"]))
        if absent:
            nothing: dict[str, list[int | None]] = {
                aggregate.name: [aggregate_function(aggregate.function.upper()).nothing] * len(absent)
                for aggregate in self._plan.aggregates
            }
            frame = pl.concat([frame, pl.DataFrame({"pane": absent, **nothing})], how="diagonal_relaxed")
        doubles = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
        return frame.with_columns(pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in doubles)

    def _homogeneous(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """The frame in parts in which every text column that expressions read holds values of one kind.

        These values are beside the texts, in a column of the same name with "=" before it.
        """
        texts = sorted(self._computed_with() & _text_columns(frame, self._types))
        if not texts:
            return [frame]
        if frame.is_empty():
            return [frame.with_columns(pl.lit(None).alias(f"={name}") for name in texts)]
        kinds = [f"@kind{n}" for n in range(len(texts))]
        tagged = frame.with_columns(kind_of(pl.col(name)).alias(kind) for name, kind in zip(texts, kinds, strict=True))
        return [
            part.with_columns(
                physical(part[name], str(kind)).alias(f"={name}") for name, kind in zip(texts, signature, strict=True)
            )
            for signature, part in tagged.partition_by(kinds, as_dict=True).items()
        ]

    def _computed_with(self) -> set[str]:
        calls = (expression for expression in self._expressions() if isinstance(expression, Operation))
        return {reference.name for call in calls for reference in references(call)}

    def _evaluated(self, frame: pl.DataFrame, *kept: str) -> pl.DataFrame:
        """Sort columns s0, s1 ... and output columns v0, v1 ...; doubles of a number are in v0.double. `kept`: columns
        that stay."""
        texts = _text_columns(frame, self._types)
        quoted = {name for name in texts if is_quoted(frame[name])}
        values = _session_bounds() if self._has_sessions else _bounds(self._plan.window_ms)
        for name, type_ in self._types.items():
            if f"={name}" in frame.columns:
                values[name] = column(f"={name}", frame.schema[f"={name}"], type_)
            elif name not in texts and name not in values:
                values[name] = column(name, frame.schema[name], type_)
        translator = Translator(values)
        sorting = (
            plain
            for key in self._order
            for plain in order_columns(key, _sort_columns(key.expression, texts, quoted, translator))
        )
        named = [expression.alias(f"s{n}") for n, expression in enumerate(sorting)]
        for n, output in enumerate(self._plan.output):
            named += _output_columns(f"v{n}", output.expression, texts, translator)
        if self._plan.having is None:
            return translator.prepare(frame.lazy()).select("pane", *kept, *named).collect()
        shown = translator.translate(self._plan.having).as_boolean()
        return translator.prepare(frame.lazy()).filter(shown).select("pane", *kept, *named).collect()


def _text_columns(frame: pl.DataFrame, types: Mapping[str, str]) -> set[str]:
    """The columns that hold canonical JSON text."""
    candidates = (name for name, type_ in types.items() if type_ in ("any", "number"))
    return {name for name in candidates if frame.schema.get(name) == pl.String}


def _is_one_value(column: pl.Series) -> bool:
    """Whether a column has the same in all rows, so that no order depends on it."""
    nulls = column.null_count()
    if nulls or column.is_empty():
        return nulls == len(column)
    return column[0] == column[-1] and column.min() == column.max()


def _sort_columns(
    expression: Expression, texts: set[str], quoted: set[str], translator: Translator
) -> list[pl.Expr]:  # fmt: skip
    if isinstance(expression, Reference) and expression.type == "any" and expression.name in quoted:
        return quoted_sort_columns(expression.name)
    if isinstance(expression, Reference) and expression.name in texts:
        return text_sort_columns(expression.name, expression.type)
    return sort_columns(translator.bound(expression), expression.type)


def _output_columns(name: str, expression: Expression, texts: set[str], translator: Translator) -> list[pl.Expr]:
    if isinstance(expression, Reference) and expression.name in texts:
        return [pl.col(expression.name).alias(name)]
    value = translator.translate(expression)
    if expression.type != "number":
        return [value.expression.alias(name)]
    nothing = pl.lit(None, dtype=pl.Float64)
    if value.kind == "double":
        return [pl.lit(None, dtype=pl.Int128).alias(name), value.expression.alias(f"{name}.double")]
    return [value.expression.cast(pl.Int128).alias(name), nothing.alias(f"{name}.double")]


def _session_bounds() -> dict[str, Value]:
    """The times of a session's first and last events."""
    times = {"window_start": "session.start", "window_end": "session.end"}
    return {name: Value(pl.col(time), "integer") for name, time in times.items()}


def _bounds(window_ms: int | None) -> dict[str, Value]:
    """The bounds of a row's window, by the names queries have for them."""
    if window_ms is None:
        return {"window_start": NULL, "window_end": NULL}
    end = pl.col("pane") + window_ms
    return {"window_start": Value(pl.col("pane"), "integer"), "window_end": Value(end, "integer")}


class OtherStage:
    """Turns the lowered OTHER rows of finished windows into the result's columns that are made of aggregates. OTHER has
    no keys.
    """

    def __init__(self, plan: Plan) -> None:
        output = tuple(column for column in plan.output if _is_of_aggregates(column, plan))
        self._results = (
            ResultStage(replace(plan, keys=(), output=output, having=None, order=(), limit=None)) if output else None
        )

    def values(self, frame: pl.DataFrame) -> dict[int, Row]:
        """The columns' values by window. `frame` has a row for each, with its start as `pane` and a column for each
        aggregate.
        """
        panes = frame["pane"].to_list()
        if self._results is None:
            return {pane: {} for pane in panes}
        return {pane: rows[0] for pane, rows in self._results.windows(frame, panes).items()}


def _is_of_aggregates(column: Output, plan: Plan) -> bool:
    names = {reference.name for reference in references(column.expression)}
    return not names.isdisjoint(one.name for one in plan.aggregates) and names.isdisjoint(key.name for key in plan.keys)
