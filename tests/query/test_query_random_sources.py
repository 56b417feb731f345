"""Random sub-queries, with and without groups, and unions: fleets of several sizes give what DuckDB gives."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from case_engines import duckdb_rows, local_rows
from case_files import Table, comparable
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = ["{n}", "{n} + 1", "{n} * 2 - 3", "ABS({n})", "CASE WHEN {n} > 1 THEN {n} ELSE 0 END"]
TEXTS = ["{t}", "UPPER({t})", "{t} || 'x'", "COALESCE({t}, 'none')"]
FILTERS = ["{n} > 0", "{t} <> 'b'", "{n} IS NULL", "{n} < 3 AND {t} IS NOT NULL", "{t} IN ('a', 'AX') OR {n} = 2"]
STREAMS = {"web": ("bytes", "path"), "api": ("ms", "call")}


@st.composite
def projections(draw, depth=0):
    """A query whose columns are n, a number, and t, a text."""
    if depth < 2 and draw(st.booleans()):
        branches = draw(st.lists(projections(depth=2), min_size=1, max_size=3))
        if len(branches) == 1 or draw(st.booleans()):
            branches = [draw(st.one_of(projections(depth=depth + 1), grouped(depth=depth + 1)))]
        source, number, text = f"({' UNION ALL '.join(branches)}) AS s", "s.n", "t"
    else:
        source = draw(st.sampled_from(sorted(STREAMS)))
        number, text = STREAMS[source]
    shown = [draw(st.sampled_from(NUMBERS)) + " AS n", draw(st.sampled_from(TEXTS)) + " AS t"]
    where = draw(st.one_of(st.just(""), st.sampled_from(FILTERS).map(" WHERE {}".format)))
    return f"SELECT {', '.join(shown)} FROM {source}{where}".format(n=number, t=text)


@st.composite
def grouped(draw, depth=0):
    """A random query with groups."""
    inner = draw(projections(depth=depth))
    measure = draw(st.sampled_from(["COUNT(*)", "SUM(n)", "MAX(n)", "COUNT(DISTINCT n)"]))
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 1"]))
    return f"SELECT {measure} AS n, t FROM ({inner}) AS g GROUP BY t{having}"


ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(-3, 5)), st.one_of(st.none(), st.sampled_from("ab"))), max_size=10
)


@settings(deadline=None)
@given(st.one_of(projections(), grouped()), ROWS, ROWS, st.sampled_from([1, 3]))
def test_fleets_give_what_duckdb_gives(query, web, api, agents):
    rows = {"web": web, "api": api}
    tables = {
        name: Table({number: "integer", text: "string"}, [list(row) for row in rows[name]])
        for name, (number, text) in STREAMS.items()
    }
    with TemporaryDirectory() as folder:
        answers = [local_rows(query, tables, agents, Path(folder)), duckdb_rows(query, tables)]
    ours, theirs = (json.dumps(comparable(rows, ordered=False)) for rows in answers)
    assert ours == theirs
