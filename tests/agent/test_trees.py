"""Jobs of several trees, each for a range of keys: the same results as those of one, whoever is a root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from memory_fleet import KEY, Fleet, events
from program_fleet import FIGURE_7, ProgramFleet, feed
from recording_client import client_of
from seeds import seeds
from test_combiner import add_up, run_of, totals
from test_job_code_in_use import RECEIVING
from test_job_code_in_use import WORDS as MAPPED
from test_updating_jobs import live, log, settle_update, shown, update

from agent import Updated, UpdateRefused, WindowResult
from agent.runtime.master.rollout import OTHER_TREES
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.reduce.combiner import Combiner, PaneSpan
from agent.runtime.reduce.straggler import StragglerPolicy
from agent.runtime.reduce.tree_node import RootOf
from overlay import tree_id

GROUPED = (
    "SELECT product, COUNT(*) AS n, SUM(price) AS s, MIN(price) AS least, AVG(price) AS mean FROM web GROUP BY product"
)
WORDS = [f"product-{number}" for number in range(40)]


def results(sql: str, size: int, *, bystanders: int = 0, **options: Any) -> list[WindowResult]:
    fleet = Fleet(size, bystanders)
    fleet.submit(sql, **options)
    for number in range(size - bystanders):
        for at_ms in (0, 700, 2500):
            products = WORDS[number % 3 :: 1 + number % 4]
            prices = [float((number + place) % 7) for place in range(len(products))]
            fleet.insert(number, events(*products, None, at_ms=at_ms, price=[*prices, 1.5]))
    return fleet.finish()


def told(found: Sequence[WindowResult]) -> list[tuple[Any, ...]]:
    return [
        (one.rows, one.window_start, one.contributors, one.missing, one.partial, one.events, one.other) for one in found
    ]


@pytest.mark.parametrize(("size", "bystanders"), seeds((1, 0), (2, 1), (9, 4), slow=[(5, 0)]))
@pytest.mark.parametrize("trees", seeds(2, 64, slow=[4]))
def test_several_trees_give_what_one_gives(size: int, bystanders: int, trees: int) -> None:
    for sql in (GROUPED, f"{GROUPED} ORDER BY n DESC LIMIT 3 WINDOWING 1 SECOND"):
        one, several = (results(f"{sql} TREES {m}", size, bystanders=bystanders) for m in (1, trees))
        assert told(one) == told(several)
        assert one[0].contributors == size - bystanders
        assert not one[0].partial


def test_all_who_work_are_in_every_tree_until_the_job_is_over() -> None:
    fleet = Fleet(6)
    fleet.submit(f"{GROUPED} TREES 4")
    assert all(agent.node.is_attached(tree_id(KEY, tree)) for agent in fleet.agents for tree in range(1, 4))
    assert [job.trees for agent in fleet.agents for job in agent.status().jobs] == [4] * 6
    roots = {agent.name: job.roots for agent in fleet.agents for job in agent.status().jobs if job.roots}
    assert sorted(tree for trees in roots.values() for tree in trees) == [1, 2, 3]
    assert len(roots) > 1
    client_of(fleet.agents[0]).stop(KEY, fleet.now)
    fleet.settle()
    assert not any(agent.status().jobs for agent in fleet.agents)
    assert all(tree_id(KEY, tree) not in agent.node.groups for agent in fleet.agents for tree in range(1, 4))


# Versions.

LIVE = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND"
FEW = "SELECT product, COUNT(*) AS n FROM web WHERE product <> 'b' GROUP BY product WINDOWING 1 SECOND"


@pytest.mark.parametrize("text", [FEW, f"{FEW} TREES 3"])
def test_an_update_keeps_the_trees(text: str) -> None:
    fleet = live(4, f"{LIVE} TREES 3")
    log(fleet, 1.5, "a", "b", "c")
    update(fleet, text)
    told = settle_update(fleet)
    assert isinstance(told, Updated)
    for second in (1.6, 2.5, 3.5, 9.0):
        log(fleet, second, "a", "b", "c")
    fleet.work()
    windows = shown(fleet.results)
    assert all(
        n == ({"a": 4, "b": 4, "c": 4} if version == 1 else {"a": 4, "c": 4}) for _, version, n, _ in windows[1:]
    )
    assert {version for _, version, _, _ in windows} == {1, 2}
    assert {contributors for *_, contributors in windows} == {4}
    assert [job.trees for agent in fleet.agents for job in agent.status().jobs] == [3] * 4


@pytest.mark.parametrize("other", [1, 4])
def test_an_update_to_other_trees_is_refused(other: int) -> None:
    fleet = live(2, f"{LIVE} TREES 3")
    update(fleet, f"{FEW} TREES {other}")
    refused = settle_update(fleet)
    assert isinstance(refused, UpdateRefused)
    assert refused.reason == OTHER_TREES.format(trees=3, other=other)


def test_an_update_may_be_to_what_has_no_groups() -> None:
    fleet = live(4, f"{LIVE} TREES 3")
    for text in (
        "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND",
        "SELECT product FROM web LIMIT 2 WINDOWING 1 SECOND",
    ):
        update(fleet, text)
        assert isinstance(settle_update(fleet), Updated)
        for _ in range(6):
            log(fleet, fleet.now + 0.1, "a", "b")
            fleet.wait(1.0)
        fleet.work()
        last = fleet.results[-1]
        assert (last.contributors, last.missing, last.partial) == (4, [], [])
        assert list(last.rows) in ([{"n": 8}], [{"product": "a"}] * 2, [{"product": "a"}, {"product": "b"}])


# Jobs with code.

Make = Callable[..., ProgramFleet]


def test_a_job_that_drives_itself_has_the_same_batches(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(FIGURE_7.replace("LIMIT 2", "LIMIT 2 TREES 3"))
    feed(fleet, 0.5, "a", "b", "b", "c", "c", "c")
    fleet.wait_long(2.5)
    feed(fleet, 2.7, "b", "d")
    fleet.wait_long(2.0)
    found = [[(row["product"], row["clicks"]) for row in one.rows] for one in fleet.results]
    assert found == [[("c", 9), ("b", 6)], [("b", 3), ("d", 3)]]
    assert [(one.contributors, one.partial) for one in fleet.results] == [(3, [])] * 2


def test_what_map_makes_is_counted_in_every_tree(fleet_of: Make) -> None:
    fleet = fleet_of()
    fleet.submit_code(MAPPED.replace("WINDOWING 1 SECOND", "WINDOWING 1 SECOND TREES 3"))
    fleet.catch_up()
    feed(fleet, 1.2, "the red the green", "red", None, "the")
    feed(fleet, 8.5, "end")
    fleet.work()
    assert [(row["word"], row["n"]) for row in fleet.results[0].rows] == [("green", 3), ("red", 6)]
    assert fleet.results[0].contributors == 3


def test_code_sees_the_groups_of_each_tree_as_they_come(fleet_of: Make) -> None:
    fleet = fleet_of()
    code = RECEIVING.replace("WINDOWING 1 SECOND", "WINDOWING 1 SECOND TREES 3")
    key = fleet.submit_code(code.replace("            assert node in self.children\n", ""))
    fleet.catch_up()
    feed(fleet, 1.2, "a", "b", "a")
    feed(fleet, 8.5, "b")
    fleet.work()
    assert fleet.log(key)
    assert [dict(row) for row in fleet.results[0].rows] == [{"product": "a", "n": 6}]


# Runs of several trees put together.


def test_ranges_leave_together_and_who_is_not_in_all_is_partial() -> None:
    combiner = Combiner(add_up, trees=(0, 1))
    for source in ("child", RootOf(1)):
        combiner.add_source(source)
    combiner.add("child", run_of(FIRST_PANE, 5, 0b011, {3: 1}))
    assert combiner.due() == []
    combiner.add(RootOf(1), replace(run_of(FIRST_PANE, 7, 0b110, {3: 10}), tree=1))
    assert combiner.due() == [PaneSpan(FIRST_PANE, 5, 0b111, 0b010)]
    (run,) = combiner.ready()
    assert (run.contributors, run.partial, totals([run]), combiner.refused) == (0b111, 0b101, {3: 11}, 0)


def test_a_tree_that_stands_still_is_not_waited_for_for_ever() -> None:
    combiner = Combiner(add_up, trees=(0, 1))
    for source in ("child", RootOf(1)):
        combiner.add_source(source)
    combiner.add("child", run_of(FIRST_PANE, 5000, 0b11, {4000: 1}))
    combiner.add(RootOf(1), replace(run_of(FIRST_PANE, 1000, 0b11, {}), tree=1))
    for now in (0.0, 61.0):
        combiner.skip_stragglers(StragglerPolicy(60.0, 2000), now)
    whole, rest = combiner.ready()
    assert (whole.upto, whole.contributors, whole.partial) == (1000, 0b11, 0)
    assert (rest.upto, rest.contributors, rest.partial) == (5000, 0b11, 0b11)
