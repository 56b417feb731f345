"""Whole queries over events: results, order, limits, and that they do not depend on how events are dealt."""

from __future__ import annotations

import json
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_pipeline import OPEN, homogeneous_frames, run
from sql_reference import evaluate, kind

from query import EventStage, ResultStage, Schema, analyze, format_query, format_timestamp, output_names, parse
from query.model.timestamps import format_timestamps
from query.syntax import ast

FIGURE_4 = (
    "SELECT product,SUM(clicks_count) FROM * WHERE store == `video_games` GROUP BY product "
    "SORT BY SUM(clicks_count) DESC LIMIT 10 WINDOWING 30 SECONDS;"
)


def test_figure_4():
    events = [
        {"@time": 1_000, "store": "video_games", "product": "pong", "clicks_count": 3},
        {"@time": 2_000, "store": "video_games", "product": "tetris", "clicks_count": 5},
        {"@time": 3_000, "store": "books", "product": "pong", "clicks_count": 100},
        {"@time": 29_999, "store": "video_games", "product": "pong", "clicks_count": 4},
        {"@time": 30_000, "store": "video_games", "product": "doom", "clicks_count": 1.5},
        {"@time": 31_000, "store": "video_games"},
    ]
    assert run(FIGURE_4, events) == [
        {"product": "pong", "SUM(clicks_count)": 7},
        {"product": "tetris", "SUM(clicks_count)": 5},
        {"product": "doom", "SUM(clicks_count)": 1.5},
        {"product": None, "SUM(clicks_count)": None},
    ]


def test_same_aggregates_are_computed_once():
    plan = analyze(parse("SELECT SUM(a), SUM(a) / COUNT(*) m, AVG(a), MAX(b) FROM web ORDER BY SUM(a)"), OPEN)
    assert [(one.function, one.argument) for one in plan.aggregates] == [
        ("sum", "x0"),
        ("count", None),
        ("avg", "x0"),
        ("max", "x1"),
    ]


def test_names_of_results():
    plan = analyze(parse('SELECT a, a + 1, user.name, "x y", count(*) AS n FROM web GROUP BY 1, 3, 4'), OPEN)
    assert output_names(plan) == ["a", "a + 1", "user.name", "x y", "n"]


def test_columns_of_one_name_by_different_paths_are_told_apart():
    events = [{"a.b": 1, "a": {"b": 2}, "@time": 3}]
    assert run('SELECT "a.b" AS flat, a.b AS nested, "@time" AS time FROM web', events) == [
        {"flat": 1, "nested": 2, "time": 3}
    ]


def test_a_select_list_of_constants_keeps_the_rows():
    assert run("SELECT 1, 'x' FROM web", [{}, {}]) == [{"1": 1, "'x'": "x"}] * 2
    assert (
        run("SELECT 1, a IS NULL, COUNT(*) FROM web GROUP BY a", [{"a": 1}, {"a": 2}])
        == [{"1": 1, "a IS NULL": False, "COUNT(*)": 1}] * 2
    )


def test_star_selects_the_known_columns_and_others_beside_it():
    catalog = {"web": Schema({"b": "any", "a": "number"}, open=True)}
    assert run("SELECT *, a + 1 AS next FROM web", [{"a": 1, "b": "x", "c": 0}], catalog) == [
        {"b": "x", "a": 1, "next": 2}
    ]


def test_star_shows_an_object_once():
    catalog = {"web": Schema({"u": "any", "u.id": "any", "u.id.n": "any", "v.w": "any"}, open=True)}
    plan = analyze(parse("SELECT * FROM web"), catalog)
    assert [column.path for column in plan.columns] == [("u",), ("v.w",)]


def test_rows_are_limited_to_a_thousand_by_default():
    assert len(run("SELECT a FROM web", [{"a": n} for n in range(1_500)])) == 1_000
    assert len(run("SELECT a FROM web LIMIT 1200", [{"a": n} for n in range(1_500)])) == 1_200
    assert run("SELECT a FROM web LIMIT 0", [{"a": 1}]) == []


