"""Aggregates by the names of their functions, built in and user-defined, in layouts and trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from every_function import Spread

from cbt import (
    Aggregate,
    ColumnFunction,
    CompressedBufferTree,
    Key,
    Layout,
    UserDefinedError,
    UserFunctions,
    ValueFunction,
)
from cbt.aggregates.functions import FUNCTIONS
from cbt.windows import SessionLayout, subtract_frames

EVENTS = pl.DataFrame(
    {
        "pane": [0, 0, 0, 0, 60],
        "time": [3, 1, 2, 4, 70],
        "k": ["a", "a", "a", "a", "b"],
        "x": [4, 1, 7, None, 5],
        "b": [True, False, None, True, None],
        "s": ["x", "yy", "", None, "z"],
    }
)


class Letters(ValueFunction):
    argument_type, result_type = "string", "integer"

    def zero(self) -> Any:
        return ""

    def add(self, state: Any, value: Any) -> Any:
        return "".join(sorted({*state, *value}))

    def merge(self, left: Any, right: Any) -> Any:
        return self.add(left, right)

    def result(self, state: Any) -> Any:
        return len(state)


class FailsWhere(ColumnFunction):
    """A sum that fails in one of its methods, once there is a value."""

    argument_type, result_type = "integer", "integer"
    state: Mapping[str, pl.DataType] = {"n": pl.Int64()}

    def __init__(self, method: str) -> None:
        self._method = method

    def _done(self, method: str, value: pl.Expr) -> Mapping[str, pl.Expr]:
        return {"n": (value.cast(pl.String) + "!").cast(pl.Int64) if method == self._method else value}

    def lift(self, values: pl.Expr) -> Mapping[str, pl.Expr]:
        return self._done("lift", values.sum())

    def combine(self, states: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return self._done("combine", states["n"].sum())

    def subtract(self, whole: Mapping[str, pl.Expr], part: Mapping[str, pl.Expr]) -> Mapping[str, pl.Expr]:
        return self._done("subtract", whole["n"] - part["n"])

    def lower(self, states: Mapping[str, pl.Expr]) -> pl.Expr:
        return states["n"]


FUNCTIONS_OF_THE_JOB = UserFunctions(reserved=FUNCTIONS)
FUNCTIONS_OF_THE_JOB.register("spread", Spread())
FUNCTIONS_OF_THE_JOB.register("letters", Letters())
for method in ("lift", "combine", "subtract"):
    FUNCTIONS_OF_THE_JOB.register(f"fails_in_{method}", FailsWhere(method))


def layout(*aggregates: Aggregate) -> Layout:
    return Layout([Key("k", "string")], aggregates, functions=FUNCTIONS_OF_THE_JOB)


@pytest.mark.parametrize(
    ("function", "argument", "type_", "a", "b"),
    [
        ("variance", "x", "integer", 9.0, None),
        ("var_samp", "x", "number", 9.0, None),
        ("var_pop", "x", "integer", 6.0, 0.0),
        ("stddev", "x", "number", 3.0, None),
        ("stddev_samp", "x", "integer", 3.0, None),
        ("stddev_pop", "x", "integer", 6.0**0.5, 0.0),
        ("first", "x", "integer", 1, 5),
        ("last", "x", "number", 4, 5),
        ("first", "s", "any", '"yy"', '"z"'),
        ("bool_and", "b", "boolean", False, None),
        ("every", "b", "boolean", False, None),
        ("bool_or", "b", "boolean", True, None),
        ("spread", "x", "integer", 6.0, 0.0),
        ("letters", "s", "string", 2, 1),
        ("LETTERS", "s", "string", 2, 1),
    ],
)
def test_results(function: str, argument: str, type_: str, a: object, b: object) -> None:
    tree = CompressedBufferTree(
        [Key("k", "string")],
        [Aggregate("a", function, argument, type_)],
        functions=FUNCTIONS_OF_THE_JOB,
        buffer_rows=2,
        leaf_rows=2,
    )
    for event in EVENTS.iter_slices(1):
        tree.insert(event)
    tree.check()
    rows = [row for frame in tree.flush() for row in tree.layout.lower(frame).rows()]
    assert rows == [(0, "a", a), (60, "b", b)]
    at_once = tree.layout.lift(EVENTS)
    assert tree.layout.lower(at_once).rows() == rows


def test_first_and_last_look_at_the_time() -> None:
    timed = layout(Aggregate("a", "first", "x", "integer"), Aggregate("b", "last", "x", "integer"))
    assert timed.input_columns == ["pane", "k", "x", "time"]
    for wrong in (EVENTS.drop("time"), EVENTS.with_columns(time=pl.lit("now")), EVENTS.with_columns(time=pl.lit(None))):
        with pytest.raises(ValueError, match="needs an Int64 column 'time' without NULL"):
            timed.lift(wrong)


@pytest.mark.parametrize(
    ("function", "type_", "parameters", "complaint"),
    [
        ("median", "number", (), "there is no median of number"),
        ("variance", "string", (), "there is no variance of string"),
        ("bool_and", "integer", (), "there is no bool_and of integer"),
        ("sum", "number", (1,), "sum has 1 parameters; it takes none"),
        ("spread", "number", (1,), "spread has 1 parameters; it takes none"),
        ("letters", "integer", (), "letters takes string, not integer"),
        ("spread", "any", (), "spread takes number, not any"),
    ],
)
def test_what_there_is_not(function: str, type_: str, parameters: tuple[float, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"aggregate 'a': {complaint}"):
        layout(Aggregate("a", function, "x", type_, parameters))


@pytest.mark.parametrize("where", ["lift", "combine"])
def test_the_function_that_fails_is_named(where: str) -> None:
    aggregates = [Aggregate("n", "count", None, "any"), Aggregate("a", f"fails_in_{where}", "x", "integer")]
    complaint = f"the function 'fails_in_{where}' fails in {where}: "
    lifts = layout(*aggregates)
    with pytest.raises(UserDefinedError, match=complaint):
        lifts.combine([lifts.lift(EVENTS), lifts.lift(EVENTS)])
    tree = CompressedBufferTree([Key("k", "string")], aggregates, functions=FUNCTIONS_OF_THE_JOB, buffer_rows=5)
    with pytest.raises(UserDefinedError, match=complaint):
        _ = [*(tree.insert(EVENTS) for _ in range(2)), *tree.flush()]
    sessions = SessionLayout(
        [Key("k", "string")], aggregates, gap_ms=10, max_ms=60, pane_ms=60, functions=FUNCTIONS_OF_THE_JOB
    )
    with pytest.raises(UserDefinedError, match=complaint):
        sessions.combine([sessions.lift(EVENTS), sessions.lift(EVENTS)])


def test_a_function_that_fails_in_subtract_is_named() -> None:
    subtracts = layout(Aggregate("n", "count", None, "any"), Aggregate("a", "fails_in_subtract", "x", "integer"))
    frame = subtracts.lift(EVENTS)
    with pytest.raises(UserDefinedError, match="the function 'fails_in_subtract' fails in subtract: "):
        subtract_frames(subtracts, frame, frame)
