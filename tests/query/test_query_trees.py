"""By how many trees a query is computed: where it says so, and where it does not."""

from __future__ import annotations

import pytest

from query import Plan, PlanError, QueryError, Schema, analyze, explain, parse
from query.explain import has_owners

CATALOG = {"web": Schema({}, open=True)}
GROUPED = "SELECT path, COUNT(*) AS n FROM web GROUP BY path"


def planned(text, **options):
    return analyze(parse(text), CATALOG, **options)


@pytest.mark.parametrize(
    ("text", "max_groups", "trees"),
    [
        (GROUPED, 1, 1),
        (GROUPED, 1_000_000, 1),
        (GROUPED, 1_000_001, 2),
        (GROUPED, 4_500_000, 5),
        (GROUPED, 100_000_000, 16),
        (f"{GROUPED} ORDER BY n DESC", 2_000_000, 2),
        (f"{GROUPED} ORDER BY n DESC LIMIT 10", 100_000_000, 1),
        ("SELECT COUNT(*) FROM web", 100_000_000, 1),
        ("SELECT path FROM web", 100_000_000, 1),
        ("SELECT a, COUNT(*) FROM app('x') GROUP BY a", 100_000_000, 1),
        (f"{GROUPED} TREES 1", 100_000_000, 1),
        (f"{GROUPED} TREES 64", 1, 64),
        (f"{GROUPED} ORDER BY n DESC LIMIT 10 TREES 3", 1, 3),
        ("SELECT COUNT(*) FROM web TREES 1", 1, 1),
    ],
)
def test_a_tree_for_each_million_groups_unless_the_query_says_how_many(text, max_groups, trees):
    assert planned(text, max_groups=max_groups).trees == trees


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{GROUPED} TREES 0", "a job has 1 to 64 trees"),
        (f"{GROUPED} TREES 65", "a job has 1 to 64 trees"),
        (f"{GROUPED} TREES", "the query ends too early"),
        (f"{GROUPED} TREES many", "TREES needs a whole number, as in TREES 4"),
        (f"{GROUPED} TREES 4 WINDOWING 1 DAY", "LIMIT, WINDOWING, WITHIN and TREES"),
        ("SELECT COUNT(*) FROM web TREES 2", "no groups to share among trees"),
        ("SELECT path FROM web TREES 2", "no groups to share among trees"),
        ("SELECT a, COUNT(*) FROM app('x') GROUP BY a TREES 2", "read by one agent"),
    ],
)
def test_what_cannot_be_divided_is_explained(text, told):
    with pytest.raises(QueryError, match=told):
        planned(text)


def test_a_peers_plan_has_groups_where_it_has_several_trees():
    for text in ("SELECT COUNT(*) FROM web", "SELECT path FROM web", "SELECT a, COUNT(*) FROM app('x') GROUP BY a"):
        plan = planned(text).to_wire()
        assert Plan.from_wire(plan | {"trees": 1}).trees == 1
        with pytest.raises(PlanError, match="no groups to share"):
            Plan.from_wire(plan | {"trees": 2})


def test_explaining_says_how_many_trees_there_are():
    assert explain(planned(f"{GROUPED} TREES 4")).tree[-1] == "in 4 trees, each for a range of the keys' hashes"
    assert explain(planned(GROUPED, max_groups=2_000_000)).tree[-1].startswith("in 2 trees")
    assert not any("trees" in step for step in explain(planned(GROUPED)).tree)


MERGED = "4 of them: merge the groups in a range of the keys' hashes"
OWNED = f"{MERGED}, make their windows of panes that the master has decided on, hand it these"
HANDED_ON = f"{MERGED}, hand them to the master"


@pytest.mark.parametrize(
    ("clauses", "roots"),
    [
        ("", (HANDED_ON,)),
        ("WINDOWING 1 MINUTE", (HANDED_ON,)),
        ("WINDOWING SESSION 1 MINUTE", (HANDED_ON,)),
        ("WINDOWING 2 MINUTES EVERY 1 MINUTE EMIT CHANGES", (HANDED_ON,)),
        ("WINDOWING 2 MINUTES EVERY 1 MINUTE", (OWNED,)),
        ("WINDOWING 1 MINUTE, 5 MINUTES", (OWNED,)),
        (
            "HAVING COUNT(*) > 1 WINDOWING 1 MINUTE, 5 MINUTES",
            (OWNED, "leave out groups of windows by HAVING, where that is exact"),
        ),
        (
            "HAVING COUNT(*) > 1 ORDER BY n LIMIT 9 WINDOWING 1 MINUTE, 5 MINUTES",
            (OWNED, "leave out groups of windows by HAVING and LIMIT, where that is exact"),
        ),
    ],
)
def test_explaining_says_what_the_roots_of_trees_make(clauses, roots):
    plan = planned(f"{GROUPED} {clauses} TREES 4")
    explained = explain(plan)
    assert explained.roots == roots
    assert ("merge them with those of the other owners" in explained.master) == (roots[0] == OWNED)
    assert has_owners(plan) == (roots[0] == OWNED)
    assert explain(planned(f"{GROUPED} {clauses} TREES 1")).roots == ()


def test_stated_and_chosen_trees_stay_apart_when_a_plan_travels():
    chosen, stated = planned(GROUPED, max_groups=2_000_000), planned(f"{GROUPED} TREES 2", max_groups=2_000_000)
    assert chosen != stated
    assert [(plan.trees, plan.stated_trees) for plan in (chosen, stated)] == [(2, None), (2, 2)]
    assert [Plan.from_wire(plan.to_wire()) for plan in (chosen, stated)] == [chosen, stated]


def test_plans_that_differ_after_the_merge_alone_share_an_operator():
    plans = [
        planned(f"{GROUPED} {rest}", max_groups=2_000_000)
        for rest in ("", "TREES 3", "HAVING COUNT(*) > 2 ORDER BY n DESC LIMIT 3")
    ]
    assert len({plan.shared_part() for plan in plans}) == 1
    other = planned("SELECT path, COUNT(*) AS n FROM web WHERE status = 200 GROUP BY path", max_groups=2_000_000)
    assert other.shared_part() != plans[0].shared_part()
