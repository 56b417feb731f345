"""EventStage against a small evaluator of SQL written in plain Python, one row at a time."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sql_reference import evaluate

from query import EventStage, Schema, analyze, analyze_with_rules, parse
from query.syntax import ast
from query.syntax.ast import Query, SelectItem
from query.syntax.printer import format_expression

CATALOG = {"web": Schema({"n": "integer"}, open=True)}


# Columns: two numbers, a declared integer, two strings, two booleans, two of any type, one always NULL.
INTEGERS = st.one_of(st.integers(-9, 9), st.sampled_from([2**63 - 1, -(2**63), 2**62, 2**31, 3_037_000_500]), st.none())
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, -2.5, 3.0, 0.1, 1e300, -1e308, 5e-324, 1e17]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none(),
)
STRINGS = st.one_of(st.sampled_from(["", "a", "ab", "a%b", "A", "ä", "a\nb", "a\\b", "_"]), st.none())
BOOLEANS = st.sampled_from([True, False, None])
NULLS = st.none()
COLUMNS = {
    "x": [INTEGERS, DOUBLES, NULLS],
    "y": [INTEGERS, DOUBLES, NULLS],
    "n": [INTEGERS],
    "s": [STRINGS, NULLS],
    "t": [STRINGS],
    "b": [BOOLEANS, NULLS],
    "c": [BOOLEANS],
    "p": [INTEGERS, DOUBLES, STRINGS, BOOLEANS, NULLS],
    "q": [INTEGERS, DOUBLES, STRINGS, BOOLEANS, NULLS],
}
DTYPES = {id(INTEGERS): pl.Int64, id(DOUBLES): pl.Float64, id(STRINGS): pl.String, id(BOOLEANS): pl.Boolean}


@st.composite
def frames(draw):
    height = draw(st.integers(1, 6))
    columns = {"@time": pl.Series(range(height), dtype=pl.Int64)}
    for name, choices in COLUMNS.items():
        values = draw(st.sampled_from(choices))
        drawn = draw(st.lists(values, min_size=height, max_size=height))
        columns[name] = pl.Series(drawn, dtype=DTYPES.get(id(values), pl.Null))
    return pl.DataFrame(columns)


def literal(values, type_):
    return values.map(lambda value: ast.Literal(value, "null" if value is None else type_))


def named(*names):
    return st.sampled_from([ast.ColumnRef((name,)) for name in names])


def binary(operators, operands):
    return st.builds(ast.Binary, st.sampled_from(operators), operands, operands)


COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
NUMBERS = st.recursive(
    st.one_of(named("x", "y", "n"), literal(INTEGERS, "integer"), literal(DOUBLES, "number")),
    lambda inner: st.one_of(binary(["+", "-", "*", "/", "//", "%"], inner), st.builds(ast.Unary, st.just("-"), inner)),
    max_leaves=6,
)
TEXTS = st.one_of(named("s", "t"), literal(STRINGS, "string"))
PATTERNS = st.one_of(
    st.sampled_from(["%", "a%", "%b", "%a%", "a_b", "_", "", "a\\%b", "a\\\\b", "%%", "_%_"]),
    st.text("ab%_", max_size=5),
).map(lambda text: ast.Literal(text, "string"))


def within(values):
    return st.builds(ast.In, values, st.lists(values, min_size=1, max_size=4).map(tuple), st.booleans())


CONDITIONS = st.recursive(
    st.one_of(
        named("b", "c"),
        literal(BOOLEANS, "boolean"),
        binary(COMPARISONS, NUMBERS),
        binary(COMPARISONS, TEXTS),
        binary(COMPARISONS, named("p", "q")),
        within(NUMBERS),
        within(TEXTS),
        within(named("p", "q")),
        st.builds(ast.IsNull, st.one_of(NUMBERS, TEXTS, named("b", "p")), st.booleans()),
        st.builds(ast.Like, TEXTS, PATTERNS, st.booleans()),
    ),
    lambda inner: st.one_of(
        st.builds(ast.Unary, st.just("NOT"), inner),
        st.builds(ast.Logical, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4).map(tuple)),
        binary(COMPARISONS, inner),
        within(inner),
    ),
    max_leaves=6,
)


def stage_for(*expressions, where=None):
    items = tuple(
        SelectItem(ast.AggregateCall("COUNT", (expression,)), f"e{n}") for n, expression in enumerate(expressions)
    )
    written = analyze_with_rules(Query(items, ast.Stream("web"), where), CATALOG, rules=())
    return EventStage(written.plan)


def parse_expression(text):
    return parse(f"SELECT {text}").select[0].expression


@given(frame=frames(), condition=CONDITIONS)
def test_conditions_keep_the_events_sql_keeps(frame, condition):
    kept = stage_for(ast.Literal(1, "integer"), where=condition).apply(frame)["@time"].to_list()
    expected = [row["@time"] for row in frame.to_dicts() if evaluate(condition, row) is True]
    assert kept == expected, format_expression(condition)


@given(frame=frames(), condition=CONDITIONS)
def test_three_valued_logic_of_selected_conditions(frame, condition):
    values = stage_for(condition).apply(frame)["x0"].to_list()
    assert values == [evaluate(condition, row) for row in frame.to_dicts()], format_expression(condition)


@given(frame=frames(), number=NUMBERS)
def test_arithmetic(frame, number):
    condition = ast.Binary("=", number, ast.Literal(0, "integer"))
    values = stage_for(number, condition).apply(frame)["x0"].to_list()
    expected = [evaluate(number, row) for row in frame.to_dicts()]
    assert values == expected, format_expression(number)
    assert [type(value) for value in values] == [type(value) for value in expected]


@pytest.mark.parametrize("step", ["x // ({})", "({}) // x", "x % ({})", "y / ({})", "y // ({})", "({}) + y", "-({})"])
def test_deeply_nested_arithmetic_does_not_grow_exponentially(step):
    events = pl.DataFrame({"@time": [0, 1], "x": [7, -7], "y": [2.5, 2.0]})
    nested = "x"
    for _ in range(90):
        nested = step.format(nested)
    expression = parse_expression(nested)
    values = stage_for(expression).apply(events)["x0"].to_list()
    assert values == [evaluate(expression, row) for row in events.to_dicts()]


def test_deeply_nested_conditions_do_not_grow_exponentially():
    events = pl.DataFrame({"@time": [0, 1], "b": [True, False], "c": [None, False]})
    nested = "b"
    for _ in range(90):
        nested = f"({nested}) IN (b, c)"
    expression = parse_expression(nested)
    values = stage_for(expression).apply(events)["x0"].to_list()
    assert values == [evaluate(expression, row) for row in events.to_dicts()]


def test_division_by_a_constant_is_rounded_once():
    numbers = [n / 7 for n in range(1, 500)]
    events = pl.DataFrame({"@time": range(len(numbers)), "x": numbers})
    values = stage_for(parse_expression("x / 3.7")).apply(events)["x0"].to_list()
    assert values == [number / 3.7 for number in numbers]


def test_columns_change_their_kinds_from_frame_to_frame():
    stage = stage_for(parse_expression("p = q"), parse_expression("x * x"))
    kinds = {
        "p": [[1], [1.0], ["1"], [True], [None], [1]],
        "q": [[1.0], [1], [1], [True], [1], [2]],
        "x": [[2], [2.5], [2**62], [None], [2**31], [2**32]],
    }
    frames = [pl.DataFrame({"@time": [0], **{name: kinds[name][n] for name in kinds}}) for n in range(6)]
    applied = [stage.apply(frame).select("x0", "x1").row(0) for frame in [*frames, *frames]]
    assert applied == 2 * [(True, 4), (True, 6.25), (False, None), (True, None), (None, 2**62), (False, None)]


def test_frames_without_events():
    empty = pl.DataFrame(schema={"@time": pl.Int64, "x": pl.Int64, "y": pl.Null})
    applied = stage_for(parse_expression("x + 1"), parse_expression("y"), where=parse_expression("x > 0")).apply(empty)
    assert applied.rows() == []
    assert applied.columns == ["@time", "x0", "x1"]


def test_a_long_chain_and_a_long_list():
    events = pl.DataFrame({"@time": [0, 1], "x": [1_999, -1]})
    chain = parse_expression(" OR ".join(f"x = {n}" for n in range(2_000)))
    listed = parse_expression("x IN (" + ", ".join(map(str, range(2_000))) + ", 1.5)")
    applied = stage_for(chain, listed).apply(events)
    assert applied.select("x0", "x1").rows() == [(True, True), (False, False)]


def test_what_the_stores_are_told():
    query = parse("SELECT MAX(time) m, COUNT(*) n, SUM(n / 2) FROM web GROUP BY p, s = 'x', n")
    stage = EventStage(analyze(query, {"web": Schema({"n": "integer", "time": "timestamp"}, open=True)}))
    assert stage.keys() == (("k0", "any"), ("k1", "boolean"), ("k2", "integer"))
    assert stage.aggregates() == (
        ("a0", "max", "x0", "integer", ()),
        ("a1", "count", None, "integer", ()),
        ("a2", "sum", "x1", "number", ()),
    )
    assert stage.order() == ()
    rows = EventStage(analyze(parse("SELECT p, b AND c AS d FROM web ORDER BY s LIKE 'a', n DESC"), CATALOG))
    assert rows.keys() == (("c0", "any"), ("c1", "boolean"))
    assert [plain[1:] for plain in rows.order()] == [
        (False, "integer"),  # s LIKE 'a'
        (True, "integer"),  # n
        (False, "integer"),  # the event's time
        (False, "integer"),  # p: its rank, as a number, what that rounds away, as a string
        (False, "number"),
        (False, "integer"),
        (False, "string"),
        (False, "integer"),  # d
    ]
