"""States over the results of other states are those that come of the results as events."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, Key, Layout

DTYPES = {"integer": pl.Int64, "string": pl.String, "boolean": pl.Boolean}
VALUES = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=3),
    "boolean": st.booleans(),
}
NESTED = [
    ("count", "integer", "sum", "integer"),
    ("count", "string", "sum", "number"),
    ("sum", "integer", "sum", "integer"),
    ("sum", "integer", "sum", "number"),
    *(("min", type_, "min", wider) for type_ in VALUES for wider in (type_, "any")),
    *(("max", type_, "max", wider) for type_ in VALUES for wider in (type_, "any")),
    ("bool_and", "boolean", "every", "boolean"),
    ("bool_or", "boolean", "bool_or", "boolean"),
]


@pytest.mark.parametrize(("function", "type_", "over", "wider"), NESTED)
@given(data=st.data())
def test_states_of_results_are_those_of_events(
    function: str, type_: str, over: str, wider: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(st.integers(0, 5), st.none() | VALUES[type_]), min_size=1, max_size=20))
    keys, values = zip(*rows, strict=True)
    block = pl.DataFrame({"k": keys, "x": pl.Series(values, dtype=DTYPES[type_])}).with_columns(pane=pl.lit(0))
    inner = Layout([Key("k", "integer")], [Aggregate("a", function, "x", type_)])
    outer = Layout([Key("k", "integer")], [Aggregate("b", over, "r", wider)])
    states = inner.lift(block.with_columns(pl.col("pane").cast(pl.Int64)))
    results = inner.lower(states).rename({"a": "r"})
    made = outer.over(states.select("pane", "hash", "k"), inner, states, {"b": "a"})
    wide = results["r"].dtype == pl.Int128
    if wide and results["r"].cast(pl.Int64, strict=False).null_count() > results["r"].null_count():
        assert made is None
        return
    assert made is not None
    expected = outer.lift(results.with_columns(pl.col("r").cast(pl.Int64)) if wide else results)
    assert outer.combine([made]).equals(expected)


def test_other_aggregates_do_not_nest() -> None:
    inner = Layout([Key("k", "integer")], [Aggregate("a", "avg", "x", "number")])
    states = inner.lift(pl.DataFrame({"pane": [0], "k": [1], "x": [2.0]}))
    for over in ("sum", "min", "count"):
        outer = Layout([Key("k", "integer")], [Aggregate("b", over, "r", "number" if over != "count" else "any")])
        assert outer.over(states.select("pane", "hash", "k"), inner, states, {"b": "a"}) is None


@given(st.lists(st.sampled_from([0.5, 3.0, 1e300, -0.0, 7.25, None]), min_size=1), st.booleans())
def test_of_numbers_the_extreme_one_is_left(values: list[float | None], greatest: bool) -> None:
    function = "max" if greatest else "min"
    inner = Layout([], [Aggregate("a", function, "x", "number")])
    outer = Layout([], [Aggregate("b", function, "r", "any")])
    blocks = [pl.DataFrame({"pane": [0], "x": [value]}, {"pane": pl.Int64, "x": pl.Float64}) for value in values]
    blocks.append(pl.DataFrame({"pane": [0], "x": [5]}))
    states = inner.combine([inner.lift(block) for block in blocks])
    made = outer.over(states.select("pane", "hash"), inner, states, {"b": "a"})
    assert made is not None
    assert sum(made[f"b.{part}"].null_count() for part in "if") == 1
    (shown,) = outer.lower(made)["b"]
    extreme = max if greatest else min
    assert float(shown) == extreme([5.0, *(value for value in values if value is not None)])
