"""The part of a plan that runs where a window is finished: output expressions, order, limit, plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from query.canonical import Scalar, decode_texts, kind_of, physical, text_sort_columns
from query.expression import Call, Reference, references
from query.ordering import directions, row_order, sort_columns
from query.plan import PlanOrder, output_names
from query.timestamps import format_timestamps
from query.translation import Translator
from query.values import NULL, Value, column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from query.expression import Expression
    from query.plan import Plan

_INTEGRAL_MAX = 2.0**63


class ResultStage:
    """Turns the lowered frames of finished windows into the rows people see."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = output_names(plan)
        ties = (PlanOrder(Reference(key.name, key.type), False) for key in plan.keys)
        self._order = row_order(plan) if plan.kind == "rows" else (*plan.order, *ties)
        self._types = {reference.name: reference.type for reference in self._references()}

    def windows(self, frame: pl.DataFrame, panes: Iterable[int]) -> dict[int, list[dict[str, Scalar]]]:
        """The rows of each window, by its start, in order and limited; O(n log n) in the frame's rows.

        `frame` has `pane`, the start of the row's window (epoch ms), and a column for each key and aggregate (k0,
        a0 ...), or for a rows plan for each order and selected column (o0, c0 ...). `panes` are the windows to
        answer for: those without a row in the frame are there as well, for an aggregate without keys with one row.
        """
        windows: dict[int, list[dict[str, Scalar]]] = {pane: [] for pane in panes}
        if self._plan.kind == "rows":
            shown = self._ordered(frame, "o").rename({f"c{n}": f"v{n}" for n in range(len(self._names))})
        else:
            parts = [self._evaluated(part) for part in self._homogeneous(self._complete(frame, windows))]
            shown = self._ordered(pl.concat(parts, how="vertical_relaxed"), "s")
        columns = [_values(shown, f"v{n}", output.type) for n, output in enumerate(self._plan.output)]
        rows = [dict(zip(self._names, values, strict=True)) for values in zip(*columns, strict=True)]
        start = 0
        for run in shown["pane"].rle().to_list():
            windows[run["value"]] = rows[start : start + run["len"]]
            start += run["len"]
        return windows

    def _references(self) -> Iterator[Reference]:
        for expression in self._expressions():
            yield from references(expression)

    def _expressions(self) -> Iterator[Expression]:
        yield from (output.expression for output in self._plan.output)
        yield from (key.expression for key in self._order)

    def _ordered(self, frame: pl.DataFrame, prefix: str) -> pl.DataFrame:
        descending = [False, *directions(self._order)]
        names = ["pane", *(f"{prefix}{n}" for n in range(len(descending) - 1))]
        frame = frame.sort(names, descending=descending, nulls_last=True)
        if self._plan.limit is None:
            return frame
        return frame.filter(pl.int_range(pl.len()).over("pane") < self._plan.limit)

    def _complete(self, frame: pl.DataFrame, panes: Iterable[int]) -> pl.DataFrame:
        """Aggregates over nothing at all still give a row; doubles that no number prints are NULL."""
        absent = [] if self._plan.keys else sorted(set(panes) - set(frame["pane"]))
        if absent:
            nothing: dict[str, list[int | None]] = {
                aggregate.name: [0 if aggregate.function == "count" else None] * len(absent)
                for aggregate in self._plan.aggregates
            }
            frame = pl.concat([frame, pl.DataFrame({"pane": absent, **nothing})], how="diagonal_relaxed")
        doubles = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
        return frame.with_columns(pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in doubles)

    def _homogeneous(self, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """The frame in parts in which every text column that is computed with holds values of one kind.

        Those values are beside the texts, in a column of the same name with "=" before it.
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
        calls = (expression for expression in self._expressions() if isinstance(expression, Call))
        return {reference.name for call in calls for reference in references(call)}

    def _evaluated(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Sort columns s0, s1 ... and output columns v0, v1 ...; doubles of a number are in v0.double."""
        texts = _text_columns(frame, self._types)
        values = _bounds(self._plan.window_ms)
        for name, type_ in self._types.items():
            if f"={name}" in frame.columns:
                values[name] = column(f"={name}", frame.schema[f"={name}"], type_)
            elif name not in texts and name not in values:
                values[name] = column(name, frame.schema[name], type_)
        translator = Translator(values)
        sorting = (plain for key in self._order for plain in _sort_columns(key.expression, texts, translator))
        named = [expression.alias(f"s{n}") for n, expression in enumerate(sorting)]
        for n, output in enumerate(self._plan.output):
            named += _output_columns(f"v{n}", output.expression, texts, translator)
        return translator.prepare(frame.lazy()).select("pane", *named).collect()


def _text_columns(frame: pl.DataFrame, types: Mapping[str, str]) -> set[str]:
    """The columns that hold canonical JSON text."""
    candidates = (name for name, type_ in types.items() if type_ in ("any", "number"))
    return {name for name in candidates if frame.schema.get(name) == pl.String}


def _sort_columns(expression: Expression, texts: set[str], translator: Translator) -> list[pl.Expr]:
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


def _bounds(window_ms: int | None) -> dict[str, Value]:
    """The bounds of a row's window, by the names queries have for them."""
    if window_ms is None:
        return {"window_start": NULL, "window_end": NULL}
    end = pl.col("pane") + window_ms
    return {"window_start": Value(pl.col("pane"), "integer"), "window_end": Value(end, "integer")}


def _values(frame: pl.DataFrame, name: str, type_: str) -> Sequence[Scalar]:
    """A column of the result as plain Python values."""
    column_ = frame[name]
    if type_ == "timestamp":
        return format_timestamps(column_)
    if type_ not in ("any", "number"):
        values: list[Scalar] = column_.to_list()
        return values
    if column_.dtype == pl.String:
        decoded = decode_texts(column_.to_list())
        if type_ == "number":
            decoded = [value if type(value) in (int, float) else None for value in decoded]
        return [_shown(value) for value in decoded] if float in set(map(type, decoded)) else decoded
    numbers: list[Scalar] = column_.to_list()
    if f"{name}.double" not in frame.columns or frame[f"{name}.double"].null_count() == len(numbers):
        return numbers
    doubles = frame[f"{name}.double"].to_list()
    return [_shown(double) if number is None else number for number, double in zip(numbers, doubles, strict=True)]


def _shown(value: Scalar) -> Scalar:
    """A double at 15 significant digits, as an integer where that has no fraction and fits 64 bits."""
    if not isinstance(value, float):
        return value
    rounded = float(f"{value:.15g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < _INTEGRAL_MAX else rounded
