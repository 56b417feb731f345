"""Every aggregate function on every type, with what it is in plain Python."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import polars as pl
from hypothesis import strategies as st

from cbt import Aggregate, ColumnFunction, Key, Layout, UserFunctions, canonical_json, decode_frame, encode_frame
from cbt.aggregates.functions import FUNCTIONS

KEYS = [Key("k", "any"), Key("j", "string")]
COLUMNS = {"any": "v", "number": "x", "integer": "n", "string": "s", "boolean": "b"}
Values = list[tuple[int, Any]]


class Event(NamedTuple):
    pane: int
    time: int
    k: str | None
    j: str | None
    v: bool | int | str | None
    x: float | None
    n: int | None
    s: str | None
    b: bool | None


NUMBERS = st.none() | st.integers(-9, 9) | st.integers(-99, 99).map(lambda n: n / 4)
TEXTS = st.sampled_from([None, "", "a", "b", "1", "true"])
EVENTS = st.lists(
    st.builds(
        Event,
        pane=st.integers(0, 1),
        time=st.integers(0, 3),
        k=st.sampled_from([None, "", "a"]),
        j=st.sampled_from([None, "a"]),
        v=st.sampled_from([None, True, False, 1, 0, "1", "true", ""]) | st.integers(-30, 30),
        x=NUMBERS,
        n=st.none() | st.integers(-99, 99) | st.just(2**50),
        s=TEXTS,
        b=st.sampled_from([None, True, False]),
    ),
    max_size=30,
)
SCHEMA = {"pane": pl.Int64, "time": pl.Int64, "k": pl.String, "j": pl.String, "v": pl.String, "x": pl.Float64,
          "n": pl.Int64, "s": pl.String, "b": pl.Boolean}  # fmt: skip
KINDS = {bool: pl.Boolean, int: pl.Int64, float: pl.Float64, str: pl.String, type(None): pl.Null}


def blocks(events: Sequence[Event]) -> list[pl.DataFrame]:
    """Events as an agent parses them: a block for each physical type of the columns that may have several."""
    alike = defaultdict(list)
    for event in events:
        alike[type(event.v), type(event.x)].append(event)
    return [
        pl.DataFrame(rows, schema=SCHEMA | {"v": KINDS[v], "x": KINDS[x]}, orient="row")
        for (v, x), rows in alike.items()
    ]


class Spread(ColumnFunction):
    argument_type, result_type = "number", "number"
    state: Mapping[str, pl.DataType] = {"low": pl.Float64(), "high": pl.Float64()}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"low": values.min(), "high": values.max()}

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {"low": states["low"].min(), "high": states["high"].max()}

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return states["high"] - states["low"]


class CountWithNulls(ColumnFunction):
    """Unlike most, its state of no value is not neutral."""

    argument_type, result_type = "any", "integer"
    state: Mapping[str, pl.DataType] = {"n": pl.Float64()}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"n": values.len()}

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return {"n": states["n"].sum()}

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return states["n"].cast(pl.Int64)


USER_FUNCTIONS = UserFunctions(reserved=FUNCTIONS)
USER_FUNCTIONS.register("spread", Spread())
USER_FUNCTIONS.register("count_with_nulls", CountWithNulls())

PARAMETERS: dict[str, list[tuple[Any, ...]]] = {
    "collect": [(3,), (1000,)],
    "collect_set": [(3,), (1000,)],
    "count_distinct": [(), (3,), (1000,)],
    "histogram": [(10,), ((0, 2.5),)],
    "approx_count_distinct": [(), (4,)],
    "approx_percentile": [(0.5,), (0, 300)],  # sketches that are never shrunk
    "approx_top_k": [(2,)],
    "of_program": [(0,), (3,), (1, 1)],
}


def aggregates_of(function: str) -> list[Aggregate]:
    """The function on each of its types, with its parameters."""
    types = FUNCTIONS[function].types if function in FUNCTIONS else [USER_FUNCTIONS.argument_type(function)]
    return [
        Aggregate(f"{function} {number} {type_}", function, COLUMNS[type_], type_, parameters)
        for type_ in types
        for number, parameters in enumerate(PARAMETERS.get(function, [()]))
    ]


def texts(values: Values) -> list[str]:
    return [canonical_json(pl.Series([value])).item() for _, value in values]


def in_order(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, bool) else (2, value) if isinstance(value, str) else (1, value)


def as_result(type_: str, value: Any) -> Any:
    return texts([(0, value)])[0] if type_ == "any" and value is not None else value


def extreme(pick: Callable[..., Any]) -> Callable[[Aggregate, Values], Any]:
    def model(aggregate: Aggregate, values: Values) -> Any:
        return as_result(aggregate.type, pick((value for _, value in values), key=in_order, default=None))

    return model


def occurrence(pick: Callable[..., Any]) -> Callable[[Aggregate, Values], Any]:
    def model(aggregate: Aggregate, values: Values) -> Any:
        _, value = pick(values, key=lambda timed: (timed[0], in_order(timed[1])), default=(0, None))
        return as_result(aggregate.type, value)

    return model


def variance(ddof: int, *, root: bool) -> Callable[[Aggregate, Values], Any]:
    def model(aggregate: Aggregate, values: Values) -> Any:  # noqa: ARG001
        numbers = [Fraction(value) for _, value in values]
        if len(numbers) <= ddof:
            return None
        mean = sum(numbers) / len(numbers)
        spread = sum((number - mean) ** 2 for number in numbers) / (len(numbers) - ddof)
        return math.sqrt(spread) if root else float(spread)

    return model


def average(aggregate: Aggregate, values: Values) -> Any:  # noqa: ARG001
    return float(sum(Fraction(value) for _, value in values) / len(values)) if values else None


def histogram(aggregate: Aggregate, values: Values) -> Any:
    if not values:
        return None
    if aggregate.parameters == (10,):
        counts = Counter(float(value) // 10 for _, value in values)
        return "[" + ",".join(f"[{_text(b * 10)},{_text(b * 10 + 10)},{n}]" for b, n in sorted(counts.items())) + "]"
    counts = Counter(sum(float(value) >= bound for bound in (0, 2.5)) for _, value in values)
    ends = [("null", "0"), ("0", "2.5"), ("2.5", "null")]
    return "[" + ",".join(f"[{ends[b][0]},{ends[b][1]},{n}]" for b, n in sorted(counts.items())) + "]"


def _text(number: float) -> str:
    return str(canonical_json(pl.Series([number])).item())


def percentile(aggregate: Aggregate, values: Values) -> Any:
    ordered = sorted(value for _, value in values)
    p = aggregate.parameters[0]
    return ordered[max(0, math.ceil(p * len(ordered)) - 1)] if ordered else None


def top_k(aggregate: Aggregate, values: Values) -> Any:
    ordered = sorted(Counter(texts(values)).items(), key=lambda item: (-item[1], item[0]))
    found = ",".join(f"[{text},{count},0]" for text, count in ordered[: aggregate.parameters[0]])
    return f"[{found}]" if values else None


def distinct(aggregate: Aggregate, values: Values) -> Any:
    if aggregate.parameters == (4,):
        return ...  # far from exact
    count = len(set(texts(values)))
    return ... if aggregate.parameters == (3,) and count > 3 else count  # an estimate


def collection(aggregate: Aggregate, values: Values) -> Any:
    once = {text: (0, value) for text, (_, value) in zip(texts(values), values, strict=True)}
    chosen = list(once.values()) if aggregate.function == "collect_set" else values
    ordered = sorted(chosen, key=lambda timed: (timed[0], in_order(timed[1])))
    return f"[{','.join(texts(ordered)[: aggregate.parameters[0]])}]" if values else None


MODELS: dict[str, Callable[[Aggregate, Values], Any]] = {
    "count": lambda _, values: len(values),
    "sum": lambda _, values: float(sum(Fraction(value) for _, value in values)) if values else None,
    "avg": average,
    "min": extreme(min),
    "max": extreme(max),
    "variance": variance(1, root=False),
    "var_samp": variance(1, root=False),
    "var_pop": variance(0, root=False),
    "stddev": variance(1, root=True),
    "stddev_samp": variance(1, root=True),
    "stddev_pop": variance(0, root=True),
    "first": occurrence(min),
    "last": occurrence(max),
    "bool_and": lambda _, values: all(value for _, value in values) if values else None,
    "every": lambda _, values: all(value for _, value in values) if values else None,
    "bool_or": lambda _, values: any(value for _, value in values) if values else None,
    "collect": collection,
    "collect_set": collection,
    "count_distinct": distinct,
    "histogram": histogram,
    "approx_count_distinct": distinct,
    "approx_percentile": percentile,
    "approx_top_k": top_k,
    "of_program": lambda _, _values: None,  # no program has made a result of them
    "spread": lambda _, values: float(max(v for _, v in values) - min(v for _, v in values)) if values else None,
}


def model(aggregates: Sequence[Aggregate], events: Sequence[Event]) -> dict[tuple[Any, ...], list[Any]]:
    """Each group's results; `...` where anything goes."""
    groups: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in events:
        groups[event.pane, None if event.k is None else json.dumps(event.k), event.j].append(event)
    return {key: [_result(aggregate, group) for aggregate in aggregates] for key, group in groups.items()}


