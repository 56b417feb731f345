"""Random expressions over random tables: `elf local` with any number of agents answers what DuckDB does."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from case_engines import duckdb_rows, local_rows
from case_files import Table, comparable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_expressions import COLUMNS, CONDITIONS, NUMBERS, STRINGS, VALUES


@st.composite
def tables(draw):
    """A shuffled table: whose rows go to which agent is as random as their order."""
    count = draw(st.integers(1, 9))
    rows = [
        [number, *(draw(st.none() | VALUES[type_]) for name, type_ in COLUMNS.items() if name != "id")]
        for number in range(count)
    ]
    return Table(COLUMNS, draw(st.permutations(rows)))


def agree(query, table, agents):
    with TemporaryDirectory() as folder:
        ours = local_rows(query, {"t": table}, agents, Path(folder))
    theirs = duckdb_rows(query, {"t": table})
    assert json.dumps(comparable(ours, ordered=False)) == json.dumps(comparable(theirs, ordered=False)), query


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(STRINGS, NUMBERS, CONDITIONS, tables(), st.integers(1, 7))
def test_expressions_of_single_events(text, number, condition, table, agents):
    agree(f"SELECT id, {text} AS u, {number} AS v, {condition} AS w FROM t", table, agents)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(STRINGS, NUMBERS, CONDITIONS, tables(), st.integers(1, 7))
def test_expressions_as_keys_arguments_and_filters(text, number, condition, table, agents):
    measures = f"COUNT(*) AS c, SUM({number}) AS v, MAX({text}) AS w"
    agree(f"SELECT {text} AS u, {measures} FROM t WHERE {condition} GROUP BY u", table, agents)
