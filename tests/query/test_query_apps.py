"""Queries that read other jobs' results: what is parsed, printed, planned, explained, and refused."""

from __future__ import annotations

import copy

import msgpack
import pytest
from query_pipeline import run

from query import Plan, PlanError, QueryError, Schema, analyze, apps, explain, format_query, parse
from query.syntax import ast

CATALOG = {
    "web": Schema({"status": "integer", "path": "string", "time": "timestamp"}, open=False),
    "shop": Schema({"product": "any"}, open=True),
}


def planned(text):
    return analyze(parse(text), CATALOG)


def columns(found):
    return [(column.name, column.path, column.type) for column in found]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("select a from app('top')", "SELECT a FROM app('top')"),
        ("SELECT a FROM App(`it's`) as t", "SELECT a FROM app('it''s') AS t"),
        (
            "SELECT a FROM web AS w inner join app('b') ON w.a == b.a",
            "SELECT a FROM web AS w JOIN app('b') ON w.a = b.a",
        ),
        (
            "SELECT a FROM app('t') left outer join app('b') as c on t.a = c.a and (t.d = c.d) where t.e = 1",
            "SELECT a FROM app('t') LEFT JOIN app('b') AS c ON t.a = c.a AND t.d = c.d WHERE t.e = 1",
        ),
    ],
)
def test_printing_has_one_spelling(text, printed):
    assert format_query(parse(text)) == printed
    assert parse(printed) == parse(text)


def test_words_of_joins_can_still_be_names():
    text = "SELECT app, join, left, inner, on FROM app WHERE left = on AND app.join = inner GROUP BY app, join, left"
    query = parse(text)
    assert query.source == ast.Stream("app")
    assert format_query(query) == text
    joined = parse("SELECT a FROM join LEFT JOIN app('app') AS on ON join.left = on.inner")
    assert (joined.source, joined.join.source) == (ast.Stream("join"), ast.App("app", "on"))


def test_a_plan_names_the_jobs_it_reads():
    query = parse("SELECT t.n FROM app('top') AS t LEFT JOIN app('b') ON t.product = b.product")
    assert [app.name for app in apps(query)] == ["top", "b"]
    plan = analyze(query, {})
    assert (plan.stream, plan.app, plan.apps) == ("app('top')", "top", ("top", "b"))
    assert columns(plan.columns) == [("n", ("n",), "any"), ("product", ("product",), "any")]
    join = plan.join
    assert (join.app, join.alias, join.outer, join.keys) == ("b", "b", True, (("product", "b.product"),))
    assert columns(join.columns) == [("b.product", ("product",), "any")]
    assert planned("SELECT a FROM shop").apps == ()


def test_each_column_is_of_one_side():
    plan = planned(
        "SELECT path, b.rank + 1 AS next, rank, web.status FROM web JOIN app('b') AS b "
        "ON b.path = web.path AND web.time = b.window_start WHERE b.name LIKE 'x%' ORDER BY b.\"SUM(n)\""
    )
    assert columns(plan.columns) == [("path", ("path",), "string"), ("status", ("status",), "integer"),
                                     ("time", ("time",), "timestamp")]  # fmt: skip
    assert columns(plan.join.columns) == [
        ("b.rank", ("rank",), "number"),
        ("b.path", ("path",), "string"),
        ("b.window_start", ("window_start",), "timestamp"),
        ("b.name", ("name",), "string"),
        ("b.SUM(n)", ("SUM(n)",), "any"),
    ]
    assert plan.join.keys == (("path", "b.path"), ("time", "b.window_start"))
    assert [output.name for output in plan.output] == ["path", "next", "rank", "status"]


def test_with_windows_the_bounds_of_rows_go_by_a_name():
    plan = planned("SELECT window_start, t.window_start AS of FROM app('top') AS t WINDOWING 1 HOUR")
    assert columns(plan.columns) == [('"window_start"', ("window_start",), "timestamp")]
    assert [output.expression.name for output in plan.output] == ["window_start", '"window_start"']
    assert Plan.from_wire(plan.to_wire()) == plan


