"""APPROX_PERCENTILE: exact while it is small, else within the stated rank error; bytes of Apache DataSketches."""

import math
import struct
from fractions import Fraction

import datasketches
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbt.algebra.items import lift_items, lower_items, merge_items
from cbt.sketches import kll_bytes
from cbt.sketches.halving import capacities, sketch_capacity
from cbt.sketches.kll import KllSketch
from cbt.sketches.wire import SketchError

GROUP = ["pane"]
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def lifted(sketch: KllSketch, values: object) -> pl.DataFrame:
    series = pl.Series("x", values, dtype=sketch.value_type, strict=False)
    frame = series.to_frame().select(pl.lit(0, dtype=pl.Int64).alias("pane"), "x")
    return lift_items(sketch, frame, [], "x")


def percentile(sketch: KllSketch, rows: pl.DataFrame) -> float | None:
    [result] = lower_items(sketch, rows, [])["q"]
    return result  # type: ignore[no-any-return]


def read(sketch: KllSketch, data: bytes | None) -> pl.DataFrame:
    return kll_bytes.from_bytes(
        sketch, pl.DataFrame({"pane": [0], "q": [data]}, schema_overrides={"q": pl.Binary}), GROUP
    )


def written(sketch: KllSketch, rows: pl.DataFrame) -> bytes:
    [data] = kll_bytes.to_bytes(sketch, rows, GROUP)["q"]
    return bytes(data)


def weight(sketch: KllSketch, rows: pl.DataFrame) -> int:
    return int(sketch.weigh(rows, GROUP)["q.weight"].sum())


@given(st.lists(st.none() | st.floats(), min_size=1, max_size=60), st.sampled_from([0, 0.07, 0.1, 0.5, 0.9, 0.99, 1]))
def test_few_values_give_the_exact_percentile(values: list[float | None], p: float) -> None:
    present = sorted(value for value in values if value is not None and not math.isnan(value))
    rank = max(math.ceil(Fraction(str(p)) * len(present)), 1)
    expected = present[rank - 1] + 0.0 if present else None
    sketch = KllSketch("q", "number", p)
    assert percentile(sketch, lifted(sketch, values)) == expected


def test_few_different_values_are_exact_however_many_there_are() -> None:
    values = np.random.default_rng(3).integers(0, 200, 100_000)
    sketch = KllSketch("q", "integer", 0.9)
    parts = [lifted(sketch, part) for part in np.array_split(values, 7)]
    rows = merge_items(sketch, parts, [])
    assert rows.height == 200
    assert percentile(sketch, rows) == np.quantile(values, 0.9, method="inverted_cdf")


def test_the_result_of_integers_is_one_of_them_beyond_what_doubles_hold() -> None:
    values = [2**63 - 1, 2**53 + 1, -(2**63), None]
    sketches = [KllSketch("q", "integer", p) for p in (0, 0.5, 1)]
    assert [percentile(sketch, lifted(sketch, values)) for sketch in sketches] == [-(2**63), 2**53 + 1, 2**63 - 1]


def shuffled(random: np.random.Generator, count: int) -> np.ndarray:
    return random.lognormal(0, 3, count)


def ascending(random: np.random.Generator, count: int) -> np.ndarray:
    return np.sort(random.random(count))


def with_repeats(random: np.random.Generator, count: int) -> np.ndarray:
    return np.round(random.normal(0, 400, count))


def all_at_once(sketch: KllSketch, frame: pl.DataFrame) -> pl.DataFrame:
    return lift_items(sketch, frame, [], "x")


