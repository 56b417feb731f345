"""Functions and their arguments: what people are told, what is bounded, and that nothing but QueryError escapes."""

from __future__ import annotations

import time
from bisect import bisect

import msgpack
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_pipeline import run

from query import (
    EventStage,
    Plan,
    PlanError,
    QueryError,
    Schema,
    analyze,
    analyze_with_rules,
    explain,
    format_query,
    parse,
)
from query.functions import FUNCTIONS
from query.functions.function import TEXT_BYTES_MAX, ConstantError
from query.functions.regexes import SIZE_MAX, check_regex, compiled_size
from query.model.types import CASTS_TO
from query.syntax import ast
from query.syntax.printer import format_expression

COMPILED_S = 0.06
"""Work for a pattern of the largest size: four times what it takes."""
CATALOG = {
    "web": Schema({"status": "integer", "path": "string", "time": "timestamp", "n": "text"}, open=False),
    "shop": Schema({}, open=True),
}
MISTAKES = {
    "SELECT LOWR(path) FROM web": """
line 1, column 8: there is no function LOWR
  SELECT LOWR(path) FROM web
         ^^^^^^^^^^
did you mean LOWER?""",
    "SELECT SUBSTR(path) FROM web": """
line 1, column 8: SUBSTR cannot take 1 argument
  SELECT SUBSTR(path) FROM web
         ^^^^^^^^^^^^
it is written SUBSTR(text, start[, length]), as in SUBSTR('abcdef', 2, 3)""",
    "SELECT LOWER(status) FROM web": """
line 1, column 14: status is a number, not a string
  SELECT LOWER(status) FROM web
               ^^^^^^
it is written LOWER(text); CAST(status AS VARCHAR) makes one of it""",
    "SELECT LENGTH(*) FROM web": """
line 1, column 15: LENGTH takes no *
  SELECT LENGTH(*) FROM web
                ^
it is written LENGTH(text)""",
    "SELECT CAST(path AS VARCHR) FROM web": """
line 1, column 21: there is no type VARCHR
  SELECT CAST(path AS VARCHR) FROM web
                      ^^^^^^
did you mean VARCHAR?""",
    "SELECT path RLIKE '(a' FROM web": """
line 1, column 19: this regular expression cannot be used: unclosed group
  SELECT path RLIKE '(a' FROM web
                    ^^^^""",
    "SELECT IP_IN(path, '10.0.0.1/8') FROM web": """
line 1, column 20: this is no network, as '10.0.0.0/8' or '2001:db8::/32' are: 10.0.0.1/8 has host bits set
  SELECT IP_IN(path, '10.0.0.1/8') FROM web
                     ^^^^^^^^^^^^
as in IP_IN('10.1.2.3', '10.0.0.0/8', 'fc00::/7')""",
    "SELECT COALESCE(a, b) FROM shop": """
line 1, column 8: nothing says whether COALESCE(a, b) is a text or a number
  SELECT COALESCE(a, b) FROM shop
         ^^^^^^^^^^^^^^
say it with CAST, as in CAST(b AS VARCHAR)""",
    "SELECT CASE WHEN status THEN 1 END FROM web": """
line 1, column 18: status is a number, not true or false
  SELECT CASE WHEN status THEN 1 END FROM web
                   ^^^^^^""",
    "SELECT CASE WHEN status > 1 THEN 1 FROM web": """
line 1, column 36: FROM cannot stand here
  SELECT CASE WHEN status > 1 THEN 1 FROM web
                                     ^^^^
expected WHEN, ELSE or END""",
    "SELECT path FROM web WHERE status BETWEEN 1, 2": """
line 1, column 44: , cannot stand here
  SELECT path FROM web WHERE status BETWEEN 1, 2
                                             ^
expected an operator""",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_explained(text):
    with pytest.raises(QueryError) as caught:
        analyze(parse(text), CATALOG)
    assert str(caught.value) == MISTAKES[text].removeprefix("\n")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("COALESCE(status, path)", "status is a number and path is a string: they cannot be compared"),
        ("CASE WHEN status > 1 THEN path ELSE 0 END", "path is a string and 0 is a number: they cannot be compared"),
        ("status || path", "status is a number, not a string"),
        ("path BETWEEN 1 AND 2", "path is a string and 1 is a number: they cannot be compared"),
        ("path RLIKE path", "RLIKE needs a pattern in quotes"),
        ("path ILIKE path", "ILIKE needs a pattern in quotes"),
        ("REPLACE(path, path, 'a')", "REPLACE needs a constant as search"),
        ("REPEAT(path, 1.5)", "REPEAT needs a whole number as count"),
        ("REPEAT(path, 1001)", "a count from 0 to 1,000 is needed, not 1001"),
        ("LPAD(path, -1)", "a count from 0 to 1,000 is needed, not -1"),
        ("SPLIT_PART(path, '/', 0)", "parts are counted from 1, or from -1 at the end"),
        ("ROUND(status, 16)", "ROUND takes 0 to 15 digits, not 16"),
        ("DATE_TRUNC('fortnight', time)", "there is no fortnight of a time: there are millisecond, second, minute, "),
        ("EXTRACT(century FROM time)", "there is no century of a time: there are year, quarter, month, week, day, "),
        ("TIME_BUCKET('5 fortnights', time)", "an interval is written as '5 minutes': the units are millisecond, "),
        ("TIME_BUCKET(0, time)", "an interval is from 1 millisecond to 36,500 days long"),
        ("TIME_BUCKET('99999999999999 weeks', time)", "an interval is from 1 millisecond to 36,500 days long"),
        ("HOUR(status)", "status is a number, not a time"),
        ("HOUR('noon')", "'noon' is not a time"),
        ("CAST(time AS BIGINT)", "a number cannot be made of this: "),
        ("CAST(status AS TIMESTAMP)", "a time cannot be made of this: "),
        ("REGEXP_EXTRACT(path, '(a)', 2)", "the regular expression has no group 2: it has 1"),
        ("REGEXP_REPLACE(path, 'a', '$1')", "the regular expression has no group 1"),
        ("REGEXP_REPLACE(path, 'a', '$')", "a $ in a replacement is written $$, and a group as $1"),
        (r"path RLIKE '(a)\1'", "this regular expression cannot be used: backreferences are not supported"),
        ("path RLIKE '(?=a)'", "this regular expression cannot be used: look-around, including look-ahead and "),
        (f"path RLIKE '{'a' * 1_001}'", "a regular expression may have at most 1,000 characters"),
        ("path RLIKE '(a{100}){100}'", "this regular expression is too large with its repetitions written out"),
        (
            "path RLIKE '((a{100}b{2}){10}|[)]){2}'",
            "this regular expression is too large with its repetitions written out",
        ),
        (r"path RLIKE '\w{1000}'", "this regular expression is too large with its repetitions written out"),
        (r"REGEXP_LIKE(path, '\w{131}z7')", "this regular expression is too large with its repetitions written out"),
        (" OR ".join(f"path RLIKE '{n}'" for n in range(101)), "a query may have at most 100 regular expressions"),
        ("JSON_VALUE(path, 'a')", "a JSON path begins with $, as in '$.items[0].name'"),
        ("JSON_VALUE(path, '$.a[*]')", "the JSON path makes no sense at its character 4: steps are "),
        (f"JSON_VALUE(path, '${'.a' * 33}')", "a JSON path has at most 32 steps"),
        ("IP_IN(path, 'example.org')", "this is no network, as '10.0.0.0/8' or '2001:db8::/32' are: "),
        ("IP_TRUNC(path, 33)", "an IPv4 address has 0 to 32 bits, not 33"),
        ("URL_PARAM(path, '')", "the name of a parameter has 1 to 200 characters"),
        ("CASE " + "WHEN status = 1 THEN 2 " * 201 + "END", "a CASE may have at most 200 WHENs"),
        ("NULLIF(NULL, NULL)", "nothing says whether NULLIF(NULL, NULL) is a text or a number"),
    ],
)
def test_messages(expression, message):
    with pytest.raises(QueryError) as caught:
        analyze(parse(f"SELECT {expression} FROM web"), CATALOG)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "part", ["a", ".", "[^a-z]", "(?i:[a-z])", r"\d", r"\D", r"\w", r"\W", r"[\w-]", r"\p{L}", r"\pL", r"[^\PL.]"]
)
def test_no_pattern_that_is_taken_takes_long_to_compile(part):
    """A hundred queries with one each, on three agents, held up all other jobs' windows for a quarter of a minute."""
    times = bisect(range(10_000), SIZE_MAX, key=lambda times: compiled_size(f"{part}{{{times}}}"))
    with pytest.raises(ConstantError, match="too large"):
        check_regex(f"{part}{{{times}}}")
    began_s = time.process_time()
    check_regex(f"{part}{{{times - 1}}}")
    assert time.process_time() - began_s < COMPILED_S