MISTAKES = {
    "SELECT path FROM app(top)": """
line 1, column 22: app() and table() take a name in single quotes
  SELECT path FROM app(top)
                       ^^^
as in app('top-products') or table('products')""",
    "SELECT path FROM aps('top')": """
line 1, column 18: there is no aps() to read
  SELECT path FROM aps('top')
                   ^^^
the results of another job are app('its name'), a file of rows is table('its name')""",
    "SELECT path FROM app('')": """
line 1, column 22: the name of a job to read has 1 to 248 characters
  SELECT path FROM app('')
                       ^^""",
    "SELECT * FROM app('top')": """
line 1, column 8: what columns another job's results have is not known before
  SELECT * FROM app('top')
         ^
name the columns to show""",
    "SELECT path FROM web JOIN app('b') b ON path = b.path": """
line 1, column 36: b cannot stand here
  SELECT path FROM web JOIN app('b') b ON path = b.path
                                     ^
expected WITHIN, ON or AS; another name is given with AS, as in AS b""",
    "SELECT path FROM web JOIN shop ON path = shop.path": """
line 1, column 27: a stream is joined within a time: what of it may meet an event has to end
  SELECT path FROM web JOIN shop ON path = shop.path
                            ^^^^
as in JOIN shop WITHIN 30 MINUTES ON ...; the results of a job are app('NAME'), rows of a file table('NAME')""",
    "SELECT path FROM web RIGHT JOIN app('b') ON path = b.path": """
line 1, column 22: ELF QL has no RIGHT
  SELECT path FROM web RIGHT JOIN app('b') ON path = b.path
                       ^^^^^
there are JOIN and LEFT JOIN; a column of this name is written "RIGHT\"""",
    "SELECT path FROM web LEFT app('b')": """
line 1, column 27: app cannot stand here
  SELECT path FROM web LEFT app('b')
                            ^^^
expected JOIN""",
    "SELECT path FROM web JOIN app('b') WHERE status = 1": """
line 1, column 36: WHERE cannot stand here
  SELECT path FROM web JOIN app('b') WHERE status = 1
                                     ^^^^^
expected WITHIN or ON""",
    "SELECT path FROM web WHERE status = 1 JOIN app('b') ON path = b.path": """
line 1, column 39: JOIN cannot stand here
  SELECT path FROM web WHERE status = 1 JOIN app('b') ON path = b.path
                                        ^^^^
the order of clauses is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, WINDOWING, WITHIN and TREES""",
    "SELECT a FROM shop JOIN app('b') ON a = b.a JOIN app('c') ON b.x = c.x": """
line 1, column 45: a query has one JOIN at most
  SELECT a FROM shop JOIN app('b') ON a = b.a JOIN app('c') ON b.x = c.x
                                              ^^^^^^^^^^^^^^^^^^^^^^^^^^
let another job do the first JOIN, and read its results with FROM app('its name')""",
    "SELECT path FROM web JOIN app('b') ON path < b.path": """
line 1, column 39: ON takes columns that have to be equal, joined by AND, and nothing else
  SELECT path FROM web JOIN app('b') ON path < b.path
                                        ^^^^^^^^^^^^^
as in ON web.product = b.product AND web.store = b.store""",
    "SELECT path FROM web JOIN app('b') ON path = web.path": """
line 1, column 39: both of these are columns of what FROM names: ON compares one of each side
  SELECT path FROM web JOIN app('b') ON path = web.path
                                        ^^^^^^^^^^^^^^^
as in ON web.product = b.product AND web.store = b.store""",
    "SELECT path FROM web JOIN app('b') ON b.a = b.path": """
line 1, column 39: both of these are columns of the joined rows: ON compares one of each side
  SELECT path FROM web JOIN app('b') ON b.a = b.path
                                        ^^^^^^^^^^^^
as in ON web.product = b.product AND web.store = b.store""",
    "SELECT 1 FROM web JOIN app('b') ON path = b.n AND status = b.n": """
line 1, column 51: status is a number and b.n is a string: they cannot be compared
  SELECT 1 FROM web JOIN app('b') ON path = b.n AND status = b.n
                                                    ^^^^^^^^^^^^""",
    "SELECT path FROM web JOIN app('web') ON path = web.path": """
line 1, column 27: both sides of JOIN are called web
  SELECT path FROM web JOIN app('web') ON path = web.path
                            ^^^^^^^^^^
give one another name with AS, as in app('web') AS other""",
    "SELECT rank FROM shop JOIN app('b') ON product = b.product": """
line 1, column 8: rank may be a column of shop or of app('b')
  SELECT rank FROM shop JOIN app('b') ON product = b.product
         ^^^^
say whose it is, as in b.rank""",
    "SELECT a FROM app('x') JOIN app('b') ON x.a = b.a": """
line 1, column 8: a may be a column of app('x') or of app('b')
  SELECT a FROM app('x') JOIN app('b') ON x.a = b.a
         ^
say whose it is, as in b.a""",
    "SELECT path, b.path FROM web JOIN app('b') ON path = b.path": """
line 1, column 14: two columns of the result are named path
  SELECT path, b.path FROM web JOIN app('b') ON path = b.path
               ^^^^^^
give one another name with AS, as in b.path AS other""",
    "SELECT COUNT(*) FROM web JOIN app('b') ON window_end = b.window_end WINDOWING 1 DAY": """
line 1, column 43: window_end cannot be used in ON
  SELECT COUNT(*) FROM web JOIN app('b') ON window_end = b.window_end WINDOWING 1 DAY
                                            ^^^^^^^^^^
a window_start of either side is written with its name before it""",
    "SELECT a FROM app('top') WHERE window_start > 5": """
line 1, column 32: window_start is a time and 5 is not
  SELECT a FROM app('top') WHERE window_start > 5
                                 ^^^^^^^^^^^^^^^^
compare a time with one in quotes, as in '2024-05-01 12:00:00'""",
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items())
def test_mistakes_are_explained(text, told):
    with pytest.raises(QueryError) as caught:
        planned(text)
    assert str(caught.value) == told.removeprefix("\n")


