"""Random queries over random tables, shuffled and dealt to 1 to 7 agents: `elf local` answers what DuckDB does."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from case_engines import duckdb_rows, local_rows
from case_files import Table, comparable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_expressions import COLUMNS, VALUES
from random_queries import pairs

TIMED = {**COLUMNS, "ts": "timestamp"}
TIMES = st.integers(0, 7_000).map(lambda time_ms: f"2024-05-01T12:00:{time_ms // 1000:02}.{time_ms % 1000:03}Z")


@st.composite
def tables(draw):
    rows = [
        [number, *(draw(st.none() | VALUES[type_]) for name, type_ in COLUMNS.items() if name != "id"), draw(TIMES)]
        for number in range(draw(st.integers(1, 12)))
    ]
    return Table(TIMED, draw(st.permutations(rows)), time="ts")


def agree(pair, table, agents):
    with TemporaryDirectory() as folder:
        ours = local_rows(pair.elf, {"t": table}, agents, Path(folder))
    theirs = duckdb_rows(pair.duckdb, {"t": table})
    ordered = "ORDER BY" in pair.elf
    assert json.dumps(comparable(ours, ordered=ordered)) == json.dumps(comparable(theirs, ordered=ordered)), pair


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(pairs(), tables(), st.integers(1, 7))
def test_random_queries(pair, table, agents):
    agree(pair, table, agents)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(pairs(), tables(), st.integers(1, 7))
def test_many_random_queries(pair, table, agents):
    agree(pair, table, agents)