def test_closed_streams_check_types_and_times():
    catalog = {"web": Schema({"status": "integer", "time": "timestamp", "path": "string"}, open=False)}
    times = pl.Series([0, 86_400_000], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))
    frame = pl.DataFrame({"@time": [0, 86_400_000], "status": [200, 404], "path": ["/", None], "time": times})
    text = "SELECT time, status FROM web WHERE time >= '1970-01-01T23:00:00-01:00' AND status IN (404, 500)"
    assert run(text, [], catalog, lambda *_: [frame]) == [{"time": "1970-01-02T00:00:00Z", "status": 404}]
    text = "SELECT MAX(time), MIN(time) AS first, SUM(status) FROM web"
    assert run(text, [], catalog, lambda *_: [frame]) == [
        {"MAX(time)": "1970-01-02T00:00:00Z", "first": "1970-01-01T00:00:00Z", "SUM(status)": 604}
    ]
    text = "SELECT time, COUNT(*) AS n FROM web GROUP BY time ORDER BY time DESC LIMIT 1"
    assert run(text, [], catalog, lambda *_: [frame]) == [{"time": "1970-01-02T00:00:00Z", "n": 1}]


def test_text_columns_are_strings_unless_their_use_says_otherwise():
    catalog = {"web": Schema({"country": "text", "quantity": "text", "unused": "text"}, open=False)}
    plan = analyze(parse("SELECT country, SUM(quantity) FROM web GROUP BY country"), catalog)
    assert [(column.name, column.type) for column in plan.columns] == [
        ("country", "string"),
        ("quantity", "number"),
    ]


def test_all_streams_share_the_columns_they_agree_on():
    catalog = {
        "web": Schema({"path": "string", "status": "integer", "time": "timestamp"}, open=False),
        "shop": Schema({"path": "string", "status": "any"}, open=True),
    }
    plan = analyze(parse("SELECT path, status, time, user.id FROM *"), catalog)
    assert plan.stream == "*"
    assert [column.type for column in plan.columns] == ["string", "any", "timestamp", "any"]
    assert analyze(parse("SELECT path"), {"web": catalog["web"]}).stream == "web"


def test_a_column_of_the_wrong_kind_is_null():
    plan = analyze(parse("SELECT a + 1 AS b, c LIKE 'x' AS d FROM web"), OPEN)
    times = pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))
    applied = EventStage(plan).apply(pl.DataFrame({"@time": [0], "a": ["x"], "c": times}))
    assert applied.select("c0", "c1").rows() == [(None, False)]


def test_times_no_calendar_holds_are_null():
    assert format_timestamp(2**62) is None
    assert format_timestamp(-(2**63)) is None
    assert format_timestamp(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 3 * 10**14))
def test_a_time_is_shown_alike_alone_and_in_a_column(time_ms):
    assert [format_timestamp(time_ms)] == format_timestamps(pl.Series([time_ms]))


@pytest.mark.parametrize("rows", [120_000])
def test_large_results_come_as_rows(rows):
    plan = analyze(parse("SELECT a, b, SUM(c) / 2 AS half FROM web GROUP BY a, b ORDER BY half DESC"), OPEN)
    frame = pl.DataFrame(
        {
            "pane": pl.Series([0]).new_from_index(0, rows),
            "k0": pl.Series([f'"{n}"' for n in range(rows)]),
            "k1": pl.Series([str(n / 2) for n in range(rows)]),
            "a0": pl.Series(range(rows), dtype=pl.Int128),
        }
    )
    result = ResultStage(plan).windows(frame, [0])[0]
    assert len(result) == rows
    assert result[0] == {"a": str(rows - 1), "b": (rows - 1) / 2, "half": (rows - 1) / 2}


