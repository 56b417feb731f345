"""Plans on the wire: what is sent comes back, and nothing a peer sends does harm."""

from __future__ import annotations

import copy
from dataclasses import replace

import msgpack
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from query import EventStage, Plan, PlanError, ResultStage, Schema, analyze, parse

CATALOG = {
    "web": Schema({"status": "integer", "path": "string", "time": "timestamp"}, open=False),
    "shop": Schema({}, open=True),
}
QUERIES = [
    "SELECT product, SUM(clicks) / COUNT(*) AS mean FROM shop WHERE store = 'games' GROUP BY product "
    "ORDER BY mean DESC LIMIT 10 WINDOWING 30 SECONDS",
    "SELECT *, status + 1.5 FROM web WHERE NOT path LIKE '/a\\%%' AND time > '2024-01-01' ORDER BY path DESC",
    "SELECT window_start, a, MIN(b), MAX(b) FROM shop WHERE a IN (b, NULL) OR c IS NOT NULL GROUP BY a, d.e "
    "WINDOWING 1 DAY",
    "SELECT COUNT(*), AVG(status % 7), -SUM(status) FROM web WHERE status IN (200, -9223372036854775808)",
    "SELECT a, COUNT(DISTINCT b), SUM(c) FILTER (WHERE d), APPROX_QUANTILE(c, 0.9), HISTOGRAM(c, 0, 1.5), COLLECT(b) "
    "FROM shop GROUP BY a HAVING LAST(c) > 1 AND STDDEV(c) < 9 ORDER BY a DESC NULLS FIRST, 2 LIMIT 3",
    "SELECT DISTINCT a, b FROM shop ORDER BY b NULLS FIRST",
    "SELECT TRUE, NULL, 'x', a FROM shop GROUP BY a // 2, a",
    "SELECT a, COUNT(*) FROM shop GROUP BY a TREES 4",
    "SELECT COUNT(*) FROM shop WINDOWING 1 SECOND ON STRAGGLER LEAP AFTER 3 PANES RECOVER FOR 0 SECONDS",
    "SELECT COUNT(*) FROM shop WINDOWING 1 SECOND ON STRAGGLER WAIT",
    "SELECT COUNT(*) FROM shop WINDOWING 1 SECOND WITHIN 500 MILLISECONDS ON AVERAGE ELSE PARTIAL",
    "SELECT COUNT(*) FROM shop WINDOWING 1 MINUTE EMIT CHANGES WITHIN 500 MILLISECONDS",
    "SELECT MAX(n) FROM (SELECT a, COUNT(*) AS n FROM shop GROUP BY a) WINDOWING 1 MINUTE EVERY 10 SECONDS, 2 MINUTES",
    "SELECT MAX(n) FROM (SELECT a, COUNT(*) AS n FROM shop GROUP BY a) WINDOWING 1 MINUTE EMIT CHANGES "
    "WITHIN 500 MILLISECONDS",
]
PLANS = [analyze(parse(query), CATALOG) for query in QUERIES]
AGGREGATED = PLANS[4]


@pytest.mark.parametrize("plan", PLANS, ids=QUERIES)
def test_plans_come_back_as_they_were_sent(plan):
    packed = msgpack.packb(plan.to_wire())
    assert Plan.from_wire(msgpack.unpackb(packed)) == plan
    assert len(packed) < 1_000


def test_a_plan_carries_the_elements_of_its_job_and_one_without_any_is_written_as_ever():
    plan = PLANS[0]
    assert "elements" not in plan.to_wire()
    keyed = replace(plan, elements={"sources": [], "types": [{"name": "Word"}], "elements": []})
    packed = msgpack.unpackb(msgpack.packb(keyed.to_wire()))
    assert packed == plan.to_wire() | {"elements": keyed.elements}
    assert Plan.from_wire(packed) == keyed
    # What is computed of a pane is the same, whatever brings the events.
    assert keyed.shared_part() == plan.shared_part()


def test_a_plan_carries_the_fields_of_the_types_that_it_reads_and_reads_nothing_else():
    plan = PLANS[0]
    staged = replace(plan, types={plan.stream: [("word", "string")], "Other": []})
    packed = msgpack.unpackb(msgpack.packb(staged.to_wire()))
    assert Plan.from_wire(packed) == staged
    assert staged.shared_part() == plan.shared_part()
    with pytest.raises(PlanError, match="no type of its job"):
        Plan.from_wire(packed | {"types": {"Other": []}})


