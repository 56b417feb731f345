"""Joins of two streams: what they mean as a plan, which is elements, and what is said of those that cannot run."""

from __future__ import annotations

import pytest

from query import Plan, PlanError, QueryError, Schema, analyze, explain, format_query, parse, stream_join
from query.model.limits import WITHIN_MS_MAX

OPEN = Schema({}, open=True)
CSV = Schema(dict.fromkeys(("serve", "ad", "place"), "text"), open=False)
JSON_LINES = {"serves": OPEN, "clicks": OPEN}
FILES = {"serves": CSV, "clicks": Schema({"serve": "text", "ad": "text", "price": "text"}, open=False)}
ON = "ON serves.serve = clicks.serve AND serves.ad = clicks.ad"


def planned(text, catalog=JSON_LINES):
    """The plan of a query, after it has travelled."""
    plan = analyze(parse(text), catalog)
    assert Plan.from_wire(plan.to_wire()).to_wire() == plan.to_wire()
    return plan


def source(plan, side):
    """The query of one side's source, in words."""
    return plan.elements["sources"][side]["query"]


def options(plan):
    (element,) = plan.elements["elements"]
    return element["options"]


def test_a_join_of_streams_is_two_sources_an_element_and_a_query_over_its_output():
    plan = planned(
        f"SELECT serves.place, COUNT(*) AS serves, COUNT(clicks.ad) AS clicks FROM serves "
        f"LEFT JOIN clicks WITHIN 30 MINUTES {ON} GROUP BY serves.place WINDOWING 1 HOUR"
    )
    assert source(plan, 0) == "SELECT place, serve, ad FROM serves"
    assert source(plan, 1) == "SELECT ad, serve FROM clicks"
    (element,) = plan.elements["elements"]
    assert element["inputs"] == [{"type": "serves", "key": ["serve", "ad"]}, {"type": "clicks", "key": ["serve", "ad"]}]
    assert options(plan)["within_ms"] == 1_800_000
    assert options(plan)["outer"]
    assert plan.stream == element["output"] == "serves_join_clicks"
    assert [(one.name, one.path) for one in plan.columns] == [
        ("serves.place", ("place",)),
        ("clicks.ad", ("clicks_ad",)),
    ]
    assert plan.join is None


def test_what_where_says_of_the_left_side_is_tested_at_its_source():
    plan = planned(f"SELECT COUNT(*) FROM serves LEFT JOIN clicks WITHIN 1 HOUR {ON} WHERE serves.place = 'top'")
    assert source(plan, 0) == "SELECT serve, ad FROM serves WHERE place = 'top'"
    assert plan.where is None


def test_a_condition_that_events_without_a_match_meet_is_tested_after_a_left_join():
    plan = planned(f"SELECT COUNT(*) FROM serves LEFT JOIN clicks WITHIN 1 HOUR {ON} WHERE clicks.price IS NULL")
    assert source(plan, 1) == "SELECT serve, ad, price FROM clicks"
    assert options(plan)["outer"]
    assert plan.where is not None


def test_a_condition_that_no_event_without_a_match_meets_makes_a_left_join_an_inner_one():
    plan = planned(f"SELECT COUNT(*) FROM serves LEFT JOIN clicks WITHIN 1 HOUR {ON} WHERE clicks.price > 3")
    assert source(plan, 1) == "SELECT serve, ad FROM clicks WHERE price > 3"
    assert not options(plan)["outer"]
    assert plan.where is None


def test_what_where_says_of_both_sides_is_tested_on_pairs():
    plan = planned(f"SELECT COUNT(*) FROM serves JOIN clicks WITHIN 1 HOUR {ON} WHERE clicks.price > serves.floor")
    assert plan.where is not None
    assert [one.name for one in plan.columns] == ["serves.floor", "clicks.price"]


def test_a_number_that_may_be_an_integer_travels_as_it_is_written():
    plan = planned(f"SELECT SUM(clicks.price) FROM serves JOIN clicks WITHIN 1 HOUR {ON}")
    types = {one["name"]: dict(one["fields"]) for one in plan.elements["types"]}
    assert types["clicks"]["price"] == types["serves_join_clicks"]["clicks_price"] == "any"
    assert plan.columns[0].type == "number"


