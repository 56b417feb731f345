"""FROM with several streams, sub-queries and unions, and JOIN with tables: what is refused, and how plans travel."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_pipeline import run

from query import Plan, PlanError, QueryError, Schema, analyze, explain, format_query, parse, selects
from query.model.limits import BRANCHES_OF_UNION_MAX, SUBQUERIES_MAX

OPEN = {"web": Schema({}, open=True), "api": Schema({}, open=True)}
TABLES = {"products": Schema({"id": "any", "title": "any"}, open=False)}
QUERIES = [
    'SELECT COUNT(*) FROM web, "api-*" AS a',
    "SELECT a FROM (SELECT LOWER(b) AS a FROM web WHERE c > 1) AS t WHERE t.a <> 'x'",
    "SELECT MAX(n) FROM (SELECT host, COUNT(*) AS n FROM web GROUP BY host) WINDOWING 1 MINUTES",
    "SELECT a, COUNT(*) FROM (SELECT b AS a FROM web WHERE c = 1 UNION ALL SELECT d FROM api) AS u GROUP BY a",
    "SELECT p.title FROM web LEFT JOIN table('products') AS p ON web.id = p.id",
    'SELECT x FROM (SELECT y AS x FROM (SELECT z AS y FROM "union")) AS "union"',
]


@pytest.mark.parametrize("text", QUERIES)
def test_a_query_is_printed_as_it_can_be_read(text):
    assert format_query(parse(text)) == text
    assert parse(format_query(parse(text))) == parse(text)


@pytest.mark.parametrize("text", QUERIES)
def test_a_plan_travels(text):
    catalog = OPEN | {"api-1": Schema({}, open=True), "union": Schema({}, open=True)}
    plan = analyze(parse(text), catalog, TABLES)
    assert Plan.from_wire(json.loads(json.dumps(plan.to_wire()))) == plan


def test_a_projection_leaves_nothing_behind():
    """Also where names mean one thing inside and another outside."""
    nested = "SELECT x AS host, COUNT(*) AS n FROM (SELECT path AS x, host AS y FROM web WHERE y > 1) AS t GROUP BY x"
    flat = "SELECT path AS host, COUNT(*) AS n FROM web WHERE y > 1 GROUP BY path"
    assert analyze(parse(nested), OPEN) == analyze(parse(flat), OPEN)


def test_explain_says_what_runs_over_the_rows_of_a_sub_query():
    steps = explain(analyze(parse(QUERIES[2]), OPEN)).master
    assert steps[1] == "over these rows: aggregate per window: MAX(n); SELECT MAX(n)"
    branches = explain(analyze(parse(QUERIES[3]), OPEN)).agent
    assert branches[:2] == ("of web take b AS a of events WHERE c = 1", "of api take d AS a")


@given(
    st.text("ab*?", max_size=8),
    st.text("abc", max_size=8),
)
def test_patterns_select_as_in_a_shell(pattern, name):
    assert selects(f"other, {pattern}", name) == (fnmatchcase(name, pattern) or name == "other")


def test_a_pattern_of_many_stars_is_decided_at_once():
    assert not selects("*a" * 120 + "b", "a" * 255)


ERRORS = {
    "SELECT z FROM (SELECT a AS x FROM web) AS t": "there is no column z in t",
    "SELECT x.y FROM (SELECT a + 1 AS x FROM web)": "x has no fields: there is no x.y",
    "SELECT SUM(x) FROM (SELECT LOWER(a) AS x FROM web)": "LOWER(a) is a string, not a number",
    "SELECT a FROM (SELECT a FROM web WINDOWING 1 MINUTE)": "a sub-query has no windows of its own",
    "SELECT a FROM (SELECT a FROM web TREES 2)": "a sub-query has no trees of its own",
    "SELECT COUNT(*) FROM web, wep": "there is no stream wep",
    'SELECT COUNT(*) FROM "x*"': 'there is no stream "x*"',
    'SELECT COUNT(*) FROM "web, api"': "the name of a stream has no comma",
    "SELECT a FROM table('products')": "a table can only be joined",
    "SELECT p.price FROM web JOIN table('products') AS p ON web.id = p.id": "there is no column price in table",
    "SELECT a FROM web UNION ALL SELECT b FROM api": "UNION ALL",
    "SELECT a FROM web UNION SELECT b FROM api": "ELF QL has no UNION",
    "SELECT a FROM (SELECT a FROM web UNION ALL SELECT a, b FROM api)": "gives 1 column, this one 2",
    "SELECT a FROM (SELECT COUNT(*) AS a FROM web UNION ALL SELECT a FROM api)": "only selects and filters",
    "SELECT a FROM (SELECT 1 AS a FROM web UNION ALL SELECT 'x' FROM api)": "a is a number in one branch",
    "SELECT a FROM (SELECT a FROM web UNION ALL SELECT a FROM app('x'))": "UNION ALL unites streams only",
    "SELECT a FROM (SELECT a FROM web LIMIT 3) AS t JOIN table('products') AS p ON t.a = p.id": "cannot be joined",
    'SELECT a FROM "' + "w?" * 99 + '", "' + "*b" * 50 + '"': "at most 255 characters of streams",
    "SELECT a FROM web JOIN (SELECT a FROM api) AS t ON web.a = t.a": "a sub-query cannot be joined",
}


@pytest.mark.parametrize("text", ERRORS)
def test_mistakes_are_explained(text):
    with pytest.raises(QueryError) as caught:
        analyze(parse(text), OPEN | {"wb" * 99: Schema({}, open=True)}, TABLES)
    assert ERRORS[text] in caught.value.message
    assert caught.value.line == 1


def nested(levels, inner="SELECT a + a AS a FROM web"):
    for _ in range(levels):
        inner = f"SELECT a + a AS a FROM ({inner})"
    return inner


def test_sub_queries_are_bounded():
    with pytest.raises(QueryError, match=f"at most {SUBQUERIES_MAX} sub-queries"):
        parse(nested(SUBQUERIES_MAX + 1))
    wide = nested(SUBQUERIES_MAX, "SELECT " + "a + " * 90 + "a AS a FROM web")
    with pytest.raises(QueryError, match=r"too large|too deeply"):
        analyze(parse(wide), OPEN)
    branches = " UNION ALL ".join(["SELECT a FROM web"] * (BRANCHES_OF_UNION_MAX + 1))
    with pytest.raises(QueryError, match=f"at most {BRANCHES_OF_UNION_MAX} queries"):
        parse(f"SELECT a FROM ({branches})")


STAGED = analyze(parse(QUERIES[2]), OPEN).to_wire()
UNITED = analyze(parse(QUERIES[3]), OPEN).to_wire()
JOINED = analyze(parse(QUERIES[4]), OPEN, TABLES).to_wire()


def deep(levels):
    plan = STAGED["outer"]
    for _ in range(levels):
        plan = {**plan, "outer": plan}
    return {**STAGED, "outer": plan}


@pytest.mark.parametrize(
    "plan",
    [
        {**STAGED, "outer": {**STAGED["outer"], "columns": [["m", ["m"], "any"]]}},
        {**STAGED, "outer": {**STAGED["outer"], "window_ms": 1000}},
        {**STAGED, "outer": {**STAGED["outer"], "app": "x", "stream": "app('x')"}},
        {**STAGED, "outer": 5},
        deep(SUBQUERIES_MAX + 1),
        {**UNITED, "app": "x", "stream": "app('x')"},
        {**UNITED, "branches": [{**UNITED["branches"][0], "outputs": []}]},
        {**UNITED, "branches": [{**UNITED["branches"][0], "outputs": ["nothing"]}]},
        {**UNITED, "branches": [{**UNITED["branches"][0], "where": "b"}]},
        {**UNITED, "branches": UNITED["branches"] * BRANCHES_OF_UNION_MAX},
        {**JOINED, "join": {**JOINED["join"], "app": "x"}},
        {**JOINED, "join": {**JOINED["join"], "table": None}},
    ],
)
def test_changed_plans_are_refused(plan):
    with pytest.raises(PlanError):
        Plan.from_wire(json.loads(json.dumps(plan)))


def test_an_inlined_sub_query_gives_what_it_says():
    events = [{"a": 1, "b": "x"}, {"a": 5, "b": "y"}, {"a": None, "b": "y"}]
    text = "SELECT c, SUM(d) AS s FROM (SELECT b AS c, a * 2 AS d FROM web WHERE a > 0) AS t GROUP BY c"
    assert run(text, events) == [{"c": "x", "s": 2}, {"c": "y", "s": 10}]
