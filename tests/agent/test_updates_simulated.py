"""Jobs updated under load while agents crash, come back, stand still, leave and join (DESIGN §4.4).

Every window must be what one version says of the events of those who are in it (`window_checks`), and
versions must follow each other without a gap.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
from lives import ACTS, JOB, TREE_ACTS, Act, Life, begin_some, check, cut, happen
from seeds import seeds
from simulated_fleet import PRODUCTS, counts, sql

from agent import Updated, UpdateRefused
from agent.runtime.messages.versions import Version

LONG_WINDOWS_S = 15.0
"""Then whoever came back last is in two of the longest windows."""


def update(life: Life) -> None:
    """To other products, and often to windows of another length."""
    source = life.fleet.random
    products = "".join(source.sample(PRODUCTS, source.randint(1, len(PRODUCTS))))
    text, reset = sql(products, source.choice((1, 2, 2, 2, 3, 4, 5))), source.random() < 0.2
    life.note(f"update to {text}{', reset' if reset else ''}")
    life.fleet.update(JOB, life.follower, text, reset=reset)


def updated(seed: int, acts: Sequence[Act], *, updates: int = 2, loss: float = 0.0, trees: int = 1) -> Life:
    source = random.Random(seed)
    life = begin_some(seed, source, loss=loss, trees=trees)
    happen(life, [*source.choices(acts, k=source.choice((1, 2, 3)) if acts else 0), *[update] * updates])
    life.fleet.run(life.fleet.now + LONG_WINDOWS_S)
    return life


def answers(life: Life) -> list[Updated | UpdateRefused]:
    return [one for one in life.follower.notices if isinstance(one, Updated | UpdateRefused)]


def check_versions(life: Life) -> None:
    """In one master's time versions follow each other, each with windows from where those before it have their last."""
    by_epoch: dict[tuple[int, int, int], dict[int, Version]] = {}
    for window in life.fleet.of(JOB):
        versions = by_epoch.setdefault(window.epoch, {})
        assert list(versions) == sorted(versions), life.about()
        assert versions.setdefault(window.version.number, window.version) == window.version, life.about()
        assert window.pane > window.version.after, life.about()
    for versions in by_epoch.values():
        for older, newer in pairwise(versions.values()):
            assert older.starts < newer.starts, life.about()
            assert newer.after < newer.starts, life.about()


def newest(life: Life) -> Version:
    ((_, master),) = life.fleet.masters(JOB)
    return master.versions.newest.version


@pytest.mark.parametrize("seed", seeds(1, slow=(2, 3, 5)))
def test_in_peace_an_update_is_acknowledged_by_all_at_once_and_loses_nothing(seed: int) -> None:
    life = updated(seed, [], updates=3)
    check(life, silence_max_s=8.0)
    check_versions(life)
    workers = {server.name for server in life.fleet.workers()}
    begun = [one for one in answers(life) if isinstance(one, Updated)]
    assert begun, life.about()
    assert all((one.agents, one.expected, one.laggards) == (len(workers), len(workers), []) for one in begun)
    windows = life.fleet.of(JOB)[2:]
    assert all(window.contributors == workers for window in windows), life.about()
    assert all(window.result.late == 0 for window in windows), life.about()
    assert windows[-1].version.number == begun[-1].version == newest(life).number
    for older, newer in pairwise(windows):
        if older.version == newer.version:
            assert newer.pane - older.pane == counts(older.version.text)[1], life.about()


def check_restless(life: Life, silence_max_s: float, *, is_cut: bool = False) -> None:
    check(life, silence_max_s=silence_max_s, versions_differ=is_cut)
    check_versions(life)
    assert len(answers(life)) == 2, life.about()
    assert life.fleet.of(JOB)[-1].version == newest(life), life.about()


@pytest.mark.parametrize("seed", seeds(slow=range(8)))
def test_restless_lives_with_updates(seed: int) -> None:
    check_restless(updated(seed, ACTS), 30.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_restless_lives_with_updates(seed: int) -> None:
    check_restless(updated(seed, ACTS), 30.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 250))
def test_updates_with_cuts_and_loss(seed: int) -> None:
    check_restless(updated(seed, (*ACTS, cut), loss=seed % 3 * 0.02), 45.0, is_cut=True)


@pytest.mark.parametrize("seed", seeds(1, slow=[2]))
def test_updates_of_jobs_with_several_trees(seed: int) -> None:
    check_restless(updated(seed, TREE_ACTS, trees=3), 30.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 530))
def test_many_updates_of_jobs_with_several_trees(seed: int) -> None:
    check_restless(updated(seed, TREE_ACTS, trees=2 + seed % 4), 30.0)
