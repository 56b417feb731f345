"""Owners of trees that crash, stand still, leave and come back, while key groups move: every window equals what the
logs of those in it say, none is left out, and nobody waits for ever."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import simulated_fleet
from lives import JOB, TREE_ACTS, Act, Life, begin_some, crash_master, crash_root, cut, happen, stall_root
from seeds import seeds
from simulated_fleet import key_of
from test_hopping_simulated import HOPPING, LONGEST_S, SIZES, check_contents, check_followed, check_windows
from test_remembering_simulated import begin as begin_remembering

from agent.runtime.master.owners.key_placement import NotYetError
from agent.runtime.messages.views.placement import PlaceRequest
from agent.runtime.model.fields import GROUPS, Mode
from agent.runtime.model.placement import groups_of
from overlay import tree_id

MODES: tuple[Mode, ...] = ("instant", "smooth", "disruptive")
SILENCE_MAX_S = 40.0


@pytest.fixture(autouse=True)
def _many_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_fleet, "PRODUCTS", "abcdefghijklmnopqrstuvwxyz")


def move(life: Life) -> None:
    """Some groups move, in any way."""
    fleet = life.fleet
    for server, _ in fleet.masters(JOB):
        master, mode = server.agent.masters.get(key_of(JOB)), fleet.random.choice(MODES)
        groups = fleet.random.sample(range(GROUPS), fleet.random.choice((1, 8, 24)))
        tree = fleet.random.randrange(mode == "disruptive", life.trees)
        moving = [group for group in groups if mode != "disruptive" or group * life.trees >= GROUPS + life.trees]
        assert master is not None
        said = master.placement.move(moving, tree, mode, fleet.now)
        life.note(f"{len(moving)} groups move to tree {tree}, {mode}: {said}")


def move_to_agent(life: Life) -> None:
    """The same to an agent, which is to own a tree if it owns none."""
    fleet, to = life.fleet, life.fleet.random.choice(life.alive())
    modes = MODES if life.trees > 1 else MODES[:2]  # nothing moves disruptively from the master's own tree
    groups, mode = fleet.random.sample(range(GROUPS), 12), fleet.random.choice(modes)
    until = fleet.now + 8.0

    def ask() -> None:
        for server, state in fleet.masters(JOB):
            master = server.agent.masters.get(key_of(JOB))
            assert master is not None
            moving = [
                group for group in groups if mode != "disruptive" or group * state.ranges >= GROUPS + state.ranges
            ]
            try:
                said = master.move_groups(PlaceRequest(key_of(JOB), tuple(moving), to.name, mode), fleet.now)
            except NotYetError:
                if fleet.now < until:
                    fleet.at(fleet.now + 0.5, ask)
            else:
                life.note(f"{len(moving)} groups move to {to.name}, {mode}: {said}")

    ask()


def lived(seed: int, acts: Sequence[Act], *, trees: int) -> Life:
    life = begin_some(seed, random.Random(seed), trees=trees, sql=SIZES if seed % 2 else HOPPING)
    happen(life, acts)
    life.fleet.run(life.fleet.now + LONGEST_S)
    return life


def check(life: Life, seed: int, *, is_cut: bool = False) -> None:
    (check_contents if is_cut else check_windows)(life)
    check_followed(life, *(((2, 2), (8, 4)) if seed % 2 else ((8, 2),)))
    there = {server.name for server in life.fleet.workers() if server.is_up}
    last = life.fleet.of(JOB)[-2:]
    assert there <= last[0].contributors | last[1].contributors, life.about()
    silence = life.fleet.longest_silence(JOB, life.began_at, life.fleet.now)
    assert silence <= SILENCE_MAX_S, f"{life.about()}: silent for {silence:.1f} s"


def made_by_owners(life: Life) -> int:
    return sum(one.agent.owners.statistics()["windows"] for one in life.fleet.servers.values() if one.is_up)


@pytest.mark.parametrize("seed", seeds(2, slow=[1, 4, *range(10, 40)]))
def test_groups_that_move_in_peace_disturb_nobody(seed: int) -> None:
    life = lived(seed, [move] * (2 + seed % 3), trees=2 + seed % 3)
    check(life, seed)
    windows = life.fleet.of(JOB)
    workers = {server.name for server in life.fleet.workers()}
    assert all(window.contributors == workers and not window.partial for window in windows[6:])
    assert len({window.epoch for window in windows}) == 1, life.about()
    assert made_by_owners(life) > 0


@pytest.mark.parametrize(("seed", "trees"), seeds((2, 2), slow=[(1, 1), (3, 1), (4, 3), (6, 1), (7, 2)]))
def test_any_agent_can_own_groups(seed: int, trees: int) -> None:
    """Also of a job of one tree, whose master owned all of them."""
    life = lived(seed, [move_to_agent, move_to_agent], trees=trees)
    check(life, seed)
    moved = [fault for fault in life.faults if fault.endswith("None") and " 0 groups" not in fault]
    assert moved, life.about()
    ((master, _),) = life.fleet.masters(JOB)
    assert made_by_owners(life) > 0 or all(f"to {master.name}," in fault for fault in moved)
    windows = life.fleet.of(JOB)
    assert all(not window.result.missing for window in windows[4:]), life.about()


@pytest.mark.parametrize("seed", seeds(3, slow=[0, 5]))
def test_the_panes_of_an_owner_that_dies_are_handed_in_again(seed: int) -> None:
    life = lived(seed, [crash_root, move], trees=4)
    check(life, seed)


def test_a_tree_gets_another_owner_whose_predecessor_lives() -> None:
    life = begin_some(6, random.Random(6), trees=3, sql=HOPPING)
    fleet, key = life.fleet, tree_id(key_of(JOB), 1)
    closer = fleet.add("web", node_id=key)
    fleet.keep_writing(fleet.now + 60.0, servers=[closer])
    before = len(fleet.of(JOB))
    fleet.run(fleet.now + 25.0)
    assert closer.node.is_root(key)
    check(life, 6)
    windows = fleet.of(JOB)
    assert len({window.epoch for window in windows}) == 1, "both owners have panes of windows, which are merged"
    assert all(not window.result.missing for window in windows[before:])
    assert closer.agent.owners.statistics()["windows"] > 0


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 9)))
def test_an_agent_that_is_started_again_cuts_what_it_has_sealed_as_before(seed: int) -> None:
    """It has not heard of a move, and is killed when one tree has its panes, and the other, cut off, has not."""
    fleet, follower = begin_remembering(seed, 5, "SELECT product, COUNT(*) AS n FROM web GROUP BY product "
        "WINDOWING 2 SECONDS ON STRAGGLER WAIT RECOVER FOR 30 SECONDS TREES 2")  # fmt: skip
    fleet.run(fleet.now + 4.0)
    life, key = Life(fleet, follower, fleet.now, 2), groups_of(key_of(JOB), 2)[1]
    ((server, state),) = fleet.masters(JOB)
    owner = next(one for one in fleet.workers() if one.node.is_root(key))
    late = next(
        one for one in fleet.workers() if one not in (server, owner) and one.node.parent(key) == owner.node.peer
    )
    fleet.hears_late[late.name] = 6.0
    master = server.agent.masters.get(key_of(JOB))
    assert master is not None
    assert master.placement.move(range(24), 1, "instant", fleet.now) is None
    pane = state.moved.moves[0].pane
    fleet.run(fleet.now + (pane + 2900 - fleet.wall_ms) / 1000)
    fleet.simulator.cut([late.node], [owner.node])
    fleet.run(fleet.now + 1.0)
    fleet.crash(late)
    del fleet.hears_late[late.name]
    fleet.simulator.heal()
    fleet.run(fleet.now + 0.3)
    fleet.restart(late)
    fleet.run(fleet.now + 15.0)
    check_windows(life)
    (window,) = (one for one in fleet.of(JOB) if one.pane == pane)
    assert late.name in window.contributors - window.partial
    assert {one.epoch[1] for one in fleet.of(JOB)} == {1}


def restless(seed: int) -> Life:
    source = random.Random(seed)
    acts: tuple[Act, ...] = (*TREE_ACTS, crash_master, stall_root, *([cut] if seed % 4 == 3 else []))
    chosen = source.choices(acts, k=1 + seed % 3)
    moves: list[Act] = [move] * (2 + seed % 3) if seed % 3 else [move, move_to_agent]
    return lived(seed, [*chosen, *moves], trees=2 + seed % 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(89, slow=[seed for seed in range(330) if seed != 89]))
def test_restless_lives(seed: int) -> None:
    check(restless(seed), seed, is_cut=seed % 4 == 3)