def test_exact_sums_of_128_bits():
    text = "SELECT SUM(a) s, SUM(a) * SUM(a) t, SUM(a) + 1 u, SUM(a) // 10 v FROM web"
    plan = analyze(parse(text), OPEN)
    frame = pl.DataFrame({"pane": [0], "a0": pl.Series([2**100], dtype=pl.Int128)})
    assert ResultStage(plan).windows(frame, [0])[0] == [{"s": 2**100, "t": None, "u": 2**100 + 1, "v": 2**100 // 10}]


MADE_UP = [
    "",
    "{",
    '"',
    '"\\',
    '"\\ud800"',
    "NaN",
    "[1]",
    "1,2",
    "1]",
    "[" * 10_000,
    "1e999",
    '"a"',
    "7",
    None,
]


@pytest.mark.fuzz
def test_texts_that_a_peer_made_up_are_null():
    text = "SELECT a, b, a = 'x' AS c, b + 1 AS d, MIN(e) AS e FROM web GROUP BY a, b, e ORDER BY e"
    plan = analyze(parse(text), OPEN)
    assert {key.name: key.type for key in plan.keys} == {"k0": "string", "k1": "number", "k2": "any"}
    frame = pl.DataFrame({"pane": [0] * len(MADE_UP), "k0": MADE_UP, "k1": MADE_UP, "k2": MADE_UP, "a0": MADE_UP})
    rows = {row["a"]: row for row in ResultStage(plan).windows(frame, [0])[0]}
    assert rows.keys() == set(MADE_UP)
    assert (rows["7"]["b"], rows["7"]["d"], rows["7"]["e"]) == (7, 8, 7)
    assert (rows['"a"']["b"], rows['"a"']["d"], rows['"a"']["e"]) == (None, None, "a")
    for made_up in set(MADE_UP) - {"7", '"a"'}:
        assert (rows[made_up]["b"], rows[made_up]["d"]) == (None, None)
        assert rows[made_up]["e"] is None


# Random queries against a plain evaluation of groups.

VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -2.5, 2.0, "a", 'b"c', "é", ""]),
    st.booleans(),
    st.none(),
)
EVENTS = st.lists(st.fixed_dictionaries({"p": VALUES, "q": VALUES, "x": VALUES}), max_size=12)
P, Q, X = (ast.ColumnRef((name,)) for name in "pqx")
ONE = ast.Literal(1, "integer")
PARITY = ast.Binary("%", X, ast.Literal(2, "integer"))
KEYS = st.sampled_from([P, Q, X, PARITY, ast.IsNull(P), ast.Binary("=", P, Q)])
AGGREGATES = st.sampled_from(
    [ast.AggregateCall("COUNT", (ast.Star(),))]
    + [ast.AggregateCall(function, (X,)) for function in ("COUNT", "SUM", "AVG", "MIN", "MAX")]
    + [ast.AggregateCall(function, (P,)) for function in ("COUNT", "MIN", "MAX")]
)
OPERATORS = st.sampled_from(["+", "*", "/", "//", "%"])


@st.composite
def grouped_queries(draw):
    keys = draw(st.lists(KEYS, max_size=2, unique=True))
    aggregates = draw(st.lists(AGGREGATES, min_size=0 if keys else 1, max_size=3, unique=True))
    parts = [*keys, *aggregates]
    numbers = st.sampled_from([ONE, *filter(is_number, parts)])
    parts += draw(st.lists(st.builds(ast.Binary, OPERATORS, numbers, numbers), max_size=2))
    parts += draw(st.lists(st.builds(ast.IsNull, st.sampled_from(parts)), max_size=1))
    order = draw(st.lists(st.builds(ast.OrderItem, st.sampled_from(parts), st.booleans()), max_size=2))
    where = draw(st.sampled_from([None, ast.Binary(">", X, ast.Literal(-2, "integer"))]))
    limit = draw(st.one_of(st.none(), st.integers(0, 4)))
    # The sum makes x a number wherever else it is used.
    parts.append(ast.AggregateCall("SUM", (X,)))
    select = tuple(ast.SelectItem(part, f"c{n}") for n, part in enumerate(parts))
    return ast.Query(select, ast.Stream("web"), where, tuple(keys), tuple(order), limit)