@pytest.mark.parametrize("windows", [{"sizes": [[20_000, 10_000]]}, {"gap_ms": 10_000}])
def test_a_plan_over_rows_has_their_windows(windows):
    text = "SELECT MAX(n) FROM (SELECT a, COUNT(*) AS n FROM shop GROUP BY a) WINDOWING {}"
    message = analyze(parse(text.format("10 SECONDS")), CATALOG).to_wire()
    outer = message["outer"] | {"windows": windows, "window_ms": 1_000 if "gap_ms" in windows else 10_000}
    with pytest.raises(PlanError, match="other windows"):
        Plan.from_wire(message | {"outer": outer})


@pytest.mark.parametrize(
    "change",
    [
        {"elements": [1]},
        {"types": {}},
        {"types": {"web": [["n", "nothing"]]}},
        {"types": {"\ud800": []}},
        {"version": 6},
        {"version": True},
        {"stream": 5},
        {"stream": "\ud800"},
        {"stream": "x" * 70_000},
        {"window_ms": 0},
        {"window_ms": 2**62},
        {"kind": "both"},
        {"kind": "rows"},
        {"limit": -1},
        {"limit": 2.5},
        {"stragglers": {"leap_panes": 1}},
        {"stragglers": {"leap_panes": 2, "waits": True}},
        {"stragglers": {"recover_ms": -1}},
        {"stragglers": {"mirrors": True}},
        {"trees": 0},
        {"trees": 65},
        {"trees": 2.0},
        {"max_groups": 0},
        {"max_groups": -1},
        {"max_groups": 2**62},
        {"max_groups": True},
        {"max_groups": 5.0},
        {"max_groups": None},
        {"beyond_groups": "drop"},
        {"beyond_groups": None},
        {"where": "store"},
        {"where": "nowhere"},
        {"where": ["value", "boolean", 1]},
        {"where": ["=", "store"]},
        {"where": ["=", "store", ["value", "integer", 1]]},
        {"where": ["like", "store", "store"]},
        {"where": ["like", "store", ["value", "string", "x\\"]]},
        {"where": ["value", "string", "x"]},
        {"where": ["=", ["value", "number", float("nan")], ["value", "number", 1.0]]},
        {"where": ["=", ["value", "integer", 2**63], ["value", "integer", 1]]},
        {"where": ["system", "store"]},
        {"where": []},
        {"where": {"=": 1}},
        {"columns": [["store", [], "string"]]},
        {"columns": [["store", ["store"], "text"]]},
        {"columns": [["@time", ["store"], "string"]]},
        {"columns": [["store", ["store"], "string"]] * 2},
        {"keys": [["k1", "product"]]},
        {"keys": [], "aggregates": []},
        {"aggregates": [["a0", "sum", None]]},
        {"aggregates": [["a0", "sum", "x7"]]},
        {"aggregates": [["a0", "median", "x0"]]},
        {"arguments": [["x0", "store"]]},
        {"output": []},
        {"output": [["a", "k0"], ["a", "k0"]]},
        {"output": [["a", "product"]]},
        {"order": [["a0", 1]]},
        {"more": 1},
    ],
    ids=str,
)
def test_changed_plans_are_refused(change):
    with pytest.raises(PlanError):
        Plan.from_wire({**PLANS[0].to_wire(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"aggregates": [["a0", "COUNT DISTINCT", "x0"]]},
        {"aggregates": [["a0", "count distinct", None]]},
        {"aggregates": [["a0", "approx_quantile", "x0"]]},
        {"aggregates": [["a0", "bool_and", "x0"]]},
        {"aggregates": [["a0", "count", "x0"]], "parameters": {"a0": [1]}},
        {"parameters": {"a0": [1]}},
        {"parameters": {"a3": []}},
        {"parameters": {"a0": None}},
        {"parameters": {"a3": [1.5]}},
        {"parameters": {"a3": [0.5, 10**6]}},
        {"parameters": {"a3": [0.5, 200.0]}},
        {"parameters": {"a3": [True]}},
        {"parameters": {"a3": [float("nan")]}},
        {"parameters": {"a9": [1]}},
        {"having": "a0"},
        {"having": "b"},
        {"having": [">", "a0"]},
        {"having": ["value", "string", "x"]},
        {"nulls_first": [5]},
        {"nulls_first": [-1]},
        {"nulls_first": True},
        {"arguments": [["x0", ["filter", "c", "b"]]]},
        {"arguments": [["x0", ["filter", "d"]]]},
    ],
    ids=str,
)
def test_changed_aggregates_are_refused(change):
    with pytest.raises(PlanError):
        Plan.from_wire({**AGGREGATED.to_wire(), **change})


