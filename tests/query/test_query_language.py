"""ELF QL's texts are parsed, and printing and parsing are inverse."""

from __future__ import annotations

import re
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from query import QueryError, Schema, analyze, format_query, parse
from query.model.limits import INTEGER_MAX, INTEGER_MIN
from query.syntax import ast
from query.syntax import ast as ast_windows

FIGURE_4 = (
    "SELECT product,SUM(clicks_count) FROM * WHERE store == `video_games` GROUP BY product "
    "SORT BY SUM(clicks_count) DESC LIMIT 10 WINDOWING 30 SECONDS;"
)


def test_figure_4_parses_as_printed():
    clicks = ast.AggregateCall("SUM", (ast.ColumnRef(("clicks_count",)),))
    assert parse(FIGURE_4) == ast.Query(
        select=(ast.SelectItem(ast.ColumnRef(("product",))), ast.SelectItem(clicks)),
        source=ast.Stream("*"),
        where=ast.Binary("=", ast.ColumnRef(("store",)), ast.Literal("video_games", "string")),
        group_by=(ast.ColumnRef(("product",)),),
        order_by=(ast.OrderItem(clicks, descending=True),),
        limit=10,
        window=ast_windows.WindowClause((ast_windows.SizeClause(ast_windows.Duration(30, "SECONDS")),)),
    )


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("select A from B", "SELECT A FROM B"),
        ("SELECT a aS b, c d FROM x", "SELECT a AS b, c AS d FROM x"),
        ("SELECT *, a FROM *", "SELECT *, a FROM *"),
        ("SELECT a", "SELECT a"),
        ("SELECT a -- why\nFROM x -- end", "SELECT a FROM x"),
        ("SELECT 'it''s', `a``b`, `it's`", "SELECT 'it''s', 'a`b', 'it''s'"),
        ('SELECT "order by", "a""b", "a b"."c"', 'SELECT "order by", "a""b", "a b".c'),
        ("SELECT user.location, user.from, @timestamp", 'SELECT user.location, user."from", @timestamp'),
        (
            "SELECT limit, group, order, seconds, asc FROM x",
            'SELECT "limit", "group", "order", seconds, "asc" FROM x',
        ),
        ("SELECT a WHERE limit > 5 GROUP BY order", 'SELECT a WHERE "limit" > 5 GROUP BY "order"'),
        ("SELECT a WHERE a==1 AND b=2 OR NOT c!=3", "SELECT a WHERE a = 1 AND b = 2 OR NOT c <> 3"),
        ("SELECT a WHERE (a OR b) AND (c AND d)", "SELECT a WHERE (a OR b) AND (c AND d)"),
        ("SELECT (a+b)*c - d//e%f/g", "SELECT (a + b) * c - d // e % f / g"),
        ("SELECT a-(b-c), (a-b)-c", "SELECT a - (b - c), a - b - c"),
        ("SELECT -a, -(-a), - -5, 3 - -5, -5", "SELECT -a, -(-a), -(-5), 3 - -5, -5"),
        ("SELECT 1, 1.0, .5, 5., 1e3, 1E-3", "SELECT 1, 1.0, 0.5, 5.0, 1000.0, 0.001"),
        ("SELECT TRUE, false, Null", "SELECT TRUE, FALSE, NULL"),
        ("SELECT a NOT IN (1, 'b', c)", "SELECT a NOT IN (1, 'b', c)"),
        ("SELECT a LIKE 'x%', a NOT LIKE '_'", "SELECT a LIKE 'x%', a NOT LIKE '_'"),
        ("SELECT a between 1 And b+1 AND c", "SELECT a BETWEEN 1 AND b + 1 AND c"),
        ("SELECT a Not Between (b and c) AND d", "SELECT a NOT BETWEEN (b AND c) AND d"),
        ("SELECT a ilike 'x', a NOT regexp 'y'", "SELECT a ILIKE 'x', a NOT RLIKE 'y'"),
        ("SELECT a||b || c = d", "SELECT a || b || c = d"),
        ("SELECT case a when 1 then 2 end", "SELECT CASE a WHEN 1 THEN 2 END"),
        (
            "SELECT CASE WHEN a THEN b WHEN c THEN d ELSE e END x",
            "SELECT CASE WHEN a THEN b WHEN c THEN d ELSE e END AS x",
        ),
        ("SELECT try_cast(a AS int), Cast (b as string)", "SELECT CAST(a AS BIGINT), CAST(b AS VARCHAR)"),
        ("SELECT extract(HOUR FROM a), lower(b)", "SELECT DATE_PART('hour', a), LOWER(b)"),
        ("SELECT cast, extract, left, when FROM x", 'SELECT cast, extract, left, "when" FROM x'),
        ("SELECT start, end FROM x WHERE start < end", 'SELECT start, "end" FROM x WHERE start < "end"'),
        ("SELECT a IS NULL, a+1 IS NOT NULL", "SELECT a IS NULL, a + 1 IS NOT NULL"),
        ("SELECT (a = b) = (c < d), (a IS NULL) IN (b)", "SELECT (a = b) = (c < d), (a IS NULL) IN (b)"),
        ("SELECT count(*), Sum(x), NOT NOT a", "SELECT COUNT(*), SUM(x), NOT NOT a"),
        ("SELECT a ORDER BY a, b DESC, c ASC", "SELECT a ORDER BY a, b DESC, c"),
        ("SELECT a ORDER BY a nulls first, b DESC NULLS  LAST", "SELECT a ORDER BY a NULLS FIRST, b DESC"),
        ("select distinct a, b", "SELECT DISTINCT a, b"),
        ("SELECT count(distinct a), f(DISTINCT a, 2)", "SELECT COUNT(DISTINCT a), F(DISTINCT a, 2)"),
        ("SELECT sum(a) filter (where b > 1) c", "SELECT SUM(a) FILTER (WHERE b > 1) AS c"),
        ("SELECT a GROUP BY a having count(*) > 1 OR b", "SELECT a GROUP BY a HAVING COUNT(*) > 1 OR b"),
        (
            "SELECT COUNT(*) filter, nulls ORDER BY nulls nulls first",
            "SELECT COUNT(*) AS filter, nulls ORDER BY nulls NULLS FIRST",
        ),
        ("SELECT having, first, last WHERE filter = having", 'SELECT "having", first, last WHERE filter = "having"'),
        ("SELECT a LIMIT 0 WINDOWING 1 day", "SELECT a LIMIT 0 WINDOWING 1 DAYS"),
        ("SELECT trees trees 3", 'SELECT "trees" TREES 3'),
        (
            "SELECT a WHERE trees > 1 LIMIT 1 WINDOWING 1 DAY trees 64;",
            'SELECT a WHERE "trees" > 1 LIMIT 1 WINDOWING 1 DAYS TREES 64',
        ),
        ("SELECT a WINDOWING 5 Milliseconds ;", "SELECT a WINDOWING 5 MILLISECONDS"),
        ("SELECT -9223372036854775808", "SELECT -9223372036854775808"),
        ("SELECT\N{NO-BREAK SPACE}größe", "SELECT größe"),
    ],
)
def test_forms(text, printed):
    query = parse(text)
    assert format_query(query) == printed
    assert parse(printed) == query


