"""Random queries over archives of random tables answer what `elf local` answers over the same lines, either way."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from case_archives import CaseArchives
from case_engines import ARRIVAL_MS, local_rows
from case_files import Table, comparable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_queries import pairs
from spark_answers import answers_in_regions, haste, rows_of
from test_query_random import tables
from test_query_random_groups import DISTINCT, ROWS, queries

from elf.batch.query.native import NativePlan
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable as Archive

pytestmark = pytest.mark.spark

TYPES = {"g": "string", "h": "integer", "n": "integer", "x": "number", "s": "string", "b": "boolean"}
PLAIN = st.tuples(
    st.lists(st.one_of(queries(), DISTINCT), min_size=6, max_size=6),
    ROWS.map(lambda rows: {"web": Table(TYPES, [list(row) for row in rows])}),
)
NESTED = st.tuples(
    st.lists(pairs().map(lambda pair: pair.elf), min_size=6, max_size=6), tables().map(lambda table: {"t": table})
)
FEW = settings(
    max_examples=max(1, settings.default.max_examples // 10),
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


@FEW
@given(PLAIN)
def test_what_spark_often_can_compute_itself(spark, asked):
    _agree(spark, *asked)


@FEW
@given(NESTED)
def test_nested_expressions(spark, asked):
    _agree(spark, *asked)


def _agree(spark, texts, tables):
    with TemporaryDirectory() as name, haste(spark):
        folder = Path(name)
        archive = Archive.open(spark, CaseArchives(folder / "archives", ARRIVAL_MS).uris(tables))
        runs = [BatchRun(text, archive, BatchOptions()) for text in texts]
        for text, run, results in zip(texts, runs, answers_in_regions(runs), strict=True):
            expected = comparable(local_rows(text, tables, 1, folder), ordered=True)
            assert json.dumps(comparable(rows_of(results), ordered=True)) == json.dumps(expected), text
            if isinstance(run.execution_plan, NativePlan):
                assert [one.to_json() for one in run.results()] == [one.to_json() for one in results], text
