"""The table of aggregates, what they answer however events are dealt, and within which errors."""

from __future__ import annotations

import json
from random import Random

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_pipeline import OPEN, homogeneous_frames, run

import cbt
from cbt.aggregates.functions import pao_of
from cbt.algebra.items import ItemPao
from query import EventStage, Schema, aggregate_texts, analyze, analyze_with_rules, explain, parse, relative_error
from query.functions.aggregates import AGGREGATES, DISTINCT_MAX
from query.model.types import TypeMismatchError

FEW = settings(max_examples=max(1, settings.default.max_examples // 4))
COLUMNS = {"ms": "number", "path": "string", "user": "any"}
TYPES = ("any", "number", "integer", "string", "boolean", "timestamp")


def paos_of(expression):
    plan = analyze(parse(f"SELECT {expression} FROM web"), OPEN)
    return plan, [pao_of(cbt.Aggregate(*one)) for one in EventStage(plan).aggregates()]


@pytest.mark.parametrize("key", AGGREGATES)
def test_rows_of_the_table_say_what_the_functions_are(key):
    row = AGGREGATES[key]
    plan, (pao,) = paos_of(row.example)
    assert plan.aggregates[0].function == key.lower()
    assert isinstance(pao, ItemPao) == row.wide
    assert bool(pao.inputs) == row.timed
    if isinstance(pao, ItemPao):
        assert (pao.limited() is not None) == (row.limit is not None)
        assert (pao.error is not None) == (row.error is not None)
        if row.error is not None:
            assert relative_error(plan) == pytest.approx(pao.error, rel=5e-3)
        if row.limited_error is not None:
            assert relative_error(plan) is None
            assert relative_error(plan, ["a0"]) == pytest.approx(pao.limited_error, rel=5e-3)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("key", AGGREGATES)
def test_every_type_that_the_table_takes_can_be_kept(key, type_):
    row = AGGREGATES[key]
    try:
        assert row.result_type(type_) in TYPES
    except TypeMismatchError:
        return
    parameters = row.complete((0.5,) if row.parameters and row.parameters[0].default is None else ())
    stored = "integer" if type_ == "timestamp" else type_
    pao_of(cbt.Aggregate("a", row.function, "x", stored, row.arguments(parameters)))


def test_examples_print_as_they_are_written():
    for row in AGGREGATES.values():
        plan, _ = paos_of(row.example)
        assert list(aggregate_texts(plan).values()) == [row.example]


@pytest.mark.parametrize(
    "written",
    [
        "APPROX_QUANTILE(ms, 0.5, 1000)",
        "HISTOGRAM(ms, 0, 1.5, 10) FILTER (WHERE ms > 0)",
        "COUNT(*) FILTER (WHERE a OR b)",
        "COUNT(DISTINCT a) FILTER (WHERE b IS NOT NULL)",
        "APPROX_TOP_K(a, 5, 100)",
    ],
)
def test_calls_are_explained_as_they_are_written(written):
    assert explain(analyze_with_rules(parse(f"SELECT {written} FROM web"), OPEN, rules=()).plan).aggregates == (
        written,
    )


def test_what_is_approximate_or_limited_is_explained():
    text = "SELECT COUNT(DISTINCT u), APPROX_MEDIAN(x), COLLECT(u, 3), SUM(x) FROM web HAVING COUNT(*) > 1"
    explained = explain(analyze(parse(text), OPEN))
    assert explained.tree[1:] == (
        "COUNT(DISTINCT u): exact up to 65,536 values of a group; of more it estimates how many, within 1 % in 99 of "
        "100 cases",
        "APPROX_MEDIAN(x) is approximate: within 1.3 % of all values, in rank, in 99 of 100 cases",
        "COLLECT(u, 3): the first 3 values of a group; others are left out",
    )
    assert "keep groups HAVING COUNT(*) > 1" in explained.master


def test_the_same_calls_are_computed_once():
    text = (
        "SELECT COUNT(DISTINCT a), COUNT(DISTINCT a) * 2 AS b, SUM(a) FILTER (WHERE b > 1), "
        "SUM(a) FILTER (WHERE b > 1) + 1 AS c, APPROX_QUANTILE(a, 0.5), APPROX_QUANTILE(a, 0.5, 200) AS d, "
        "APPROX_QUANTILE(a, 0.9) FROM web"
    )
    assert len(analyze(parse(text), OPEN).aggregates) == 4


EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "@time": st.integers(0, 5),
            "g": st.sampled_from(["a", "b", None]),
            "v": st.one_of(st.integers(-3, 3), st.sampled_from([0.5, "a", 'b"c', ""]), st.booleans(), st.none()),
            "x": st.one_of(st.none(), st.integers(-9, 9), st.integers(-99, 99).map(lambda n: n / 4)),
            "b": st.sampled_from([True, False, None]),
        }
    ),
    max_size=25,
)
ANY = ["COUNT(DISTINCT v)", "FIRST(v)", "LAST(v)", "ANY_VALUE(v)", "APPROX_COUNT_DISTINCT(v)", "COLLECT(v, 4)",
       "COLLECT_SET(v, 3)", "APPROX_TOP_K(v, 2)"]  # fmt: skip
NUMBERS = ["VARIANCE(x)", "STDDEV_POP(x)", "APPROX_QUANTILE(x, 0.3)", "APPROX_MEDIAN(x)", "HISTOGRAM(x, 2)",
           "HISTOGRAM(x, 0, 5)", "FIRST(x)", "COUNT(DISTINCT x)", "SUM(x)"]  # fmt: skip
