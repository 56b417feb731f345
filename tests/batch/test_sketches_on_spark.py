"""Spark's own functions read, merge and estimate our sketches, and we read theirs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from cbt.algebra.items import ItemPao, lift_items, lower_items, merge_items
from cbt.sketches import frequent_bytes, hll_bytes, kll_bytes
from cbt.sketches.frequent import FrequentItems
from cbt.sketches.hll import HllSketch
from cbt.sketches.kll import KllSketch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GROUP = ["pane"]
NO_NULLS = bytes(8)  # Spark puts the number of NULLs behind its frequent items


def lifted(sketch: ItemPao, values: pl.Series) -> pl.DataFrame:
    return lift_items(sketch, pl.DataFrame({"pane": [0] * len(values), "x": values}), [], "x")


def frame_of(name: str, data: bytes) -> pl.DataFrame:
    return pl.DataFrame({"pane": [0], name: pl.Series([data], dtype=pl.Binary)})


def ask(spark: SparkSession, expression: str, **binaries: bytes) -> object:
    """The value of a Spark SQL expression in which `:name` stands for bytes."""
    literals = {name: f"X'{data.hex()}'" for name, data in binaries.items()}
    for name, literal in literals.items():
        expression = expression.replace(f":{name}", literal)
    return spark.sql(f"SELECT {expression}").first()[0]


@pytest.mark.parametrize("count", [0, 5, 100, 20_000])
def test_hll(spark: SparkSession, count: int) -> None:
    sketch = HllSketch("u", "integer")
    ours, others = (
        lifted(sketch, pl.Series([None, *range(start, start + count)], dtype=pl.Int64)) for start in (0, 50)
    )
    left, right = (bytes(hll_bytes.to_bytes(sketch, rows, GROUP)["u"][0]) for rows in (ours, others))
    assert ask(spark, "hll_sketch_estimate(:left)", left=left) == pytest.approx(count, rel=sketch.error)
    united = ask(spark, "hll_union(:left, :right)", left=left, right=right)
    merged = merge_items(sketch, [ours, others], []).drop_nulls()
    read = hll_bytes.from_bytes(sketch, frame_of("u", bytes(united)), GROUP).drop_nulls()  # type: ignore[call-overload]
    assert read.sort("u.slot").equals(merged.sort("u.slot"))
    theirs = spark.sql(f"SELECT hll_sketch_agg(id) FROM range({count})").first()[0]
    assert (
        hll_bytes.from_bytes(sketch, frame_of("u", bytes(theirs)), GROUP)
        .drop_nulls()
        .sort("u.slot")
        .equals(ours.drop_nulls().sort("u.slot"))
    )


def test_hll_of_strings_has_the_coupons_of_spark(spark: SparkSession) -> None:
    sketch = HllSketch("u", "string")
    ours = lifted(sketch, pl.Series([f"é{i}" for i in range(200)]))
    theirs = spark.sql("SELECT hll_sketch_agg(concat('é', id)) FROM range(200)").first()[0]
    assert hll_bytes.from_bytes(sketch, frame_of("u", bytes(theirs)), GROUP).sort("u.slot").equals(ours.sort("u.slot"))


@pytest.mark.parametrize("count", [1, 150, 30_000])
@pytest.mark.parametrize(("type_", "suffix"), [("number", "double"), ("integer", "bigint")])
def test_kll(spark: SparkSession, type_: str, suffix: str, count: int) -> None:
    sketch = KllSketch("q", type_, 0.9)
    values = pl.Series(np.random.default_rng(count).permutation(count), dtype=sketch.value_type)
    rows = lifted(sketch, values)
    data = bytes(kll_bytes.to_bytes(sketch, rows, GROUP)["q"][0])
    tolerance = 2 * sketch.error * count + 1
    assert ask(spark, f"kll_sketch_get_n_{suffix}(:data)", data=data) == count
    quantile = ask(spark, f"kll_sketch_get_quantile_{suffix}(:data, 0.9D)", data=data)
    assert quantile == pytest.approx(0.9 * count, abs=tolerance)
    theirs = spark.sql(f"SELECT kll_sketch_agg_{suffix}(CAST(id AS {suffix})) FROM range({count})").first()[0]
    merged = ask(spark, f"kll_sketch_merge_{suffix}(:data, :theirs)", data=data, theirs=bytes(theirs))
    read = kll_bytes.from_bytes(sketch, frame_of("q", bytes(merged)), GROUP)  # type: ignore[call-overload]
    assert sketch.weigh(read, GROUP)["q.weight"].sum() == 2 * count
    assert lower_items(sketch, read, [])["q"].item() == pytest.approx(0.9 * count, abs=tolerance)


@pytest.mark.parametrize("count", [20, 3000])
@pytest.mark.parametrize(("type_", "sql_type"), [("integer", "BIGINT"), ("string", "STRING")])
def test_frequent_items(spark: SparkSession, type_: str, sql_type: str, count: int) -> None:
    sketch = FrequentItems("t", type_, top=3, max_items_tracked=100)
    numbers = np.random.default_rng(1).zipf(1.5, count).clip(0, 10**6)
    values = pl.Series(numbers).cast(pl.Int64 if type_ == "integer" else pl.String)
    rows = lifted(sketch, values)
    data = bytes(frequent_bytes.to_bytes(sketch, rows, GROUP)["t"][0])
    ours = (
        f"named_struct('sketch', :data, 'maxItemsTracked', 100, 'itemDataType', CAST(NULL AS {sql_type}),"
        f" 'itemDataTypeDDL', 'item {sql_type} NOT NULL')"
    )
    estimated = ask(spark, f"approx_top_k_estimate({ours}, 3)", data=data + NO_NULLS)
    bounds = {item: upper for _, item, _, upper in sketch.bounds(rows, GROUP).rows()}
    assert {row.item: row["count"] for row in estimated} == {row.item: bounds[row.item] for row in estimated}  # type: ignore[attr-defined]
    truth = Counter(values.to_list())
    twice = (
        f"SELECT approx_top_k_combine(state) AS state FROM (SELECT {ours} AS state UNION ALL SELECT {ours} AS state)"
    )
    combined = spark.sql(twice.replace(":data", f"X'{(data + NO_NULLS).hex()}'")).first().state
    read = frequent_bytes.from_bytes(sketch, frame_of("t", bytes(combined.sketch)), GROUP)
    assert read["t.weight"].sum() == 2 * count
    for _, item, lower, upper in sketch.bounds(read, GROUP).rows():
        assert lower <= 2 * truth[item] <= upper


def test_frequent_items_of_spark_with_nulls(spark: SparkSession) -> None:
    sketch = FrequentItems("t", "string", top=3, max_items_tracked=100)
    query = "SELECT approx_top_k_accumulate(IF(id % 4 = 0, NULL, string(id % 4)), 100) AS state FROM range(30)"
    state = spark.sql(query).first().state
    read = frequent_bytes.from_bytes(sketch, frame_of("t", bytes(state.sketch)), GROUP)
    assert lower_items(sketch, read, [])["t"].item() == '[["1",8,0],["2",7,0],["3",7,0]]'
