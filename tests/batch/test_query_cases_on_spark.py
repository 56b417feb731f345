"""Every case of tests/query/cases through Spark, over an archive of its tables."""

from __future__ import annotations

import json

import pytest
from case_archives import CaseArchives
from case_engines import ARRIVAL_MS, local_rows, looked_up
from case_files import comparable, read_cases

from elf.batch.run import BatchOptions, BatchRun
from elf.batch.table import Table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    return CaseArchives(tmp_path_factory.mktemp("archives"), ARRIVAL_MS)


@pytest.mark.parametrize("case", read_cases(), ids=lambda case: case.id)
def test_case(case, spark, archives, tmp_path):
    lookups = {name: looked_up(name, table, tmp_path) for name, table in case.tables.items() if table.lookup}
    table = Table.open(spark, archives.uris(case.tables))
    run = BatchRun(case.query, table, BatchOptions(tables=lookups))
    rows = [[row[name] for name in run.columns] for result in run.results() for row in result.rows]
    expected = local_rows(case.query, case.tables, 1, tmp_path) if case.expected is None else case.expected
    assert json.dumps(comparable(rows, ordered=case.ordered)) == json.dumps(comparable(expected, ordered=case.ordered))
