"""Fleets whose windows are to be out in time with what is there: WITHIN ... ELSE PARTIAL."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from lives import ACTS, JOB, Act, Life, begin_some, check, follow_elsewhere, happen, stall
from seeds import seeds
from simulated_fleet import PANE_MS, STEP_S, WALL_MS, Window, sql
from test_stragglers_simulated import mute, slow

LIMIT_S = 3.0
IN_TIME = f"{sql('abcde', 2)} WITHIN {LIMIT_S:g} SECONDS ELSE PARTIAL"
STEPS_S = 4 * STEP_S
"""What the simulated agents' steps add: a timer is handled at the next step, and so is a disk's answer."""


def taken_s(window: Window) -> float:
    """How long after its end a window came."""
    return window.at - (window.pane + PANE_MS - WALL_MS) / 1000


def lived(seed: int, acts: Sequence[Act], *, trees: int = 1) -> Life:
    source = random.Random(seed)
    life = begin_some(seed, source, trees=trees, sql=IN_TIME)
    follow_elsewhere(life)
    happen(life, source.choices(acts, k=source.choice((1, 2, 3))))
    return life


@pytest.mark.parametrize("act", seeds(mute, slow=[slow, stall]))
@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 8)))
def test_windows_are_out_in_time_and_name_whom_they_do_without(seed: int, act: Act) -> None:
    life = begin_some(seed, random.Random(seed), sql=IN_TIME)
    life.fleet.run(life.fleet.now + 8.0)
    life.began_at = life.fleet.now
    happen(life, [act], span_s=1.0)
    check(life, silence_max_s=2 * PANE_MS / 1000 + 3.0)
    windows = [window for window in life.fleet.of(JOB) if window.at > life.began_at]
    assert windows, life.about()
    master_stood_still = act is stall
    for window in windows:
        assert window.contributors | window.leaped | set(window.result.missing) == window.expected, life.about()
        assert master_stood_still or taken_s(window) <= LIMIT_S + STEPS_S, f"{life.about()}: {window}"


def test_what_a_window_lacks_at_its_deadline_is_counted_later() -> None:
    life = begin_some(1, random.Random(1), sql=IN_TIME)
    life.fleet.run(life.fleet.now + 8.0)
    life.began_at = life.fleet.now
    server = life.alive()[0]
    server.reads_from = life.fleet.now + 8.0
    happen(life, [])
    lacking = [window for window in life.fleet.of(JOB) if window.leaped or window.result.partial]
    assert len(lacking) >= 2
    assert {name for window in lacking for name in (*window.leaped, *window.result.partial)} == {server.name}
    written = sum(one.counted(window.pane, PANE_MS).total() for window in lacking for one in life.fleet.workers())
    late = sum(window.result.late for window in life.fleet.of(JOB))
    assert late == written - sum(window.result.events for window in lacking)


@pytest.mark.parametrize("seed", seeds(slow=range(11, 40)))
def test_whatever_happens_each_window_is_the_sum_of_its_contributors(seed: int) -> None:
    check(lived(seed, (mute, slow, stall), trees=1 + seed % 3), silence_max_s=25.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 240))
def test_deadlines_and_all_other_faults(seed: int) -> None:
    check(lived(seed, (*ACTS, mute, slow), trees=1 + seed % 3), silence_max_s=25.0)
