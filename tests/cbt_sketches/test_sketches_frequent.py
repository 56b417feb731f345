"""APPROX_TOP_K: bounds that always hold, however sketches are merged, and bytes of Apache DataSketches."""

import json
import math
from collections import Counter

import datasketches
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from cbt.algebra.items import lift_items, lower_items, merge_items
from cbt.sketches import frequent_bytes
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.wire import SketchError

GROUP = ["pane"]


def lifted(sketch: FrequentItems, values: object, dtype: pl.DataType | None = None) -> pl.DataFrame:
    series = pl.Series("x", values, dtype=dtype, strict=False)
    return lift_items(sketch, series.to_frame().select(pl.lit(0, dtype=pl.Int64).alias("pane"), "x"), [], "x")


def top(sketch: FrequentItems, rows: pl.DataFrame) -> list[list[object]] | None:
    [text] = lower_items(sketch, rows, [])["t"]
    return json.loads(text) if text is not None else None  # type: ignore[no-any-return]


def written(sketch: FrequentItems, rows: pl.DataFrame) -> bytes:
    [data] = frequent_bytes.to_bytes(sketch, rows, GROUP)["t"]
    return bytes(data)


def read(sketch: FrequentItems, data: bytes | None) -> pl.DataFrame:
    frame = pl.DataFrame({"pane": [0], "t": [data]}, schema_overrides={"t": pl.Binary})
    return frequent_bytes.from_bytes(sketch, frame, GROUP)


def check_bounds(sketch: FrequentItems, rows: pl.DataFrame, truth: Counter[int]) -> None:
    total = truth.total()
    assert rows["t.weight"].sum() == total
    bounds = {item: (lower, upper) for _, item, lower, upper in sketch.bounds(rows, GROUP).rows()}
    assert len(bounds) <= sketch.capacity
    offset = rows.filter(pl.col("t.i").is_null())["t.n"].sum()
    assert offset <= sketch.error * total
    for item, count in truth.items():
        lower, upper = bounds.get(item, (0, offset))
        assert lower <= count <= upper
        assert upper - lower == offset


def test_few_different_values_are_counted_exactly() -> None:
    sketch = FrequentItems("t", "string", top=2)
    assert top(sketch, lifted(sketch, ["a", "b", None, "", "a", "c", "b", "a"])) == [["a", 3, 0], ["b", 2, 0]]
    assert top(sketch, lifted(sketch, ["b", "a", "", "é"])) == [["", 1, 0], ["a", 1, 0]]
    assert top(sketch, lifted(sketch, [None], pl.String())) is None


@given(st.lists(st.lists(st.none() | st.integers(0, 40), max_size=60), min_size=1, max_size=6), st.booleans())
def test_bounds_hold_however_sketches_are_merged(blocks: list[list[int | None]], pairwise: bool) -> None:
    sketch = FrequentItems("t", "integer", top=3, max_items_tracked=6)
    parts = [lifted(sketch, values, pl.Int64()) for values in blocks]
    if pairwise:
        while len(parts) > 1:
            parts = [merge_items(sketch, parts[:2], []), *parts[2:]]
    rows = merge_items(sketch, parts, [])
    check_bounds(sketch, rows, Counter(value for values in blocks for value in values if value is not None))


def test_many_values_of_a_skewed_distribution() -> None:
    values = np.random.default_rng(9).zipf(1.2, 300_000).clip(0, 10**9)
    truth = Counter(values.tolist())
    sketch = FrequentItems("t", "integer", top=10, max_items_tracked=1000)
    rows = merge_items(sketch, [lifted(sketch, part) for part in np.array_split(values, 8)], [])
    offset = rows.filter(pl.col("t.i").is_null())["t.n"].sum()
    assert 0 < offset <= sketch.error * len(values)
    found = top(sketch, rows)
    assert [item for item, _, _ in found] == [item for item, _ in truth.most_common(10)]
    assert all(count - error <= truth[item] <= count for item, count, error in found)


def test_groups_are_cut_apart() -> None:
    sketch = FrequentItems("t", "integer", top=1, max_items_tracked=6)
    frame = pl.DataFrame({"pane": [0] * 3 + [1] * 20, "x": [5, 5, 6, *range(18), 0, 0]})
    rows = lift_items(sketch, frame, [], "x")
    assert lower_items(sketch, rows, []).sort("pane").rows() == [(0, "[[5,2,0]]"), (1, "[[0,3,1]]")]


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("number", [1, 1.0, 1.5, math.nan, -0.0, 0.0, math.inf, -math.inf], {"1": 2, "0": 2, "1.5": 1, "NaN": 1}),
        ("boolean", [True, False, True, None], {"true": 2, "false": 1}),
        ("string", ["", 'q"', "x" * 2**20, "x" * 2**20], {'""': 1, '"q\\""': 1, '"' + "x" * 2**20 + '"': 2}),
        ("integer", [2**63 - 1, -(2**63), None], {"9223372036854775807": 1, "-9223372036854775808": 1}),
    ],
)
def test_values_of_every_type_there_and_back(type_: str, values: list[object], expected: dict[str, int]) -> None:
    sketch = FrequentItems("t", type_, top=10)
    rows = lifted(sketch, values)
    [text] = lower_items(sketch, rows, [])["t"]
    for item, count in expected.items():
        assert f"[{item},{count},0]" in text
    assert lower_items(sketch, read(sketch, written(sketch, rows)), [])["t"].to_list() == [text]