def test_and_and_or_chains_are_flat_but_parentheses_are_kept():
    names = [ast.ColumnRef((name,)) for name in "abc"]
    assert parse("SELECT a AND b AND c").select[0].expression == ast.Logical("AND", tuple(names))
    nested = ast.Logical("AND", (ast.Logical("AND", tuple(names[:2])), names[2]))
    assert parse("SELECT (a AND b) AND c").select[0].expression == nested


def test_literals_of_different_types_are_different():
    texts = ["1", "1.0", "TRUE", "'1'", "NULL"]
    assert len({parse(f"SELECT {text}") for text in texts}) == len(texts)


def test_places_are_no_part_of_equality():
    query = parse("SELECT   a\nFROM web")
    assert query == parse("SELECT a FROM web")
    assert query.text[query.select[0].span.start] == "a"


NAMES = st.one_of(
    st.text(string.ascii_letters + "_", min_size=1, max_size=6),
    st.sampled_from(
        [
            "select",
            "From",
            "@timestamp",
            "order",
            "limit",
            "a b",
            'say "hi"',
            "größe",
            "1st",
            "a.b",
            "distinct",
            "end",
            "between",
            "cast",
            "@",
        ]
    ),
)
PRINTABLE = st.characters(exclude_categories=["Cc", "Cs"])
LITERALS = st.one_of(
    st.integers(INTEGER_MIN, INTEGER_MAX).map(lambda value: ast.Literal(value, "integer")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: ast.Literal(value, "number")),
    st.text(PRINTABLE, max_size=8).map(lambda value: ast.Literal(value, "string")),
    st.booleans().map(lambda value: ast.Literal(value, "boolean")),
    st.just(ast.Literal(None, "null")),
)
COLUMNS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: ast.ColumnRef(tuple(parts)))
OPERATORS = ["||", "+", "-", "*", "/", "//", "%", "=", "<>", "<", "<=", ">", ">="]


