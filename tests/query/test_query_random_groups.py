"""Random queries with groups over random tables, dealt at random to 1 to 7 agents, answer what DuckDB answers."""

from __future__ import annotations

import json

import duckdb
import pytest
from case_files import comparable
from hypothesis import given
from hypothesis import strategies as st
from query_pipeline import homogeneous_frames, run

from query import Schema

TYPES = {"g": "VARCHAR", "h": "BIGINT", "n": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "b": "BOOLEAN"}
CATALOG = {
    "web": Schema(
        {"g": "string", "h": "integer", "n": "integer", "x": "number", "s": "string", "b": "boolean"}, open=False
    )
}
NULL = st.none()
ROWS = st.lists(
    st.tuples(
        NULL | st.sampled_from(["", "a", "b"]),
        NULL | st.integers(0, 2),
        NULL | st.integers(-5, 5) | st.just(1000),
        NULL | st.integers(-20, 20).map(lambda n: n / 4),
        NULL | st.sampled_from(["", "a", "ä", "z z", "1"]),
        NULL | st.booleans(),
    ),
    max_size=25,
)
CONDITIONS = st.sampled_from(
    ["b", "NOT b", "n > 0", "x <= 1.5", "s LIKE 'a%'", "s IS NULL OR b", "n % 2 = 1 AND x > 0"]
)
FILTERS = st.one_of(st.just(""), CONDITIONS.map(" FILTER (WHERE {})".format))
CALLS = st.tuples(
    st.sampled_from(
        ["COUNT(*)", "COUNT(DISTINCT s)", "COUNT(DISTINCT n)", "COUNT(DISTINCT x)", "COUNT(s)", "SUM(n)", "SUM(x)",
         "AVG(x)", "MIN(n)", "MAX(s)", "VAR_POP(x)", "VARIANCE(n)", "STDDEV(x)",
         "BOOL_AND(b)", "BOOL_OR(b)", "BOOL_OR(n > 2)"]
    ),
    FILTERS,
).map("".join)  # fmt: skip
KEYS = st.lists(st.sampled_from(["g", "h", "b", "h + 1"]), min_size=1, max_size=2, unique=True)
PLACES = st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " NULLS LAST"])
LIMITS = st.sampled_from(["", " LIMIT 2", " LIMIT 5"])


@st.composite
def queries(draw):
    keys, calls = draw(KEYS), draw(st.lists(CALLS, min_size=1, max_size=3, unique=True))
    where = draw(st.one_of(st.just(""), CONDITIONS.map(" WHERE {}".format)))
    having = draw(st.sampled_from(["", f" HAVING {calls[0]} IS NOT NULL", " HAVING COUNT(*) > 1", " HAVING c0 = c0"]))
    # Groups that tie are ordered by their keys; in DuckDB that has to be said.
    order = [f"c{n}{draw(PLACES)}" for n in range(draw(st.integers(0, len(calls))))]
    order += [f"{key}{draw(PLACES)}" for key in keys]
    shown = [*keys, *(f"{call} AS c{n}" for n, call in enumerate(calls))]
    tail = f"{where} GROUP BY {', '.join(keys)}{having} ORDER BY {', '.join(order)}{draw(LIMITS)}"
    return f"SELECT {', '.join(shown)} FROM web{tail}"


DISTINCT = st.tuples(
    st.lists(st.sampled_from(["g", "h", "b", "s", "n // 2"]), min_size=1, max_size=3, unique=True), PLACES, LIMITS
).map(
    lambda parts: (
        f"SELECT DISTINCT {', '.join(parts[0])} FROM web ORDER BY {f'{parts[1]}, '.join(parts[0])}{''.join(parts[1:])}"
    )
)


@pytest.fixture(scope="module")
def by_duckdb():
    with duckdb.connect(config={"threads": 1}) as connection:
        columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
        connection.execute(f"CREATE TABLE web ({columns})")

        def answer(query, rows):
            connection.execute("DELETE FROM web")
            if rows:
                connection.executemany("INSERT INTO web VALUES (?, ?, ?, ?, ?, ?)", rows)
            return connection.execute(query).fetchall()

        yield answer


@given(st.one_of(queries(), queries(), DISTINCT), ROWS, st.integers(1, 7), st.randoms(use_true_random=False))
def test_groups_are_those_of_duckdb(by_duckdb, query, rows, agents, random):
    def dealt(plan, events):
        shuffled = random.sample(events, len(events))
        return [frame for n in range(agents) for frame in homogeneous_frames(plan, shuffled[n::agents])]

    events = [dict(zip(TYPES, row, strict=True)) for row in rows]
    found = [list(row.values()) for row in run(query, events, CATALOG, dealt)]
    expected = by_duckdb(query, rows)
    assert json.dumps(comparable(found, ordered=True)) == json.dumps(comparable(expected, ordered=True)), query
