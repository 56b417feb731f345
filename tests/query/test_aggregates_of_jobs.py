"""Aggregates that a job's own code computes, in queries: how they are called, planned, explained and refused."""

from __future__ import annotations

import polars as pl
import pytest

import query
from query.functions.aggregates import RESULT_TYPES

OWN = {"TOP": "string", "MOST": "integer", "RISES": "integer:rigid"}
CATALOG = {"web": query.Schema({}, open=True)}


def planned(text: str) -> query.Plan:
    return query.analyze(query.with_aggregates(query.parse(text), OWN), CATALOG)


def test_a_query_reads_the_same_with_them() -> None:
    text = (
        "SELECT a, top(b, c + 1) FILTER (WHERE d) AS t, 1 + MOST(b) FROM web GROUP BY a HAVING MOST(b) > 2 ORDER BY t"
    )
    parsed = query.parse(text)
    assert query.format_query(query.with_aggregates(parsed, OWN)) == query.format_query(parsed)
    assert query.with_aggregates(parsed, {}) == parsed


def test_a_plan_keeps_them_on_the_wire() -> None:
    plan = planned("SELECT a, TOP(b, c) AS t, MOST(b) + 1 AS m FROM web GROUP BY a WINDOWING 1 MINUTE")
    assert [one.function for one in plan.aggregates] == ["top:string", "most:integer"]
    assert plan.aggregates_of_job == ("MOST", "TOP")
    assert query.Plan.from_wire(plan.to_wire()) == plan
    assert [output.type for output in plan.output] == ["any", "string", "integer"]


def test_explain_shows_them_as_they_are_written_and_who_computes_them() -> None:
    plan = planned("SELECT a, TOP(b, c + 1) FILTER (WHERE d) AS t FROM web GROUP BY a WINDOWING 1 MINUTE")
    explained = query.explain(plan)
    assert explained.aggregates == ("TOP(b, c + 1) FILTER (WHERE d)",)
    assert explained.tree[-1] == (
        "TOP(b, c + 1) FILTER (WHERE d): the job's own code computes it beside each log and at the master; agents"
        " between them pass its states on unmerged"
    )


def test_they_are_operators_of_their_job_like_all_others() -> None:
    plan = planned("SELECT a, TOP(b, c, d) AS t, MOST(b) AS m FROM web GROUP BY a WINDOWING 10 MINUTES EVERY 1 MINUTE")
    operators = query.job_operators({"shop": plan}).operators
    kinds = [(one.kind, one.is_placed) for one in operators]
    assert kinds == [("map", True), ("compute", True), ("consolidate", False)]
    assert operators[1].outputs[1:] == (("top(VALUES(b, c, d))", "state"), ("most(VALUES(b))", "state"))
    assert operators[2].outputs == (("a", "any"), ("t", "string"), ("m", "integer"))


def test_a_rigid_one_reads_rows_of_a_stage_with_no_compute_between() -> None:
    stage = planned("SELECT a, COUNT(*) AS n FROM web GROUP BY a WINDOWING 1 MINUTE")
    plan = planned("SELECT a, RISES(n) AS r FROM app('shop.counts') GROUP BY a WINDOWING 10 MINUTES")
    assert query.Plan.from_wire(plan.to_wire()) == plan
    assert query.explain(plan).tree[-1] == (
        "RISES(n): the job's own code computes it of all rows of a group together, at the master"
    )
    last = query.job_operators({"shop.counts": stage, "shop": plan}).operators[-1]
    assert (last.name, last.reads, last.outputs) == (
        "shop.consolidate",
        ("shop.counts.merge",),
        (("a", "any"), ("r", "integer")),
    )


def test_a_plan_with_a_rigid_one_over_events_is_none() -> None:
    wire = planned("SELECT a, MOST(b) AS t FROM web GROUP BY a").to_wire()
    wire["aggregates"] = [["a0", "most:integer:rigid", wire["aggregates"][0][2]]]
    with pytest.raises(query.PlanError, match="all events in one place"):
        query.Plan.from_wire(wire)


def test_values_of_all_types_reach_the_code_as_they_are() -> None:
    plan = planned("SELECT TOP(a, b, c, d, e) AS t FROM web")
    events = pl.DataFrame(
        {"@time": [0, 1], "a": ['q"x', None], "b": [2**62, None], "c": [0.5, None], "d": [True, None], "e": [None] * 2}
    )
    (values,) = query.EventStage(plan).apply(events).select("x0").get_columns()
    types = pl.Struct({"0": pl.String, "1": pl.Int64, "2": pl.Float64, "3": pl.Boolean})
    assert values.str.json_decode(types).to_list() == [
        {"0": 'q"x', "1": 2**62, "2": 0.5, "3": True},
        {"0": None, "1": None, "2": None, "3": None},
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT TOP(*) FROM web", "TOP takes values of events"),
        ("SELECT TOP() FROM web", "TOP takes values of events"),
        ("SELECT TOP(DISTINCT a) FROM web", "TOP takes no DISTINCT"),
        (f"SELECT TOP({', '.join('a' * 17)}) FROM web", "TOP takes at most 16 values of an event"),
        ("SELECT TOP(COUNT(a)) FROM web", "aggregates do not nest"),
        ("SELECT a FROM web WHERE TOP(a) = 1", "TOP cannot be used in WHERE"),
        (
            "SELECT TOP(a) AS t FROM web WINDOWING 1 MINUTE EMIT CHANGES",
            "TOP is computed once for a window",
        ),
        (
            "SELECT TOP(n) AS t FROM (SELECT a, COUNT(*) AS n FROM web GROUP BY a)",
            "cannot read the rows of a sub-query",
        ),
        ("SELECT a, TOP(b) AS t FROM web GROUP BY a WINDOWING SESSION 1 MINUTE", "a session cannot have it"),
        ("SELECT OTHER(a) FROM web", "there is no function OTHER"),
        ("SELECT RISES(a) AS r FROM web", "RISES has no combine, so it takes all rows of a group in one place"),
        ("SELECT RISES(n) AS r FROM (SELECT a, COUNT(*) AS n FROM web GROUP BY a)", "rows of a sub-query"),
        ("SELECT SUM(TOP) FROM web GROUP BY MOST(a)", "MOST cannot be used in GROUP BY"),
    ],
)
def test_what_they_cannot_do_is_refused(text: str, says: str) -> None:
    with pytest.raises(query.QueryError, match=says.replace("(", r"\(").replace("*", r"\*")):
        planned(text)


@pytest.mark.parametrize("gives", RESULT_TYPES)
def test_a_query_over_their_rows_is_taken(gives: str) -> None:
    parsed = query.parse("SELECT COUNT(*) AS n, MAX(t) AS m FROM (SELECT a, OWN(b) AS t FROM web GROUP BY a)")
    plan = query.analyze(query.with_aggregates(parsed, {"OWN": gives}), CATALOG)
    assert plan.outer is not None
    assert query.Plan.from_wire(plan.to_wire()).aggregates_of_job == ("OWN",)


@pytest.mark.parametrize("function", ["top", "top:list", ":string", "to p:string", "TOP:string"])
def test_aggregates_that_cannot_be_are_no_plan(function: str) -> None:
    wire = planned("SELECT a, TOP(b) AS t FROM web GROUP BY a").to_wire()
    wire["aggregates"] = [["a0", function, "x0"]]
    with pytest.raises(query.PlanError):
        query.Plan.from_wire(wire)