def is_number(node):
    return isinstance(node, ast.Literal) and node.type in ("integer", "number") and node.value >= 0


def branches(inner):
    return st.lists(st.tuples(inner, inner), min_size=1, max_size=2).map(tuple)


def compound(inner):
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(ast.Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(ast.Logical, st.sampled_from(["AND", "OR"]), several),
        st.builds(ast.Unary, st.just("NOT"), inner),
        # Minus before a number is a negative number.
        st.builds(ast.Unary, st.just("-"), inner.filter(lambda node: not is_number(node))),
        st.builds(ast.In, inner, several, st.booleans()),
        st.builds(ast.Like, inner, inner, st.booleans(), st.sampled_from(["LIKE", "ILIKE", "RLIKE"])),
        st.builds(ast.Between, inner, inner, inner, st.booleans()),
        st.builds(ast.Case, st.none() | inner, branches(inner), st.none() | inner),
        st.builds(ast.Cast, inner, st.sampled_from(["VARCHAR", "BIGINT", "TIMESTAMP"])),
        st.builds(ast.FunctionCall, st.sampled_from(["LEFT", "REPLACE", "IF"]), several),
        st.builds(ast.IsNull, inner, st.booleans()),
        st.builds(
            ast.AggregateCall,
            st.sampled_from(["SUM", "COUNT", "F G"]),
            several,
            st.booleans(),
            st.one_of(st.none(), inner),
        ),
        st.just(ast.AggregateCall("COUNT", (ast.Star(),))),
    )


EXPRESSIONS = st.recursive(st.one_of(LITERALS, COLUMNS), compound, max_leaves=8)
ITEMS = st.one_of(
    st.just(ast.SelectItem(ast.Star())), st.builds(ast.SelectItem, EXPRESSIONS, st.one_of(st.none(), NAMES))
)
ALIASES = st.one_of(st.none(), NAMES)
APPS = st.builds(ast.App, st.one_of(NAMES, st.just("it's")), ALIASES)
SOURCES = st.one_of(st.builds(ast.Stream, st.one_of(NAMES, st.just("*")), ALIASES), APPS)
JOINS = st.builds(ast.Join, APPS, EXPRESSIONS, st.booleans())


@st.composite
def queries(draw):
    """JOIN needs a FROM."""
    query = draw(UNJOINED)
    query = query if query.window is None else replace(query, changes=draw(st.booleans()))
    return query if query.source is None else replace(query, join=draw(st.one_of(st.none(), JOINS)))


DURATIONS = st.builds(ast_windows.Duration, st.integers(0, 999), st.sampled_from(["SECONDS", "DAYS"]))
GRACES = st.one_of(st.none(), DURATIONS)
SIZES = st.builds(ast_windows.SizeClause, DURATIONS, GRACES)
WINDOWS = st.one_of(
    st.builds(ast_windows.WindowClause, st.lists(SIZES, min_size=1, max_size=3).map(tuple), st.none(), GRACES),
    st.builds(ast_windows.WindowClause, st.just(()), DURATIONS, GRACES),
)
WITHINS = st.builds(
    ast.WithinClause,
    DURATIONS,
    st.one_of(st.none(), st.floats(50, 99.9), st.integers(50, 99).map(float)),
    st.booleans(),
    st.sampled_from([None, "LATE", "PARTIAL"]),
).map(lambda clause: replace(clause, percent=None) if clause.is_average else clause)
UNJOINED = st.builds(
    ast.Query,
    select=st.lists(ITEMS, min_size=1, max_size=3).map(tuple),
    source=st.one_of(st.none(), SOURCES),
    where=st.one_of(st.none(), EXPRESSIONS),
    group_by=st.lists(EXPRESSIONS, max_size=2).map(tuple),
    order_by=st.lists(st.builds(ast.OrderItem, EXPRESSIONS, st.booleans(), st.booleans()), max_size=2).map(tuple),
    limit=st.one_of(st.none(), st.integers(0, 10**12)),
    window=st.one_of(st.none(), WINDOWS),
    within=st.one_of(st.none(), WITHINS),
    distinct=st.booleans(),
    having=st.one_of(st.none(), EXPRESSIONS),
)
QUERIES = queries()