def value_of(expression, **event):
    [row] = run(f"SELECT {expression} AS v FROM web", [event])
    return row["v"]


def test_texts_do_not_grow_without_bound():
    half, whole = "x" * (TEXT_BYTES_MAX // 2), "x" * TEXT_BYTES_MAX
    assert value_of("a || a", a=half) == half * 2
    assert value_of("a || a || 'x'", a=half) is None
    assert value_of("CONCAT(a, 'x')", a=whole) is None
    assert value_of("REPEAT(a, 1000)", a="x" * 66) is None
    assert len(value_of("REPEAT(a, 1000)", a="x" * 65)) == 65_000
    assert value_of("REPLACE(a, 'x', 'xyz')", a=half) is None
    assert value_of("REPLACE(a, 'x', '')", a=whole + whole) == ""
    assert value_of("REGEXP_REPLACE(a, 'x', '$0$0$0')", a=half) is None
    assert value_of("REGEXP_REPLACE(a, '.', 'é')", a=whole) is None
    doubled = "a"
    for _ in range(40):
        doubled = f"REPLACE({doubled}, 'x', 'xx')"
    assert value_of(doubled, a="x") is None


@pytest.mark.parametrize(
    "pattern", [r"\w{50}", "(?i)(éa{3}){400}", "[^a]{130}", r"(\pL\d){36}", "(a|b|c){280}", ".{133}"]
)
def test_patterns_are_bounded_by_what_they_are_with_their_repetitions_written_out(pattern):
    check_regex(pattern)
    with pytest.raises(ConstantError, match="too large"):
        check_regex(pattern * 4)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a*)*$",
        "(a|aa)+$",
        "(.*)*x",
        r"([\w.]+)+@",
        "(a?){50}a{50}",
        "(?i)(é|É)*z",
        "a{0,500}b{0,500}c",
        "a{0,900}a{0,900}",
    ],
)
def test_no_pattern_back_tracks(pattern):
    """One that did would not come to an end."""
    text = "a" * 50_000
    assert value_of(f"a RLIKE '{pattern}'", a=text + "!") is not None