def one_after_the_other(sketch: KllSketch, frame: pl.DataFrame) -> pl.DataFrame:
    blocks = [lift_items(sketch, block, [], "x") for block in frame.iter_slices(frame.height // 20)]
    rows = blocks[0]
    for block in blocks[1:]:
        rows = merge_items(sketch, [rows, block], [])
    return rows


def in_a_tree(sketch: KllSketch, frame: pl.DataFrame) -> pl.DataFrame:
    parts = [lift_items(sketch, block, [], "x") for block in frame.iter_slices(frame.height // 32)]
    while len(parts) > 1:
        parts = [merge_items(sketch, parts[i : i + 2], []) for i in range(0, len(parts), 2)]
    return parts[0]


@pytest.mark.parametrize("merged", [all_at_once, one_after_the_other, in_a_tree])
@pytest.mark.parametrize("values", [shuffled, ascending, with_repeats])
def test_the_rank_error_is_as_stated_for_every_rank(values: object, merged: object) -> None:
    """100 sketches, one a pane; the greatest error over all ranks is more than what is stated for one of them."""
    groups, count = 100, 3000
    random = np.random.default_rng(11)
    by_pane = np.array([values(random, count) for _ in range(groups)])  # type: ignore[operator]
    frame = pl.DataFrame({"pane": np.tile(np.arange(groups), count), "x": by_pane.T.ravel()})
    sketch = KllSketch("q", "number", 0.5)
    rows = merged(sketch, frame)  # type: ignore[operator]
    assert rows.group_by("pane").len()["len"].max() <= sketch_capacity(200)[-1] + 2
    errors = [
        greatest_rank_error(np.sort(by_pane[pane]), part["q.value"].to_numpy(), part["q.weight"].to_numpy())
        for (pane,), part in sketch.weigh(rows, GROUP).partition_by("pane", as_dict=True).items()
    ]
    assert len(errors) == groups
    assert np.mean(np.array(errors) > sketch.error) <= 0.01
    assert sketch.error == pytest.approx(datasketches.kll_doubles_sketch.get_normalized_rank_error(200, False))


def greatest_rank_error(truth: np.ndarray, kept: np.ndarray, weights: np.ndarray) -> float:
    assert weights.sum() == len(truth)
    estimated = np.concatenate([[0], np.cumsum(weights)])[np.searchsorted(kept, truth, side="right")]
    return float(np.abs(estimated - np.searchsorted(truth, truth, side="right")).max() / len(truth))


def test_the_order_of_rows_and_blocks_changes_nothing() -> None:
    sketch = KllSketch("q", "number", 0.5, k=8)
    values = np.random.default_rng(5).random(2000)
    one, other = lifted(sketch, values), lifted(sketch, values[::-1].copy())
    assert one.sort(one.columns).equals(other.sort(one.columns))
    parts = [lifted(sketch, part) for part in np.array_split(values, 4)]
    there, back = merge_items(sketch, parts, []), merge_items(sketch, parts[::-1], [])
    assert there.sort(one.columns).equals(back.sort(one.columns))


@given(st.lists(FINITE | st.sampled_from([0.0, -0.0, 1.0]), max_size=120), st.sampled_from([8, 9, 200]))
def test_no_weight_is_lost_in_rows_and_bytes(values: list[float], k: int) -> None:
    sketch = KllSketch("q", "number", 0.5, k)
    rows = lifted(sketch, [*values, None])
    data = written(sketch, rows)
    back = read(sketch, data)
    assert weight(sketch, rows) == weight(sketch, back) == len(values)
    assert written(sketch, back) == data
    for p, expected in ((0, min), (1, max)):
        assert percentile(KllSketch("q", "number", p, k), back) == expected(values, default=None)


@pytest.mark.parametrize("count", [0, 1, 2, 200, 201, 50_000])
@pytest.mark.parametrize("distinct", [700, 10**9])
def test_datasketches_reads_and_merges_our_bytes(count: int, distinct: int) -> None:
    values = np.random.default_rng(count).integers(0, distinct, count).astype(float)
    sketch = KllSketch("q", "number", 0.5)
    their_sketch = datasketches.kll_doubles_sketch.deserialize(written(sketch, lifted(sketch, [*values, None])))
    assert their_sketch.n == count
    if not count:
        assert their_sketch.is_empty()
        return
    assert (their_sketch.get_min_value(), their_sketch.get_max_value()) == (values.min(), values.max())
    for p in (0.01, 0.5, 0.99):
        rank = np.searchsorted(np.sort(values), their_sketch.get_quantile(p, True), side="right") / count
        assert abs(rank - p) <= 2 * sketch.error + 1 / count
    more = datasketches.kll_doubles_sketch(200)
    more.update(values)
    more.merge(their_sketch)
    assert more.n == 2 * count


@pytest.mark.parametrize("count", [0, 1, 2, 200, 201, 50_000])
def test_we_read_and_merge_bytes_of_datasketches(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    their_sketch = datasketches.kll_doubles_sketch(200)
    their_sketch.update(values)
    sketch = KllSketch("q", "number", 0.75)
    rows = read(sketch, their_sketch.serialize())
    assert weight(sketch, rows) == count
    assert percentile(sketch, rows) == (their_sketch.get_quantile(0.75, True) if count else None)
    both = merge_items(sketch, [rows, lifted(sketch, values)], [])
    assert weight(sketch, both) == 2 * count


def test_capacities_are_those_of_datasketches() -> None:
    their_sketch = datasketches.kll_doubles_sketch(200)
    their_sketch.update(np.random.default_rng(1).random(1_000_000))
    data = their_sketch.serialize()
    height = data[18]
    starts = struct.unpack_from(f"<{height}I", data, 20)
    assert sketch_capacity(200)[height] - starts[0] == their_sketch.num_retained
    assert capacities(200)[0] == 200


def test_infinities_count_and_nan_does_not() -> None:
    sketch = KllSketch("q", "number", 0.5)
    rows = lifted(sketch, [math.inf, -math.inf, math.nan, 1.0])
    assert (percentile(sketch, rows), weight(sketch, rows)) == (1.0, 3)
    assert weight(sketch, read(sketch, written(sketch, rows))) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("string", 0.5), "there is no percentile of string"),
        (("number", -0.1), "a percentile of -0.1"),
        (("number", math.nan), "a percentile of nan"),
        (("number", 0.5, 7), "k is 7, not one of 8 to 65535"),
    ],
)
def test_percentiles_that_cannot_be(arguments: tuple[str, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=f"aggregate 'q': .*{complaint}"):
        KllSketch("q", *arguments)


SKETCH = KllSketch("q", "number", 0.5)
GOOD = written(SKETCH, lifted(SKETCH, [1.0, 2.0, 3.0]))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes ends early"),
        (GOOD[:-1], "ends early"),
        (b"\7" + GOOD[1:], "no KLL sketch"),
        (GOOD[:2] + b"\7" + GOOD[3:], "family 7"),
        (GOOD[:4] + b"\11\0" + GOOD[6:], "k = 9, where 200 is expected"),
        (GOOD[:6] + b"\7" + GOOD[7:], "levels of 7 items"),
        (GOOD[:8] + b"\4" + GOOD[9:], "miscounts itself"),
        (GOOD[:8] + bytes(8) + GOOD[16:], "of 0 values"),
        (GOOD[:18] + b"\0" + GOOD[19:], "of 0 levels"),
        (GOOD[:18] + b"\76" + GOOD[19:], "of 62 levels"),
        (GOOD[:20] + b"\377\377\377\377" + GOOD[24:], "do not follow each other"),
        (GOOD[:-8] + struct.pack("<d", math.nan), "NaN"),
        (GOOD[:-8] + struct.pack("<d", 9.0), "beyond its own extremes"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_sketch_say_why(data: bytes, complaint: str) -> None:
    with pytest.raises(SketchError, match=complaint):
        read(SKETCH, data)
