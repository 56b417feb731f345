"""Any text either compiles and runs, or raises QueryError, in bounded time."""

from __future__ import annotations

import polars as pl
import pytest
from case_files import read_cases
from hypothesis import example, given
from hypothesis import strategies as st
from seeds import slowly

from query import EventStage, Plan, QueryError, ResultStage, Schema, analyze, explain, format_query, keywords, parse
from query.functions import FUNCTIONS

pytestmark = pytest.mark.fuzz
QUERIES = [case.query for case in read_cases()]
CATALOG = {
    "t": Schema({"s": "string", "n": "integer", "x": "number", "b": "boolean", "ts": "timestamp"}, open=False),
    "web": Schema({}, open=True),
}
DTYPES = {"integer": pl.Int64, "number": pl.Float64, "boolean": pl.Boolean, "timestamp": pl.Datetime("ms", "UTC")}
WORDS = st.sampled_from(
    [*sorted(keywords()), *FUNCTIONS, "s", "n", "x", "b", "ts", "t", "web", "1", "2.5", "'a%'", "'(a|b)*'", "NULL",
     "(", ")", ",", "*", "+", "-", "/", "%", "=", "<>", "<", "||", ".", "'", '"', "`", "--", ";", "$", "1e400",
     "9223372036854775808", "COUNT", "SUM", "AVG"]
)  # fmt: skip
TEXTS = st.text(max_size=200) | st.lists(WORDS, max_size=30).map(" ".join)


@st.composite
def mutated(draw):
    """A query of the tests with words left out, doubled, moved or replaced."""
    words = draw(st.sampled_from(QUERIES)).split(" ")
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(words)))
        end = min(len(words), place + draw(st.integers(0, 3)))
        other = draw(
            st.sampled_from([[], words[place:end] * 2, words[:place], [draw(WORDS)], [draw(st.text(max_size=5))]])
        )
        words[place:end] = other[:50]
    return " ".join(words)


def compiled(text):
    """Compiles a query and, if it can be, runs its part on events; the plan, or None."""
    try:
        parsed = parse(text)
        plan = analyze(parsed, CATALOG)
    except QueryError:
        return None
    format_query(parsed)
    explain(plan)
    plan = Plan.from_wire(plan.to_wire())
    columns = {one.name: pl.Series([None], dtype=DTYPES.get(one.type, pl.String)) for one in plan.event_columns}
    if plan.join is None:
        EventStage(plan).apply(pl.DataFrame({"@time": [0], **columns}))
    ResultStage(plan)
    return plan


@given(TEXTS)
def test_random_texts(text):
    compiled(text)
    compiled(f"SELECT {text} FROM t")


@given(mutated())
@example("SELECT COUNT(*) FROM t WHERE s RLIKE '(a{1000}){1000}'")
@example("SELECT COUNT(*) FROM t WHERE s RLIKE '(x+x+)+y'")
def test_mutated_queries(text):
    compiled(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 50_000 + "1" + ")" * 50_000,
        "SELECT " + "NOT " * 20_000 + "b FROM t",
        "SELECT " + "-" * 60_000 + "1",
        "SELECT " + "CASE WHEN b THEN " * 3_000 + "1",
        "SELECT s FROM t WHERE s = '" + "a" * 1_000_000 + "'",
        "SELECT " + ".".join("a" * 30_000) + " FROM web",
        "SELECT COUNT(*) FROM t WHERE " + " AND ".join(f"s RLIKE '{n}'" for n in range(200)),
        "SELECT REPEAT(" * 40 + "'a'" + ", 1000)" * 40 + " FROM t WHERE s RLIKE '[a-z]{999}{999}'",
        "SELECT " + "SUM(" * 90 + "n" + ")" * 90 + " FROM t",
        *slowly(
            [  # shorter ones of their kinds are in test_query_errors
                "SELECT " + "n, " * 15_000 + "n FROM t",
                "SELECT n FROM t WHERE " + " OR ".join(["n = 1"] * 6_000),
                "SELECT n FROM t WHERE n IN (" + ",".join(map(str, range(9_000))) + ")",
                "SELECT " + " + ".join(["n"] * 5_000) + " FROM t",
            ]
        ),
    ],
    ids=lambda text: f"{text[:30]}… {len(text):,} characters",
)
def test_bombs_are_refused(text):
    with pytest.raises(QueryError) as raised:
        analyze(parse(text), CATALOG)
    assert len(str(raised.value)) < 2_000, "an error shows no more than a part of what is wrong"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n FROM t WHERE n IN (" + ", ".join(f"{n} + {n}" for n in range(2_000)) + ")",
        "SELECT " + "REPEAT(" * 40 + "'a'" + ", 1000)" * 40 + " AS r FROM t",
        "SELECT COUNT(*) FROM t WHERE " + " AND ".join(f"(n <> {n} OR b)" for n in range(500)),
        "SELECT " + "COALESCE(" * 90 + "s" + ", 'a')" * 90 + " AS c FROM t",
        "SELECT " + "(n + " * 90 + "1" + ")" * 90 + " AS c FROM t",
    ],
    ids=lambda text: f"{text[:30]}… {len(text):,} characters",
)
def test_what_is_large_but_within_limits_compiles(text):
    assert compiled(text) is not None
