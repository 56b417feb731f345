"""WITHIN, from the text to the plan: what it asks for, what cannot be, and what it leaves as it is."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query import Plan, PlanError, QueryError, Schema, Within, analyze, check_live, explain, format_query, parse
from query.model.limits import DAY_MS
from query.plan.windows import PARTS_MAX, PlanWindowSize, Windowing, WindowsError, parts_within
from query.plan.within import chosen_grace_ms

CATALOG = {"web": Schema({}, open=True), "shop": Schema({}, open=True)}
COUNT = "SELECT a, COUNT(*) AS n FROM web GROUP BY a WINDOWING 10 SECONDS"
CHANGES = "SELECT COUNT(*) AS n FROM web WINDOWING 1 MINUTE EMIT CHANGES"


def planned(text):
    return analyze(parse(text), CATALOG)


@pytest.mark.parametrize(
    ("clause", "stated"),
    [
        ("WITHIN 500 MILLISECONDS", Within(500, 99.0, "late", 125)),
        ("within 1 minute", Within(60_000, 99.0, "late", 5_000)),
        ("WITHIN 2 SECONDS AT 99.9 PERCENT ELSE PARTIAL", Within(2_000, 99.9, "partial", 500)),
        ("WITHIN 2 SECONDS AT 50 PERCENT ELSE LATE", Within(2_000, 50.0, "late", 500)),
        ("WITHIN 2 SECONDS on average", Within(2_000, None, "late", 500)),
        ("WITHIN 1 MILLISECOND ON AVERAGE ELSE PARTIAL ON STRAGGLER LEAP TREES 2", Within(1, None, "partial", 0)),
        ("GRACE 1 SECOND WITHIN 1001 MILLISECONDS", Within(1_001)),
    ],
)
def test_the_clause_is_in_the_plan_and_prints_as_itself(clause, stated):
    text = f"{COUNT} {clause}"
    assert planned(text).within == stated
    assert parse(format_query(parse(text))) == parse(text)


def test_without_it_the_plan_is_written_as_ever():
    assert planned(COUNT).within is None
    assert "within" not in planned(COUNT).to_wire()
    assert planned(COUNT).grace_ms(5_000) == 5_000


def test_the_words_are_names_of_columns_too():
    text = "SELECT within, at, percent, average, late, partial FROM web WHERE late > 1 ORDER BY within"
    assert planned(f"{text} WINDOWING 1 SECOND WITHIN 500 MILLISECONDS AT 90 PERCENT ELSE LATE").within is not None


def test_a_join_has_its_own():
    text = (
        "SELECT web.a FROM web JOIN shop WITHIN 1 MINUTE ON web.a = shop.a WINDOWING 1 SECOND WITHIN 500 MILLISECONDS"
    )
    plan = planned(text)
    assert (plan.within, plan.grace_ms(0)) == (Within(500), 0)
    assert parse(format_query(parse(text))) == parse(text)


MISTAKES = {
    "SELECT COUNT(*) FROM web WITHIN 1 SECOND": """
line 1, column 26: WITHIN needs WINDOWING
  SELECT COUNT(*) FROM web WITHIN 1 SECOND
                           ^^^^^^^^^^^^^^^
add windows before it, as in WINDOWING 10 SECONDS WITHIN 500 MILLISECONDS""",
    f"{COUNT}\nWITHIN 0 MILLISECONDS": """
line 2, column 8: WITHIN takes 1 millisecond to 1 day
  WITHIN 0 MILLISECONDS
         ^^^^^^^^^^^^^^
as in WITHIN 500 MILLISECONDS""",
    f"{COUNT}\nWITHIN 25 HOURS": """
line 2, column 8: WITHIN takes 1 millisecond to 1 day
  WITHIN 25 HOURS
         ^^^^^^^^
as in WITHIN 500 MILLISECONDS""",
    f"{COUNT}\nWITHIN 1 SECOND AT 0 PERCENT": """
line 2, column 20: AT takes 50 to 99.9 percent
  WITHIN 1 SECOND AT 0 PERCENT
                     ^