CALLS = st.sampled_from([*ANY, *NUMBERS, "BOOL_AND(b)", "BOOL_OR(b)", "EVERY(x > 0)", "COUNT(*)"])
FILTERS = st.sampled_from(["", " FILTER (WHERE b)", " FILTER (WHERE x > 0)", " FILTER (WHERE v IS NOT NULL AND NOT b)"])
TAILS = st.sampled_from(
    [
        "",
        " HAVING COUNT(*) > 2",
        " ORDER BY g DESC NULLS FIRST",
        " HAVING SUM(x) > 0 ORDER BY SUM(x) NULLS FIRST LIMIT 2",
    ]
)


@FEW
@given(
    st.lists(st.tuples(CALLS, FILTERS).map("".join), min_size=1, max_size=4, unique=True),
    TAILS,
    EVENTS,
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_results_do_not_depend_on_how_events_are_dealt(calls, tail, events, agents, random):
    def dealt(plan, events):
        shuffled = random.sample(events, len(events))
        return [frame for n in range(agents) for frame in homogeneous_frames(plan, shuffled[n::agents])]

    text = f"SELECT g, {', '.join(calls)} FROM web GROUP BY g{tail}"
    assert json.dumps(run(text, events, frames=dealt)) == json.dumps(run(text, events)), text


PICK = Random(26)
SKEWED = [int(10 ** PICK.uniform(0, 6)) for _ in range(60_000)]
LARGE = pl.DataFrame(
    {
        "@time": range(len(SKEWED)),
        "user": SKEWED,
        "ms": [n / 8 for n in SKEWED],
        "g": [n % 3 for n in range(len(SKEWED))],
    }
)


@pytest.fixture(scope="module")
def by_duckdb(tmp_path_factory):
    """DuckDB, with the same events as the table web."""
    path = tmp_path_factory.mktemp("large") / "web.csv"
    LARGE.write_csv(path)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"CREATE TABLE web AS FROM read_csv('{path}')")
        yield connection


def on_large(select, agents=7):
    frames = [LARGE[n::agents] for n in range(agents)]

    def dealt(plan, _):
        return [frame.select("@time", *(column.name for column in plan.columns)) for frame in frames]

    return run(f"SELECT g, {select} AS found FROM web GROUP BY g ORDER BY g", [], OPEN, dealt)


@pytest.mark.parametrize("lg_k", [8, 12, 16])
def test_distinct_counts_are_within_their_error(by_duckdb, lg_k):
    row = AGGREGATES["APPROX_COUNT_DISTINCT"]
    exact = dict(by_duckdb.execute("SELECT g, COUNT(DISTINCT user) FROM web GROUP BY g").fetchall())
    for found in on_large(f"APPROX_COUNT_DISTINCT(user, {lg_k})"):
        assert abs(found["found"] / exact[found["g"]] - 1) <= row.error((lg_k,))


@pytest.mark.parametrize("q", [0, 0.01, 0.5, 0.95, 1])
@pytest.mark.parametrize("k", [50, 200, 2000])
def test_quantiles_are_within_their_error(by_duckdb, q, k):
    error = AGGREGATES["APPROX_QUANTILE"].error((q, k))
    for row in on_large(f"APPROX_QUANTILE(ms, {q}, {k})"):
        query = "SELECT AVG((ms < $1)::INT), AVG((ms <= $1)::INT) FROM web WHERE g = $2"
        below, upto = by_duckdb.execute(query, [row["found"], row["g"]]).fetchone()
        assert below - error <= q <= upto + error


def test_frequent_values_are_within_their_errors(by_duckdb):
    query = "SELECT user, COUNT(*) FROM web WHERE g = $1 GROUP BY user ORDER BY COUNT(*) DESC, user::VARCHAR"
    for row in on_large("APPROX_TOP_K(user, 3, 100)"):
        exact = dict(by_duckdb.execute(query, [row["g"]]).fetchall())
        for value, count, error in json.loads(row["found"]):
            assert count - error <= exact[value] <= count
            assert error <= AGGREGATES["APPROX_TOP_K"].error((3, 100)) * sum(exact.values())


@pytest.mark.parametrize(
    "aggregate", ["VARIANCE(ms)", "STDDEV_POP(user)", "COUNT(DISTINCT user)", "COUNT(DISTINCT ms)"]
)
def test_exact_ones_are_exact_over_many_events(by_duckdb, aggregate):
    exact = by_duckdb.execute(f"SELECT g, {aggregate} FROM web GROUP BY g ORDER BY g").fetchall()
    assert [(row["g"], row["found"]) for row in on_large(aggregate)] == [
        (g, pytest.approx(v, rel=1e-9)) for g, v in exact
    ]


def test_distinct_values_beyond_the_limit_are_estimated():
    many = DISTINCT_MAX * 2
    frame = pl.DataFrame({"@time": [0] * many, "user": range(many)})
    ((row,),) = [run("SELECT COUNT(DISTINCT user) AS n FROM web", [], OPEN, lambda *_: [frame[: many // 2], frame])]
    limited = AGGREGATES["COUNT DISTINCT"].limited_error
    assert row["n"] != many
    assert abs(row["n"] / many - 1) <= limited


def test_times_are_first_last_and_counted():
    catalog = {"web": Schema({"time": "timestamp"}, open=False)}
    times = pl.Series([1000, 0, 1000], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))
    frame = pl.DataFrame({"@time": [1, 2, 3], "time": times})
    before = "LAST(time) FILTER (WHERE time < '1970-01-01T00:00:01Z')"
    text = f"SELECT FIRST(time), {before} AS b, COUNT(DISTINCT time) FROM web"
    assert [list(row.values()) for row in run(text, [], catalog, lambda *_: [frame])] == [
        ["1970-01-01T00:00:01Z", "1970-01-01T00:00:00Z", 2]
    ]
