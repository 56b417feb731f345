"""COLLECT and COLLECT_SET: which values are kept, and what a hostile peer's rows do. The rest is in every_function."""

from __future__ import annotations

import json

import polars as pl
import pytest

from cbt import Aggregate, CompressedBufferTree, Key, Layout
from cbt.aggregates.collection import Collection

KEYS = [Key("k", "string")]


def layout_of(function: str, most: int, type_: str = "any") -> Layout:
    return Layout(KEYS, [Aggregate("c", function, "x", type_, (most,))])


def events(*rows: tuple[int, object]) -> pl.DataFrame:
    """Events of one group: times and values of one type."""
    times, values = zip(*rows, strict=True)
    return pl.DataFrame({"pane": [0] * len(rows), "time": times, "k": ["a"] * len(rows), "x": values})


def collected(layout: Layout, *blocks: pl.DataFrame) -> list[object] | None:
    text = layout.lower(layout.combine(map(layout.lift, blocks)))["c"].item()
    return None if text is None else list(json.loads(text))


def test_values_are_in_order_of_time_then_of_kind_and_value() -> None:
    blocks = [events((2, "a"), (1, "b")), events((1, 2.5), (1, 1.0)), events((1, True), (0, False)), events((1, 2))]
    assert collected(layout_of("collect", 100), *blocks) == [False, True, 1, 2, 2.5, "b", "a"]
    assert collected(layout_of("collect_set", 100), *blocks) == [False, True, 1, 2, 2.5, "a", "b"]


def test_the_first_values_stay_whatever_comes_later() -> None:
    layout = layout_of("collect", 3)
    early, late = events((5, "e"), (5, "e"), (7, "g")), events((6, "f"), (9, "z"), (9, "z"))
    assert collected(layout, early, late) == collected(layout, late, early) == ["e", "e", "f"]
    state = layout.combine([layout.lift(early), layout.lift(late)])
    assert layout.limited(state).rows() == [(0, "c", 1)]
    assert layout.limited(layout.lift(early)).is_empty()


@pytest.mark.slow
def test_a_million_events_keep_no_more_than_they_show_in_a_tree() -> None:
    for function in ("collect", "collect_set"):
        aggregate = Aggregate("c", function, "x", "integer", (10,))
        tree = CompressedBufferTree(KEYS, [aggregate])
        for start in range(0, 1_000_000, 100_000):
            numbers = range(start, start + 100_000)
            frame = pl.DataFrame({"pane": [0] * 100_000, "time": numbers, "k": ["a"] * 100_000, "x": numbers})
            tree.insert(frame)
        state = pl.concat(tree.flush())
        assert state.height == 12
        assert tree.layout.lower(state)["c"].to_list() == ["[0,1,2,3,4,5,6,7,8,9]"]
        assert tree.layout.limited(state).rows() == [(0, "c", 1)]


@pytest.mark.fuzz
@pytest.mark.parametrize("n", [2**63 - 1, -5, 0])
def test_counts_that_a_peer_made_up_cost_nothing(n: int) -> None:
    layout = layout_of("collect", 3)
    state = layout.lift(events((1, "a"), (2, "b")))
    made_up = state.with_columns(pl.when(pl.col("c.n") > 0).then(n).otherwise("c.n").cast(pl.Int64).alias("c.n"))
    shown = layout.lower(layout.combine([made_up]))["c"].item()
    assert len(json.loads(shown or "[]")) <= 3


@pytest.mark.parametrize("most", [0, 10_001])
def test_how_many_is_limited(most: int) -> None:
    with pytest.raises(ValueError, match="only 1 to 10,000"):
        Collection("c", "any", most)
