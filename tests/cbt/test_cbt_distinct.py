"""Exact COUNT(DISTINCT) of every kind of value, against a set of canonical texts."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import canonical_json
from cbt.distinct import DistinctCount
from cbt.items import lift_items, lower_items, merge_items

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.sampled_from([0, -0.0, 0.0, 2**53 + 1, 2.0**53, 2.0**63])
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=2) | st.sampled_from(["1", "true", ""])


def distinct(type_: str, blocks: list[list[object]]) -> int:
    pao = DistinctCount("n", type_)
    frames = [pl.DataFrame({"pane": [0] * len(values), "x": values}, strict=False) for values in blocks]
    rows = merge_items(pao, [lift_items(pao, frame, [], "x") for frame in frames], [])
    return int(lower_items(pao, rows, [])["n"].item())


@pytest.mark.parametrize(("type_", "values"), [("any", SCALARS), ("number", st.none() | NUMBERS)])
@given(st.data())
def test_values_are_told_apart_by_their_canonical_text(
    type_: str, values: st.SearchStrategy, data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=1, max_size=12))
    texts = {canonical_json(pl.Series([value])).item() for value in drawn if value is not None}
    assert distinct(type_, [[value] for value in drawn]) == len(texts)


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("integer", [1, 2, None, 1, 2**63 - 1], 3),
        ("string", ["", "a", "a", None, "A"], 3),
        ("boolean", [True, False, None, True], 2),
        ("number", [math.nan, -math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5], 5),
        ("any", [None, None], 0),
    ],
)
def test_values_of_one_kind(type_: str, values: list[object], expected: int) -> None:
    assert distinct(type_, [values, values]) == expected


def test_strings_of_a_megabyte() -> None:
    assert distinct("string", [["a" * 2**20, "a" * 2**20 + "b"], ["a" * 2**20]]) == 2
