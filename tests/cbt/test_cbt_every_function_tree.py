"""Trees of every aggregate function are as layouts, and sketches in them stay small and within their errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import polars as pl
import pytest
from every_function import (
    COUNT,
    EVENTS,
    EVERY,
    KEYS,
    TOGETHER,
    USER_FUNCTIONS,
    Event,
    aggregates_of,
    blocks,
    check_results,
    layout_of,
    merged,
    model,
    sent,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from cbt import Aggregate, CompressedBufferTree, Key
from cbt.algebra.hashing import splitmix64
from cbt.algebra.items import ItemPao


@pytest.fixture(scope="module", autouse=True)
def compacted_early() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("cbt.tree.interior._COMPACT_ROWS", 8)
        yield


FEW = settings(max_examples=max(1, settings.default.max_examples // 10))


def tree_of(aggregates: Sequence[Aggregate], limits: Random) -> CompressedBufferTree:
    return CompressedBufferTree(
        KEYS,
        aggregates,
        seed=3,
        functions=USER_FUNCTIONS,
        buffer_rows=limits.randint(1, 20),
        fanout=limits.randint(2, 4),
        leaf_rows=limits.randint(2, 12),
    )


@FEW
@given(events=EVENTS, agents=st.integers(1, 7), order=st.randoms(use_true_random=False))
def test_trees_of_all_functions_are_as_layouts(events: list[Event], agents: int, order: Random) -> None:
    layout = layout_of(TOGETHER)
    frames = []
    for agent in range(agents):
        tree = tree_of(TOGETHER, order)
        for block in blocks(events[agent::agents]):
            tree.insert(block)
            if order.random() < 0.2:
                list(tree.flush())
            tree.check()
        frames += [sent(layout, frame) for frame in tree.flush()]
    together = merged(layout, frames, order)
    assert together.equals(layout.combine(layout.lift(block) for block in blocks(events)))
    check_results(layout, together, events)


@FEW
@given(events=EVENTS, function=st.sampled_from(EVERY), order=st.randoms(use_true_random=False))
def test_frames_of_a_tree_hold_whole_groups_in_order(events: list[Event], function: str, order: Random) -> None:
    tree = tree_of([COUNT, *aggregates_of(function)], order)
    for block in blocks(events):
        tree.insert(block)
    frames = list(tree.flush())
    bounds = [[(pane, hash_ >> 32) for pane, hash_ in frame.select("pane", "hash").rows()] for frame in frames]
    assert all(bound == sorted(bound) for bound in bounds)
    if tree.layout.has_items:
        assert all(left[-1] < right[0] for left, right in pairwise(bounds))
    rows = [row for frame in frames for row in tree.layout.lower(frame).rows()]
    assert len(rows) == len({row[:3] for row in rows}) == len(model([], events))
    assert [frame.rows() for frame in tree.flush()] == [frame.rows() for frame in frames]
    tree.empty(0)
    tree.check()
    left = [row[:3] for frame in tree.flush() for row in tree.layout.lower(frame).rows()]
    assert sorted(map(str, left)) == sorted(str(row[:3]) for row in rows if row[0] != 0)


GROUPS, BLOCKS, ROWS = 200, 16, 40_000
SKETCHES = [
    COUNT,
    Aggregate("users", "approx_count_distinct", "user", "integer", (7,)),
    Aggregate("median", "approx_percentile", "x", "number", (0.5, 24)),
    Aggregate("top", "approx_top_k", "page", "integer", (3, 10)),
]


def sketched_events(block: int) -> pl.DataFrame:
    """Groups of very different sizes; users that come again, skewed pages, values without order."""
    rows = pl.Series(range(block * ROWS, (block + 1) * ROWS), dtype=pl.UInt64)
    bits = splitmix64(rows)
    group = (bits % GROUPS * (bits // 2**40 % GROUPS) // GROUPS).cast(pl.Int64)
    page = 64 - splitmix64(bits).to_frame("h").select(pl.col("h").bitwise_leading_zeros()).to_series().cast(pl.Int64)
    return pl.DataFrame(
        {
            "pane": pl.Series([0], dtype=pl.Int64).new_from_index(0, ROWS),
            "group": group,
            "user": (splitmix64(bits ^ rows) % 5000).cast(pl.Int64) + group * 5000,
            "x": (splitmix64(bits ^ bits // 7) % 10**6).cast(pl.Float64) / 8,
            "page": page,
        }
    )


@pytest.fixture(scope="module")
def sketched() -> tuple[pl.DataFrame, pl.DataFrame, list[CompressedBufferTree]]:
    """All events, their results by way of three trees, and the trees."""
    keys = [Key("group", "integer")]
    trees = [CompressedBufferTree(keys, SKETCHES, buffer_rows=2**13, leaf_rows=2**12) for _ in range(3)]
    events = [sketched_events(block) for block in range(BLOCKS)]
    for number, block in enumerate(events):
        trees[number % 3].insert(block)
    layout = trees[0].layout
    results = layout.lower(layout.combine(frame for tree in trees for frame in tree.flush()))
    return pl.concat(events), results, trees


def error_of(trees: list[CompressedBufferTree], aggregate: str) -> float:
    (error,) = (pao.error for pao in trees[0].layout.paos if isinstance(pao, ItemPao) and pao.name == aggregate)
    assert error is not None
    return error


Sketched = tuple[pl.DataFrame, pl.DataFrame, list[CompressedBufferTree]]


@pytest.mark.slow  # sketches are held to their errors without trees
def test_distinct_counts_of_groups_are_within_their_error(sketched: Sketched) -> None:
    events, results, trees = sketched
    exact = events.group_by("group").agg(pl.len().cast(pl.Int64).alias("n"), pl.col("user").n_unique().alias("exact"))
    both = results.join(exact, on=["group", "n"])
    assert both.height == results.height == exact.height > 150
    outside = (both["users"].cast(pl.Float64) / both["exact"] - 1).abs() > error_of(trees, "users")
    assert outside.mean() <= 0.01


@pytest.mark.slow  # as above
def test_ranks_of_percentiles_are_within_their_error(sketched: Sketched) -> None:
    events, results, trees = sketched
    found = events.join(results.select("group", "median"), on="group")
    ranks = found.group_by("group").agg(
        least=(pl.col("x") < pl.col("median")).mean(), most=(pl.col("x") <= pl.col("median")).mean()
    )
    error = error_of(trees, "median")
    outside = (ranks["least"] > 0.5 + error) | (ranks["most"] < 0.5 - error)
    assert outside.mean() <= 0.01


@pytest.mark.slow  # as above
def test_counts_of_frequent_items_are_within_their_errors(sketched: Sketched) -> None:
    events, results, trees = sketched
    exact = {row[:2]: row[2] for row in events.group_by("group", "page").len().rows()}
    error = error_of(trees, "top")
    for group, n, top in results.select("group", "n", "top").rows():
        for page, count, off in json.loads(top):
            assert count - off <= exact[group, page] <= count
            assert off <= error * n


@pytest.mark.slow  # as above
def test_sketches_in_a_tree_stay_small(sketched: Sketched) -> None:
    _, _, trees = sketched
    for tree in trees:
        tree.check()
        compact = sum(frame.height for frame in tree.flush())
        assert tree.statistics().stored_rows <= 2 * compact + 2**13