as in AT 99 PERCENT, or ON AVERAGE""",
    f"{COUNT}\nWITHIN 1 SECOND AT 100 PERCENT": """
line 2, column 20: AT takes 50 to 99.9 percent
  WITHIN 1 SECOND AT 100 PERCENT
                     ^^^
as in AT 99 PERCENT, or ON AVERAGE""",
    f"{COUNT}\nWITHIN 1 SECOND AT 1e999 PERCENT": """
line 2, column 20: AT takes 50 to 99.9 percent
  WITHIN 1 SECOND AT 1e999 PERCENT
                     ^^^^^
as in AT 99 PERCENT, or ON AVERAGE""",
    f"{COUNT} GRACE 1 SECOND\nWITHIN 740 MILLISECONDS": """
line 2, column 1: results cannot come within 740 ms: GRACE alone is 1 s
  WITHIN 740 MILLISECONDS
  ^^^^^^^^^^^^^^^^^^^^^^^
write WITHIN more than 1 s, as in WITHIN 2000 MILLISECONDS, or a shorter GRACE""",
    f"{COUNT} WITHIN 1 SECOND\nWITHIN 2 SECONDS": """
line 2, column 1: a query has one WITHIN
  WITHIN 2 SECONDS
  ^^^^^^
leave one of the two out""",
    f"{COUNT} WITHIN 1 SECOND ELSE LATE TREES 2\nWITHIN 2 SECONDS": """
line 2, column 1: a query has one WITHIN
  WITHIN 2 SECONDS
  ^^^^^^
leave one of the two out""",
    "SELECT a FROM (SELECT a FROM web\nWITHIN 1 SECOND)\nWINDOWING 1 SECOND": """
line 2, column 1: rows of a sub-query are not published: WITHIN is of the whole query's results
  WITHIN 1 SECOND)
  ^^^^^^^^^^^^^^^
write WITHIN once, at the end of the whole query""",
    f"{COUNT} TREES 2\nWITHIN 2 SECONDS": """
line 2, column 1: WITHIN cannot stand here
  WITHIN 2 SECONDS
  ^^^^^^
the order of clauses is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, WINDOWING, WITHIN and TREES""",
    f"{COUNT}\nWITHIN soon": """
line 2, column 1: WITHIN needs a length of time, as in WITHIN 500 MILLISECONDS
  WITHIN soon
  ^^^^^^""",
    f"{COUNT}\nWITHIN 0.5 SECONDS": """
line 2, column 8: WITHIN needs a length of time, as in WITHIN 30 SECONDS
  WITHIN 0.5 SECONDS
         ^^^""",
    f"{COUNT}\nWITHIN 1 SECOND AT most": """
line 2, column 20: AT needs a percentage, as in AT 99 PERCENT
  WITHIN 1 SECOND AT most
                     ^^^^""",
    f"{COUNT}\nWITHIN 1 SECOND AT 99": """
line 2, column 22: the query ends too early
  WITHIN 1 SECOND AT 99
                       ^
expected PERCENT""",
    f"{COUNT}\nWITHIN 1 SECOND ELSE drop": """
line 2, column 22: drop cannot stand here
  WITHIN 1 SECOND ELSE drop
                       ^^^^
expected LATE or PARTIAL""",
    f"{CHANGES.replace('1 MINUTE', '1 DAY')}\nWITHIN 500 MILLISECONDS": """
line 2, column 1: changes of these windows cannot come within 500 ms: a window would have more than 10,000 parts of at \
most 250 ms
  WITHIN 500 MILLISECONDS
  ^^^^^^^^^^^^^^^^^^^^^^^
give it more time, or leave EMIT CHANGES out""",
    f"{CHANGES.replace(' EMIT', ' GRACE 2 SECONDS EMIT')}\nWITHIN 500 MILLISECONDS": """
line 2, column 1: results cannot come within 500 ms: parts under a second wait for GRACE, which is 2 s
  WITHIN 500 MILLISECONDS
  ^^^^^^^^^^^^^^^^^^^^^^^
