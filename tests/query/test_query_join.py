"""Compares the results of JOIN with DuckDB's and, where types mix, with plain Python's."""

from __future__ import annotations

import json
from collections import Counter

import duckdb
import polars as pl
import pytest
import sql_reference
from hypothesis import given
from hypothesis import strategies as st
from query_pipeline import homogeneous_frames, run

from query import JoinStage, Schema, TableError, analyze, parse
from query.execution import join_stage as joining

KINDS = {
    "BIGINT": st.one_of(st.none(), st.integers(0, 3)),
    "DOUBLE": st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, 1.5, 3.0])),
    "VARCHAR": st.one_of(st.none(), st.sampled_from(["", "a", "b", "1"])),
    "BOOLEAN": st.one_of(st.none(), st.booleans()),
}
COMPARABLE = [(kind, kind) for kind in KINDS] + [("BIGINT", "DOUBLE"), ("DOUBLE", "BIGINT")]


@st.composite
def two_tables(draw):
    """Events of two columns and table rows of three, the first two of which can be compared."""
    kinds = draw(st.lists(st.sampled_from(COMPARABLE), min_size=2, max_size=2))
    events = draw(st.lists(st.tuples(*(KINDS[ours] for ours, _ in kinds)), max_size=8))
    rows = draw(st.lists(st.tuples(*(KINDS[theirs] for _, theirs in kinds), st.integers(0, 9)), max_size=8))
    return [ours for ours, _ in kinds], events, [*(theirs for _, theirs in kinds), "BIGINT"], rows


def counted(rows):
    return Counter(json.dumps(row) for row in rows)


def in_duckdb(sql, kinds, events, table_kinds, table):
    with duckdb.connect() as database:
        for name, columns, rows in (
            ("web", zip(("x", "y"), kinds, strict=True), events),
            ("b", zip(("x", "y", "z"), table_kinds, strict=True), table),
        ):
            database.execute(f"CREATE TABLE {name} ({', '.join(f'{column} {kind}' for column, kind in columns)})")
            for row in rows:
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        return database.execute(sql).fetchall()


def plain(value):
    """As results show it: a whole number without a fraction."""
    return int(value) if isinstance(value, float) and value == int(value) else value


@given(
    two_tables(),
    st.sampled_from(["JOIN", "LEFT JOIN"]),
    st.sampled_from(["web.x = b.x", "b.x = web.x AND (web.y = b.y)", "web.y = b.y"]),
    st.sampled_from(["", " WHERE b.z > 3", " WHERE b.z IS NULL OR web.y IS NOT NULL"]),
)
def test_joins_give_what_duckdb_gives(tables, kind, on, where):
    kinds, events, table_kinds, table = tables
    query = f"SELECT web.x, web.y, b.x AS bx, b.y AS by_, b.z FROM web {kind} {{}} ON {on}{where}"
    named = [dict(zip(("x", "y"), event, strict=True)) for event in events]
    rows = [dict(zip(("x", "y", "z"), row, strict=True)) for row in table]
    got = [list(row.values()) for row in run(query.format("app('other') AS b"), named, table=rows)]
    expected = in_duckdb(query.format("b"), kinds, events, table_kinds, table)
    assert counted(got) == counted([plain(value) for value in row] for row in expected)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0, 1.5]), st.sampled_from("a1"))


@given(events=st.lists(st.tuples(VALUES, VALUES), max_size=8), table=st.lists(st.tuples(VALUES, VALUES), max_size=8))
def test_values_of_mixed_types_meet_their_equals(events, table):
    query = "SELECT web.x, web.y, b.x AS bx, b.v FROM web LEFT JOIN app('other') AS b ON web.x = b.x"
    got = run(query, [{"x": x, "y": y} for x, y in events], table=[{"x": x, "v": v} for x, v in table])
    expected = []
    for x, y in events:
        matches = [row for row in table if sql_reference.compare("=", x, row[0])]
        expected += [(x, y, *row) for row in matches or [(None, None)]]
    assert counted(list(row.values()) for row in got) == counted([plain(value) for value in row] for row in expected)


EVENTS = [{"product": name, "clicks": clicks} for name, clicks in (("a", 1), ("b", 2), ("c", 4), (None, 8), ("a", 16))]
TABLE = [{"product": "a", "rank": 1}, {"product": "b", "rank": 2}, {"product": "b", "rank": 3}, {"product": None}]