NESTED = [(one, place) for one in FUNCTIONS.values() for place, _ in enumerate(one.parameters)]
NESTED = [(one, place) for one, place in NESTED if not one.parameters[place].constant]
AS_TYPE = {"string": "CAST({} AS VARCHAR)", "number": "CAST({} AS DOUBLE)", "boolean": "CAST({} AS BOOLEAN)",
           "timestamp": "TO_TIMESTAMP(CAST({} AS DOUBLE))", "same": "{}", "any": "{}"}  # fmt: skip


@pytest.mark.parametrize(("function", "place"), NESTED, ids=lambda one: getattr(one, "name", str(one)))
def test_nested_functions_do_not_grow_exponentially(function, place):
    """Each argument of each function is another call of it, two dozen times over."""
    example = parse(f"SELECT {function.example}").select[0].expression
    others = [format_expression(one) for one in example.arguments]
    others += ["1"] * (place + 1 - len(others))
    types = [one.type for one in example.arguments if isinstance(one, ast.Literal) and one.type != "null"]
    nested = "CAST(a AS VARCHAR)" if types[:1] == ["string"] else "CAST(b AS DOUBLE)"
    gives = "EPOCH_MS({})" if function.gives == "timestamp" else "{}"
    for _ in range(24):
        others[place] = AS_TYPE[function.parameters[place].type].format(nested)
        nested = gives.format(f"{function.name}({', '.join(others)})")
    run(f"SELECT {nested} AS v FROM web", [{"a": "x", "b": 5}])


@pytest.mark.parametrize(
    "step", ["CASE WHEN {0} > 'b' THEN {0} END", "CAST(CAST({} AS TIMESTAMP) AS VARCHAR)", "{} || 'x'"]
)
def test_nested_operators_run(step):
    nested = "a || ''"
    for _ in range(6 if "{0}" in step else 45):
        nested = step.format(nested)
    value_of(nested, a="a")


