"""Random joins of two streams: fleets of several sizes give what DuckDB gives, however logs lie on agents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from case_engines import duckdb_rows, local_rows
from case_files import Table, comparable
from hypothesis import given, settings
from hypothesis import strategies as st

BEGIN = datetime(2024, 5, 1, 12, tzinfo=UTC)
COLUMNS = {"time": "timestamp", "k": "string", "m": "integer", "n": "integer", "t": "string"}
KEYS = ["l.k = r.k", "l.k = r.k AND l.m = r.m", "r.m = l.n"]
WITHIN_S = [1, 5, 60]
EXPRESSIONS = [
    "l.n",
    "r.n",
    "l.n + r.m",
    "COALESCE(r.n, 7)",
    "CASE WHEN l.t = r.t THEN l.n ELSE r.n END",
    "l.n * 2 - r.n",
]
GROUPS = ["l.t", "r.t", "COALESCE(r.t, l.t, 'z')", "l.k || 'x'"]
CONDITIONS = [
    "l.n > 0", "r.n > 0", "r.n IS NULL", "l.t = r.t", "l.n < r.n OR r.t = 'a'", "NOT (r.n > 1)",
    "r.t IN ('a', 'b') AND l.n < 3",
    "COALESCE(r.n, 0) = 0", "l.t IS NOT NULL AND r.m < 2",
]  # fmt: skip
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.one_of(st.none(), st.sampled_from("pq")),
        st.one_of(st.none(), st.integers(0, 2)),
        st.one_of(st.none(), st.integers(-2, 4)),
        st.one_of(st.none(), st.sampled_from("abc")),
    ),
    max_size=9,
)


@st.composite
def joins(draw):
    """A random query in ELF QL and in SQL."""
    on, within, kind = (
        draw(st.sampled_from(KEYS)),
        draw(st.sampled_from(WITHIN_S)),
        draw(st.sampled_from(["", "LEFT "])),
    )
    shown = [
        f"{draw(st.sampled_from(['SUM', 'MIN', 'COUNT']))}({draw(st.sampled_from(EXPRESSIONS))}) AS a",
        "COUNT(*) AS c",
    ]
    key = draw(st.sampled_from(GROUPS))
    where = draw(st.one_of(st.just(""), st.sampled_from(CONDITIONS).map(" WHERE {}".format)))
    grouped = draw(st.booleans())
    shown, after = (
        ([f"{key} AS g", *shown], f" GROUP BY {key}") if grouped else (["l.n AS l", "r.n AS r", "r.t AS t"], "")
    )
    beside = f"abs(epoch_ms(l.time) - epoch_ms(r.time)) <= {within * 1_000}"
    select = f"SELECT {', '.join(shown)} FROM"
    return (
        f"{select} one AS l {kind}JOIN two AS r WITHIN {within} SECONDS ON {on}{where}{after}",
        f"{select} one AS l {kind}JOIN two AS r ON {on} AND {beside}{where}{after}",
    )


@settings(deadline=None)
@given(joins(), EVENTS, EVENTS, st.sampled_from([1, 3]))
def test_fleets_give_what_duckdb_gives(texts, one, two, agents):
    tables = {
        name: Table(COLUMNS, [[at(seconds), *values] for seconds, *values in events], time="time")
        for name, events in (("one", one), ("two", two))
    }
    ours, theirs = texts
    with TemporaryDirectory() as folder:
        answers = [local_rows(ours, tables, agents, Path(folder)), duckdb_rows(theirs, tables)]
    found, expected = (json.dumps(comparable(rows, ordered=False)) for rows in answers)
    assert found == expected


def at(seconds):
    return (BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
