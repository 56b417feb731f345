"""Live jobs while agents crash, come back, stand still, leave and join, with the network in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

import lives
import pytest
from lives import (
    ACTS,
    DEEP,
    Act,
    begin,
    begin_some,
    check,
    crash,
    crash_interior,
    crash_master,
    cut,
    follow_elsewhere,
    happen,
    join,
    leave,
    stall,
)
from seeds import seeds
from simulated_fleet import key_of


@pytest.mark.parametrize("seed", seeds(1, slow=(0, 2, 3)))
def test_nothing_happens(seed: int) -> None:
    life = begin(seed, size=1 + 2 * seed, bystanders=seed % 3)
    happen(life, [])
    check(life, silence_max_s=5.0)
    workers = {server.name for server in life.fleet.workers()}
    assert all(window.contributors == workers for window in life.fleet.of(lives.JOB)[2:])
    assert sum(server.agent.refused for server in life.fleet.servers.values()) == 0


@cache
def crashed(act: Act, seed: int, size: int) -> lives.Life:
    life = begin(seed, size)
    follow_elsewhere(life)
    happen(life, [act], span_s=2.0)
    return life


@pytest.mark.parametrize(
    ("act", "seed", "size"),
    seeds(
        (crash, 1, 3),
        (crash_master, 2, 2),
        slow=[(crash_interior, 4, DEEP), (crash_master, 3, 8), (crash_master, 3, DEEP)],
    ),
)
def test_windows_go_on_after_a_crash(act: Act, seed: int, size: int) -> None:
    check(crashed(act, seed, size), silence_max_s=lives.SILENCE_MAX_S)


@pytest.mark.parametrize("act", [leave, join, stall])
@pytest.mark.parametrize("seed", seeds(slow=[1, 2]))
def test_windows_go_on_when_agents_come_and_go(act: Act, seed: int) -> None:
    life = begin(seed, size=2 + seed)
    happen(life, [act], span_s=2.0)
    check(life, silence_max_s=lives.SILENCE_MAX_S)


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_who_leaves_is_missing_nowhere(seed: int) -> None:
    """Not in the panes before, and it is expected in none after: workers, and the master."""
    life = begin(seed, size=4)
    fleet = life.fleet
    for act in (leave, leave_as_master):
        act(life)
        fleet.run(fleet.now + 8.0)
    check(life, silence_max_s=lives.SILENCE_MAX_S)
    windows = fleet.of(lives.JOB)
    assert all(window.result.missing == [] for window in windows), life.about()
    assert len(windows[-1].expected) == 2


def leave_as_master(life: lives.Life) -> None:
    follow_elsewhere(life)
    ((server, _),) = life.fleet.masters(lives.JOB)
    life.note(f"{server.name}, the master, leaves")
    life.fleet.leave(server)


def test_both_sides_of_a_cut_are_honest_and_one_master_stays() -> None:
    life = begin(5, size=6)
    happen(life, [cut])
    check(life, silence_max_s=15.0)


def restless(seed: int, acts: Sequence[Act], loss: float = 0.0) -> lives.Life:
    source = random.Random(seed)
    life = begin_some(seed, source, loss=loss)
    happen(life, source.choices(acts, k=source.choice((2, 3, 4))))
    return life


@pytest.mark.parametrize("seed", seeds(slow=(1, 2, 3, 4, 6, 7)))
def test_restless_lives(seed: int) -> None:
    check(restless(seed, ACTS), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_restless_lives(seed: int) -> None:
    check(restless(seed, ACTS), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 400))
def test_lives_with_cuts_and_loss(seed: int) -> None:
    check(restless(seed, (*ACTS, cut), loss=seed % 3 * 0.02), silence_max_s=40.0)


@pytest.mark.slow  # looks at a life that only `make test-all` lives
def test_awkward_things_do_happen() -> None:
    """The lives above are worth nothing if trees are flat, masters never change and nobody is ever missing."""
    life = crashed(crash_master, 3, DEEP)
    key = key_of(lives.JOB)
    inside = [one for one in life.fleet.servers.values() if one.node.children(key) and one.node.parent(key)]
    assert inside
    windows = life.fleet.of(lives.JOB)
    assert len({window.epoch for window in windows}) > 1
    assert any(window.result.missing for window in windows)


def test_the_same_seed_is_the_same_life() -> None:
    first = crashed(crash, 1, 3).fleet.fingerprint()
    again, other = begin(1, 3), begin(2, 3)
    for life in (again, other):
        follow_elsewhere(life)
        happen(life, [crash], span_s=2.0)
    assert first == again.fleet.fingerprint() != other.fleet.fingerprint()