def test_a_case_of_many_branches_inside_others_runs():
    branches = " ".join(f"WHEN a = {n} THEN {n + 1}" for n in range(200))
    nested = f"CASE {branches} ELSE 0 END"
    for _ in range(10):
        nested = f"CASE WHEN a = -1 THEN 0 ELSE {nested} END"
    assert value_of(nested, a=199) == 200


def test_a_time_in_json_is_a_time_where_a_function_takes_it_as_one():
    events = [{"at": "2024-05-01T12:34:56Z"}, {"at": "2024-05-01T12:59:00Z"}, {"at": 5}, {}]
    rows = run("SELECT DATE_TRUNC('hour', at) AS hour, COUNT(*) AS n FROM web GROUP BY hour", events)
    assert rows == [{"hour": "2024-05-01T12:00:00Z", "n": 2}, {"hour": None, "n": 2}]


def test_explain_and_the_printer_know_every_operation():
    texts = [one.example for one in FUNCTIONS.values()]
    texts += ["CASE a WHEN 1 THEN 'x' ELSE 'y' END", "CASE WHEN a > 1 THEN 'x' END", "CAST(a AS DOUBLE)",
              "s || t || 'u'", "a NOT BETWEEN 1 AND 2", "s ILIKE 'a%'", "s NOT RLIKE 'a'"]  # fmt: skip
    for text in texts:
        query = parse(f"SELECT a FROM shop WHERE ({text}) IS NULL")
        assert parse(format_query(query)) == query
        step = explain(analyze_with_rules(query, CATALOG, rules=()).plan).agent[1]
        assert step == "keep events WHERE " + format_expression(query.where)


# Hostile plans


def wire(where):
    plan = analyze(parse("SELECT s, n FROM shop WHERE s = 'x' AND n = 1"), CATALOG).to_wire()
    return {**plan, "where": where}


def text(value):
    return ["value", "string", value]


@pytest.mark.parametrize(
    "where",
    [
        ["is_null", ["LOWER"]],
        ["is_null", ["LOWER", "n"]],
        ["is_null", ["LOWER", "s", "s"]],
        ["is_null", ["lower", "s"]],
        ["REGEXP_LIKE", "s", "s"],
        ["REGEXP_LIKE", "s", text("(")],
        ["REGEXP_LIKE", "s", text("a" * 1_001)],
        ["rlike", "s", text(r"\w{1000}")],
        ["rlike", "s", text("((a{100}){100}){100}")],
        ["rlike", "s", "s"],
        ["or", *[["rlike", "s", text(str(number))] for number in range(201)]],
        ["ilike", "s", "s"],
        ["ilike", "s", text("\\")],
        ["is_null", ["REPEAT", "s", ["value", "integer", 10**9]]],
        ["is_null", ["REPEAT", "s", ["value", "number", 2.5]]],
        ["is_null", ["LPAD", "s", ["value", "integer", 10**9]]],
        ["is_null", ["ROUND", "n", ["value", "integer", 400]]],
        ["is_null", ["JSON_VALUE", "s", text("$$..")]],
        ["IP_IN", "s", text("10.0.0.0/99")],
        ["IP_IN", "s"],
        ["is_null", ["DATE_TRUNC", text("eon"), ["to_timestamp", "s"]]],
        ["is_null", ["TIME_BUCKET", ["value", "boolean", True], ["to_timestamp", "s"]]],
        ["is_null", ["COALESCE", "s", "n"]],
        ["is_null", ["COALESCE"]],
        ["is_null", ["case", ["=", "n", "n"], "s"]],
        ["is_null", ["case", ["=", "n", "n"], "s", "n"]],
        ["is_null", ["case", "n", "s", "s"]],
        ["is_null", ["case", *[["=", "n", "n"], "n"] * 201, "n"]],
        ["is_null", ["switch", "n", "s", "n", "n"]],
        ["is_null", ["switch", "n", "n"]],
        ["is_null", ["to_timestamp", "n"]],
        ["is_null", ["to_text", "n"]],
        ["is_null", ["||", "s"]],
        ["is_null", ["||", "s", "n"]],
        ["between", "n", "n"],
        ["between", "s", "n", "n"],
    ],
    ids=lambda where: str(where)[:60],
)
def test_hostile_operations_are_refused(where):
    with pytest.raises(PlanError):
        Plan.from_wire(wire(where))


