"""ON STRAGGLER and RECOVER FOR, from the text to the plan."""

from __future__ import annotations

import pytest

from query import QueryError, Schema, analyze, explain, format_query, parse
from query.plan.stragglers import Stragglers

CATALOG = {"web": Schema({}, open=True)}
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 10 SECONDS"


def planned(text):
    return analyze(parse(text), CATALOG)


@pytest.mark.parametrize(
    ("clauses", "stated"),
    [
        ("", Stragglers()),
        ("ON STRAGGLER WAIT", Stragglers(waits=True)),
        ("on straggler leap", Stragglers(leap_panes=2)),
        ("ON STRAGGLER LEAP AFTER 5 PANES", Stragglers(leap_panes=5)),
        ("ON STRAGGLER MIRROR", Stragglers(leap_panes=2, mirrors=True)),
        ("on straggler mirror after 3 panes", Stragglers(leap_panes=3, mirrors=True)),
        ("RECOVER FOR 0 SECONDS", Stragglers(recover_ms=0)),
        ("RECOVER FOR 2 MINUTES TREES 1", Stragglers(recover_ms=120_000)),
        ("EMIT CHANGES ON STRAGGLER LEAP AFTER 2 PANES RECOVER FOR 5 SECONDS", Stragglers(False, 2, 5_000)),
    ],
)
def test_clauses_are_in_the_plan_and_print_as_themselves(clauses, stated):
    text = f"{COUNT} {clauses}"
    assert planned(text).stragglers == stated
    assert parse(format_query(parse(text))) == parse(text)


def test_the_words_are_names_of_columns_too():
    text = "SELECT straggler, wait, leap, mirror, after, recover, panes FROM web WHERE wait > 1 WINDOWING 1 SECOND"
    assert planned(f"{text} ON STRAGGLER LEAP").stragglers.leap_panes == 2
    joined = "SELECT web.a FROM web JOIN app('b') ON straggler = b.straggler WINDOWING 1 SECOND"
    assert parse(format_query(parse(joined))) == parse(joined)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT COUNT(*) FROM web ON STRAGGLER LEAP", "ON STRAGGLER needs WINDOWING"),
        ("SELECT COUNT(*) FROM web RECOVER FOR 1 SECOND", "RECOVER FOR needs WINDOWING"),
        ("SELECT COUNT(*) FROM app('x') WINDOWING 1 SECOND ON STRAGGLER WAIT", "are read by one"),
        (f"{COUNT} ON STRAGGLER LEAP AFTER 1 PANE", "after 2 to 1,000 panes"),
        (f"{COUNT} ON STRAGGLER LEAP AFTER 1001 PANES", "after 2 to 1,000 panes"),
        (f"{COUNT} ON STRAGGLER LEAP AFTER some PANES", "AFTER needs a whole number of panes"),
        (f"{COUNT} ON STRAGGLER WAIT AFTER 2 PANES", "AFTER cannot stand here"),
        (f"{COUNT} ON STRAGGLER RUN", "RUN cannot stand here"),
        (f"{COUNT} ON STRAGGLER MIRROR AFTER 1 PANE", "after 2 to 1,000 panes"),
        (f"{COUNT} RECOVER FOR 2 HOURS", "at most 1 hour"),
        (f"{COUNT} RECOVER FOR ever", "FOR needs a length of time"),
        (f"{COUNT} TREES 1 ON STRAGGLER WAIT", "ON STRAGGLER cannot stand here"),
        (
            "SELECT n FROM (SELECT COUNT(*) AS n FROM web ON STRAGGLER LEAP) WINDOWING 1 SECOND",
            "a sub-query waits for agents as the whole query does",
        ),
    ],
)
def test_what_makes_no_sense_is_explained(text, told):
    with pytest.raises(QueryError, match=told):
        planned(text)


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT a, COUNT(*) AS n FROM web GROUP BY a)",
        "(SELECT a, b AS n FROM web WHERE b > 1)",
        "(SELECT a, b AS n FROM web UNION ALL SELECT a, c AS n FROM web)",
    ],
)
def test_agents_below_a_sub_query_wait_as_the_whole_query_says(source):
    plan = planned(f"SELECT SUM(n) FROM {source} WINDOWING 1 SECOND ON STRAGGLER LEAP RECOVER FOR 1 SECOND")
    assert plan.stragglers == Stragglers(False, 2, 1_000)
    assert plan.outer is None or plan.outer.stragglers == Stragglers()


def test_jobs_that_differ_in_patience_alone_share_what_agents_compute():
    assert planned(COUNT).shared_part() == planned(f"{COUNT} ON STRAGGLER LEAP RECOVER FOR 0 SECONDS").shared_part()


def test_explaining_says_for_whom_a_job_waits():
    steps = explain(planned(f"{COUNT} ON STRAGGLER LEAP AFTER 3 PANES RECOVER FOR 30 SECONDS")).master
    assert steps[-3:-1] == ("go on without agents that are 3 panes behind", "wait 30 s for the part of a dead agent")
    mirroring = explain(planned(f"{COUNT} ON STRAGGLER MIRROR")).master
    assert mirroring[-2].endswith("2 panes behind, but for the parts that others hold copies of")
    waiting = explain(planned(f"{COUNT} ON STRAGGLER WAIT")).master
    assert "wait for agents that are late as long as they live" in waiting
    assert not any("agents" in step for step in explain(planned(COUNT)).master)
    bounded = explain(planned(f"{COUNT} ON STRAGGLER LEAP"), live=False).master
    assert bounded[-2] == "wait for every agent: ON STRAGGLER and RECOVER FOR are for live jobs"
    assert explain(planned(COUNT), live=False).master == explain(planned(COUNT)).master
