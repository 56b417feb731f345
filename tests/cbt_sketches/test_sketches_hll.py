"""APPROX_COUNT_DISTINCT: the registers of Apache DataSketches, the stated error, and bytes there and back."""

import math

import datasketches
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import seeds

from cbt.algebra.items import lift_items, lower_items, merge_items
from cbt.sketches import hll_bytes
from cbt.sketches.hll import HllSketch
from cbt.sketches.wire import SketchError

GROUP = ["pane"]
LONGS = st.integers(-(2**63), 2**63 - 1)


def lifted(sketch: HllSketch, values: list[object] | pl.Series) -> pl.DataFrame:
    frame = pl.DataFrame({"pane": [0] * len(values), "x": values}, schema_overrides={"pane": pl.Int64}, strict=False)
    return lift_items(sketch, frame, [], "x")


def estimate(sketch: HllSketch, rows: pl.DataFrame) -> int:
    return int(lower_items(sketch, rows, [])["u"].item())


def theirs(values: list[object], lg_k: int) -> datasketches.hll_sketch:
    sketch = datasketches.hll_sketch(lg_k, datasketches.HLL_8)
    for value in values:
        sketch.update(value)
    return sketch


def read(sketch: HllSketch, data: bytes | None) -> pl.DataFrame:
    return hll_bytes.from_bytes(
        sketch, pl.DataFrame({"pane": [0], "u": [data]}, schema_overrides={"u": pl.Binary}), GROUP
    )


def same_rows(left: pl.DataFrame, right: pl.DataFrame) -> bool:
    return left.sort(left.columns).equals(right.sort(right.columns))


@pytest.mark.parametrize("lg_k", [4, 8, 12, 21])
@pytest.mark.parametrize("count", [1, 7, 8, 24, 25, 384, 385, 20_000])
@pytest.mark.parametrize("type_", ["integer", "string"])
def test_rows_are_the_coupons_and_registers_of_datasketches(type_: str, count: int, lg_k: int) -> None:
    values = [i * 7919 - 3 if type_ == "integer" else f"é{i}" * (i % 9 + 1) for i in range(count)]
    sketch = HllSketch("u", type_, lg_k)
    rows = lifted(sketch, values)
    their_sketch = theirs(values, lg_k)
    for data in (their_sketch.serialize_compact(), their_sketch.serialize_updatable()):
        assert same_rows(read(sketch, data), rows)
    [ours] = hll_bytes.to_bytes(sketch, rows, GROUP)["u"]
    again = datasketches.hll_sketch.deserialize(ours)
    assert again.lg_config_k == lg_k
    assert again.get_estimate() == pytest.approx(their_sketch.get_estimate(), rel=2 * sketch.error)


@given(st.lists(LONGS, max_size=500), st.lists(LONGS, max_size=500), st.sampled_from([4, 8, 12]))
def test_their_union_of_our_bytes_is_our_merge(left: list[int], right: list[int], lg_k: int) -> None:
    sketch = HllSketch("u", "integer", lg_k)
    parts = [lifted(sketch, pl.Series(values, dtype=pl.Int64)) for values in ([*left, None], [*right, None])]
    union = datasketches.hll_union(lg_k)
    for part in parts:
        union.update(datasketches.hll_sketch.deserialize(hll_bytes.to_bytes(sketch, part, GROUP)["u"][0]))
    together = merge_items(sketch, parts, []).drop_nulls()
    their_rows = read(sketch, union.get_result(datasketches.HLL_8).serialize_compact()).drop_nulls()
    assert same_rows(together, their_rows)