# Random calls

COLUMNS = {"i": st.integers(-(2**63), 2**63 - 1), "x": st.floats(allow_nan=False, allow_infinity=False),
           "s": st.text(max_size=12), "b": st.booleans(), "t": st.integers(-(2**63), 2**63 - 1)}  # fmt: skip
DTYPES = {"i": pl.Int64, "x": pl.Float64, "s": pl.String, "b": pl.Boolean, "t": pl.Int64}
RANDOM = {"web": Schema({"i": "integer", "x": "number", "s": "string", "b": "boolean", "t": "timestamp"}, open=False)}
TEXTS = st.sampled_from(["", "a", "/a?b=%41&c", "10.0.0.0/8", "::1", "(a)|b", "$.a[0]", "5 minutes", "hour", "é",
                         '{"a": [1]}', "2024-02-30", "1e999", "-", "$1", "year"])  # fmt: skip
LITERALS = st.one_of(
    st.one_of(TEXTS, st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=6)).map(
        lambda value: ast.Literal(value, "string")
    ),
    st.one_of(st.integers(-3, 40), st.integers(-(2**63), 2**63 - 1)).map(lambda value: ast.Literal(value, "integer")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: ast.Literal(value, "number")),
    st.booleans().map(lambda value: ast.Literal(value, "boolean")),
    st.just(ast.Literal(None, "null")),
)
LEAVES = st.one_of(LITERALS, st.sampled_from([ast.ColumnRef((name,)) for name in COLUMNS]))
_TYPED = {"string": "s", "number": "x", "integer": "i", "boolean": "b", "timestamp": "t"}


@st.composite
def calls(draw, inner):
    """A call of a function, more often than not of arguments it takes."""
    function = draw(st.sampled_from(list(FUNCTIONS.values())))
    count = draw(st.integers(0, len(function.parameters) + 1))
    arguments = []
    for place in range(max(1, count)):
        parameter = function.parameter(place)
        fitting = LITERALS if parameter.constant else st.just(ast.ColumnRef((_TYPED.get(parameter.type, "s"),)))
        arguments.append(draw(st.one_of(fitting, fitting, inner)))
    return ast.FunctionCall(function.name, tuple(arguments))


def compound(inner):
    pairs = st.lists(st.tuples(inner, inner), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        calls(inner),
        calls(inner),
        st.builds(ast.Cast, inner, st.sampled_from(list(CASTS_TO))),
        st.builds(ast.Case, st.none() | inner, pairs, st.none() | inner),
        st.builds(ast.Between, inner, inner, inner, st.booleans()),
        st.builds(ast.Like, inner, LITERALS, st.booleans(), st.sampled_from(["LIKE", "ILIKE", "RLIKE"])),
        st.builds(ast.Binary, st.just("||"), inner, inner),
    )


EXPRESSIONS = st.recursive(LEAVES, compound, max_leaves=6).filter(lambda node: not isinstance(node, ast.Literal))
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | values for name, values in COLUMNS.items()}), max_size=4)


@pytest.mark.fuzz
@given(EXPRESSIONS, ROWS)
def test_a_random_expression_is_refused_or_runs(expression, rows):
    query = parse(format_query(ast.Query((ast.SelectItem(expression, "v"),), ast.Stream("web"))))
    assert query.select[0].expression == expression
    try:
        plan = analyze(query, RANDOM)
    except QueryError:
        return
    packed = msgpack.packb(plan.to_wire())
    plan = Plan.from_wire(msgpack.unpackb(packed))
    assert explain(plan)
    schema = {"@time": pl.Int64, **DTYPES}
    frame = pl.DataFrame([{"@time": 0, **row} for row in rows], schema=schema)
    applied = EventStage(plan).apply(frame)
    assert applied.height == len(rows)
    # A row alone gives what it gives beside others.
    alone = [EventStage(plan).apply(frame[n])["c0"].to_list() for n in range(len(rows))]
    assert [value for values in alone for value in values] == applied["c0"].to_list()
