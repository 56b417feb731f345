"""Every case of tests/query/cases: through `elf local` with one agent, with three and with seven, and in DuckDB.

What a function gives for one event is proved by one agent, what is combined or dealt out by three; other numbers of
agents are left to `make test-all`.
"""

from __future__ import annotations

import json

import pytest
from case_engines import duckdb_rows, local_rows
from case_files import comparable, read_cases

CASES = read_cases()
AGENTS = (1, 3, 7)
ONE_EVENT_AT_A_TIME = {"casts", "expressions", "numbers", "strings", "times"}
"""Files of cases in which agents have little to combine."""


def dealt():
    """Each case with each number of agents."""
    for case in CASES:
        usual = 1 if case.id.partition(":")[0] in ONE_EVENT_AT_A_TIME else 3
        for agents in AGENTS:
            marks = [] if agents == usual else [pytest.mark.slow]
            yield pytest.param(case, agents, id=f"{case.id} ({agents})", marks=marks)


@pytest.mark.parametrize(("case", "agents"), [*dealt()])
def test_case(case, agents, tmp_path):
    answers = {"elf": local_rows(case.query, case.tables, agents, tmp_path)}
    if case.reference is not None:
        answers["duckdb"] = duckdb_rows(case.reference, case.tables)
    compared = {who: comparable(rows, ordered=case.ordered) for who, rows in answers.items()}
    expected = compared["duckdb"] if case.expected is None else comparable(case.expected, ordered=case.ordered)
    # As JSON: there 1 and true differ.
    assert {who: json.dumps(rows) for who, rows in compared.items()} == dict.fromkeys(compared, json.dumps(expected))


def test_names_are_unique():
    assert len({case.id for case in CASES}) == len(CASES)