def test_rows_have_no_having_and_sets_are_limited():
    rows = analyze(parse("SELECT product FROM shop"), CATALOG).to_wire()
    with pytest.raises(PlanError, match="rows are not grouped"):
        Plan.from_wire({**rows, "having": ["value", "boolean", True]})
    many = {"arguments": [["x0", "b"]], "aggregates": [[f"a{n}", "count distinct", "x0"] for n in range(101)]}
    bare = {"parameters": {}, "having": None, "output": [["n", "a0"]], "order": [], "nulls_first": []}
    with pytest.raises(PlanError, match="more than 100"):
        Plan.from_wire({**AGGREGATED.to_wire(), **bare, **many})


@pytest.mark.parametrize("version", [0, 2, 5, 2**63, "1", None])
def test_a_plan_of_an_unknown_version_is_refused_by_its_version(version):
    later = {**PLANS[0].to_wire(), "version": version, "a field of that version": 5}
    with pytest.raises(PlanError, match="plans of version 1 run here"):
        Plan.from_wire(later)


def test_a_limit_of_groups_comes_back():
    plan = analyze(parse(QUERIES[0]), CATALOG, max_groups=7, beyond_groups="error")
    assert Plan.from_wire(plan.to_wire()) == plan


def test_deep_and_large_expressions_are_refused():
    deep = ["value", "boolean", True]
    for _ in range(100_000):
        deep = ["not", deep]
    with pytest.raises(PlanError, match="nests too deeply"):
        Plan.from_wire({**PLANS[0].to_wire(), "where": deep})
    wide = ["or", *[["value", "boolean", True]] * 100_000]
    with pytest.raises(PlanError, match="too large"):
        Plan.from_wire({**PLANS[0].to_wire(), "where": wide})


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.sampled_from(
        ["store", "product", "k0", "a0", "x0", "value", "integer", "string", "any", "=", "in", "rows", "+"]
    ),
)
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=12,
)


def run_if_it_is_a_plan(data):
    """Anything is refused with PlanError, or runs."""
    try:
        plan = Plan.from_wire(data)
    except PlanError:
        return
    assert Plan.from_wire(plan.to_wire()) == plan
    dtypes = {
        "string": pl.String,
        "boolean": pl.Boolean,
        "timestamp": pl.Datetime("ms", "UTC"),
        "any": pl.String,
    }
    schema = {"@time": pl.Int64} | {column.name: dtypes.get(column.type, pl.Int64) for column in plan.columns}
    EventStage(plan).apply(pl.DataFrame([[0] * len(schema)], schema=schema, orient="row", strict=False))
    if plan.kind == "aggregate":
        names = ["pane", *(key.name for key in plan.keys), *(aggregate.name for aggregate in plan.aggregates)]
        ResultStage(plan).windows(pl.DataFrame({name: [None] for name in names}).with_columns(pane=0), [0])


def places(data, path=()):
    """The path to every value inside nested lists and dicts."""
    yield path
    if isinstance(data, dict | list):
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from places(value, (*path, key))


@pytest.mark.fuzz
@given(GARBAGE)
def test_garbage_is_refused(data):
    run_if_it_is_a_plan(data)


@pytest.mark.fuzz
@given(st.sampled_from(PLANS), st.data())
def test_mutated_plans_are_refused_or_run(plan, data):
    wire = copy.deepcopy(plan.to_wire())
    for _ in range(data.draw(st.integers(1, 3))):
        every = [path for path in places(wire) if path]
        *path, last = data.draw(st.sampled_from(every))
        target = wire
        for key in path:
            target = target[key]
        target[last] = data.draw(GARBAGE)
    run_if_it_is_a_plan(wire)


@pytest.mark.fuzz
@given(st.sampled_from(PLANS), st.data())
def test_plans_with_parts_exchanged_are_refused_or_run(plan, data):
    wire = copy.deepcopy(plan.to_wire())
    expressions = [path for path in places(wire) if path and path[0] not in ("version", "columns", "stream", "kind")]
    *path, last = data.draw(st.sampled_from(expressions))
    target = source = wire
    for key in path:
        target = target[key]
    for key in data.draw(st.sampled_from(expressions)):
        source = source[key]
    target[last] = copy.deepcopy(source)
    run_if_it_is_a_plan(wire)
