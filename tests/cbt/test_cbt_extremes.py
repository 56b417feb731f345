"""MIN and MAX over every kind of value, against an order written in Python."""

import json
import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, Layout, canonical_json

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.sampled_from([2.0**53, 2**53 + 1, 2.0**63, 0.0, -0.0])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=3)
FUNCTIONS = {"min": min, "max": max}


def order(value: object) -> tuple[object, ...]:
    """Boolean < number < string; NaN is the greatest number; no rounding between integers and doubles."""
    if isinstance(value, bool):
        return (0, value)
    if isinstance(value, str):
        return (2, value.encode())
    assert isinstance(value, int | float)
    if isinstance(value, float) and not math.isfinite(value):
        return (1, 1 if not value < 0 else -1, math.isnan(value))
    return (1, 0, Fraction(value))


def result(function: str, type_: str, values: list[object]) -> object:
    """Each value in a block of its own, in the physical type that it has."""
    layout = Layout([], [Aggregate("a", function, "x", type_)])
    blocks = [pl.DataFrame({"pane": [0], "x": [value]}) for value in values]
    return layout.lower(layout.combine(layout.lift(block) for block in blocks))["a"].item()


@pytest.mark.parametrize("function", FUNCTIONS)
@given(st.lists(SCALARS, min_size=1, max_size=6))
def test_any(function: str, values: list[object]) -> None:
    present = [value for value in values if value is not None]
    expected = FUNCTIONS[function](present, key=order) if present else None  # type: ignore[operator]
    assert result(function, "any", values) == canonical_json(pl.Series([expected])).item()


@pytest.mark.parametrize("function", FUNCTIONS)
@given(st.lists(st.none() | NUMBERS, min_size=1, max_size=6))
def test_number(function: str, values: list[float | None]) -> None:
    present = [value for value in values if value is not None]
    lowered = result(function, "number", list(values))
    if not present:
        assert lowered is None
        return
    expected = FUNCTIONS[function](present, key=order)  # type: ignore[operator]
    if all(isinstance(value, int) for value in present):
        assert (lowered, type(lowered)) == (expected, int)
    else:
        assert repr(lowered) == repr(float(expected) + 0.0)


@pytest.mark.parametrize(
    ("type_", "values"),
    [("integer", [3, None, -2]), ("boolean", [True, False]), ("string", ["b", "", "é", None])],
)
def test_one_kind(type_: str, values: list[object]) -> None:
    present = [value for value in values if value is not None]
    assert result("min", type_, values) == min(present)  # type: ignore[type-var]
    assert result("max", type_, values) == max(present)  # type: ignore[type-var]


def test_blocks_with_nan_and_zeros() -> None:
    layout = Layout([], [Aggregate("lo", "min", "x", "number"), Aggregate("hi", "max", "x", "number")])
    block = pl.DataFrame({"pane": [0, 0, 1, 1, 2, 2], "x": [math.nan, 1.0, -0.0, 0.0, math.nan, math.nan]})
    assert repr(layout.lower(layout.lift(block)).select("lo", "hi").rows()) == "[(1.0, nan), (0.0, 0.0), (nan, nan)]"


def test_any_lowers_to_json() -> None:
    assert json.loads(str(result("max", "any", [True, 3, 'quote " and \n']))) == 'quote " and \n'
