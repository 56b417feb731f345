"""Lives drawn from seeds, held against docs/guarantees.md; `python tests/oracle/replay.py SEED` lives one again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from found import FOUND
from judgement import COPIED, BrokenPromiseError, Judgement, failure
from lived import FAULTS, OracleLife, live
from schedules import JOBS, SMALL_SEEDS, Fault, Schedule, befalls, draw, parse
from seeds import seeds
from shrinking import shrink
from simulated_fleet import WALL_MS, Window

from agent import PublishedWindow

SEEDS = 1031
QUICK_SEEDS = 1
QUICK_FOUND = [*FOUND][3:4]
"""Schedules that broke a promise once, and take least of a processor."""


@pytest.mark.parametrize("seed", seeds(*range(QUICK_SEEDS), slow=range(QUICK_SEEDS, SEEDS)))
def test_promises_hold(seed: int) -> None:
    schedule = draw(seed)
    why = failure(schedule)
    if why is not None:
        smallest = shrink(schedule, lambda one: failure(one) is not None)
        pytest.fail(
            f"{why}\nsmallest schedule that fails: {smallest!r}\nagain: python tests/oracle/replay.py {seed}",
            pytrace=False,
        )


@pytest.mark.parametrize("name", seeds(*QUICK_FOUND, slow=[one for one in FOUND if one not in QUICK_FOUND]))
def test_what_has_broken_a_promise_once_does_so_no_more(name: str) -> None:
    why = failure(FOUND[name])
    assert why is None, why


@pytest.fixture(scope="module")
def peaceful() -> OracleLife:
    life = live(Schedule(1, "tumbling", 2))
    Judgement(life).check()
    return life


def _without_an_event(window: Window) -> Window:
    """One event less of an agent that is whole."""
    row, *rows = window.result.rows
    first, _, others = row["ids"][1:].partition(",")
    assert first
    changed = {**row, "ids": f"[{others}", "n": row["n"] - 1}
    return _with(window, rows=[changed, *rows])


def _with_an_event_twice(window: Window) -> Window:
    row, *rows = window.result.rows
    first = row["ids"][1:-1].partition(",")[0]
    return _with(window, rows=[{**row, "ids": f"[{first},{row['ids'][1:]}", "n": row["n"] + 1}, *rows])


def _with(window: Window, **changes: Any) -> Window:
    return replace(window, result=msgspec.structs.replace(window.result, **changes))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_without_an_event, "is whole without"),
        (_with_an_event_twice, "twice in one window"),
        (lambda window: _with(window, missing=["agent-1"]), "missing"),
        (lambda window: _with(window, contributors=1), "names"),
        (lambda window: _with(window, late=500), "500 late events of"),
        (lambda window: replace(window, expected=frozenset({"agent-1"})), "names"),
        (lambda window: replace(window, partial=frozenset({"agent-1"})), "partial"),
        (lambda window: _with(window, rows=[]), "is whole without"),
        (lambda window: _with(window, version=1, events=0), "events"),
    ],
)
def test_what_is_wrong_in_one_window_is_found(
    peaceful: OracleLife, spoil: Callable[[Window], Window], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = peaceful.fleet.windows
    monkeypatch.setattr(peaceful.fleet, "windows", [*windows[:3], spoil(windows[3]), *windows[4:]])
    with pytest.raises(BrokenPromiseError, match=says):
        Judgement(peaceful).check()


def test_windows_twice_or_not_at_all_are_found(peaceful: OracleLife, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = peaceful.fleet.windows
    for spoiled, says in (
        ([*windows, windows[2]], "published twice"),
        ([*windows[:3], *windows[4:]], "in no window"),
        (windows[:-7], "no master published"),
    ):
        monkeypatch.setattr(peaceful.fleet, "windows", spoiled)
        with pytest.raises(BrokenPromiseError, match=says):
            Judgement(peaceful).check()
    monkeypatch.setattr(peaceful.fleet, "windows", windows)
    told = peaceful.fleet.follower.followed
    (key,) = [key for key, notices in told.items() if len(notices) > 5]
    for notices in ([*told[key], told[key][-1]], [*told[key][:-4], *told[key][-3:]]):
        monkeypatch.setitem(told, key, notices)
        with pytest.raises(BrokenPromiseError, match="shown"):
            Judgement(peaceful).check()


@pytest.mark.parametrize("job", seeds(COPIED[0], slow=COPIED[1:]))
def test_what_a_dead_agent_had_sealed_is_in_windows_that_waited_for_another(
    job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = live(Schedule(3, job, 4, faults=(Fault(1.0, "mute", "1", 6.0), Fault(4.65, "crash", "2", 5.0))))
    Judgement(life).check()
    fleet, ((name, upto),) = life.fleet, life.fleet.copied_upto.items()
    died_ms = fleet.deaths[name][0]
    owed = [one for one in fleet.of(fleet.app) if one.pane <= upto and WALL_MS + one.at * 1000 > died_ms]
    assert owed
    lacks = replace(owed[0], contributors=owed[0].contributors - {name}, partial=owed[0].partial - {name})
    monkeypatch.setattr(fleet, "windows", [lacks])
    with pytest.raises(BrokenPromiseError, match="had sealed"):
        Judgement(life)._check_copies([lacks])


@pytest.mark.slow
def test_windows_that_lacked_a_side_of_a_cut_are_held_to_be_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    life = live(Schedule(4, "changes", 4, faults=(Fault(1.8, "cut", "master", 7.0),)))
    Judgement(life).check()
    told = life.fleet.follower.followed[life.fleet.key]
    results = [json.loads(bytes(one.result)) for one in told if isinstance(one, PublishedWindow)]
    (lacking,) = {one["window_start"] for one in results if one.get("final", True) and one["missing"]}
    *_, corrected = (one for one in told if isinstance(one, PublishedWindow) and lacking.encode() in bytes(one.result))
    monkeypatch.setitem(life.fleet.follower.followed, life.fleet.key, [one for one in told if one is not corrected])
    with pytest.raises(BrokenPromiseError, match="never corrected"):
        Judgement(life)._check_corrected()


def test_a_schedule_that_fails_is_shrunk_to_what_matters() -> None:
    crash, update = Fault(2.0, "crash", "2", 5.0), Fault(3.0, "update")
    schedule = Schedule(1, "trees", 6, 0.1, (Fault(1.0, "stall", "1", 2.0), crash, Fault(2.5, "twice"), update))

    def fails(one: Schedule) -> bool:
        return one.kinds() >= {"crash", "update"} and one.size > 1

    smallest = shrink(schedule, fails)
    assert (smallest.size, smallest.late) == (2, 0.0)
    assert [fault.kind for fault in smallest.faults] == ["crash", "update"]
    assert smallest.faults[0].seconds < crash.seconds
    assert shrink(schedule, lambda one: one.size > 1 and fails(one), seconds=0.0) == schedule, (
        "in no time nothing is tried"
    )


@pytest.mark.slow
def test_a_printed_schedule_is_the_same_life() -> None:
    schedule = draw(5)
    again = parse(repr(schedule))
    assert again == schedule
    lives = [live(one).fleet.fingerprint() for one in (schedule, again)]
    assert lives[0] == lives[1]


def test_every_fault_and_job_is_drawn() -> None:
    """The oracle is worth nothing if it never sees them; nor if windows never lack anybody."""
    small = [draw(seed) for seed in range(SMALL_SEEDS)]
    assert {schedule.job for schedule in small} == JOBS.keys()
    assert {kind for schedule in small for kind in schedule.kinds()} == FAULTS.keys()
    drawn = {(schedule.job, kind) for schedule in map(draw, range(SEEDS)) for kind in schedule.kinds()}
    for kind in FAULTS:
        jobs = {job for job in JOBS if (job, kind) in drawn}
        assert jobs == {job for job in JOBS if befalls(kind, job)}, f"{kind} only befalls {jobs}"


def test_windows_that_lack_somebody_do_occur() -> None:
    life = live(Schedule(2, "recovering", 3, faults=(Fault(1.0, "crash", "1", 5.0),)))
    Judgement(life).check()
    assert any(window.result.missing for window in life.fleet.of(life.fleet.app))
