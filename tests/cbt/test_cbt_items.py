"""Item rows: what all aggregates that are made of them have in common."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt.aggregates.distinct import DistinctCount
from cbt.aggregates.histogram import Histogram
from cbt.algebra.items import ItemPao, lift_items, lower_items, merge_items, number_groups, subtract_items
from cbt.algebra.kinds import kind_texts, split_kinds
from cbt.algebra.scalars import canonical_json
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.hll import HllSketch
from cbt.sketches.kll import KllSketch

PAOS: list[ItemPao] = [
    DistinctCount("a", "integer"),
    Histogram("a", "integer", width=10),
    HllSketch("a", "integer"),
    KllSketch("a", "integer", 0.5),
    FrequentItems("a", "integer"),
]
IDS = [type(pao).__name__ for pao in PAOS]
EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([None, "", "a"]), st.none() | st.integers(-(2**63), 2**63 - 1)),
    max_size=30,
)


def block(events: list[tuple[int, str | None, int | None]]) -> pl.DataFrame:
    return pl.DataFrame(events, schema={"pane": pl.Int64, "key": pl.String, "x": pl.Int64}, orient="row")


def in_order(rows: pl.DataFrame) -> list[tuple[object, ...]]:
    return rows.sort(rows.columns, nulls_last=True).rows()


@pytest.mark.parametrize("pao", PAOS, ids=IDS)
@given(st.tuples(EVENTS, EVENTS, EVENTS))
def test_however_blocks_are_merged_the_rows_are_the_same(
    pao: ItemPao, blocks: tuple[list[tuple[int, str | None, int | None]], ...]
) -> None:
    a, b, c = (lift_items(pao, block(events), ["key"], "x") for events in blocks)
    whole = lift_items(pao, block([event for events in blocks for event in events]), ["key"], "x")
    left = merge_items(pao, [merge_items(pao, [a, b], ["key"]), c], ["key"])
    right = merge_items(pao, [merge_items(pao, [c, b], ["key"]), a], ["key"])
    assert in_order(left) == in_order(right) == in_order(whole)


@pytest.mark.parametrize("pao", PAOS, ids=IDS)
@given(EVENTS)
def test_there_is_one_result_for_each_group_even_if_it_has_only_nulls(
    pao: ItemPao, events: list[tuple[int, str | None, int | None]]
) -> None:
    results = lower_items(pao, lift_items(pao, block(events), ["key"], "x"), ["key"])
    assert results.columns == ["pane", "key", "a"]
    assert sorted(map(str, results.select("pane", "key").rows())) == sorted({str(event[:2]) for event in events})


@pytest.mark.parametrize("pao", PAOS, ids=IDS)
def test_a_block_of_nulls_without_a_type(pao: ItemPao) -> None:
    rows = lift_items(pao, pl.DataFrame({"pane": [0, 0], "x": [None, None]}), [], "x")
    assert rows.schema == {"pane": pl.Int64(), **pao.items, **pao.state}
    counts = isinstance(pao, DistinctCount | HllSketch)
    assert lower_items(pao, rows, []).rows() == [(0, 0 if counts else None)]


@pytest.mark.parametrize("pao", PAOS, ids=IDS)
def test_no_rows_at_all(pao: ItemPao) -> None:
    rows = lift_items(pao, block([]), ["key"], "x")
    assert merge_items(pao, [rows, rows], ["key"]).is_empty()
    assert lower_items(pao, rows, ["key"]).is_empty()


def test_what_is_no_count_cannot_be_taken_away_again() -> None:
    users = DistinctCount("users", "integer")
    rows = lift_items(users, block([(0, "a", 1)]), ["key"], "x")
    with pytest.raises(ValueError, match="aggregate 'users': a part of it cannot be taken away again"):
        subtract_items(users, rows, rows, ["key"])


def test_groups_are_numbered_also_by_columns_named_like_the_number() -> None:
    rows = pl.DataFrame({"pane": [1, 0, 1, 0], "pane'": ["x", None, "x", "y"]})
    numbers, groups = number_groups(rows, ["pane", "pane'"])
    assert numbers.to_list() == [0, 1, 0, 2]
    assert groups.rows() == [(1, "x"), (0, None), (0, "y")]


@given(st.lists(st.floats() | st.sampled_from([-0.0, 1.0, 2.0**63, -(2.0**63)])))
def test_kinds_know_the_same_numbers_as_canonical_json(values: list[float]) -> None:
    series = pl.Series("x", values, dtype=pl.Float64)
    kinds = split_kinds(series, {"x.i": pl.Int64(), "x.f": pl.Float64()})
    assert kind_texts(kinds).to_list() == canonical_json(series).to_list()