def test_columns_that_nobody_knows_are_not_taken_for_ambiguous_ones():
    """As for EXPLAIN, which asks no agent."""
    plan = analyze(parse("SELECT a FROM web JOIN app('b') ON a = b.a"), {"web": Schema({"*": "any"}, open=True)})
    assert plan.join.keys == (("a", "b.a"),)


def test_rows_are_events_of_any_query():
    rows = [{"@time": 0, "product": "a", "n": 2}, {"@time": 0, "product": "b", "n": 3}]
    rows += [{"@time": 2000, "product": "a", "n": 4}]
    query = "SELECT product, SUM(n) AS n FROM app('top') GROUP BY product WINDOWING {} SECONDS"
    assert run(query.format(4), rows, {}) == [{"product": "a", "n": 6}, {"product": "b", "n": 3}]
    assert [row["n"] for row in run(query.format(2), rows, {})] == [2, 3, 4]


# On the wire.

PLANS = [
    planned("SELECT product, SUM(n) FROM app('micro-promotion') GROUP BY product WINDOWING 1 MINUTE"),
    planned(
        "SELECT b.rank, COUNT(*) FROM web LEFT JOIN app('bundles') AS b ON web.path = b.path AND time = b.window_end "
        "WHERE status = 200 AND b.rank > 1 GROUP BY b.rank"
    ),
    planned("SELECT t.a, b.a AS c FROM app('t') JOIN app('b') ON t.a = b.a ORDER BY b.c"),
]


@pytest.mark.parametrize("plan", PLANS)
def test_plans_come_back_as_they_were_sent(plan):
    assert Plan.from_wire(msgpack.unpackb(msgpack.packb(plan.to_wire()))) == plan


@pytest.mark.parametrize(
    "change",
    [
        {"app": ""},
        {"app": "x" * 249},
        {"app": "other"},
        {"app": 5},
        {"app": "\ud800"},
        {"stream": "web"},
        {"join": 5},
        {"join": {}},
        {"join.app": ""},
        {"join.alias": "x" * 70_000},
        {"join.outer": 1},
        {"join.keys": []},
        {"join.keys": [["a", "b.a"]] * 65},
        {"join.keys": [["b.a", "a"]]},
        {"join.keys": [["a", "b.x"]]},
        {"join.keys": [["a", "b.a", "b.c"]]},
        {"join.columns": []},
        {"join.columns": [["a", ["a"], "any"], ["b.c", ["c"], "any"]]},
        {"join.columns": [["b.a", ["a"], "number"], ["b.c", ["c"], "any"]]},
        {"join.columns": [["b.a", ["a"], "any"]]},
        {"join.columns": [["b.a", [], "any"], ["b.c", ["c"], "any"]]},
        {"join.columns": [["b.a", ["a"], "any"], ["b.c", ["c"], "any"], ["@dropped", ["d"], "any"]]},
        {
            "join.columns": [
                ["b.a", ["a"], "any"],
                ["b.c", ["c"], "any"],
                *([f"b.{n}", ["d"], "any"] for n in range(999)),
            ]
        },
        {"join.hint": "fast"},
    ],
    ids=lambda change: str(change)[:60],
)
def test_changed_plans_are_refused(change):
    wire = copy.deepcopy(PLANS[2].to_wire())
    for path, value in change.items():
        *parents, last = path.split(".")
        place = wire
        for parent in parents:
            place = place[parent]
        place[last] = value
    with pytest.raises(PlanError):
        Plan.from_wire(wire)


# In words.


def test_explaining_says_what_travels_and_where_rows_meet():
    explained = explain(PLANS[0])
    assert explained.stream == "app('micro-promotion')"
    assert explained.agent == (
        "only beside this job's master, which app('micro-promotion') sends each window once it is out: read product, n",
        "aggregate per window and product: SUM(n)",
    )
    assert explained.tree[0] == "nothing: what is read is with the master already"
    explained, equal = explain(PLANS[1]), "path = b.path AND time = b.window_end"
    assert explained.agent == (
        "read path, time, status",
        "ask app('bundles') for its latest result whenever it has another: 100,000 rows, 8 MiB at most",
        f"join events with the rows of it that have {equal}: with NULL where there is none",
        "keep events WHERE status = 200 AND b.rank > 1",
        "aggregate per b.rank: COUNT(*)",
    )
    assert explained.columns[-1] == ("b.window_end", "timestamp")
    assert "without one they are dropped" in explain(PLANS[2]).agent[2]