def _result(aggregate: Aggregate, events: list[Event]) -> Any:
    if aggregate.argument is None or aggregate.function == "count_with_nulls":
        return len(events)
    values = [(event.time, getattr(event, aggregate.argument)) for event in events]
    return MODELS[aggregate.function](aggregate, [(time, value) for time, value in values if value is not None])


def alike(results: Sequence[Any], expected: Sequence[Any]) -> bool:
    return all(
        right is ... or left == right or (isinstance(right, float) and math.isclose(left, right, rel_tol=1e-14))
        for left, right in zip(results, expected, strict=True)
    )


EVERY = [*FUNCTIONS, "spread", "count_with_nulls"]
COUNT = Aggregate("n", "count", None, "any")
TOGETHER = [COUNT, *(aggregate for function in EVERY for aggregate in aggregates_of(function)[-1:])]


def layout_of(aggregates: Sequence[Aggregate]) -> Layout:
    return Layout(KEYS, aggregates, seed=3, functions=USER_FUNCTIONS)


def check_results(layout: Layout, frame: pl.DataFrame, events: list[Event]) -> None:
    expected = model(layout.aggregates, events)
    results = {row[:3]: row[3:] for row in layout.lower(frame).rows()}
    assert results.keys() == expected.keys()
    for key, row in results.items():
        assert alike(row, expected[key]), (key, row, expected[key])


def sent(layout: Layout, frame: pl.DataFrame) -> pl.DataFrame:
    decoded = decode_frame(encode_frame(frame), layout.schema, bytes_max=2**24)
    assert decoded.equals(frame)
    return decoded


def merged(layout: Layout, frames: list[pl.DataFrame], order: Random) -> pl.DataFrame:
    """One frame, of two or more merged at a time in some order."""
    while len(frames) > 1:
        order.shuffle(frames)
        count = order.randint(2, len(frames))
        frames = [*frames[count:], layout.combine(frames[:count])]
    return layout.combine(frames)
