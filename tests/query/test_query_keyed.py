"""KEYED BY: which texts have it, what it means as a plan, which is an element, and what is said of those that cannot
run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agent.runtime.function.job_function import JobFunction
from agent.runtime.model.bundle import Contents, Function
from query import Plan, PlanError, QueryError, Schema, analyze, explain, format_query, keyed_stream, parse, without_keys
from query.model.limits import KEYED_COLUMNS_MAX, KEYED_KEYS_MAX, WORKERS_MAX

OPEN = Schema({}, open=True)
STREAMS = {"web": OPEN, "api": OPEN}
TABLES = {"pages": Schema({"path": "string", "title": "string"}, open=False)}
GROUPINGS = ("fish", "shuffle", "fields", "pkg", "dchoices", "wchoices")


def planned(text):
    """The plan of a query, after it has travelled."""
    plan = analyze(parse(text), STREAMS, TABLES)
    assert Plan.from_wire(plan.to_wire()) == plan
    return plan


def element(plan):
    (found,) = plan.elements["elements"]
    return found


def source(plan):
    """The query of the source, in words."""
    (found,) = plan.elements["sources"]
    return found["query"]


def fields(plan):
    """The names of the fields of each type."""
    return {one["name"]: [name for name, _ in one["fields"]] for one in plan.elements["types"]}


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("select a from web keyed by a", "SELECT a FROM web KEYED BY a"),
        (
            "SELECT a FROM web AS w Keyed  By w.a.b, lower(b) Grouping PKG Over 1 worker WHERE a > 1",
            "SELECT a FROM web AS w KEYED BY w.a.b, LOWER(b) GROUPING pkg OVER 1 WORKERS WHERE a > 1",
        ),
        (
            "SELECT a FROM web KEYED BY a OVER 32 WORKERS WINDOW TUMBLING (SIZE 3 SECONDS)",
            "SELECT a FROM web KEYED BY a OVER 32 WORKERS WINDOWING 3 SECONDS",
        ),
        (
            "SELECT a FROM web KEYED BY a LEFT JOIN table('pages') AS p ON web.path = p.path",
            "SELECT a FROM web KEYED BY a LEFT JOIN table('pages') AS p ON web.path = p.path",
        ),
        ('SELECT a FROM web KEYED BY a GROUPING "No One"', 'SELECT a FROM web KEYED BY a GROUPING "no one"'),
        (
            "SELECT a FROM web KEYED BY grouping GROUPING over OVER 3 WORKERS",
            "SELECT a FROM web KEYED BY grouping GROUPING over OVER 3 WORKERS",
        ),
    ],
)
def test_the_clause_is_printed_as_it_is_read(text, printed):
    assert format_query(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a AS grouping, b AS over, c AS workers, keyed FROM web",
        "SELECT a grouping, b over, c workers, d keyed FROM web",
        "SELECT a grouping",
        "SELECT a grouping WHERE b = 1",
        "SELECT COUNT(*) over WHERE over > 1 GROUP BY grouping ORDER BY workers",
        "SELECT GROUPING(x), OVER(y), keyed(z), WORKERS(1) FROM keyed, grouping",
        "SELECT over FROM (SELECT a FROM web) grouping WHERE keyed > 3",
        "SELECT over FROM (SELECT a AS over FROM web) over",
        "SELECT workers.over FROM web AS workers KEYED BY workers.over OVER 2 WORKERS",
    ],
)
def test_its_words_are_names_elsewhere(text):
    assert parse(format_query(parse(text))) == parse(text)


def test_events_travel_with_what_the_key_and_the_query_need_and_go_on_without_the_key():
    plan = planned(
        "SELECT path, SUM(bytes) FROM web KEYED BY user, a.b GROUPING pkg OVER 32 WORKERS "
        "WHERE status > 3 AND user <> 'x' GROUP BY path HAVING COUNT(*) > 1 ORDER BY 2 DESC LIMIT 3 WINDOWING 1 MINUTE"
    )
    assert source(plan) == ("SELECT path, bytes, user, a.b AS a_b FROM web WHERE status > 3 AND user <> 'x'")
    assert element(plan) == {
        "name": "exchange",
        "kind": "exchange",
        "inputs": [{"type": "web", "key": ["user", "a_b"]}],
        "output": "web_by_key",
        "grouping": "pkg",
        "workers": 32,
    }
    assert fields(plan) == {"web": ["path", "bytes", "user", "a_b"], "web_by_key": ["path", "bytes"]}
    assert (plan.stream, plan.streams_read, plan.where, plan.keyed) == ("web_by_key", "web", None, None)
    assert [(one.name, one.path, one.type) for one in plan.columns] == [
        ("path", ("path",), "any"),
        ("bytes", ("bytes",), "number"),
    ]
    # A number that may be an integer travels as it is written.
    assert dict(plan.elements["types"][1]["fields"])["bytes"] == "any"


def test_fish_over_64_workers_is_the_default():
    plan = planned("SELECT COUNT(*) FROM web KEYED BY user")
    assert (element(plan)["grouping"], element(plan)["workers"]) == ("fish", 64)
    assert fields(plan) == {"web": ["user"], "web_by_key": []}


def test_a_key_that_is_named_twice_is_one():
    keys = element(planned("SELECT a FROM web KEYED BY a, a, b"))["inputs"][0]["key"]
    assert keys == ["a", "b"]


def test_conditions_on_joined_rows_are_tested_after_events_have_travelled():
    plan = planned(
        "SELECT p.title, COUNT(*) FROM web AS w KEYED BY w.user JOIN table('pages') AS p ON w.path = p.path "
        "WHERE w.bytes > 3 AND p.title <> 'Home' GROUP BY p.title"
    )
    assert source(plan) == "SELECT path, user FROM web WHERE bytes > 3"
    assert plan.join.table == "pages"
    assert plan.where is not None
    assert fields(plan)["w_by_key"] == ["path"]


def test_a_window_without_groups_is_shown_for_events_that_where_does_not_keep():
    text = "SELECT COUNT(*) FROM web KEYED BY user WHERE bytes > 3"
    assert source(planned(text)) == "SELECT user FROM web WHERE bytes > 3"
    plan = planned(f"{text} WINDOWING 1 MINUTE")
    assert source(plan) == "SELECT bytes, user FROM web"
    assert plan.where is not None


@pytest.mark.parametrize("name", ['"web*", api', "web, api AS w", "*", '"web*" AS "a b"', "web AS window_start"])
def test_streams_of_any_name_become_types(name):
    plan = planned(f'SELECT "a b", a_b, COUNT(*) FROM {name} KEYED BY "@x", "a b" GROUP BY "a b", a_b')
    for type_ in plan.elements["types"]:
        names = [name for name, _ in type_["fields"]]
        assert len(set(names)) == len(names)
        assert all(one.isidentifier() for one in (type_["name"], *names))


EQUAL = [
    "SELECT COUNT(*) FROM web{}",
    "SELECT path, SUM(bytes) FROM web{} WHERE status > 3 AND path <> 'x' GROUP BY path HAVING COUNT(*) > 1 LIMIT 3",
    "SELECT COUNT(*) FROM web{} WHERE status > 3 WINDOWING 1 MINUTE",
    "SELECT path, a.b FROM web{} WHERE status > 3 ORDER BY bytes LIMIT 3",
    "SELECT user, AVG(bytes) FROM web{} GROUP BY user WINDOWING SESSION 1 MINUTE",
    "SELECT p.title FROM web{} JOIN table('pages') AS p ON web.path = p.path WHERE web.x = 1 AND p.title = 'a'",
]


@pytest.mark.parametrize("text", EQUAL)
def test_without_keys_it_is_the_plan_of_the_query_without_the_clause(text):
    keyed = planned(text.format(" KEYED BY web.user, web.path" if "JOIN" in text else " KEYED BY user, path"))
    plain, found = planned(text.format("")), without_keys(keyed)
    assert keyed_stream(keyed) is not None
    assert found.shared_part() == plain.shared_part()
    assert (found.output, found.having, found.order, found.limit) == (
        plain.output,
        plain.having,
        plain.order,
        plain.limit,
    )
    assert without_keys(plain) is plain


def test_without_keys_events_may_be_those_that_where_keeps():
    keyed = planned("SELECT path, COUNT(*) FROM web KEYED BY user WHERE status > 3 GROUP BY path")
    found = without_keys(keyed, counts_kept=True)
    (branch,) = found.branches
    assert (found.elements, found.where, found.stream, branch.stream) == (None, None, "web", "web")
    assert branch.where is not None
    assert Plan.from_wire(found.to_wire()) == found


def test_elements_that_are_no_exchange_are_no_keyed_stream():
    join = planned("SELECT COUNT(*) FROM web JOIN api WITHIN 1 MINUTE ON web.a = api.a")
    assert keyed_stream(join) is None
    assert without_keys(join) is join
    keyed = planned("SELECT a FROM web KEYED BY user")
    for broken in ({}, {**keyed.elements, "sources": []}, {**keyed.elements, "sources": [{"type": "web", "plan": 1}]}):
        wire = keyed.to_wire() | {"elements": broken}
        assert keyed_stream(Plan.from_wire(wire)) is None


@pytest.mark.parametrize(
    "other",
    ["", " KEYED BY path", " KEYED BY user GROUPING pkg", " KEYED BY user OVER 63 WORKERS", " KEYED BY user, path"],
)
def test_jobs_that_differ_in_the_clause_differ_in_their_elements(other):
    text = "SELECT path, COUNT(*) FROM web{} GROUP BY path"
    assert planned(text.format(" KEYED BY user")).elements != planned(text.format(other)).elements


def test_workers_and_keys_and_columns_are_bounded():
    for workers in (1, WORKERS_MAX):
        assert element(planned(f"SELECT a FROM web KEYED BY a OVER {workers} WORKERS"))["workers"] == workers
    keys = [f"k{number}" for number in range(KEYED_KEYS_MAX + 1)]
    planned(f"SELECT a FROM web KEYED BY {', '.join(keys[1:])}")
    with pytest.raises(QueryError, match="KEYED BY may have at most 16 keys"):
        planned(f"SELECT a FROM web KEYED BY {', '.join(keys)}")
    columns = [f"c{number}" for number in range(KEYED_COLUMNS_MAX)]
    planned(f"SELECT {', '.join(columns)} FROM web KEYED BY c0")
    with pytest.raises(QueryError, match="events that travel by key have at most 128 columns: here are 129"):
        planned(f"SELECT {', '.join(columns)} FROM web KEYED BY user")


MISTAKES = {
    "SELECT a FROM web KEYED BY a OVER 0 WORKERS": (
        "line 1, column 30: events travel to 1 to 1,024 workers",
        "as in OVER 32 WORKERS",
    ),
    "SELECT a FROM web KEYED BY a OVER 1025 WORKERS": ("column 30: events travel to 1 to 1,024 workers", ""),
    "SELECT a FROM web KEYED BY a OVER 99999999999999999999 WORKERS": ("events travel to 1 to 1,024 workers", ""),
    "SELECT a FROM web KEYED BY a GROUPING fsh": ("column 39: there is no grouping fsh", "did you mean fish?"),
    "SELECT a FROM web KEYED BY a GROUPING hashes": (
        "column 39: there is no grouping hashes",
        "the groupings are fish, shuffle, fields, pkg, dchoices and wchoices",
    ),
    "SELECT a FROM web KEYED BY a GROUPING": ("column 30: GROUPING needs a name, as in GROUPING fish", ""),
    "SELECT a FROM web KEYED BY a GROUPING WHERE b = 1": ("column 30: GROUPING needs a name", ""),
    "SELECT a FROM web KEYED BY a GROUPING 'fish'": ("column 30: GROUPING needs a name", ""),
    "SELECT a FROM web KEYED BY a GROPING fish": ("column 30: GROPING cannot stand here", "did you mean GROUPING?"),
    "SELECT a FROM web KEYED BY a OVER WORKERS": ("column 30: OVER needs a number of workers", "OVER 32 WORKERS"),
    "SELECT a FROM web KEYED BY a OVER -3 WORKERS": ("column 30: OVER needs a number of workers", ""),
    "SELECT a FROM web KEYED BY a OVER 2.5 WORKERS": ("column 35: OVER needs a number of workers", ""),
    "SELECT a FROM web KEYED BY a OVER 32": ("the query ends too early", "expected WORKERS"),
    "SELECT a FROM web KEYED BY a OVER 32 AGENTS": ("column 38: AGENTS cannot stand here", "expected WORKERS"),
    "SELECT a FROM web KEYED BY a OVER 3 WORKERS GROUPING fish": (
        "column 45: GROUPING cannot stand here",
        "it stands after the stream, as in FROM web KEYED BY user GROUPING fish OVER 32 WORKERS",
    ),
    "SELECT a FROM web WHERE b = 1 KEYED BY a": ("column 31: KEYED cannot stand here", "it stands after the stream"),
    "SELECT a FROM web KEYED a": ("column 19: KEYED cannot stand here", "it stands after the stream"),
    "SELECT a FROM web GROUPING fish": ("column 19: GROUPING cannot stand here", "it stands after the stream"),
    "SELECT a FROM web KEYED BY": ("the query ends too early", "expected an expression"),
    "SELECT SUM(a) OVER (PARTITION BY b) FROM web": ("ELF QL has no OVER", ""),
    "SELECT a FROM web KEYED BY COUNT(*)": ("column 28: KEYED BY takes columns", "as in KEYED BY user"),
    "SELECT a FROM web KEYED BY a, LOWER(b)": ("column 31: KEYED BY takes columns", ""),
    "SELECT a FROM web KEYED BY 1": ("column 28: KEYED BY takes columns", ""),
    "SELECT a FROM web KEYED BY window_start WINDOWING 1 MINUTE": (
        "column 28: window_start is no column of the events that travel",
        "as in KEYED BY user",
    ),
    "SELECT COUNT(*) FROM web KEYED BY p.title JOIN table('pages') AS p ON web.path = p.path": (
        "column 35: p.title is no column of the events that travel",
        "",
    ),
    "SELECT a FROM app('top') KEYED BY a": (
        "column 26: results of another job do not travel by key: one agent reads them",
        "KEYED BY is for the streams that app('top') reads, or left out",
    ),
    "SELECT a FROM table('pages') KEYED BY a": ("column 15: a table can only be joined", ""),
    "SELECT a FROM (SELECT a FROM web) KEYED BY a": (
        "column 35: rows of a sub-query do not travel by key",
        'FROM names the stream, or several as in FROM web, "api-*"',
    ),
    "SELECT n FROM (SELECT COUNT(*) AS n FROM web KEYED BY a)": (
        "column 46: a sub-query is not keyed",
        "FROM names the stream, without a sub-query around it",
    ),
    "SELECT a FROM (SELECT a FROM web UNION ALL SELECT a FROM api) KEYED BY a": (
        "column 63: events of UNION ALL do not travel by key",
        "",
    ),
    "SELECT a FROM (SELECT a FROM web UNION ALL SELECT a FROM api KEYED BY a)": ("a sub-query is not keyed", ""),
    "SELECT web.a FROM web KEYED BY web.a JOIN api WITHIN 1 MINUTE ON web.a = api.a": (
        "column 23: events of joined streams travel by what ON compares",
        "leave KEYED BY out",
    ),
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items())
def test_mistakes_are_named_with_their_place_and_the_next_step(text, told):
    with pytest.raises(QueryError) as error:
        planned(text)
    first, *_, last = str(error.value).splitlines()
    assert told[0] in first
    assert told[1] in f"{first}\n{last}"


@pytest.mark.parametrize("source", ["", "def map(event): ..."])
def test_a_job_with_code_of_its_own_has_none(source):
    plan = planned("SELECT COUNT(*) FROM web KEYED BY user")
    bundle = SimpleNamespace(contents=Contents([Function("", plan.to_wire(), "")], source))
    if not source:
        assert JobFunction.of(plan, None, None, bundle).plan == plan
        return
    with pytest.raises(PlanError, match="has no KEYED BY: its code takes events where they lie"):
        JobFunction.of(plan, None, None, bundle)


def test_explain_shows_what_is_brought_and_where_it_goes():
    explained = explain(
        planned("SELECT path, COUNT(*) AS n FROM web KEYED BY user OVER 32 WORKERS WHERE b > 1 GROUP BY path")
    )
    assert explained.stream == "web"
    assert explained.agent == (
        "bring web: SELECT path, user FROM web WHERE b > 1",
        "exchange web by user: each event goes to one of 32 workers, which are logical nodes, by fish",
        "of web_by_key, where it is made, read path",
        "aggregate per path: COUNT(*)",
    )
