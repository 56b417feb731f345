"""The clauses of windows: what is the same, what is refused and how, and what travels."""

from __future__ import annotations

import pytest

import query
from query import PlanError, QueryError

WEB = {"web": query.Schema({"path": "string", "n": "integer"}, open=False)}


def plan(clause, select="SELECT path, COUNT(*) FROM web GROUP BY path"):
    return query.analyze(query.parse(f"{select} {clause}"), WEB)


@pytest.mark.parametrize(
    ("field", "paper"),
    [
        ("WINDOW TUMBLING (SIZE 5 MINUTES)", "WINDOWING 5 MINUTES"),
        ("window tumbling (size 300 seconds, grace period 10 seconds)", "WINDOWING 300 SECONDS GRACE 10 SECONDS"),
        ("WINDOW HOPPING (SIZE 10 MINUTES, ADVANCE BY 1 MINUTE)", "WINDOWING 10 MINUTES EVERY 1 MINUTES"),
        (
            "WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY 1 HOUR, GRACE PERIOD 1 HOUR)",
            "WINDOWING 1 DAYS EVERY 1 HOURS GRACE 1 HOURS",
        ),
        ("WINDOW SESSION (30 MINUTES)", "WINDOWING SESSION 30 MINUTES"),
        ("WINDOW SESSION (30 MINUTES, GRACE PERIOD 0 SECONDS)", "WINDOWING SESSION 30 MINUTES GRACE 0 SECONDS"),
    ],
)
def test_the_field_writes_the_same_in_another_way(field, paper):
    one = query.parse(f"SELECT COUNT(*) FROM web {field} WHERE n > 0 LIMIT 3")
    assert query.format_query(one) == f"SELECT COUNT(*) FROM web WHERE n > 0 LIMIT 3 {paper}"
    assert query.parse(query.format_query(one)) == one


CLAUSES = [
    "WINDOWING 10 MINUTES EVERY 1 MINUTE",
    "WINDOWING 5 MINUTES, 1 HOUR",
    "WINDOWING 1 HOUR EVERY 5 MINUTES, 10 MINUTES GRACE 10 SECONDS",
    "WINDOWING 1 MINUTE EMIT CHANGES",
    "WINDOWING 1 MINUTE GRACE 0 SECONDS",
]


@pytest.mark.parametrize("clause", CLAUSES)
def test_what_is_read_is_what_was_sent(clause):
    sent = plan(clause)
    assert query.Plan.from_wire(sent.to_wire()) == sent


def test_plans_whose_windows_are_one_pane_each_say_no_more_of_them():
    sent = plan("WINDOWING 1 MINUTE EMIT FINAL").to_wire()
    assert (sent["window_ms"], "windows" in sent) == (60_000, False)


@pytest.mark.parametrize(
    ("clause", "pane_ms"),
    [
        ("WINDOWING 10 MINUTES EVERY 4 MINUTES", 120_000),
        ("WINDOWING 5 MINUTES, 1 HOUR EVERY 10 MINUTES", 300_000),
        ("WINDOWING 7 SECONDS, 11 SECONDS", 1_000),
        ("WINDOWING 1 MINUTE EMIT CHANGES", 6_000),
        ("WINDOWING 7 SECONDS EMIT CHANGES", 1_000),
        ("WINDOWING 1 SECOND EMIT CHANGES", 1_000),
    ],
)
def test_panes_are_what_all_windows_have_in_common(clause, pane_ms):
    assert plan(clause).pane_ms == pane_ms


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("WINDOWING 1 MINUTE EVERY 2 MINUTES", "leave out the events between"),
        ("WINDOWING 1 MINUTE EVERY 0 SECONDS", "zero length"),
        ("WINDOWING 1 MINUTE, 60 SECONDS", "each size of windows is given once"),
        ("WINDOWING 1 MINUTE, 1 MINUTE EVERY 10 SECONDS", "each size of windows is given once"),
        ("WINDOWING 1 DAY EVERY 1 SECOND", "86,400 panes of 1,000 ms"),
        ("WINDOWING 1 HOUR EVERY 30 SECONDS EMIT CHANGES", "120 windows would change at once"),
        ("WINDOWING 1 MILLISECOND, 2 MILLISECONDS", "one size at a time"),
        ("WINDOWING " + ", ".join(f"{n} HOURS" for n in range(1, 10)), "at most 8 sizes"),
        ("WINDOWING 1 MINUTE GRACE 2 DAYS", "at most 1 day"),
        ("WINDOWING 40000 DAYS EVERY 1 DAY", "at most 36,500 days"),
        ("WINDOWING SESSION 0 SECONDS", "zero length"),
        ("WINDOWING SESSION 5 MINUTES EMIT CHANGES", "a session comes when it is over"),
        ("EMIT CHANGES", "EMIT CHANGES needs WINDOWING"),
        ("WINDOWING 5 MINUTES EVERY", "ends too early"),
        ("WINDOWING 5 MINUTES EVERY minute", "EVERY needs a length of time"),
        ("WINDOWING 5 MINUTES EVERY 1 MINIT", "a length of time needs a unit, not MINIT"),
        ("WINDOWING SESSION 5 MINUTES, 1 HOUR", "cannot stand here"),
    ],
)
def test_what_cannot_be_had_is_refused_with_its_place(clause, message):
    with pytest.raises(QueryError, match=message) as refused:
        plan(clause)
    assert str(refused.value).startswith("line 1, column ")