def test_aggregates_are_over_joined_rows():
    query = (
        "SELECT b.rank, SUM(web.clicks) AS clicks, COUNT(*) AS n FROM web {} app('bundles') AS b "
        "ON web.product = b.product GROUP BY b.rank"
    )
    inner = [{"rank": 1, "clicks": 17, "n": 2}, {"rank": 2, "clicks": 2, "n": 1}, {"rank": 3, "clicks": 2, "n": 1}]
    assert run(query.format("JOIN"), EVENTS, table=TABLE) == inner
    assert run(query.format("INNER JOIN"), EVENTS, table=TABLE) == inner
    left = [*inner, {"rank": None, "clicks": 12, "n": 2}]
    assert run(query.format("LEFT JOIN"), EVENTS, table=TABLE) == left
    assert run(query.format("left outer join"), EVENTS, table=TABLE) == left


def test_before_there_is_a_table_left_has_null_and_inner_nothing():
    query = "SELECT web.product, b.rank FROM web {} app('bundles') AS b ON web.product = b.product"
    assert run(query.format("JOIN"), EVENTS) == []
    rows = run(query.format("LEFT JOIN"), EVENTS)
    assert [row["rank"] for row in rows] == [None] * 5


def stage(text="SELECT web.x, b.y FROM web JOIN app('b') AS b ON web.x = b.x"):
    plan = analyze(parse(text), {"web": Schema({}, open=True)})
    assert plan.join is not None
    return plan, JoinStage(plan, plan.join)


def test_an_event_meets_the_first_rows_of_many_and_the_others_are_counted(monkeypatch):
    monkeypatch.setattr(joining, "FANOUT_MAX", 3)
    plan, join = stage()
    table = [{"@time": place, "x": place % 2, "y": place} for place in range(11)]
    table += [{"@time": 11, "x": 0.0, "y": "twelfth"}, {"@time": 12, "x": 7, "y": None}]
    join.hold(list(homogeneous_frames(plan.join, table)))
    (events,) = homogeneous_frames(plan, [{"x": 0}, {"x": 1}, {"x": 7}, {"x": 0}])
    joined = pl.concat(join.apply(events), how="diagonal_relaxed")
    assert sorted(joined.filter(x=0)["b.y"]) == [0, 0, 2, 2, 4, 4]
    assert sorted(joined.filter(x=1)["b.y"]) == [1, 3, 5]
    assert joined.filter(x=7)["b.y"].to_list() == [None]
    dropped = joined.group_by("x").agg(pl.col("@dropped").sum()).sort("x")
    assert dropped["@dropped"].to_list() == [2 * 4, 2, 0], "of each event"


def test_many_matches_come_in_bounded_frames(monkeypatch):
    monkeypatch.setattr(joining, "_ROWS_AT_ONCE", 50)
    plan, join = stage()
    join.hold(list(homogeneous_frames(plan.join, [{"@time": place, "x": 1, "y": place} for place in range(20)])))
    (events,) = homogeneous_frames(plan, [{"x": 1}] * 30)
    frames = list(join.apply(events))
    assert max(frame.height for frame in frames) <= 50
    assert sum(frame.height for frame in frames) == 600
    assert "@dropped" not in frames[0].columns


def test_a_table_that_is_too_large_or_too_mixed_is_refused_and_the_one_before_stays(monkeypatch):
    monkeypatch.setattr(joining, "TABLE_ROWS_MAX", 5)
    monkeypatch.setattr(joining, "PARTS_MAX", 2)
    plan, join = stage()
    join.hold(list(homogeneous_frames(plan.join, [{"@time": 0, "x": 1, "y": "kept"}])))
    rows = [{"@time": place, "x": 1, "y": place} for place in range(6)]
    with pytest.raises(TableError, match="it has 6 rows: JOIN takes at most 5"):
        join.hold(list(homogeneous_frames(plan.join, rows)))
    mixed = [{"@time": place, "x": 1, "y": value} for place, value in enumerate(("a", 1, True))]
    with pytest.raises(TableError, match="mix types of values in more than 2 ways"):
        join.hold(list(homogeneous_frames(plan.join, mixed)))
    (events,) = homogeneous_frames(plan, [{"x": 1}])
    assert [frame["b.y"].to_list() for frame in join.apply(events)] == [["kept"]]


def test_columns_may_be_called_what_they_like():
    query = (
        'SELECT web."@join.row", b."@join.0", b."@coerced", web."b.x", b."SUM(n)" FROM web JOIN app(\'other\') AS b '
        'ON web.x = b.x AND web."@join.0" = b."@join.row"'
    )
    events = [{"x": 1, "@join.row": 2, "@join.0": 3, "b.x": 4}]
    table = [{"x": 1, "@join.0": 5, "@join.row": 3, "@coerced": 6, "SUM(n)": 7}]
    assert run(query, events, table=table) == [{"@join.row": 2, "@join.0": 5, "@coerced": 6, "b.x": 4, "SUM(n)": 7}]
