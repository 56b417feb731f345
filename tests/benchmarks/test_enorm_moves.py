"""Benchmark of groups that move: windows are the same whatever moves, time passes as it should, no row is left out."""

from __future__ import annotations

import pytest

from agent.placement import FrameCost
from agent.runtime.model.fields import GROUPS, Mode
from benchmarks.enorm.moves import latency_figures, moving_groups
from benchmarks.enorm.moves.busy_owners import CALM_S, BusyOwners, Rule
from benchmarks.enorm.moves.move_costs import MoveCosts
from benchmarks.enorm.moves.owner_rig import Owners, PaneCosts, function_of, moved, of_groups, pane_at, pane_of
from benchmarks.enorm.moves.virtual_time import completion_s, latencies

PANES, AT, KEYS = 3, 4, 200
FREE = FrameCost(0.0, 0.0)


@pytest.mark.parametrize("mode", moving_groups.MODES)
def test_windows_are_those_of_groups_that_stay(mode: Mode) -> None:
    before = [1 + group % 3 for group in range(GROUPS)]
    after = [1 + (group + group // 16) % 3 for group in range(GROUPS)]
    version = function_of(4, PANES)
    owners = Owners(version, moved(before, after, AT, mode, version.function.window_ms), (1, 2, 3))
    state = of_groups(pane_of(version.function, KEYS), 48)
    stay = Owners(version, moved(before, before, AT, mode, version.function.window_ms), (1, 2, 3))
    taken = [(owners.take(pane_at(number), state), stay.take(pane_at(number), state)) for number in range(AT + 6)]
    for number, (own, expected) in enumerate(taken):
        assert own.shown == expected.shown
        assert {count for _, count in own.shown} == {min(PANES, number + 1)}
    givers = {pair for own, _ in taken for pair in own.gives}
    assert len(givers) == (6 if mode == "disruptive" else 0)


def test_what_comes_waits_for_what_is_under_way() -> None:
    calm = PaneCosts({}, {1: 0.5, 2: 0.25}, 0.125, [])
    found = list(latencies([calm, PaneCosts({(1, 2): (0.5, 0.25)}, {1: 0.5, 2: 0.5}, 0.125, []), calm], 1.0))
    assert [one.answered_s for one in found] == [{1: 0.5, 2: 0.25}, {1: 1.0, 2: 1.25}, {1: 0.5, 2: 0.5}]
    assert [one.shown_s for one in found] == [0.625, 1.375, 0.625]
    assert completion_s([calm, calm]) == 1.125


def test_groups_move_away_from_owners_that_become_busy() -> None:
    """Panes of a second keep owners busy for 0.7 of it; who gives a group with its state stands still for two."""
    old: dict[Mode, FrameCost] = {"instant": FREE, "disruptive": FREE}
    costs = MoveCosts(FrameCost(0.0, 0.7 / GROUPS * 4), 0.0, old, FREE, FREE, FrameCost(0.0, 2.0), FREE, FREE)
    instant, paused = (BusyOwners(costs, 1, rule).run() for rule in (Rule("instant", None), Rule("disruptive", 60.0)))
    for run in (instant, paused):
        assert run.period_s == pytest.approx(1.0)
        assert run.moved > 0
        calm = [one for one, end_s in zip(run.latency_s, run.ends_s, strict=True) if end_s < CALM_S]
        assert calm == pytest.approx([0.7] * len(calm))
    assert max(instant.latency_s) < 1.0
    assert max(paused.latency_s) > 2.0


@pytest.mark.slow
def test_every_row_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving_groups, "MOVED_KEYS", (400,))
    monkeypatch.setattr(moving_groups, "QUICK_SPLIT_KEYS", 400)
    monkeypatch.setattr(moving_groups, "QUICK_SHARES", (100,))
    monkeypatch.setattr(latency_figures, "QUICK_MEASURED_KEYS", 5)
    monkeypatch.setattr(latency_figures, "QUICK_HOT_KEYS", 100)
    assert len(moving_groups.moving_groups(quick=True)) == 4
    split = [line.case for line in moving_groups.split_and_combine(quick=True)]
    assert {(what, how) for what in ("split", "combine") for how in ("instantly", "smoothly")} == {
        (case.split()[2], case.split()[6].rstrip(",")) for case in split
    }
    assert [line.rival for line in moving_groups.completion(quick=True)] == ["with their state", "no moves"]
    lines = latency_figures.busy_owners(quick=True)
    assert {line.rival for line in lines} == {*latency_figures.RIVALS, "all keys alike"}
    assert sum(line.case.startswith(f"{latency_figures.TIMELINE}: ") for line in lines) == 2 * 11