def test_windows_are_given_once():
    with pytest.raises(QueryError, match="a query has its windows once"):
        query.parse("SELECT COUNT(*) FROM web WINDOW TUMBLING (SIZE 1 MINUTE) WINDOWING 2 MINUTES")


def test_grace_is_for_streams():
    with pytest.raises(QueryError, match="the results of another job never do"):
        query.analyze(query.parse("SELECT COUNT(*) FROM app('x') WINDOWING 1 MINUTE GRACE 5 SECONDS"), WEB)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT window_start, path FROM web {}",
        "SELECT COUNT(window_start) FROM web {}",
        "SELECT COUNT(*) FROM web GROUP BY DATE_PART('hour', window_start) {}",
        "SELECT path FROM web ORDER BY window_end {}",
    ],
)
def test_an_event_in_several_windows_has_no_window_of_its_own(text):
    query.analyze(query.parse(text.format("WINDOWING 2 MINUTES")), WEB)
    with pytest.raises(QueryError, match="is not known of a single event here"):
        query.analyze(query.parse(text.format("WINDOWING 2 MINUTES EVERY 1 MINUTE")), WEB)


@pytest.mark.parametrize(
    "windows",
    [
        {"sizes": []},
        {"sizes": [[60_000, 7_000]]},
        {"sizes": [[60_000, 120_000]]},
        {"sizes": [[120_000, 60_000], [60_000, 60_000]]},
        {"sizes": [[0, 60_000]]},
        {"sizes": [[600_000, 60_000]], "changes": "yes"},
        {"sizes": [[600_000, 60_000]], "grace_ms": -1},
        {"sizes": [[600_000, 60_000]], "gap_ms": 60_000},
        {"sizes": [[2**62, 60_000]]},
        {"sizes": [[600_000, 60_000]] * 9},
        {"sizes": [[86_400_000, 1_000]]},
    ],
)
def test_hostile_windows_are_no_plan(windows):
    sent = plan("WINDOWING 10 MINUTES EVERY 1 MINUTE").to_wire()
    with pytest.raises(PlanError):
        query.Plan.from_wire(sent | {"windows": windows})


def test_words_of_windows_can_still_be_names():
    text = "SELECT COUNT(*) AS final, MAX(n) size, MIN(n) AS session FROM web GROUP BY every"
    assert query.format_query(query.parse(text)).endswith("GROUP BY every")


@pytest.mark.parametrize(
    ("clause", "agent", "master"),
    [
        ("WINDOWING 2 MINUTES", "aggregate per window and path: COUNT(*)", ("SELECT path", "publish each window")),
        (
            "WINDOWING 2 MINUTES EVERY 1 MINUTE",
            "aggregate per pane and path: COUNT(*)",
            ("make windows of panes", "SELECT path", "publish each window"),
        ),
        (
            "WINDOWING SESSION 1 MINUTE",
            "aggregate per pane and path: COUNT(*)",
            ("make sessions of panes", "SELECT path", "publish sessions once they are over"),
        ),
    ],
)
def test_explain_says_where_panes_are_counted_and_windows_made(clause, agent, master):
    explained = query.explain(plan(clause, "SELECT path FROM web GROUP BY path HAVING COUNT(*) > 0"))
    assert explained.agent[-1] == agent
    steps = tuple(step for step in explained.master if not step.startswith("keep groups"))
    assert steps == master


def test_explain_says_that_a_query_around_reads_windows_and_no_panes():
    inner = "SELECT MAX(n) FROM (SELECT path, COUNT(*) AS n FROM web GROUP BY path) AS t"
    explained = query.explain(plan("WINDOWING 2 MINUTES EVERY 1 MINUTE", inner))
    assert explained.master[2] == "over these rows: aggregate per window: MAX(n); SELECT MAX(n)"
