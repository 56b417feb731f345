"""Sketches of a run over an archive and of Spark's own functions: each reads and merges the other's."""

from __future__ import annotations

import json

import polars as pl
import pytest
from case_archives import archived_lines
from pyspark.sql import functions as F  # noqa: N812

from cbt.aggregates.item_rows import PART
from cbt.algebra.items import lower_items, merge_items
from cbt.sketches import hll_bytes, kll_bytes
from elf.batch.query.native import layout_of
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable, Range

pytestmark = pytest.mark.spark

USERS = 3_000
# A column of which nothing says that it is a string is hashed as JSON, which Spark does not do.
DISTINCT_USERS = "SELECT APPROX_COUNT_DISTINCT(user) FROM web WHERE user <> ''"
GROUP = ["pane"]


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    lines = [json.dumps({"user": f"user {number % USERS}", "ms": number % 1000 / 8}) for number in range(9_000)]
    store = archived_lines(tmp_path_factory.mktemp("sketches") / "store", "web", lines, 0, segments=3)
    return ArchiveTable.open(spark, [str(store)])


@pytest.fixture
def stored(table):
    return table.scan(Range(frozenset(["web"])), ["parsed:user", "parsed:ms"])


def sketch_of(table, query):
    """The only aggregate of a query, its rows in the state of a run, and what the run shows."""
    run = BatchRun(query, table, BatchOptions())
    combined = run.coprocessor_plan.combined()
    (pao,) = layout_of(run.coprocessor_plan.job.function()).paos
    state = combined.state()
    rows = state.filter(pl.col(PART) == 0).select("pane", *pao.items, *pao.state)
    (result,) = run.finished(combined)
    return pao, rows, next(iter(result.rows[0].values()))


def test_spark_estimates_our_hll_as_we_do(spark, table, stored):
    sketch, rows, shown = sketch_of(table, DISTINCT_USERS)
    data = hll_bytes.to_bytes(sketch, rows, GROUP)[sketch.name][0]
    ours = spark.createDataFrame([(bytearray(data),)], "sketch binary")
    theirs = stored.agg(F.hll_sketch_agg("parsed:user", 12).alias("sketch"))
    both = ours.unionByName(theirs)
    estimates = [
        ours.select(F.hll_sketch_estimate("sketch")).first()[0],
        both.agg(F.hll_sketch_estimate(F.hll_union_agg("sketch"))).first()[0],
    ]
    assert estimates == [pytest.approx(shown, rel=0.005)] * 2  # of the same registers, by its own formula


def test_we_merge_an_hll_of_spark(table, stored):
    sketch, rows, shown = sketch_of(table, DISTINCT_USERS)
    theirs = bytes(stored.agg(F.hll_sketch_agg("parsed:user", 12)).first()[0])
    frame = pl.DataFrame({"pane": [0], sketch.name: pl.Series([theirs], dtype=pl.Binary)})
    merged = merge_items(sketch, [rows, hll_bytes.from_bytes(sketch, frame, GROUP).select(rows.columns)], [])
    assert lower_items(sketch, merged, [])[sketch.name][0] == shown


def test_quantiles_of_kll_sketches_go_both_ways(spark, table, stored):
    sketch, rows, shown = sketch_of(table, "SELECT APPROX_PERCENTILE(ms, 0.5) FROM web")
    data = kll_bytes.to_bytes(sketch, rows, GROUP)[sketch.name][0]
    ours = spark.createDataFrame([(bytearray(data),)], "sketch binary")
    read = ours.select(F.kll_sketch_get_quantile_double("sketch", F.lit(0.5))).first()[0]
    theirs = bytes(stored.agg(F.kll_sketch_agg_double("parsed:ms")).first()[0])
    frame = pl.DataFrame({"pane": [0], sketch.name: pl.Series([theirs], dtype=pl.Binary)})
    merged = merge_items(sketch, [rows, kll_bytes.from_bytes(sketch, frame, GROUP).select(rows.columns)], [])
    found = [read, lower_items(sketch, merged, [])[sketch.name][0]]
    assert found == [pytest.approx(shown, abs=5)] * 2  # 4 % of the ranks of 0 to 125