def is_number(part):
    return (
        part == X
        or (isinstance(part, ast.Binary) and part.operator == "%")
        or (
            isinstance(part, ast.AggregateCall) and (part.function in ("COUNT", "SUM", "AVG") or part.arguments == (X,))
        )
    )


def aggregated(call, rows):
    if isinstance(call.arguments[0], ast.Star):
        return len(rows)
    values = [value for row in rows if (value := evaluate(call.arguments[0], row)) is not None]
    if call.function == "COUNT":
        return len(values)
    if not values:
        return None
    if call.function in ("MIN", "MAX"):
        return (min if call.function == "MIN" else max)(values, key=rank)
    exact = sum(map(Fraction, values)) / (len(values) if call.function == "AVG" else 1)
    return int(exact) if exact.denominator == 1 else float(exact)


def rank(value):
    order = ("boolean", "number", "string").index(kind(value))
    return order, value


def in_group(node, keys, rows):
    """The expression with keys and aggregates replaced by their values in a group."""
    if node in keys:
        return constant(keys[node])
    if isinstance(node, ast.AggregateCall):
        return constant(aggregated(node, rows))
    return ast.with_operands(node, [in_group(operand, keys, rows) for operand in ast.operands(node)])


def constant(value):
    return ast.Literal(value, "null" if value is None else kind(value))


def answer(query, events):
    """The rows of a grouped query, by the book."""
    events = [{**event, "x": event["x"] if type(event["x"]) in (int, float) else None} for event in events]
    kept = [event for event in events if query.where is None or evaluate(query.where, event) is True]
    groups = {} if query.group_by else {(): ({}, kept)}
    for event in kept if query.group_by else []:
        values = [evaluate(key, event) for key in query.group_by]
        identity = tuple(None if value is None else (kind(value), value) for value in values)
        groups.setdefault(identity, (dict(zip(query.group_by, values, strict=True)), []))[1].append(event)
    ordered = list(groups.values())
    ties = [ast.OrderItem(key) for key in query.group_by]
    for item in reversed([*query.order_by, *ties]):
        ordered = in_order(ordered, item)
    rows = [
        {item.alias: shown(evaluate(in_group(item.expression, *group), {})) for item in query.select}
        for group in ordered
    ]
    return rows[: query.limit]


def in_order(groups, item):
    valued = [(evaluate(in_group(item.expression, *group), {}), group) for group in groups]
    known = [pair for pair in valued if pair[0] is not None]
    known.sort(key=lambda pair: rank(pair[0]), reverse=item.descending)
    return [group for _, group in known] + [group for value, group in valued if value is None]


def shown(value):
    if isinstance(value, float):
        value = float(f"{value:.15g}")
        return int(value) if value.is_integer() else value
    return value


@given(grouped_queries(), EVENTS)
def test_grouped_queries(query, events):
    text = format_query(query)
    assert json.dumps(run(text, events)) == json.dumps(answer(query, events)), text


@given(grouped_queries(), EVENTS, st.randoms(use_true_random=False))
def test_results_do_not_depend_on_how_events_are_dealt(query, events, random):
    def one_by_one(plan, events):
        shuffled = random.sample(events, len(events))
        return [frame for event in shuffled for frame in homogeneous_frames(plan, [event])]

    text = format_query(query)
    assert json.dumps(run(text, events, frames=one_by_one)) == json.dumps(run(text, events))


@given(EVENTS, st.booleans(), st.booleans())
def test_rows_are_ordered_by_values_of_any_kind(events, descending, second):
    order = f"p{' DESC' * descending}, q{' DESC' * second}"
    rows = run(f"SELECT p, q FROM web ORDER BY {order}", events)
    expected = [(event["p"], event["q"]) for event in events]
    for place, reverse in ((1, second), (0, descending)):
        known = [row for row in expected if row[place] is not None]
        expected = sorted(known, key=lambda row: rank(row[place]), reverse=reverse) + [
            row for row in expected if row[place] is None
        ]
    assert json.dumps([list(row.values()) for row in rows]) == json.dumps(
        [[shown(value) for value in row] for row in expected]
    )