@given(QUERIES)
def test_what_is_printed_parses_to_the_same_query(query):
    assert parse(format_query(query)) == query


CATALOG = {"web": Schema({"status": "integer", "path": "string", "time": "timestamp", "n": "text"}, open=False)}
SEEDS = [
    FIGURE_4,
    "SELECT path, COUNT(*) n FROM web WHERE status >= 500 AND path NOT LIKE '/x%' GROUP BY path ORDER BY n",
    "SELECT CASE status WHEN 1 THEN LOWER(path) ELSE path || 'x' END FROM web WHERE CAST(n AS DOUBLE) BETWEEN 1 AND 2",
    "SELECT EXTRACT(hour FROM time), SUBSTR(path, 2, 3) FROM web WHERE path RLIKE '^/[a-z]+' OR path NOT ILIKE '/A%'",
    "SELECT * FROM web WHERE time IN ('2024-01-01', NULL) LIMIT 5 WINDOWING 1 DAY",
    "SELECT path, COUNT(*) FROM web GROUP BY path WINDOWING 1 DAY TREES 4",
    "SELECT COUNT(*) FROM web WINDOWING 1 DAY GRACE 1 SECOND WITHIN 5 SECONDS AT 99.5 PERCENT ELSE PARTIAL",
    "SELECT MAX(status) / SUM(n) - 1.5e3, window_start FROM web GROUP BY 2 WINDOWING 5 MINUTES;",
    "SELECT n, COUNT(DISTINCT path) FILTER (WHERE status > 1), HISTOGRAM(status, 1, 2) h FROM web GROUP BY n HAVING "
    "MIN(n) > 1 ORDER BY COLLECT(path, 5) DESC NULLS FIRST",
    "SELECT DISTINCT path, status FROM web ORDER BY 2 NULLS FIRST, path LIMIT 3",
    "SELECT t.path, SUM(t.n) FROM app('top') AS t LEFT JOIN app('b') ON t.path = b.path AND t.a = b.a GROUP BY t.path",
]
WORDS = """SELECT FROM WHERE GROUP ORDER BY LIMIT WINDOWING TREES AND OR NOT IN LIKE IS NULL TRUE AS DESC
DISTINCT CASE ( ) , ; * + - / // % = == <> < 'a' ` ' " . .. 1 1.5 1e9 99999999999999999999
CASE WHEN THEN ELSE END BETWEEN ILIKE RLIKE || CAST( EXTRACT( LOWER( COALESCE(
SECONDS path status time n COUNT( SUM( app( app('b') JOIN LEFT INNER ON b.path ON
HAVING FILTER (WHERE NULLS FIRST APPROX_QUANTILE( HISTOGRAM( COLLECT( 0.5
WITHIN AT PERCENT AVERAGE LATE PARTIAL EMIT CHANGES
-- é @"""
FRAGMENTS = st.sampled_from([*WORDS.split(), "\n", "\x00", " "])


def only_query_errors(text):
    try:
        query = parse(text)
        analyze(query, CATALOG)
        analyze(query, {"web": Schema({"path": "any"}, open=True)})
    except QueryError as error:
        line, column, _ = re.match(r"line (\d+), column (\d+): (.+)", str(error)).groups()
        if (int(line), int(column)) != (error.line, error.column):
            raise


@pytest.mark.fuzz
@given(st.text(max_size=60))
def test_random_text_raises_query_errors_only(text):
    only_query_errors(text)
    only_query_errors("SELECT " + text)


@pytest.mark.fuzz
@given(st.lists(FRAGMENTS, max_size=25))
def test_random_words_raise_query_errors_only(words):
    only_query_errors(" ".join(words))
    only_query_errors("SELECT " + " ".join(words))


@pytest.mark.fuzz
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_queries_raise_query_errors_only(seed, data):
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(seed)))
        end = data.draw(st.integers(start, min(len(seed), start + 8)))
        seed = seed[:start] + data.draw(st.one_of(FRAGMENTS, st.text(max_size=3))) + seed[end:]
    only_query_errors(seed)


@pytest.mark.fuzz
@given(QUERIES)
def test_any_tree_raises_query_errors_only(query):
    only_query_errors(format_query(query))
