"""Fleets under ON STRAGGLER LEAP whose agents stand still, read slowly, or not at all for a while."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from lives import ACTS, JOB, Act, Life, begin_some, check, follow_elsewhere, happen, stall
from seeds import seeds
from simulated_fleet import PANE_MS, WALL_MS, Window, sql

GRACE_S = 1.0
LEAPING = f"{sql('abcde', 2)} ON STRAGGLER LEAP"
OTHERS = f"{sql('abc', 2)} ON STRAGGLER LEAP"
NETWORK_S = 1.0
"""What the simulated network, pauses between readings and replicas add to a window's delay."""


def mute(life: Life) -> None:
    """An agent reads nothing for a while; its process is well."""
    server = life.fleet.random.choice(life.alive())
    seconds = life.fleet.random.choice((3.0, 6.0, 10.0))
    life.note(f"{server.name} reads nothing for {seconds} s")
    server.reads_from = life.fleet.now + seconds


def slow(life: Life) -> None:
    """An agent reads one event a second for ten seconds: a third of what is logged."""
    server = life.fleet.random.choice(life.alive())
    life.note(f"{server.name} reads slowly")
    server.block = 1
    for second in range(10):
        at = life.fleet.now + second
        life.fleet.at(at, lambda until=at + 0.9: setattr(server, "reads_from", until))  # type: ignore[misc]
    life.fleet.at(life.fleet.now + 10.0, lambda: setattr(server, "block", 50))


def lived(seed: int, acts: Sequence[Act], *, trees: int = 1) -> Life:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=trees, sql=LEAPING)
    follow_elsewhere(life)
    happen(life, source.choices(acts, k=source.choice((1, 2, 3))))
    return life


def delay_s(window: Window) -> float:
    """How long after its last pane was over, and the grace, a window came."""
    return window.at - (window.pane + PANE_MS - WALL_MS) / 1000 - GRACE_S


@pytest.mark.parametrize("act", [mute, slow])
@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 8)))
def test_one_slow_agent_delays_no_window_by_more_than_two_panes_and_a_second(seed: int, act: Act) -> None:
    life = begin_some(seed, random.Random(seed), sql=LEAPING)
    life.fleet.run(life.fleet.now + 5.0)
    life.began_at = life.fleet.now
    happen(life, [act], span_s=1.0)
    check(life, silence_max_s=2 * PANE_MS / 1000 + 3.0)
    windows = [window for window in life.fleet.of(JOB) if window.at > life.began_at]
    slowest = max(windows, key=delay_s)
    assert delay_s(slowest) <= 2 * PANE_MS / 1000 + 1.0 + NETWORK_S, f"{life.about()}: {slowest}"
    assert all(not window.result.missing for window in windows), life.about()
    for window in windows:
        assert window.contributors | window.leaped == window.expected, life.about()


@pytest.mark.parametrize("seed", seeds(slow=range(11, 40)))
def test_whatever_stands_still_each_window_is_the_sum_of_its_contributors(seed: int) -> None:
    check(lived(seed, (mute, slow, stall), trees=1 + seed % 3), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 80))
def test_leaps_and_all_other_faults(seed: int) -> None:
    check(lived(seed, (*ACTS, mute, slow), trees=1 + seed % 3), silence_max_s=25.0)


@pytest.mark.parametrize("seed", seeds(4, slow=range(5, 12)))
def test_an_update_passes_a_straggler(seed: int) -> None:
    life = begin_some(seed, random.Random(seed), sql=LEAPING)
    fleet = life.fleet
    fleet.at(fleet.now + 1.0, lambda: mute(life))
    fleet.at(fleet.now + 3.0, lambda: fleet.update(JOB, life.follower, OTHERS))
    fleet.run(fleet.now + 1.0)
    happen(life, [slow])
    check(life, silence_max_s=15.0)
    assert fleet.of(JOB)[-1].version.number == 2


def test_leaps_do_happen() -> None:
    life = begin_some(1, random.Random(1), sql=LEAPING)
    life.fleet.run(life.fleet.now + 5.0)
    life.began_at = life.fleet.now
    server = life.alive()[0]
    server.reads_from = life.fleet.now + 8.0
    happen(life, [])
    leaped = [window for window in life.fleet.of(JOB) if window.leaped]
    assert len(leaped) >= 2
    assert {name for window in leaped for name in window.leaped} == {server.name}
    assert sum(window.result.late for window in life.fleet.of(JOB)) == sum(
        server.counted(window.pane, PANE_MS).total() for window in leaped
    )
