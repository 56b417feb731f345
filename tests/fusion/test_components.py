"""Components of real jobs: the one of Enorm's section 2, circles, few values, rates, and many operators."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_jobs import graphs, members

import query
from query.fusion.components import FusedJob, fused_job
from query.fusion.graph import FusionGraph, has_circle
from query.fusion.greedy import fused_by_rate
from query.operators.job_operators import job_operators
from query.operators.operator import OPERATORS_MAX, OperatorGraph
from query.operators.tracing import attribute_text, source_column

OPEN = {name: query.Schema({}, open=True) for name in ("web", "loans")}
LENDING = {
    "interest": "SELECT area, SUM(rate) AS rates, COUNT(*) AS loans, SUM(income) AS income"
    " FROM (SELECT area, return / amount AS rate, income FROM loans WHERE amount > 0) GROUP BY area"
    " WINDOWING 10 MINUTES",
    "approval": "SELECT area, COUNT(*) FILTER (WHERE approval) AS approved, COUNT(*) AS loans"
    " FROM loans WHERE amount > 0 GROUP BY area WINDOWING 10 MINUTES",
    "average": "SELECT SUM(rates) / SUM(loans) AS rate FROM app('interest') WINDOWING 10 MINUTES",
    "rate": "SELECT SUM(approved) / SUM(loans) AS rate FROM app('approval') WINDOWING 10 MINUTES",
}
"""Figure 1: op1 computes the interest of each loan; op2 and op3 aggregate by area; op4 and op5 are global."""
OP1, OP2, OP3 = "map loans", ("interest.compute", "interest.consolidate"), ("approval.compute", "approval.consolidate")
OP4, OP5 = ("average.compute", "average.consolidate"), ("rate.consolidate",)
MERGES = ("interest.merge", "approval.merge")
"""The master makes the rows of op2 and op3 of what the owners of areas have."""


def graph_of(stages: dict[str, str]) -> OperatorGraph:
    return job_operators({name: query.analyze(query.parse(text), OPEN) for name, text in stages.items()})


def without_merges(graph: OperatorGraph) -> OperatorGraph:
    """The graph as the paper has it: whoever reads a `consolidate` has its rows from its partitions."""
    made = {one.name: one for one in graph.operators}
    read = {name: one.reads[0] for name, one in made.items() if name.endswith("merge")}
    kept = (one for name, one in made.items() if name not in read)
    return OperatorGraph(tuple(replace(one, reads=tuple(read.get(name, name) for name in one.reads)) for one in kept))


def told(job: FusedJob) -> dict[tuple[str, str], set[str]]:
    """The operators of each component, by where it runs and what partitions it."""
    return {(one.place, attribute_text(one.attributes)): set(one.operators) for one in job.components}


def test_the_job_of_section_2_has_the_components_of_figure_2() -> None:
    job = fused_job(without_merges(graph_of(LENDING)), splits=False)
    assert told(job) == {("owners", "area"): {OP1, *OP2, *OP3}, ("one", ""): {*OP4, *OP5}}
    assert set(job.between) == {(OP2[1], OP4[0]), (OP3[1], OP5[0])}


def test_split_it_has_those_of_figure_4() -> None:
    job = fused_job(graph_of(LENDING))
    assert told(job) == {
        ("agents", ""): {OP1, OP2[0], OP3[0]},
        ("owners", "area"): {OP2[1], OP3[1]},
        ("one", ""): {*MERGES, *OP4, *OP5},
    }
    assert all(one.is_at_master for one in job.components if one.place != "agents")


def test_whoever_reads_a_stage_is_where_its_windows_are_merged() -> None:
    stages = {
        "pages": "SELECT url, user, COUNT(*) AS n FROM web GROUP BY url, user WINDOWING 1 MINUTE TREES 3",
        "same": "SELECT url, user, SUM(n) AS n FROM app('pages') GROUP BY url, user WINDOWING 5 MINUTES",
        "coarser": "SELECT URL_HOST(url) AS host, AVG(n) AS n FROM app('pages') GROUP BY host WINDOWING 5 MINUTES",
        "best": "SELECT user, SUM(n) AS n FROM app('same') WHERE n > 1 GROUP BY user ORDER BY n DESC LIMIT 3"
        " WINDOWING 1 HOUR",
        "": "SELECT loans.user AS user, COUNT(*) FROM loans JOIN app('best') ON loans.user = best.user"
        " GROUP BY loans.user WINDOWING 1 HOUR TREES 2",
    }
    job = fused_job(graph_of(stages))
    assert [(one.place, one.owners) for one in job.components] == [
        ("agents", 1), ("owners", 3), ("one", 1), ("owners", 2),
    ]  # fmt: skip
    read = {"same.consolidate", "coarser.compute", "coarser.consolidate"}
    filtered = {"best.map", "best.compute", "best.consolidate", "best.top"}
    assert told(job)["one", ""] == {"pages.merge", *read, *filtered, "merge"}
    assert set(job.between) == {
        ("pages.compute", "pages.consolidate"), ("pages.consolidate", "pages.merge"), ("best.top", "map loans"),
        ("compute", "consolidate"), ("consolidate", "merge"),
    }  # fmt: skip


def test_queries_with_several_trees_have_their_own_owners() -> None:
    text = "SELECT a, COUNT(*) FROM web GROUP BY a WINDOWING 1 MINUTE"
    apart = fused_job(graph_of({"one": f"{text} TREES 2", "other": f"{text} TREES 2"}))
    assert [one.operators for one in apart.components if one.place == "owners"] == [
        ("one.consolidate",), ("other.consolidate",),
    ]  # fmt: skip
    together = fused_job(graph_of({"one": text, "other": text}))
    assert [one.operators for one in together.components if one.place == "owners"] == [
        ("one.consolidate", "other.consolidate")
    ]


@pytest.mark.parametrize(
    ("clauses", "last"),
    [
        ("WINDOWING 1 MINUTE", "merge"),
        ("WINDOWING 1 MINUTE EMIT CHANGES", "consolidate"),
        ("WINDOWING SESSION 1 MINUTE", "consolidate"),
        ("ORDER BY n DESC LIMIT 3 WINDOWING 1 MINUTE", "top"),
    ],
)
def test_what_the_master_does_alone_is_in_one_partition(clauses: str, last: str) -> None:
    job = fused_job(graph_of({"": f"SELECT a, COUNT(*) AS n FROM web GROUP BY a {clauses}"}))
    assert told(job)["one", ""] == {last}


def test_rows_of_another_job_come_to_one_agent() -> None:
    job = fused_job(graph_of({"": "SELECT a, AVG(n) FROM app('elsewhere') GROUP BY a WINDOWING 1 MINUTE"}))
    assert told(job) == {("one", ""): {"map", "compute", "consolidate"}}


def test_each_operator_is_in_one_component() -> None:
    graph = graph_of(LENDING)
    named = [name for one in fused_job(graph).components for name in one.operators]
    assert sorted(named) == sorted(one.name for one in graph.operators)


READERS = {
    "pages": "SELECT url, user, COUNT(*) AS n FROM web GROUP BY url, user WINDOWING 1 MINUTE",
    "hosts": "SELECT URL_HOST(url) AS host, AVG(n) FROM app('pages') WHERE n > 9 GROUP BY host WINDOWING 1 HOUR",
    "users": "SELECT user, AVG(n) FROM app('pages') WHERE n < 2 GROUP BY user WINDOWING 1 HOUR",
}
"""Two stages that filter what a third one counts, and partition it in two ways."""


def rated(hosts: float, users: float) -> dict[str, float]:
    """Rates of the operators of these stages, where so much gets through the filters."""
    made = {one.name: 1.0 for one in graph_of(READERS).operators}
    return made | {"pages.consolidate": 100.0, "hosts.map": hosts, "users.map": users}


def partition_of(job: FusedJob, operator: str) -> str:
    return next(attribute_text(one.attributes) for one in job.components if operator in one.operators)


def test_rates_say_with_which_reader_a_stage_is_fused() -> None:
    graph = without_merges(graph_of(READERS))
    to_hosts, to_users = fused_job(graph, rated(50, 5)), fused_job(graph, rated(5, 50))
    assert partition_of(to_hosts, "pages.consolidate") == partition_of(to_hosts, "hosts.compute") == "URL_HOST(url)"
    assert ("users.map", "users.compute") in to_hosts.between
    assert partition_of(to_users, "pages.consolidate") == partition_of(to_users, "users.compute") == "user"
    assert ("hosts.map", "hosts.compute") in to_users.between


def test_components_in_force_change_when_rates_make_it_worth_it() -> None:
    graph = without_merges(graph_of(READERS))
    now = fused_job(graph, rated(50, 5))
    assert fused_job(graph, rated(50, 51), current=now) == now
    assert fused_job(graph, rated(50, 90), current=now) == fused_job(graph, rated(50, 90)) != now
    other = fused_job(graph_of(LENDING))
    assert fused_job(graph, rated(50, 90), current=other) == fused_job(graph, rated(50, 90))


def test_unless_all_rates_are_known_all_are_equal() -> None:
    graph = without_merges(graph_of(READERS))
    assert fused_job(graph, {"users.map": 1e9}) == fused_job(graph)


def test_an_attribute_of_too_few_values_fuses_nothing() -> None:
    area = (source_column("loans", ["area"]),)
    graph = graph_of(LENDING)
    assert told(fused_job(graph, owners=4, cardinalities={area: 4})) == told(fused_job(graph))
    job = fused_job(graph, owners=4, cardinalities={area: 3})
    alone = [one for one in job.components if one.place == "owners"]
    assert [(set(one.operators), attribute_text(one.attributes)) for one in alone] == [
        ({OP2[1]}, "area"), ({OP3[1]}, "area"),
    ]  # fmt: skip


def test_few_values_of_each_key_may_be_many_of_all_together() -> None:
    stages = {
        "both": "SELECT a, b, COUNT(*) AS n FROM web GROUP BY a, b WINDOWING 1 MINUTE",
        "": "SELECT a, b, AVG(n) FROM app('both') GROUP BY a, b WINDOWING 1 HOUR",
    }
    values = {(source_column("web", [name]),): 3 for name in "ab"}
    job = fused_job(without_merges(graph_of(stages)), owners=8, cardinalities=values)
    assert told(job)["owners", "a, b"] == {"both.consolidate", "compute", "consolidate"}


def test_a_component_is_partitioned_by_the_finest_that_all_allow() -> None:
    by_both = {
        "pages": READERS["pages"],
        "": "SELECT URL_HOST(url) AS host, user, AVG(n) FROM app('pages') GROUP BY host, user WINDOWING 1 HOUR",
    }
    assert ("owners", "URL_HOST(url), user") in told(fused_job(without_merges(graph_of(by_both))))


def test_a_job_of_too_many_operators_is_not_planned_and_runs_as_others_do() -> None:
    text = "SELECT a, COUNT(*) AS n FROM web GROUP BY a WINDOWING 1 MINUTE TREES 2"
    counted = OPERATORS_MAX // 3
    stages = {f"s{one}": text for one in range(counted)}
    stages[""] = "SELECT a, AVG(n) FROM app('s0') GROUP BY a WINDOWING 1 HOUR"
    graph = graph_of(stages)
    job = fused_job(graph)
    assert job.note == f"not planned: {len(graph.operators)} operators, and at most {OPERATORS_MAX} are planned"
    assert sum(len(one.operators) == 1 for one in job.components if one.place == "owners") == counted
    assert told(job)["one", ""] >= {"s0.merge", "compute", "consolidate"}


def windows_out(graph: FusionGraph, components: tuple[int, ...] | None, windows: int, draw: random.Random) -> int:
    """The number of windows that all operators have finished when nothing moves any more.

    An operator finishes a window once all upstream ones have. With `components`, each waits as section 6.2 has it: for
    the window of every component that sends rows to it.
    """
    units = list(range(len(graph.attributes))) if components is None else list(components)
    waits = {(units[other], units[one]) for one, other, _ in graph.edges if units[one] != units[other]}
    done = dict.fromkeys(units, 0)
    moving = True
    while moving:
        ready = [unit for unit, has in done.items()
                 if has < windows and all(done[other] > has for one, other in waits if one == unit)]  # fmt: skip
        moving = bool(ready)
        for unit in draw.sample(ready, len(ready)):
            done[unit] += 1
    return min(done.values())


@settings(max_examples=100)
@given(graphs(9, 3), st.randoms(use_true_random=False))
def test_circles_of_components_hold_up_components_and_no_operators(graph: FusionGraph, draw: random.Random) -> None:
    components = fused_by_rate(graph)
    assert windows_out(graph, None, 3, draw) == 3
    assert windows_out(graph, components, 3, draw) == (0 if has_circle(graph, components) else 3)


def test_algorithm_1_makes_a_circle_of_three_operators() -> None:
    graph = FusionGraph((0b01, 0b10, 0b01), ((0, 1, 5.0), (1, 2, 5.0), (0, 2, 9.0)))
    assert members(fused_by_rate(graph)) == [[0, 2], [1]]
    assert has_circle(graph, fused_by_rate(graph))
    assert not has_circle(graph, (0, 1, 2))


def test_stages_in_a_circle_are_refused() -> None:
    circle = {"one": "SELECT a FROM app('other') LIMIT 1", "other": "SELECT a FROM app('one') LIMIT 1"}
    with pytest.raises(ValueError, match="cycle"):
        graph_of(circle)