write WITHIN more than 2 s, as in WITHIN 4000 MILLISECONDS, or a shorter GRACE""",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_explained(text):
    with pytest.raises(QueryError) as caught:
        planned(text)
    assert str(caught.value) == MISTAKES[text].removeprefix("\n")


def test_a_query_that_ends_with_its_input_has_none():
    check_live(parse(COUNT))
    with pytest.raises(QueryError, match=r"(?s)column 66: WITHIN is for live jobs.*leave out WITHIN, or --once"):
        check_live(parse(f"{COUNT} WITHIN 1 SECOND"))


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT a, COUNT(*) AS n FROM web GROUP BY a)",
        "(SELECT a, b AS n FROM web WHERE b > 1)",
        "(SELECT a, b AS n FROM web UNION ALL SELECT a, c AS n FROM web)",
    ],
)
def test_the_whole_query_has_it(source):
    plan = planned(f"SELECT SUM(n) FROM {source} WINDOWING 1 SECOND WITHIN 1 SECOND")
    assert plan.within == Within(1_000, grace_ms=250)
    assert plan.outer is None or plan.outer.within is None
    assert Plan.from_wire(plan.to_wire()) == plan


@pytest.mark.parametrize(
    "query",
    [
        COUNT,
        "SELECT a FROM web WINDOWING 10 SECONDS",
        "SELECT a, COUNT(*) FROM web GROUP BY a WINDOWING 10 SECONDS EVERY 5 SECONDS, 1 MINUTE",
        "SELECT a, COUNT(*) FROM web GROUP BY a WINDOWING SESSION 10 SECONDS",
        "SELECT COUNT(*) FROM web KEYED BY a WINDOWING 10 SECONDS",
        f"{CHANGES.replace('1 MINUTE', '1 SECOND')}",
    ],
)
@pytest.mark.parametrize("clause", ["WITHIN 30 SECONDS", "WITHIN 2 SECONDS AT 60 PERCENT ELSE PARTIAL"])
def test_jobs_that_differ_in_it_alone_share_what_agents_compute(query, clause):
    plan, other = planned(f"{query} {clause}"), planned(query)
    assert plan.shared_part() == other.shared_part()
    assert plan.shared_part().to_wire() == other.shared_part().to_wire()
    assert plan.to_wire() != other.to_wire(), "but they are different versions"
    assert plan.without_within() == other


def test_windows_that_change_come_in_parts_that_are_short_enough():
    plan = planned(f"{CHANGES} WITHIN 500 MILLISECONDS")
    assert (plan.pane_ms, plan.grace_ms(5_000)) == (125, 125)
    waiting = planned(f"{CHANGES} WITHIN 3 SECONDS")
    assert (waiting.pane_ms, waiting.grace_ms(5_000)) == (1_500, 5_000), "parts of a second do not wait for late events"
    assert planned(f"{CHANGES} WITHIN 12 SECONDS").pane_ms == planned(CHANGES).pane_ms == 6_000
    assert plan.without_within() == planned(CHANGES)
    assert Plan.from_wire(msgpack.unpackb(msgpack.packb(plan.to_wire()))) == plan


sizes = st.tuples(st.integers(1, 5), st.sampled_from([100, 997, 1_000, 2_500, 60_000, 3_600_000, DAY_MS]))


@given(st.lists(sizes, min_size=1, max_size=3), st.integers(1, DAY_MS))
def test_parts_divide_their_windows_and_leave_time_for_the_rest(drawn, limit_ms):
    lengths = sorted({count * slide for count, slide in drawn})
    windowing = Windowing(tuple(PlanWindowSize(one, one) for one in lengths), changes=True)
    try:
        parts = parts_within(windowing, limit_ms)
        parts.check()
    except WindowsError:
        return
    assert windowing.common_ms % parts.pane_ms == 0
    assert parts.pane_ms <= windowing.pane_ms
    assert parts.part_ms is None or parts.part_ms < windowing.pane_ms
    waits_ms = 0 if parts.pane_ms >= 1_000 else chosen_grace_ms(limit_ms)
    assert limit_ms < 4 or parts.pane_ms + waits_ms <= limit_ms / 2
    assert windowing.common_ms // windowing.pane_ms <= PARTS_MAX


@given(st.integers(1, DAY_MS), st.none() | st.floats(50, 99.9), st.sampled_from(["late", "partial"]))
def test_any_constraint_comes_back_from_the_wire_and_from_its_text(limit_ms, percent, on_miss):
    share = "ON AVERAGE" if percent is None else f"AT {percent!r} PERCENT"
    text = f"{COUNT} WITHIN {limit_ms} MILLISECONDS {share} ELSE {on_miss}"
    plan = planned(text)
    assert plan.within == Within(limit_ms, percent, on_miss, chosen_grace_ms(limit_ms))
    assert planned(format_query(parse(text))) == plan
    assert Plan.from_wire(msgpack.unpackb(msgpack.packb(plan.to_wire()))) == plan
    assert plan.grace_ms(5_000) < limit_ms


@pytest.mark.parametrize(
    "change",
    [
        {"within": {}},
        {"within": {"limit_ms": 0}},
        {"within": {"limit_ms": DAY_MS + 1}},
        {"within": {"limit_ms": 500, "percent": 100.0}},
        {"within": {"limit_ms": 500, "percent": float("nan")}},
        {"within": {"limit_ms": 500, "on_miss": "never"}},
        {"within": {"limit_ms": 500, "grace_ms": -1}},
        {"within": {"limit_ms": 500, "look_ms": 1}},
        {"within": {"limit_ms": 500, "look_ms": 3_600_000}},
        {"within": {"limit_ms": 500, "of_a_later_release": 1}},
        {"within": {"limit_ms": 500}, "window_ms": None},
        {"windows": {"sizes": [[10_000, 10_000]], "part_ms": 1_000}},
        {"windows": {"sizes": [[10_000, 10_000]], "changes": True, "part_ms": 3_000}, "window_ms": 3_000},
        {"windows": {"sizes": [[10_000, 10_000]], "changes": True, "part_ms": 1}, "window_ms": 10},
        {"windows": {"gap_ms": 10_000, "part_ms": 100}},
    ],
    ids=str,
)
def test_what_a_peer_sends_is_checked(change):
    with pytest.raises(PlanError):
        Plan.from_wire({**planned(COUNT).to_wire(), **change})


def test_a_sub_query_on_the_wire_has_none():
    message = planned("SELECT SUM(n) FROM (SELECT a, COUNT(*) AS n FROM web GROUP BY a) WINDOWING 1 SECOND").to_wire()
    with pytest.raises(PlanError, match="a limit of its own"):
        Plan.from_wire({**message, "outer": {**message["outer"], "within": {"limit_ms": 500}}})


@pytest.mark.parametrize(
    ("clause", "step"),
    [
        (
            "WITHIN 500 MILLISECONDS",
            "have 99 % of results out within 500 ms of the end of their window, and let others be late",
        ),
        (
            "WITHIN 2 SECONDS ON AVERAGE ELSE PARTIAL",
            "have results, on average, out within 2 s of the end of their window, and publish what is there of others",
        ),
        (
            "EMIT CHANGES WITHIN 3 SECONDS AT 99.9 PERCENT",
            "have 99.9 % of results out within 3 s of an event that they are the first to have, and let others be late",
        ),
    ],
)
def test_explaining_says_how_soon_results_come(clause, step):
    assert explain(planned(f"{COUNT} {clause}")).master[-2] == step


def test_explaining_says_which_grace_was_chosen():
    assert explain(planned(f"{COUNT} WITHIN 500 MILLISECONDS")).window == "10 s, grace 125 ms, chosen under WITHIN"
    assert explain(planned(f"{COUNT} GRACE 100 MILLISECONDS WITHIN 500 MILLISECONDS")).window == "10 s, grace 100 ms"
    changing = explain(planned(f"{CHANGES} WITHIN 500 MILLISECONDS"))
    assert changing.window == "1 min, grace 125 ms, chosen under WITHIN, of panes of 125 ms"
    once = explain(planned(f"{CHANGES} WITHIN 500 MILLISECONDS"), live=False)
    assert once.window == "1 min, of panes of 6 s"
    assert once.master[-2] == "publish windows when all input is read: WITHIN is for live jobs, and --once refuses it"