@pytest.mark.parametrize(
    ("lg_k", "count", "groups"),
    seeds(
        (12, 20, 3000),
        (12, 300, 1000),
        (8, 40, 2000),
        (8, 700, 1000),
        (8, 5000, 200),
        slow=[(12, 2000, 500), (12, 20_000, 60)],
    ),
)
def test_the_error_is_as_stated(lg_k: int, count: int, groups: int) -> None:
    random = np.random.default_rng(7 * lg_k + count)
    panes = np.repeat(np.arange(groups), count)
    values = random.integers(-(2**63), 2**63 - 1, count * groups)
    sketch = HllSketch("u", "integer", lg_k)
    blocks = pl.DataFrame({"pane": panes, "x": values}).sample(fraction=1, shuffle=True, seed=1).iter_slices(250_000)
    rows = merge_items(sketch, [lift_items(sketch, block, [], "x") for block in blocks], [])
    errors = lower_items(sketch, rows, [])["u"].to_numpy() / count - 1
    assert np.mean(np.abs(errors) > sketch.error) <= 0.01 + 2 * math.sqrt(0.01 * 0.99 / groups)
    assert abs(errors.mean()) < 4 * sketch.error / 2.576 / math.sqrt(groups)


def test_a_million_values() -> None:
    sketch = HllSketch("u", "integer")
    assert abs(estimate(sketch, lifted(sketch, pl.Series(range(1_000_000)))) / 1e6 - 1) < sketch.error
    assert sketch.error == pytest.approx(0.042, abs=0.001)


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        ("number", [1, 1.0, -0.0, 0.0, math.nan, -math.nan, math.inf, -math.inf, 0.1, None], 6),
        ("string", ["", "a", "a", None], 2),
        ("string", ["a" * 2**20, "a" * 2**20 + "b", "a" * 2**20], 2),
        ("boolean", [True, False, True, None], 2),
        ("any", [None], 0),
    ],
)
def test_few_values_are_counted_exactly(type_: str, values: list[object], expected: int) -> None:
    sketch = HllSketch("u", type_)
    assert estimate(sketch, lifted(sketch, values)) == expected


def test_any_value_is_one_in_whatever_column_it_came() -> None:
    sketch = HllSketch("u", "any")
    blocks = [[1, 2], [1.0, 2.5], ["1", "a"], [True], [None]]
    assert estimate(sketch, merge_items(sketch, [lifted(sketch, values) for values in blocks], [])) == 6


def test_an_empty_sketch() -> None:
    sketch = HllSketch("u", "integer")
    [data] = hll_bytes.to_bytes(sketch, lifted(sketch, [None]), GROUP)["u"]
    assert data == theirs([], 12).serialize_compact()
    assert estimate(sketch, read(sketch, data)) == estimate(sketch, read(sketch, None)) == 0


@pytest.mark.parametrize("lg_k", [3, 22])
def test_registers_that_cannot_be(lg_k: int) -> None:
    with pytest.raises(ValueError, match=f"aggregate 'u': lg_k is {lg_k}, not one of 4 to 21"):
        HllSketch("u", "integer", lg_k)


ARRAY = theirs(list(range(30)), 4).serialize_compact()
SET = theirs(list(range(20)), 12).serialize_compact()


@pytest.mark.parametrize(
    ("lg_k", "data", "complaint"),
    [
        (4, b"", "0 bytes ends early"),
        (4, ARRAY[:-1], "ends early"),
        (4, ARRAY[:1] + b"\2" + ARRAY[2:], "version 2, family 7"),
        (4, ARRAY[:2] + b"\17" + ARRAY[3:], "version 1, family 15"),
        (4, ARRAY[:-1] + b"\100", "a rank above 63"),
        (4, theirs(list(range(30)), 4).serialize_compact()[:7] + b"\2" + ARRAY[8:], "not of type HLL_8"),
        (5, ARRAY, "of 2\\*\\*4 registers, where 2\\*\\*5 are expected"),
        (12, SET[:8] + b"\377\377\377\177" + SET[12:], "2147483647 coupons"),
        (12, SET[:8] + b"\377\377\377\377" + SET[12:], "-1 coupons"),
        (12, SET[:12] + b"\0\0\0\0" + SET[16:], "19 coupons says that it has 20"),
        (12, SET[:12] + b"\1\0\0\0" + SET[16:], "a coupon of no rank"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_sketch_say_why(lg_k: int, data: bytes, complaint: str) -> None:
    with pytest.raises(SketchError, match=complaint):
        read(HllSketch("u", "integer", lg_k), data)
