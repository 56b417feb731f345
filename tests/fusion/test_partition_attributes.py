"""Partition attributes of real queries: which expressions may partition an operator, and that they do it right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_pipeline import run

import query
from query.operators.job_operators import job_operators
from query.operators.operator import DataOperator
from query.operators.tracing import attribute_text, least, source_column

OPEN = {name: query.Schema({}, open=True) for name in ("web", "buys", "likes", "loans")}
BY_URL = "SELECT url, COUNT(*) AS n FROM web GROUP BY url"


def planned(text: str) -> query.Plan:
    return query.analyze(query.parse(text), OPEN)


def operators(text: str, **stages: str) -> dict[str, DataOperator]:
    plans = {name: planned(stage) for name, stage in stages.items()} | {"": planned(text)}
    return {one.name: one for one in job_operators(plans).operators}


def attributes(operator: DataOperator) -> set[str] | None:
    return None if operator.attributes is None else set(map(attribute_text, operator.attributes))


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        ("url", {"url"}),
        ("URL_HOST(url)", {"URL_HOST(url)"}),
        ("UPPER(URL_HOST(url))", {"UPPER(URL_HOST(url))"}),
        ("SUBSTR(url, 1, 3) || 'x'", {"SUBSTR(url, 1, 3) || 'x'"}),
    ],
)
def test_who_groups_by_a_column_may_be_partitioned_by_functions_of_it(inner: str, outer: set[str]) -> None:
    made = operators(f"SELECT {inner} AS key, MAX(n) FROM ({BY_URL}) GROUP BY key")
    assert attributes(made["consolidate 2"]) == outer
    assert attributes(made["consolidate"]) == {"url"} | outer


def test_who_groups_by_a_function_may_not_be_partitioned_by_the_column() -> None:
    by_host = "SELECT URL_HOST(url) AS host, COUNT(*) AS n FROM web GROUP BY host"
    made = operators("SELECT url, COUNT(*) FROM web GROUP BY url", hosts=by_host)
    assert attributes(made["hosts.consolidate"]) == {"URL_HOST(url)"}
    assert attributes(made["consolidate"]) == {"URL_HOST(url)", "url"}


def test_names_are_traced_through_projections_sub_queries_and_stages() -> None:
    inner = "SELECT LOWER(user.name) AS who, n FROM (SELECT user, hits AS n FROM web WHERE hits > 0)"
    made = operators(
        "SELECT person, SUM(total) FROM app('daily') GROUP BY person WINDOWING 1 DAY",
        daily=f"SELECT who AS person, SUM(n) AS total FROM ({inner}) GROUP BY who WINDOWING 1 HOUR",
    )
    assert attributes(made["daily.consolidate"]) == attributes(made["consolidate"]) == {"LOWER(user.name)"}


def test_an_operator_of_several_keys_may_be_partitioned_by_each_and_by_all() -> None:
    made = operators(f"SELECT host, MAX(n) FROM ({BY_URL.replace('url', 'host, url')}) GROUP BY host")
    assert attributes(made["consolidate"]) == {"host", "url", "host, url"}
    assert attributes(made["consolidate 2"]) == {"host"}


def test_functions_of_several_keys_need_all_of_them() -> None:
    made = operators(
        "SELECT a || b AS ab, MAX(n) FROM app('both') GROUP BY ab WINDOWING 1 MINUTE",
        both="SELECT a, b, COUNT(*) AS n FROM web GROUP BY a, b WINDOWING 1 MINUTE",
        one="SELECT a, COUNT(*) AS n FROM web GROUP BY a WINDOWING 1 MINUTE",
    )
    assert attributes(made["both.consolidate"]) == {"a", "b", "a, b", "a || b"}
    assert attributes(made["one.consolidate"]) == {"a"}


def test_what_aggregates_make_is_an_attribute_of_its_own() -> None:
    made = operators(f"SELECT n, COUNT(*) AS urls FROM ({BY_URL}) GROUP BY n")
    assert attributes(made["consolidate"]) == {"url"}
    assert attributes(made["consolidate 2"]) == {"n"}
    windows = "SELECT t.window_start AS at, SUM(n) FROM app('pages') AS t GROUP BY t.window_start WINDOWING 1 HOUR"
    of_windows = operators(windows, pages=f"{BY_URL} WINDOWING 1 MINUTE")
    assert attributes(of_windows["consolidate"]) == {"window_start"}
    assert attributes(of_windows["pages.consolidate"]) == {"url"}


def test_columns_of_different_streams_are_different_attributes() -> None:
    made = operators(
        "SELECT product, COUNT(*) FROM buys GROUP BY product",
        likes="SELECT product, COUNT(*) FROM likes GROUP BY product",
    )
    assert made["consolidate"].attributes != made["likes.consolidate"].attributes
    united = "SELECT product, COUNT(*) FROM (SELECT product FROM buys UNION ALL SELECT product FROM likes)"
    both = operators(f"{united} GROUP BY product", buys="SELECT product, COUNT(*) FROM buys GROUP BY product")
    assert both["consolidate"].attributes is not None
    assert both["buys.consolidate"].attributes is not None
    assert both["consolidate"].attributes.isdisjoint(both["buys.consolidate"].attributes)


def test_a_column_that_one_reads_as_texts_only_is_a_function_of_it() -> None:
    # A number is NULL to whoever wants texts: these groups are coarser.
    made = operators(
        "SELECT url, MAX(LENGTH(url)) FROM web GROUP BY url", raw="SELECT url, COUNT(*) FROM web GROUP BY url"
    )
    texts, raw = made["consolidate"].attributes, made["raw.consolidate"].attributes
    assert texts is not None
    assert raw is not None
    assert texts < raw


@pytest.mark.parametrize("grouped", ["", "GROUP BY 1 + 1", "GROUP BY window_start"])
def test_without_a_key_of_events_there_is_one_partition(grouped: str) -> None:
    made = operators(f"SELECT COUNT(*) FROM web {grouped} WINDOWING 1 MINUTE")
    assert attributes(made["compute"]) == attributes(made["consolidate"]) == set()
    assert attributes(made["map web"]) is None


def test_the_first_rows_of_all_are_in_one_partition() -> None:
    made = operators(f"SELECT url, MAX(n) FROM ({BY_URL} ORDER BY n DESC LIMIT 3) GROUP BY url")
    assert attributes(made["top"]) == set()
    assert (made["top"].reads, made["compute 2"].reads) == (("consolidate",), ("top",))
    events = operators("SELECT url FROM web LIMIT 5")
    assert [(one.name, attributes(one)) for one in events.values()] == [("map web", None), ("top", set())]


def test_operators_have_the_properties_of_table_1() -> None:
    made = operators(f"SELECT url, MAX(n) FROM ({BY_URL}) WHERE n > 2 GROUP BY url")
    properties = {name: (one.is_stateful, one.is_flexible) for name, one in made.items()}
    assert properties == {
        "map web": (False, True), "compute": (True, True), "consolidate": (False, False), "merge": (False, False),
        "map 2": (False, True), "compute 2": (True, True), "consolidate 2": (False, False),
    }  # fmt: skip
    assert {name for name, one in made.items() if one.is_placed} == {"map web", "compute"}


def test_schemas_say_what_goes_in_and_comes_out() -> None:
    made = operators("SELECT LOWER(path) AS p, SUM(ms) / COUNT(*) AS mean FROM web GROUP BY p")
    assert made["map web"].inputs == (("path", "string"), ("ms", "number"))
    assert made["map web"].outputs == made["compute"].inputs == (("LOWER(path)", "string"), ("ms", "number"))
    assert made["compute"].outputs == (("LOWER(path)", "string"), ("sum(ms)", "state"), ("count(*)", "state"))
    assert made["consolidate"].inputs == made["consolidate"].outputs == made["compute"].outputs
    assert made["merge"].inputs == made["consolidate"].outputs
    assert made["merge"].outputs == (("p", "string"), ("mean", "number"))


def test_queries_that_keep_the_same_events_share_a_map() -> None:
    made = operators(
        "SELECT area, SUM(amount) FROM loans WHERE amount > 0 GROUP BY area",
        counts="SELECT area, MAX(income) FROM loans WHERE amount > 0 GROUP BY area WINDOWING 1 MINUTE",
        others="SELECT area, COUNT(*) FROM loans WHERE amount < 0 GROUP BY area WINDOWING 1 MINUTE",
    )
    assert made["compute"].reads == made["counts.compute"].reads == ("map loans",)
    assert made["others.compute"].reads == ("map loans (2)",)
    assert dict(made["map loans"].inputs) == {"area": "any", "amount": "number", "income": "any"}
    assert dict(made["map loans"].outputs) == {"area": "any", "amount": "number", "income": "any"}


@pytest.mark.parametrize(
    ("aggregate", "of", "more", "nests"),
    [
        ("SUM", "COUNT(*)", "", True), ("SUM", "COUNT(DISTINCT x)", "", False), ("MIN", "MIN(x)", "", True),
        ("MAX", "MAX(x)", "", True), ("MAX", "MIN(x)", "", False), ("SUM", "SUM(x)", "", False),
        ("AVG", "COUNT(*)", "", False), ("SUM", "COUNT(*) + 1", "", False), ("SUM", "COUNT(*)", "WHERE n > 1", False),
        ("SUM", "COUNT(*)", "GROUP BY n", False), ("SUM", "COUNT(*)", "GROUP BY URL_HOST(url)", True),
    ],
)  # fmt: skip
def test_states_are_merged_where_aggregates_nest(aggregate: str, of: str, more: str, nests: bool) -> None:
    made = operators(f"SELECT {aggregate}(n) FROM (SELECT url, {of} AS n FROM web GROUP BY url) {more}")
    assert made["consolidate 2"].takes_states == nests
    assert ("compute 2" in made) != nests
    # Those of windows as the master has merged them.
    assert (made["consolidate 2"].reads == ("merge",)) == nests
    assert (made["consolidate 2"].inputs == made["consolidate"].outputs == made["merge"].inputs) == nests


@pytest.mark.parametrize("clause", ["HAVING n > 1", "LIMIT 2"])
def test_rows_that_are_left_out_are_no_states(clause: str) -> None:
    made = operators(f"SELECT SUM(n) FROM ({BY_URL} {clause})")
    assert not made["consolidate 2"].takes_states


def test_a_job_from_outside_has_no_operators_here() -> None:
    made = operators("SELECT product, SUM(n) FROM app('elsewhere') GROUP BY product WINDOWING 1 MINUTE")
    assert (made["map"].sources, made["map"].reads, made["map"].is_placed) == (("app('elsewhere')",), (), False)
    assert attributes(made["map"]) == set(), "they come to one agent"
    assert attributes(made["consolidate"]) == {"product"}


def test_a_look_up_reads_the_stage_that_it_looks_up() -> None:
    made = operators(
        "SELECT best.product AS p, COUNT(*) FROM likes JOIN app('best') ON likes.product = best.product"
        " GROUP BY best.product WINDOWING 1 MINUTE",
        best="SELECT product, COUNT(*) AS n FROM buys GROUP BY product WINDOWING 1 MINUTE",
    )
    assert made["map likes"].reads == ("best.merge",)
    # A product that was looked up is the same product.
    assert made["consolidate"].attributes == made["best.consolidate"].attributes


def test_attributes_of_one_text_are_in_one_order() -> None:
    columns = [source_column(f"stream{number:02}", ["product"]) for number in range(20)]
    assert least([(one,) for one in reversed(columns)]) == tuple(columns)


KEYED = {
    "SELECT h, MAX(n) AS most FROM (SELECT URL_HOST(url) AS h, url, COUNT(*) AS n FROM web GROUP BY h, url) GROUP BY h",
    "SELECT URL_HOST(url) AS h, SUM(n) AS n FROM (SELECT url, user, COUNT(*) AS n FROM web GROUP BY url, user)"
    " GROUP BY h",
    "SELECT user, url, n FROM (SELECT user, url, COUNT(*) AS n FROM web WHERE ms > 1 GROUP BY user, url)"
    " GROUP BY user, url, n",
    "SELECT u, MIN(n) AS n FROM (SELECT UPPER(user) AS u, user, SUM(ms) AS n FROM web GROUP BY u, user HAVING n > 1)"
    " GROUP BY u",
    "SELECT UPPER(user || '.') AS u, COUNT(*) AS n FROM (SELECT user, url FROM web GROUP BY user, url) GROUP BY u",
}
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "url": st.sampled_from(["//a/x", "//a/y", "//b/x", "//B/x", "c"]),
            "user": st.sampled_from(["u", "U", "v"]),
            "ms": st.integers(0, 3),
        }
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("text", sorted(KEYED))
@settings(max_examples=15)
@given(events=EVENTS)
def test_partitions_answer_as_the_whole_does(text: str, events: list[dict[str, Any]]) -> None:
    """Each attribute that all operators have in common cuts events into parts whose answers are together the answer."""
    keyed = [one.attributes for one in operators(text).values() if one.attributes]
    shared = set.intersection(*map(set, keyed))
    assert shared
    for attribute in shared:
        numbered = [{**event, "id": number} for number, event in enumerate(events)]
        parts = run(f"SELECT id, {attribute_text(attribute)} FROM web LIMIT 100", numbered)
        cut: dict[object, list[dict[str, Any]]] = {}
        for part in parts:
            number, *values = part.values()
            cut.setdefault(tuple(values), []).append(events[number])
        apart = [row for own in cut.values() for row in run(text, own)]
        assert Counter(map(str, apart)) == Counter(map(str, run(text, events)))
