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
EVERY_TENTH = CASES[::10]
"""What agents' code answers is proved without Spark: by default these show that it does so in regions."""
EVERY_THIRD = CASES[::3]
"""Those that Spark answers itself by default, where it can."""


@pytest.fixture(scope="module")
def runs(spark, tmp_path_factory):
    """Each case, ready to run over an archive of its own."""
    folder = tmp_path_factory.mktemp("cases")
    archives = CaseArchives(folder / "archives", ARRIVAL_MS)
    with haste(spark):
        yield {case.id: _run(spark, archives, case, folder) for case in CASES}


def _run(spark, archives, case, folder):
    lookups = {name: looked_up(name, table, folder) for name, table in case.tables.items() if table.lookup}
    return BatchRun(case.query, ArchiveTable.open(spark, archives.uris(case.tables)), BatchOptions(tables=lookups))


@pytest.fixture(scope="module")
def asked(request):
    """The cases that this run tests in regions."""
    return [
        item.callspec.params["case"].id
        for item in request.session.items
        if item.path == request.path and item.originalname == test_in_regions.__name__
    ]


@pytest.fixture(scope="module")
def in_regions(asked, runs):
    """Answers of agents' code, by case."""
    return dict(zip(asked, answers_in_regions([runs[id_] for id_ in asked]), strict=True))


@pytest.fixture(scope="module")
def as_columns(asked, runs):
    """Answers of Spark itself, by case, where it has one."""
    wanted = {*asked, *(case.id for case in EVERY_THIRD)}
    native = {id_: run for id_, run in runs.items() if id_ in wanted and isinstance(run.execution_plan, NativePlan)}
    return {id_: list(run.results()) for id_, run in native.items()}


def _expected(case, folder):
    folder.mkdir()
    rows = local_rows(case.query, case.tables, 1, folder) if case.expected is None else case.expected
    return json.dumps(comparable(rows, ordered=case.ordered))


def _found(case, results):
    return json.dumps(comparable(rows_of(results), ordered=case.ordered))


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.id, marks=[] if case in EVERY_TENTH else [pytest.mark.slow]) for case in CASES]
)
def test_in_regions(case, in_regions, as_columns, tmp_path):
    results = in_regions[case.id]
    assert _found(case, results) == _expected(case, tmp_path / "here")
    # Also what is said about the rows is the same.
    natively = as_columns.get(case.id, results)
    assert [result.to_json() for result in natively] == [result.to_json() for result in results]


def test_as_columns(as_columns, tmp_path):
    cases = [(number, case) for number, case in enumerate(CASES) if case.id in as_columns]
    found = {case.id: _found(case, as_columns[case.id]) for _, case in cases}
    assert found == {case.id: _expected(case, tmp_path / str(number)) for number, case in cases}


def test_spark_itself_computes_what_it_can(runs):
    assert sum(isinstance(run.execution_plan, NativePlan) for run in runs.values()) >= 100
