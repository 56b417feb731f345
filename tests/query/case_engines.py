"""The engines that query cases run in: `elf local`, in this process, and DuckDB."""

from __future__ import annotations

import json
from functools import cache

import duckdb
from case_files import TYPES

from elf.local import LocalOptions, LocalRun, LocalSource

ARRIVAL_MS = 1_700_000_000_000


def local_rows(query, tables, agents, folder):
    """What a fleet of so many agents in this process answers; rows are dealt to as many files."""
    streams = {name: table for name, table in tables.items() if table.lookup is None}
    sources = [LocalSource(name, written(name, table, agents, folder)) for name, table in streams.items()]
    lookups = {name: looked_up(name, table, folder) for name, table in tables.items() if table.lookup}
    time_field = next((table.time for table in tables.values() if table.time), None)
    options = LocalOptions(ARRIVAL_MS, agents=agents, source_format="json", time_field=time_field, tables=lookups)
    run = LocalRun(query, sources, options)
    return [[row[name] for name in run.columns] for result in run.results() for row in result.rows]


def written(name, table, count, folder):
    paths = [folder / f"{name}-{count}-{number}.json" for number in range(count)]
    events = [json.dumps(event) for event in table.events()]
    for number, path in enumerate(paths):
        path.write_text("".join(event + "\n" for event in events[number::count]), encoding="utf-8")
    return tuple(map(str, paths))


def looked_up(name, table, folder):
    path = folder / f"{name}.{table.lookup}"
    if table.lookup == "csv":
        lines = [
            ",".join(table.columns),
            *(",".join("" if one is None else str(one) for one in row) for row in table.rows),
        ]
    else:
        lines = [json.dumps(event) for event in table.events()]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def duckdb_rows(query, tables):
    """What DuckDB answers."""
    connection = _duckdb()
    connection.begin()
    try:
        for name, table in tables.items():
            columns = ", ".join(f'"{column}" {TYPES[type_]}' for column, type_ in table.columns.items())
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            if table.rows:
                places = ", ".join("?" * len(table.columns))
                connection.executemany(f'INSERT INTO "{name}" VALUES ({places})', table.rows)
        return connection.execute(query).fetchall()
    finally:
        connection.rollback()


@cache
def _duckdb():
    """One connection for all queries: each undoes what it has done."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    # DuckDB 2.0's optimizer makes `n IS NOT NULL` of STARTS_WITH(CASE WHEN n < 2 THEN 'a' END, 'a').
    connection.execute("PRAGMA disable_optimizer")
    return connection
