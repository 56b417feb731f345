"""Every case of tests/query/cases through Spark, over an archive of its tables."""

from __future__ import annotations

import json
from functools import reduce

import pyarrow.compute as pc
import pytest
from case_archives import CaseArchives
from case_engines import ARRIVAL_MS, local_rows, looked_up
from case_files import comparable, read_cases
from pyspark.sql import functions as F  # noqa: N812

from elf.batch.as_columns import AsColumns
from elf.batch.run import BatchOptions, BatchRun
from elf.batch.table import Table

pytestmark = pytest.mark.spark

CASES = read_cases()
CASES_PER_JOB = 40
# For a few rows of each query: compiling it, and tasks for its few parts, would take longer than anything else.
HASTE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "0",
}


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """Each case, ready to run over an archive of its own."""
    before = {name: spark.conf.get(name) for name in HASTE}
    for name, value in HASTE.items():
        spark.conf.set(name, value)
    folder = tmp_path_factory.mktemp("cases")
    archives = CaseArchives(folder / "archives", ARRIVAL_MS)
    yield [_run(spark, archives, case, folder) for case in CASES]
    for name, value in before.items():
        spark.conf.set(name, value)


def _run(spark, archives, case, folder):
    lookups = {name: looked_up(name, table, folder) for name, table in case.tables.items() if table.lookup}
    return BatchRun(case.query, Table.open(spark, archives.uris(case.tables)), BatchOptions(tables=lookups))


@pytest.fixture(scope="module")
def in_regions(runs):
    """What agents' code answers, by case: many cases are one job for Spark, which takes its time for each."""
    answers = {}
    for first in range(0, len(runs), CASES_PER_JOB):
        numbered = list(enumerate(runs))[first : first + CASES_PER_JOB]
        parts = [run.in_regions.pieces.withColumn("case", F.lit(number)) for number, run in numbered]
        pieces = reduce(lambda one, other: one.unionByName(other), parts).toArrow()
        for number, run in numbered:
            own = pieces.filter(pc.equal(pieces["case"], number))
            answers[CASES[number].id] = list(run.finished(run.in_regions.gathered(own)))
    return answers


@pytest.fixture(scope="module")
def as_columns(runs):
    """What Spark itself answers, by case, where it does."""
    natively = [(case, run) for case, run in zip(CASES, runs, strict=True) if isinstance(run.way, AsColumns)]
    return {case.id: list(run.results()) for case, run in natively}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case, in_regions, as_columns, tmp_path):
    results = in_regions[case.id]
    rows = [list(row.values()) for result in results for row in result.rows]
    expected = local_rows(case.query, case.tables, 1, tmp_path) if case.expected is None else case.expected
    assert json.dumps(comparable(rows, ordered=case.ordered)) == json.dumps(comparable(expected, ordered=case.ordered))
    # Also what is said about the rows is the same.
    natively = as_columns.get(case.id, results)
    assert [result.to_json() for result in natively] == [result.to_json() for result in results]


def test_spark_itself_computes_what_it_can(as_columns):
    assert len(as_columns) >= 100
