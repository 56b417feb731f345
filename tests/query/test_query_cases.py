"""Every case of tests/query/cases: through `elf local` with one agent and with seven, and in DuckDB."""

from __future__ import annotations

import json

import duckdb
import pytest
from case_files import TYPES, comparable, read_cases

from elf.local import LocalOptions, LocalRun, Source

CASES = read_cases()
AGENTS = (1, 7)
ARRIVAL_MS = 1_700_000_000_000


def local_rows(case, agents, folder):
    """What a fleet of so many agents in this process answers; rows are dealt to as many files."""
    sources = [Source(name, written(name, table, agents, folder)) for name, table in case.tables.items()]
    time_field = next((table.time for table in case.tables.values() if table.time), None)
    options = LocalOptions(ARRIVAL_MS, agents=agents, source_format="json", time_field=time_field)
    run = LocalRun(case.query, sources, options)
    return [[row[name] for name in run.columns] for result in run.results() for row in result.rows]


def written(name, table, count, folder):
    paths = [folder / f"{name}-{count}-{number}.json" for number in range(count)]
    events = [json.dumps(event) for event in table.events()]
    for number, path in enumerate(paths):
        path.write_text("".join(event + "\n" for event in events[number::count]), encoding="utf-8")
    return tuple(map(str, paths))


def duckdb_rows(case):
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in case.tables.items():
            columns = ", ".join(f'"{column}" {TYPES[type_]}' for column, type_ in table.columns.items())
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            if table.rows:
                places = ", ".join("?" * len(table.columns))
                connection.executemany(f'INSERT INTO "{name}" VALUES ({places})', table.rows)
        return connection.execute(case.reference).fetchall()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case, tmp_path):
    answers = {f"elf with {agents} agents": local_rows(case, agents, tmp_path) for agents in AGENTS}
    if case.reference is not None:
        answers["duckdb"] = duckdb_rows(case)
    compared = {who: comparable(rows, ordered=case.ordered) for who, rows in answers.items()}
    expected = compared["duckdb"] if case.expected is None else comparable(case.expected, ordered=case.ordered)
    # As JSON: there 1 and true differ.
    assert {who: json.dumps(rows) for who, rows in compared.items()} == dict.fromkeys(compared, json.dumps(expected))


def test_names_are_unique():
    assert len({case.id for case in CASES}) == len(CASES)
