"""Exact COUNT(DISTINCT) of every kind of value, against a set of canonical texts."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt import Aggregate, Key, Layout, canonical_json
from cbt.aggregates.distinct import DistinctCount
from cbt.algebra.items import lift_items, lower_items, merge_items

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


def limited(most: int, blocks: list[pl.DataFrame], order: list[int]) -> tuple[list[tuple[object, ...]], pl.DataFrame]:
    """The results by key, however the blocks are merged one after the other, and where the limit was met."""
    layout = Layout([Key("k", "string")], [Aggregate("n", "count_distinct", "x", "integer", (most,))], seed=5)
    states = [layout.lift(blocks[number]) for number in order]
    together = states[0]
    for state in states[1:]:
        together = layout.combine([together, state])
    assert together.height <= 2 * (most + 3)
    return sorted(layout.lower(together).rows()), layout.limited(together)


@given(st.permutations(range(6)), st.integers(2, 40))
def test_beyond_the_limit_the_same_values_are_kept_in_any_order(order: list[int], most: int) -> None:
    blocks = [
        pl.DataFrame({"pane": [0] * 21, "k": ["many"] * 20 + ["few"], "x": [*range(n * 15, n * 15 + 20), n % 2]})
        for n in range(6)
    ]
    rows, met = limited(most, blocks, order)
    assert (rows, met.rows()) == (limited(most, blocks, list(range(6)))[0], [(0, "n", 1)])
    assert rows[0] == (0, "few", 2)
    assert rows[1][2] > most


def test_up_to_the_limit_it_is_exact_and_nothing_says_otherwise() -> None:
    block = pl.DataFrame({"pane": [0] * 100, "k": ["a"] * 100, "x": range(100)})
    rows, met = limited(100, [block, block], [0, 1])
    assert (rows, met.rows()) == ([(0, "a", 100)], [])


@pytest.mark.parametrize("most", [256, 4096])
def test_estimates_beyond_the_limit_are_within_their_error(most: int) -> None:
    pao = DistinctCount("n", "integer", most)
    count, misses = 50_000, 0
    for start in range(0, 20 * count, count):
        frame = pl.DataFrame({"pane": [0] * count, "x": range(start, start + count)})
        estimate = lower_items(pao, lift_items(pao, frame, [], "x"), [])["n"].item()
        misses += abs(estimate / count - 1) > pao.limited_error
    assert misses <= 1
