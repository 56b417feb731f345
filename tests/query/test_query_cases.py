"""Every case of tests/query/cases: through `elf local` with one agent and with seven, and in DuckDB."""

from __future__ import annotations

import json

import pytest
from case_engines import duckdb_rows, local_rows
from case_files import comparable, read_cases

CASES = read_cases()
AGENTS = (1, 7)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case, tmp_path):
    answers = {f"elf with {agents} agents": local_rows(case.query, case.tables, agents, tmp_path) for agents in AGENTS}
    if case.reference is not None:
        answers["duckdb"] = duckdb_rows(case.reference, case.tables)
    compared = {who: comparable(rows, ordered=case.ordered) for who, rows in answers.items()}
    expected = compared["duckdb"] if case.expected is None else comparable(case.expected, ordered=case.ordered)
    # As JSON: there 1 and true differ.
    assert {who: json.dumps(rows) for who, rows in compared.items()} == dict.fromkeys(compared, json.dumps(expected))


def test_names_are_unique():
    assert len({case.id for case in CASES}) == len(CASES)
