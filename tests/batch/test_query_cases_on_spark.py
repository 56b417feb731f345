"""Every case of tests/query/cases through Spark, over an archive of its tables."""

from __future__ import annotations

import json

import pytest
from case_archives import CaseArchives
from case_engines import ARRIVAL_MS, local_rows, looked_up
from case_files import comparable, read_cases
from spark_answers import answers_in_regions, haste, rows_of

from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable

pytestmark = pytest.mark.spark

CASES = read_cases()


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """Each case, ready to run over an archive of its own."""
    folder = tmp_path_factory.mktemp("cases")
    archives = CaseArchives(folder / "archives", ARRIVAL_MS)
    with haste(spark):
        yield [_run(spark, archives, case, folder) for case in CASES]


def _run(spark, archives, case, folder):
    lookups = {name: looked_up(name, table, folder) for name, table in case.tables.items() if table.lookup}
    return BatchRun(case.query, ArchiveTable.open(spark, archives.uris(case.tables)), BatchOptions(tables=lookups))


@pytest.fixture(scope="module")
def in_regions(runs):
    """Answers of agents' code, by case."""
    return dict(zip((case.id for case in CASES), answers_in_regions(runs), strict=True))


@pytest.fixture(scope="module")
def as_columns(runs):
    """Answers of Spark itself, by case, where it has one."""
    natively = [
        (case, run) for case, run in zip(CASES, runs, strict=True) if isinstance(run.execution_plan, NativePlan)
    ]
    return {case.id: list(run.results()) for case, run in natively}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case, in_regions, as_columns, tmp_path):
    results = in_regions[case.id]
    expected = local_rows(case.query, case.tables, 1, tmp_path) if case.expected is None else case.expected
    found = comparable(rows_of(results), ordered=case.ordered)
    assert json.dumps(found) == json.dumps(comparable(expected, ordered=case.ordered))
    # Also what is said about the rows is the same.
    natively = as_columns.get(case.id, results)
    assert [result.to_json() for result in natively] == [result.to_json() for result in results]


def test_spark_itself_computes_what_it_can(as_columns):
    assert len(as_columns) >= 100
