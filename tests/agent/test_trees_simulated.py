"""Live jobs of several trees while the roots of trees, masters and others crash, stand still, leave and join."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import lives
import pytest
from lives import (
    DEEP,
    TREE_ACTS,
    Act,
    begin,
    begin_some,
    check,
    crash_interior,
    crash_master,
    crash_root,
    cut,
    follow_elsewhere,
    happen,
    leave,
    stall_root,
)
from seeds import seeds
from simulated_fleet import SQL, SimulatedFleet, key_of
from window_checks import check_windows

from agent.runtime.model.placement import groups_of
from overlay import tree_id


@pytest.mark.parametrize(("size", "trees"), seeds((3, 2), slow=[(1, 3), (6, 4)]))
def test_nothing_happens(size: int, trees: int) -> None:
    life = begin(size, size, bystanders=size % 3, trees=trees)
    happen(life, [])
    check(life, silence_max_s=5.0)
    workers = {server.name for server in life.fleet.workers()}
    assert all(window.contributors == workers and not window.partial for window in life.fleet.of(lives.JOB)[2:])
    assert sum(server.agent.refused for server in life.fleet.servers.values()) == 0


@pytest.mark.parametrize(
    ("act", "seed", "size"),
    seeds((crash_root, 1, 4), (stall_root, 4, 5), (leave, 5, 4), slow=[(crash_root, 2, 8), (crash_master, 3, 6)]),
)
def test_windows_go_on(act: Act, seed: int, size: int) -> None:
    life = begin(seed, size, trees=4)
    follow_elsewhere(life)
    happen(life, [act], span_s=2.0)
    check(life, silence_max_s=lives.SILENCE_MAX_S)


@pytest.mark.slow
def test_windows_go_on_where_trees_are_deep() -> None:
    life = begin(3, DEEP, trees=3)
    follow_elsewhere(life)
    happen(life, [crash_root, crash_interior], span_s=2.0)
    check(life, silence_max_s=lives.SILENCE_MAX_S)


def test_who_leaves_is_missing_nowhere_and_in_no_tree() -> None:
    life = begin(1, size=4, trees=4)
    for _ in range(2):
        leave(life)
        life.fleet.run(life.fleet.now + 8.0)
    check(life, silence_max_s=lives.SILENCE_MAX_S)
    windows = life.fleet.of(lives.JOB)
    assert all(not window.result.missing for window in windows), life.about()
    leavers = [{fault.split()[1]} for fault in life.faults]
    assert [set(window.partial) for window in windows if window.partial] == leavers, "each in its last window only"
    assert len(windows[-1].expected) == 2


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_a_closer_node_becomes_the_root_of_a_tree(seed: int) -> None:
    life = begin(seed, size=6, trees=3)
    fleet, key = life.fleet, tree_id(key_of(lives.JOB), 1)
    closer = fleet.add("web", node_id=key)
    fleet.keep_writing(fleet.now + 60.0, servers=[closer])
    fleet.run(fleet.now + 15.0)
    assert closer.node.is_root(key)
    assert closer.node.children(key)
    check(life, silence_max_s=5.0)
    windows = fleet.of(lives.JOB)
    assert all(not window.result.missing and not window.partial for window in windows)
    assert windows[-1].contributors == set(fleet.servers)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_a_job_over_what_logs_hold_has_all_of_it(loss: float) -> None:
    fleet = SimulatedFleet(7)
    for number in range(9):
        fleet.add(*(["web"] if number < 7 else []))
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    for server in fleet.workers():
        fleet.write(server, 120)
    fleet.simulator.loss = loss
    fleet.submit(lives.JOB, fleet.workers()[0], f"{SQL} TREES 4", bounded=True)
    fleet.run(fleet.now + 60.0)
    check_windows(fleet)
    windows = fleet.of(lives.JOB)
    assert sum(window.result.events for window in windows) == 7 * 120
    assert all(len(window.contributors) == 7 and not window.partial for window in windows)


@pytest.mark.slow
def test_some_are_in_some_trees_only() -> None:
    """The lives here are worth nothing if that never happens, or if all trees have one root."""
    found = [restless(seed, TREE_ACTS) for seed in (4, 11)]
    assert any(window.partial for life in found for window in life.fleet.of(lives.JOB))
    life = found[0]
    keys = groups_of(key_of(lives.JOB), life.trees)
    assert len({one.name for one in life.fleet.servers.values() for key in keys if one.node.is_root(key)}) > 1


@cache
def restless(seed: int, acts: Sequence[Act], loss: float = 0.0) -> lives.Life:
    source = random.Random(seed)
    life = begin_some(seed, source, loss=loss, trees=source.choice((2, 3, 4, 7)))
    happen(life, source.choices(acts, k=source.choice((2, 3, 4))))
    return life


@pytest.mark.parametrize("seed", seeds(slow=[2, 4, 12]))
def test_restless_lives(seed: int) -> None:
    check(restless(seed, TREE_ACTS), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_restless_lives(seed: int) -> None:
    check(restless(seed, TREE_ACTS), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 340))
def test_lives_with_cuts_and_loss(seed: int) -> None:
    check(restless(seed, (*TREE_ACTS, cut), loss=seed % 3 * 0.02), silence_max_s=40.0)