def test_a_stream_can_be_joined_with_itself():
    plan = planned("SELECT COUNT(*) FROM serves AS a JOIN serves AS b WITHIN 1 MINUTE ON a.user = b.user")
    assert [one["type"] for one in plan.elements["sources"]] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        'SELECT COUNT(*) FROM "web-*", api AS "a b" JOIN "web-*" AS "c*d" WITHIN 1 DAY ON "a b".x = "c*d".y',
        "SELECT COUNT(*) FROM serves AS left JOIN clicks AS LEFT WITHIN 1 DAY ON left.x = LEFT.y",
        'SELECT COUNT(left.clicks_a), COUNT(clicks.a), MAX(left."@x"), MAX(left."a b"), MAX(left.a_b) '
        "FROM serves AS left JOIN clicks WITHIN 1 DAY ON left.clicks.a = clicks.b.c",
    ],
)
def test_names_of_any_kind_become_names_of_types_and_fields(text):
    plan = planned(text, dict.fromkeys(("web-eu", "api", "serves", "clicks"), OPEN))
    for type_ in plan.elements["types"]:
        names = [name for name, _ in type_["fields"]]
        assert len(set(names)) == len(names)
        assert all(name.isidentifier() for name in (type_["name"], *names))


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT COUNT(*) FROM serves JOIN clicks WITHIN 30 MINUTES {ON}",
        "SELECT COUNT(*) FROM serves LEFT JOIN clicks AS c WITHIN 1 DAYS ON c.a = serves.a",
        "SELECT within FROM (SELECT a AS within FROM web) AS within WHERE within > 3",
    ],
)
def test_a_join_is_printed_as_it_is_read(text):
    printed = format_query(parse(text))
    assert parse(printed) == parse(text)
    assert " within" in printed.lower()


def test_a_sub_query_may_still_be_called_within():
    assert parse("SELECT a FROM (SELECT a FROM web) within").source.alias == "within"


MISTAKES = {
    "SELECT COUNT(*) FROM serves JOIN clicks ON serves.a = clicks.a": (
        "a stream is joined within a time",
        "as in JOIN clicks WITHIN 30 MINUTES ON",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN ON serves.a = clicks.a": (
        "WITHIN needs a length of time, as in WITHIN 30 MINUTES",
        "",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN 30 MINUTS ON serves.a = clicks.a": (
        "a length of time needs a unit, not MINUTS",
        "did you mean MINUTES?",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WHITIN 30 MINUTES ON serves.a = clicks.a": (
        "WHITIN cannot stand here",
        "did you mean WITHIN?",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN 2 DAYS ON serves.a = clicks.a": (
        "WITHIN takes 1 millisecond to 1 day",
        "as in WITHIN 30 MINUTES",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN 0 SECONDS ON serves.a = clicks.a": (
        "WITHIN takes 1 millisecond to 1 day",
        "",
    ),
    "SELECT COUNT(*) FROM serves JOIN app('clicks') WITHIN 1 HOUR ON serves.a = clicks.a": (
        "WITHIN is for two streams",
        "leave WITHIN out",
    ),
    "SELECT COUNT(*) FROM app('x') JOIN clicks WITHIN 1 HOUR ON x.a = clicks.a": (
        "results of another job are not joined with a stream",
        "FROM names a stream",
    ),
    "SELECT COUNT(*) FROM (SELECT a FROM serves UNION ALL SELECT a FROM clicks) AS u JOIN clicks WITHIN 1 HOUR "
    "ON u.a = clicks.a": ("events of UNION ALL are not joined with a stream", ""),
    "SELECT COUNT(*) FROM serves JOIN (SELECT a FROM clicks) WITHIN 1 HOUR ON serves.a = a": (
        "a sub-query cannot be joined",
        "",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN 1 HOUR ON serves.a = clicks.a WHERE ad = 3": (
        "ad may be a column of serves or of clicks",
        "say whose it is, as in clicks.ad",
    ),
    "SELECT COUNT(*) FROM serves JOIN clicks WITHIN 1 HOUR ON serves.a < clicks.a": (
        "ON takes columns that have to be equal",
        "",
    ),
    "SELECT COUNT(*) FROM serves JOIN serves WITHIN 1 HOUR ON serves.a = serves.a": (
        "both sides of JOIN are called serves",
        "give one another name with AS",
    ),
    'SELECT COUNT(*) FROM serves JOIN "c*" WITHIN 1 HOUR ON serves.a = b': (
        "several streams that are joined need one name for all, given with AS",
        'as in "c*" AS other',
    ),
    "SELECT COUNT(*) FROM serves JOIN clickz WITHIN 1 HOUR ON serves.a = clickz.a": (
        "there is no stream clickz",
        "did you mean clicks?",
    ),
    "SELECT * FROM serves JOIN clicks WITHIN 1 HOUR ON serves.a = clicks.a": (
        "what columns the events of two streams have is not known before",
        "name the columns to show",
    ),
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items())
def test_mistakes_are_named_with_the_next_step(text, told):
    with pytest.raises(QueryError) as error:
        analyze(parse(text), JSON_LINES)
    assert told[0] in str(error.value)
    assert told[1] in str(error.value)


