"""Random queries over random events give the same as they are written and as the rules rewrite them."""

from __future__ import annotations

import json

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query_pipeline import answered, homogeneous_frames
from random_expressions import COLUMNS, CONDITIONS, NUMBERS, STRINGS, VALUES

from query import Schema, analyze_with_rules, parse
from query.optimizer import RULES

TYPED = {"web": Schema(dict(COLUMNS), open=False)}
OPEN = {"web": Schema({}, open=True)}
"""Columns whose types the query must determine."""
EVENTS = st.lists(
    st.fixed_dictionaries({name: st.none() | VALUES[type_] for name, type_ in COLUMNS.items() if name != "id"}),
    max_size=8,
)
DTYPES = {"integer": pl.Int64, "number": pl.Float64, "string": pl.String, "boolean": pl.Boolean}
LIMITS = st.sampled_from(["9223372036854775807", "(n * 4611686018427387904)", "(0 - n)", "(7 // (1 - 1))", "x"])
"""Values with which integers overflow, divisors are zero, and doubles are added."""


def typed_frame(plan, events):
    """All events as one frame: a column in which nothing is known has a dtype nevertheless."""
    schema = {column.name: DTYPES[column.type] for column in plan.columns}
    times = pl.Series("@time", range(len(events)), dtype=pl.Int64)
    columns = [pl.Series(name, [event[name] for event in events], dtype=dtype) for name, dtype in schema.items()]
    return [pl.DataFrame([times, *columns])]


def agree(query, catalog, events, frames=typed_frame):
    written, rewritten = (analyze_with_rules(parse(query), catalog, rules=rules) for rules in ((), RULES))
    plans = written.plan, rewritten.plan
    texts = [json.dumps(answered(plan, events, frames)) for plan in plans]
    assert texts[0] == texts[1], (query, [rule.name for rule in rewritten.fired])


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=settings.default.max_examples)
@given(STRINGS, NUMBERS, LIMITS, CONDITIONS, CONDITIONS, EVENTS)
def test_expressions_of_events(text, number, limit, first, second, events):
    shown = f"{text} AS u, {number} + {limit} AS v, {text} || CAST({number} AS VARCHAR) AS y"
    agree(f"SELECT {shown} FROM web WHERE {first} AND ({second} OR n IS NULL) ORDER BY n, m, s, t", TYPED, events)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=settings.default.max_examples)
@given(
    st.sampled_from([STRINGS, NUMBERS, CONDITIONS]).flatmap(lambda kind: kind), NUMBERS, CONDITIONS, CONDITIONS,
    st.sampled_from(["k IS NOT NULL", "k = k AND COUNT(*) > 1", "NOT (k <> k) AND SUM(n) > 0", "k IS NULL AND TRUE"]),
    EVENTS,
)  # fmt: skip
def test_groups(key, number, first, second, having, events):
    measures = f"SUM(m) AS a, AVG(m) AS b, COUNT(m), SUM(n + {number}) FILTER (WHERE {first}), COUNT(1), AVG(x), SUM(x)"
    agree(f"SELECT {key} AS k, {measures} FROM web WHERE {second} OR b GROUP BY k HAVING {having}", TYPED, events)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=settings.default.max_examples)
@given(NUMBERS, CONDITIONS, CONDITIONS, EVENTS)
def test_one_group(number, first, second, events):
    shown = f"COUNT(*) FILTER (WHERE {first} AND {second}) AS c, MAX({number}) FILTER (WHERE {second} AND {first})"
    agree(f"SELECT {shown} FROM web HAVING 1 + 1 = 2", TYPED, events)


@settings(max_examples=20)
@given(st.sampled_from(["n", "x", "s", "b"]), EVENTS)
def test_keys_of_any_type(key, events):
    agree(
        f"SELECT {key}, COUNT(*), AVG(m), SUM(m) FROM web GROUP BY {key} HAVING {key} IS NOT NULL",
        OPEN,
        events,
        homogeneous_frames,
    )
