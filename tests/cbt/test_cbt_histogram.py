"""Histograms against buckets counted one by one."""

import json
import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt.aggregates.histogram import Histogram
from cbt.algebra.items import lift_items, lower_items, merge_items, subtract_items


def rows_of(pao: Histogram, values: list[float | None]) -> pl.DataFrame:
    frame = pl.DataFrame({"pane": [0] * len(values), "x": values}, schema_overrides={"pane": pl.Int64})
    return lift_items(pao, frame, [], "x")


def text(pao: Histogram, rows: pl.DataFrame) -> object:
    return lower_items(pao, rows, [])["a"].item()


def histogram(values: list[float | None], *, type_: str = "number", **how: object) -> object:
    pao = Histogram("a", type_, **how)  # type: ignore[arg-type]
    return text(pao, rows_of(pao, values))


def test_buckets_of_a_decimal_width_begin_at_decimals() -> None:
    values = [0.1, 0.2, 0.3, 0.30000000000000004, 0.7, -0.05, None]
    assert histogram(values, width=0.1) == "[[-0.1,0,1],[0.1,0.2,1],[0.2,0.3,1],[0.3,0.4,2],[0.7,0.8,1]]"


def test_integers() -> None:
    assert histogram([-1, 0, 9, 10, None], type_="integer", width=10) == "[[-10,0,1],[0,10,2],[10,20,1]]"


def test_bounds() -> None:
    values = [-math.inf, -1, 0, 0.4, 0.5, 10, math.inf, math.nan, None]
    assert histogram(values, bounds=[0, 0.5, 10]) == "[[null,0,2],[0,0.5,2],[0.5,10,1],[10,null,3]]"


def test_what_is_too_far_out_for_its_width_is_in_an_open_bucket() -> None:
    values = [1e300, math.inf, math.nan, -1e300, 0.0]
    assert histogram(values, width=1) == "[[null,-9007199254740991,1],[0,1,1],[9007199254740992,null,3]]"
    assert histogram([0.0], width=1e-320) == "[[0,1e-320,1]]"


def test_no_values() -> None:
    assert histogram([None, None], width=1) is None


@given(st.lists(st.floats(-1e6, 1e6)), st.sampled_from([0.1, 0.25, 1.0, 7.0, 1e-3, 1e6]))
def test_every_value_is_in_its_bucket(values: list[float], width: float) -> None:
    for value in values:
        [[low, high, count]] = json.loads(str(histogram([value], width=width)))
        assert low <= value < high
        assert count == 1


@given(st.lists(st.none() | st.integers(-50, 50)), st.lists(st.none() | st.integers(-50, 50)))
def test_a_part_can_be_taken_away_again(stays: list[int | None], goes: list[int | None]) -> None:
    pao = Histogram("a", "integer", width=10)
    both = merge_items(pao, [rows_of(pao, stays), rows_of(pao, goes)], [])
    rest = subtract_items(pao, both, rows_of(pao, goes), [])
    counts = Counter(value // 10 * 10 for value in stays if value is not None)
    expected = [[low, low + 10, count] for low, count in sorted(counts.items())]
    if not rest.is_empty():
        assert json.loads(str(text(pao, rest) or "[]")) == expected


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({}, "has either a width or bounds"),
        ({"width": 1, "bounds": [1]}, "has either a width or bounds"),
        ({"width": 0}, "of width 0"),
        ({"width": math.nan}, "of width nan"),
        ({"width": math.inf}, "of width inf"),
        ({"bounds": []}, "finite and ascend"),
        ({"bounds": [1, 1]}, "finite and ascend"),
        ({"bounds": [1, math.nan]}, "finite and ascend"),
        ({"type_": "string", "width": 1}, "no histogram of string"),
    ],
)
def test_buckets_that_cannot_be(how: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"aggregate 'a': .*{complaint}"):
        histogram([1.0], **how)  # type: ignore[arg-type]


def test_beyond_its_reach_a_width_has_one_open_bucket_to_each_side() -> None:
    pao = Histogram("h", "number", width=10, reach=2)
    frame = pl.DataFrame({"pane": [0] * 7, "x": [-1e300, -20.1, -20.0, 0.0, 19.9, 20.0, 1e9]})
    text = lower_items(pao, lift_items(pao, frame, [], "x"), [])["h"].item()
    assert text == "[[null,-10,3],[0,10,1],[10,20,1],[20,null,2]]"


def test_bounds_may_be_as_far_apart_as_doubles_are() -> None:
    assert histogram([1.0], bounds=[-1e308, 1e308]) == "[[-1e+308,1e+308,1]]"