def test_a_column_that_one_side_alone_has_needs_no_name_before_it():
    plan = planned(f"SELECT place, SUM(price) FROM serves JOIN clicks WITHIN 1 HOUR {ON} GROUP BY place", FILES)
    assert [one.name for one in plan.columns] == ["serves.place", "clicks.price"]
    with pytest.raises(QueryError, match="ad may be a column of serves or of clicks"):
        analyze(parse(f"SELECT ad FROM serves JOIN clicks WITHIN 1 HOUR {ON}"), FILES)


def test_more_columns_than_events_of_a_join_may_have_are_refused():
    columns = ", ".join(f"serves.c{number}" for number in range(127))
    with pytest.raises(QueryError, match="a join of streams reads at most 128 columns: here are 131"):
        analyze(parse(f"SELECT {columns} FROM serves JOIN clicks WITHIN 1 HOUR {ON}"), JSON_LINES)


def test_explain_shows_what_is_brought_and_the_shuffle():
    plan = planned(
        "SELECT serves.place, COUNT(*) AS n, COUNT(clicks.ad) AS clicks FROM serves LEFT JOIN clicks WITHIN 30 MINUTES "
        f"{ON} WHERE serves.place <> 'side' AND clicks.price IS NULL GROUP BY serves.place WINDOWING 1 HOUR"
    )
    explained = explain(plan)
    assert explained.stream == "serves, clicks"
    assert explained.columns[0] == ("serves.place", "string")
    assert explained.agent == (
        "bring serves: SELECT place, serve, ad FROM serves WHERE place <> 'side'",
        "bring clicks: SELECT ad, serve, price FROM clicks",
        "join by (serve, ad) within 30 min: shuffled over 1,024 logical nodes to the agents that host them; "
        "events of serves without a match have NULL for those of clicks",
        "of serves_join_clicks, where it is made, read serves.place, clicks.ad, clicks.price",
        "keep events WHERE clicks.price IS NULL",
        "aggregate per window and serves.place: COUNT(*), COUNT(clicks.ad)",
    )


def test_explain_takes_a_name_without_a_side_for_one_of_the_left_side():
    """As for a query whose columns no agent was asked for."""
    anything = Schema({"*": "any"}, open=True)
    plan = planned(f"SELECT place FROM serves JOIN clicks WITHIN 1 HOUR {ON}", dict.fromkeys(JSON_LINES, anything))
    assert [one.name for one in plan.columns] == ["serves.place"]


def test_a_plan_names_the_streams_that_its_sources_read():
    plan = planned(f"SELECT COUNT(*) FROM serves JOIN clicks WITHIN 1 HOUR {ON}")
    assert plan.streams_read == "serves, clicks"
    assert stream_join(plan).right.plan.stream == "clicks"
    wire = plan.to_wire()
    wire["elements"] = {"sources": [{"type": "serves"}]}
    with pytest.raises(PlanError, match="its elements do not say what they read"):
        _ = Plan.from_wire(wire).streams_read


def test_within_is_bounded():
    text = f"SELECT COUNT(*) FROM serves JOIN clicks WITHIN {{}} {ON}"
    assert options(planned(text.format("86400000 MILLISECONDS")))["within_ms"] == WITHIN_MS_MAX
    assert options(planned(text.format("1 MILLISECOND")))["within_ms"] == 1
    for beyond in ("86400001 MILLISECONDS", "2 DAYS", "0 DAYS"):
        with pytest.raises(QueryError, match="WITHIN takes 1 millisecond to 1 day"):
            analyze(parse(text.format(beyond)), JSON_LINES)
