"""The tree with its kernel and without it: whatever comes, both have the same groups and states."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cbt import Aggregate, CompressedBufferTree, Key
from cbt.native import library

pytestmark = pytest.mark.skipif(library.load().library is None, reason="no kernel here")
OTHER_THREAD = ThreadPoolExecutor(1)
_MASK = 2**64 - 1

TEXTS = st.one_of(
    st.text(max_size=3),
    st.sampled_from(
        ["/a", "/b", "exactly12byt", "of 13 bytes..", "of sixteen bytes", "of seventeen byte", '"\\\n\x01é']
    ),
    st.integers(1, 400).map(lambda length: "x" * length),
)
INTEGERS = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 1.5, -(2.0**62), 2.0**-75, math.nan, math.inf, 5e-324, 1e300]), st.floats(width=64)
)
VALUES: dict[str, Sequence[tuple[pl.DataType, st.SearchStrategy[Any]]]] = {
    "string": [(pl.String(), TEXTS), (pl.Null(), st.none())],
    "integer": [(pl.Int64(), INTEGERS), (pl.Null(), st.none())],
    "boolean": [(pl.Boolean(), st.booleans()), (pl.Null(), st.none())],
    "number": [(pl.Int64(), INTEGERS), (pl.Float64(), DOUBLES), (pl.Null(), st.none())],
    "any": [(pl.String(), TEXTS), (pl.Int64(), INTEGERS), (pl.Boolean(), st.booleans()), (pl.Float64(), DOUBLES)],
}
"""For each type the physical forms that its columns may have."""
FUNCTIONS = [
    ("count", None, "any"), ("count", "any", "any"), ("sum", "integer", "integer"), ("avg", "integer", "integer"),
    ("sum", "number", "number"), ("avg", "number", "number"), ("min", "integer", "integer"),
    ("max", "integer", "integer"), ("min", "number", "number"), ("max", "number", "number"),
    ("bool_and", "boolean", "boolean"), ("bool_or", "boolean", "boolean"), ("stddev", "integer", "integer"),
    ("var_pop", "number", "number"), ("stddev", "number", "number"),
    ("max", "string", "string"),
]  # fmt: skip


@st.composite
def blocks(draw: st.DrawFn, types: Sequence[str]) -> pl.DataFrame:
    """A block of events in a few panes; a column `key N` for each type, and one of each type to aggregate."""
    rows = draw(st.integers(1, 12))
    columns = [pl.Series("pane", draw(st.lists(st.sampled_from([-5, 0, 7]), min_size=rows, max_size=rows)), pl.Int64)]
    names = [*((f"key {number}", type_) for number, type_ in enumerate(types)), *((type_, type_) for type_ in VALUES)]
    for name, type_ in names:
        dtype, values = draw(st.sampled_from(VALUES[type_]))
        column = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns.append(pl.Series(name, column, dtype, strict=False))
    block = pl.DataFrame(columns)
    return block.slice(draw(st.integers(0, rows - 1)))


def tree_of(types: Sequence[str], functions: Sequence[tuple[str, str | None, str]], **how: Any) -> CompressedBufferTree:
    aggregates = [Aggregate(f"a{number}", *function) for number, function in enumerate(functions)]
    return CompressedBufferTree([Key(f"key {n}", type_) for n, type_ in enumerate(types)], aggregates, seed=9, **how)


@given(st.data())
def test_groups_are_those_of_the_layout(data: st.DataObject) -> None:
    """Of any keys, aggregates and values, on one thread and on two, read twice with more in between."""
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))
    functions = data.draw(st.lists(st.sampled_from(FUNCTIONS), min_size=1, max_size=4, unique=True))
    limits = data.draw(st.sampled_from([{}, {"buffer_rows": 3, "leaf_rows": 4, "fanout": 2}]))
    tree = tree_of(types, functions, executor=data.draw(st.sampled_from([None, OTHER_THREAD])), **limits)
    inserted: list[pl.DataFrame] = []
    for _ in range(2):
        for block in data.draw(st.lists(blocks(types), min_size=1, max_size=4)):
            tree.insert(block)
            inserted.append(tree.layout.lift(block))
        found = pl.concat([tree.layout.empty(), *tree.flush()])
        expected = tree.layout.combine(inserted)
        assert tree.layout.lower(found).equals(tree.layout.lower(expected))
        assert found.select("pane", "hash").equals(expected.select("pane", "hash"))
    tree.check()
    tree.empty(0)
    assert set(pl.concat([tree.layout.empty(), *tree.flush()])["pane"]) == set(expected["pane"]) - {0}


@given(st.lists(st.text(max_size=300), min_size=1), st.integers(0, _MASK))
def test_texts_have_the_hash_that_all_agents_give_them(texts: list[str], seed: int) -> None:
    tree = CompressedBufferTree([Key("k", "string")], [Aggregate("n", "count", None, "any")], seed=seed)
    tree.insert(pl.DataFrame({"pane": [0] * len(texts), "k": texts}, schema_overrides={"pane": pl.Int64}))
    found = pl.concat(list(tree.flush()))
    assert found["hash"].equals(tree.layout.hashes(found.select("k")))


def _unmixed(bits: int) -> int:
    """The number of which splitmix64 makes these bits."""
    bits ^= bits >> 31 ^ bits >> 62
    bits = bits * pow(0x94D049BB133111EB, -1, 2**64) & _MASK
    bits ^= bits >> 27 ^ bits >> 54
    bits = bits * pow(0xBF58476D1CE4E5B9, -1, 2**64) & _MASK
    bits ^= bits >> 30 ^ bits >> 60
    return (bits - 0x9E3779B97F4A7C15) & _MASK


def _mixed(bits: int) -> int:
    bits = (bits + 0x9E3779B97F4A7C15) & _MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31


def keys_of_one_hash(count: int) -> pl.DataFrame:
    """Pairs of integers that all have one hash, as anyone can make them."""
    wanted, pairs = 12345, []
    for first in range(count):
        second = _unmixed(_mixed(_mixed(first)) ^ wanted)
        pairs.append((first, second - 2**64 if second >= 2**63 else second))
    return pl.DataFrame(pairs, schema={"a": pl.Int64, "b": pl.Int64}, orient="row")


@pytest.mark.parametrize("executor", [None, OTHER_THREAD], ids=["one thread", "two threads"])
def test_keys_made_to_share_a_hash_are_told_apart(executor: ThreadPoolExecutor | None) -> None:
    """More of them than the table looks through at one place: the rest goes the other way."""
    keys = keys_of_one_hash(1_000)
    tree = CompressedBufferTree(
        [Key("a", "integer"), Key("b", "integer")], [Aggregate("n", "count", None, "any")], executor=executor
    )
    for _ in range(2):
        tree.insert(keys.with_columns(pane=pl.lit(0, dtype=pl.Int64)))
    found = pl.concat(list(tree.flush()))
    assert found["hash"].n_unique() == 1
    assert Counter(found.select("a", "b", "n.n").rows()) == Counter((a, b, 2) for a, b in keys.rows())
    tree.check()


@example(rows=210_000)
@given(st.integers(1, 3_000))
def test_a_table_grows_with_its_groups(rows: int) -> None:
    tree = tree_of(["string"], [("count", None, "any"), ("sum", "integer", "integer")])
    block = pl.DataFrame({"pane": range(rows), "integer": range(rows)}).with_columns(
        pl.col("pane") % 3, pl.format("a key of some length {}", pl.col("integer")).alias("key 0")
    )
    tree.insert(block)
    tree.insert(block)
    found = tree.layout.lower(pl.concat(list(tree.flush())))
    assert found.sort("a1")["a1"].to_list() == [2 * row for row in range(rows)]
    assert set(found["a0"]) == {2}


def test_more_panes_than_a_table_has_numbers_for() -> None:
    tree = tree_of(["integer"], [("count", None, "any")])
    tree.insert(pl.DataFrame({"pane": range(1_100), "key 0": [1] * 1_100}))
    assert [frame["pane"].to_list() for frame in tree.flush(1_099)] == [[1_099]]
    assert sum(frame.height for frame in tree.flush()) == 1_100


def test_a_key_larger_than_the_tables_memory() -> None:
    tree = tree_of(["any", "string"], [("count", None, "any")])
    huge = "x" * 3_000_000
    for _ in range(2):
        tree.insert(pl.DataFrame({"pane": [0, 0], "key 0": ["a", huge], "key 1": [huge, "b"]}))
    found = tree.layout.lower(pl.concat(list(tree.flush())))
    assert sorted(found["a0"]) == [2, 2]
    assert found["key 0"].str.len_bytes().sum() + found["key 1"].str.len_bytes().sum() == 6_000_006