def test_any_value_in_any_column() -> None:
    sketch = FrequentItems("t", "any", top=2)
    blocks: list[list[object]] = [["1", "1"], [1, 2], [1.0], [True], [None]]
    rows = merge_items(sketch, [lifted(sketch, values) for values in blocks], [])
    assert top(sketch, rows) == [["1", 2, 0], [1, 2, 0]]
    assert top(sketch, read(sketch, written(sketch, rows))) == [["1", 2, 0], [1, 2, 0]]


@given(st.lists(st.sampled_from(["", "a", "é", "b", "long " * 9, *"cdefgh"]), max_size=80))
@example(["", *"abcdef"])
def test_datasketches_reads_and_merges_our_bytes(values: list[str]) -> None:
    sketch = FrequentItems("t", "string", max_items_tracked=6)
    rows = lifted(sketch, [*values, None], pl.String())
    their_sketch = datasketches.frequent_strings_sketch.deserialize(written(sketch, rows))
    assert their_sketch.total_weight == len(values)
    for _, item, lower, upper in sketch.bounds(rows, GROUP).rows():
        assert (their_sketch.get_lower_bound(item), their_sketch.get_upper_bound(item)) == (lower, upper)
    more = datasketches.frequent_strings_sketch(3)
    more.merge(their_sketch)
    assert their_sketch.is_empty() == (their_sketch.num_active_items == 0)
    # A sketch whose items are all purged is empty to them: they merge nothing of it.
    assert more.total_weight == (0 if their_sketch.is_empty() else len(values))


@given(st.lists(st.integers(0, 30), max_size=200))
def test_we_read_and_merge_bytes_of_datasketches(values: list[int]) -> None:
    their_sketch = datasketches.frequent_strings_sketch(3)
    for value in values:
        their_sketch.update(str(value))
    sketch = FrequentItems("t", "string", max_items_tracked=6)
    assume(their_sketch.num_active_items or not values)  # of items that are all purged they write down nothing
    data = their_sketch.serialize()
    rows = read(sketch, data)
    assert rows["t.weight"].sum() == len(values)
    for _, item, lower, upper in sketch.bounds(rows, GROUP).rows():
        assert (their_sketch.get_lower_bound(item), their_sketch.get_upper_bound(item)) == (lower, upper)
    both = merge_items(sketch, [rows, lifted(sketch, list(map(str, values)), pl.String())], [])
    assert both["t.weight"].sum() == 2 * len(values)


def test_no_values_at_all() -> None:
    sketch = FrequentItems("t", "string")
    data = written(sketch, lifted(sketch, [None], pl.String()))
    assert data == datasketches.frequent_strings_sketch(14).serialize()
    assert top(sketch, read(sketch, data)) is top(sketch, read(sketch, None)) is None


def test_capacity_is_that_of_as_many_items_as_spark_tracks() -> None:
    assert [FrequentItems("t", "any", 1, items).lg_size for items in (1, 6, 7, 10_000, 1_000_000)] == [3, 3, 4, 14, 21]
    with pytest.raises(ValueError, match="aggregate 't': cannot find 5 items among 4"):
        FrequentItems("t", "any", 5, 4)


def test_items_in_json_are_canonical() -> None:
    sketch = FrequentItems("t", "any")
    for text in ("1.0", "[1]", "null", "x", "9223372036854775808", "[" * 100_000):
        counts = datasketches.frequent_strings_sketch(14)
        counts.update(text)
        with pytest.raises(SketchError, match=r"no canonical JSON|no any|no JSON"):
            read(sketch, counts.serialize())


SKETCH = FrequentItems("t", "string")
GOOD = written(SKETCH, lifted(SKETCH, ["a", "a", "b"]))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes ends early"),
        (GOOD[:-1], "ends early"),
        (b"\3" + GOOD[1:], "a preamble of 3 longs"),
        (GOOD[:2] + b"\7" + GOOD[3:], "family 7"),
        (GOOD[:3] + b"\3" + GOOD[4:], "of size 2\\*\\*3, where 2\\*\\*14 is expected"),
        (GOOD[:8] + b"\377\377\377\177" + GOOD[12:], "ends early"),
        (GOOD[:16] + b"\2" + GOOD[17:], "of 2 values that count 3"),
        (GOOD[:32] + bytes(8) + GOOD[40:], "a count below 1"),
        (GOOD[:-1] + b"\377", "no UTF-8"),
        (GOOD + b"\0", "something behind them"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_sketch_say_why(data: bytes, complaint: str) -> None:
    with pytest.raises(SketchError, match=complaint):
        read(SKETCH, data)
