"""Windows that are much longer than those that they are made of, while the masters of both jobs die."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from lives import JOB, Life, begin, come_back
from recording_client import client_of
from seeds import seeds
from simulated_fleet import Server, key_of
from window_checks import check_windows

from agent import PublishedWindow
from agent.runtime.master.results import result_log
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.upstream import app_source
from elf.demo.story.truth import instant

TOP = "top"
LONG_MS, EVERY_MS = 36_000, 6_000
SLIDING = f"SELECT product, SUM(n) AS n FROM app('{JOB}') GROUP BY product WINDOWING 36 SECONDS EVERY 6 SECONDS"
TUMBLING = f"SELECT product, SUM(n) AS n FROM app('{JOB}') GROUP BY product WINDOWING 36 SECONDS"


def begin_reading(seed: int, text: str, *, disks: bool = False, trees: int = 1) -> Life:
    """A fleet with a reader that has read for a while, and is in the midst of windows."""
    life = begin(seed, 6, disks=disks, trees=trees)
    life.fleet.submit(TOP, life.follower, text)
    client_of(life.follower.agent).follow(key_of(TOP), None, life.fleet.now)
    life.fleet.run(life.fleet.now + 60.0 + life.fleet.random.uniform(0.0, 36.0))
    masters = [master(life, JOB), master(life, TOP)]
    if life.follower in masters:
        life.follower = next(one for one in life.alive() if one not in masters)
        for name in (JOB, TOP):
            client_of(life.follower.agent).follow(key_of(name), FIRST_PANE, life.fleet.now)
    return life


def master(life: Life, name: str) -> Server:
    ((server, _),) = life.fleet.masters(name)
    return server


def crash_both(life: Life) -> list[Server]:
    """Kills the agents of both masters, in the same moment."""
    victims = {one.name: one for one in (master(life, JOB), master(life, TOP))}
    for victim in victims.values():
        life.note(f"{victim.name} dies")
        life.fleet.crash(victim)
    return list(victims.values())


def results_of(life: Life, name: str) -> dict[int, dict[str, Any]]:
    """All that went out, by start: a master may die when it has sent a result, or when only its replicas have it."""
    lines = {one.result.to_json() for one in life.fleet.of(name)}
    for server in life.fleet.servers.values():
        shown = (notice for notice in server.followed[key_of(name)] if isinstance(notice, PublishedWindow))
        lines |= {bytes(notice.result).decode() for notice in shown}
    found = {instant(result["window_start"]): result for result in map(json.loads, lines)}
    assert len(found) == len(lines), f"{life.about()}: two results of one window of {name}"
    return dict(sorted(found.items()))


def counts(result: dict[str, Any]) -> Counter[str]:
    return Counter({row["product"]: row["n"] for row in result["rows"]})


def check_long_windows(life: Life, every_ms: int) -> None:
    """Each window holds all that the other job has published in it, no window is left out, and none comes twice."""
    source, found = results_of(life, JOB), results_of(life, TOP)
    first = min(found) + LONG_MS if found[min(found)]["partial"] else min(found)
    whole = {start: result for start, result in found.items() if start >= first}
    for start, result in whole.items():
        inside = [one for pane, one in source.items() if start <= pane < start + LONG_MS]
        about = f"{life.about()}: {result}"
        assert counts(result) == sum(map(counts, inside), Counter[str]()), about
        assert (result["contributors"], result["expected"], result["late"]) == (1, 1, 0), about
        assert bool(result["partial"]) == any(one["missing"] or one["partial"] for one in inside), about
    assert list(whole) == list(range(min(whole), max(whole) + 1, every_ms)), life.about()
    assert max(whole) + LONG_MS >= max(source) - 2 * EVERY_MS - (every_ms - EVERY_MS), life.about()


@pytest.mark.parametrize(
    ("seed", "text", "every_ms"),
    seeds(
        (1, SLIDING, EVERY_MS),
        slow=[
            (seed, text, every_ms)
            for seed in range(2, 13)
            for text, every_ms in ((SLIDING, EVERY_MS), (TUMBLING, LONG_MS))
        ],
    ),
)
def test_no_long_window_is_left_out_or_short_when_masters_die(seed: int, text: str, every_ms: int) -> None:
    life = begin_reading(seed, text)
    crash_both(life)
    life.fleet.run(life.fleet.now + 110.0)
    check_windows(life.fleet)
    check_long_windows(life, every_ms)
    assert {one.epoch[1] for one in life.fleet.of(TOP)} == {1, 2}


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3, slow=range(4, 14)))
def test_an_open_pane_goes_on_though_few_results_are_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's pane is as long as eighteen results, and the job that it reads keeps six."""
    monkeypatch.setattr(result_log, "RESULTS_MAX", 6)
    monkeypatch.setattr(app_source, "NOTED_RESULTS", 3)
    life = begin_reading(seed, TUMBLING)
    crash_both(life)
    life.fleet.run(life.fleet.now + 110.0)
    check_long_windows(life, LONG_MS)


@pytest.mark.parametrize(("seed", "text", "every_ms"), seeds(slow=[
    (seed, text, every_ms) for seed in range(1, 5) for text, every_ms in ((SLIDING, EVERY_MS), (TUMBLING, LONG_MS))
]))  # fmt: skip
def test_masters_that_leave_hand_open_windows_over(seed: int, text: str, every_ms: int) -> None:
    life = begin_reading(seed, text)
    for server in {one.name: one for one in (master(life, JOB), master(life, TOP))}.values():
        life.note(f"{server.name} leaves")
        life.fleet.leave(server)
    life.fleet.run(life.fleet.now + 110.0)
    check_long_windows(life, every_ms)


@pytest.mark.parametrize("seed", seeds(slow=range(1, 5)))
def test_windows_that_owners_of_trees_make_are_read_on(seed: int) -> None:
    life = begin_reading(seed, SLIDING, trees=3)
    crash_both(life)
    life.fleet.run(life.fleet.now + 110.0)
    check_long_windows(life, EVERY_MS)


@pytest.mark.parametrize("seed", seeds(slow=range(1, 7)))
def test_a_second_death_within_the_same_window_changes_nothing(seed: int) -> None:
    life = begin_reading(seed, SLIDING)
    for _ in range(2):
        dead = crash_both(life)
        life.fleet.run(life.fleet.now + life.fleet.random.uniform(12.0, 20.0))
        for one in dead:
            come_back(life, one)
        life.fleet.run(life.fleet.now + 8.0)
    life.fleet.run(life.fleet.now + 80.0)
    check_long_windows(life, EVERY_MS)


@pytest.mark.parametrize("is_stuck", [False, True])
@pytest.mark.parametrize("seed", seeds(slow=range(1, 4)))
def test_a_fleet_that_starts_again_as_a_whole_goes_on_with_open_windows(seed: int, is_stuck: bool) -> None:
    """The disks of masters may have taken nothing for a while: others have what is newer."""
    life = begin_reading(seed, SLIDING, disks=True)
    fleet = life.fleet
    everybody = list(fleet.servers.values())
    if is_stuck:
        for disk in (master(life, JOB).disk, master(life, TOP).disk):
            assert disk is not None
            disk.is_stuck = True
        fleet.run(fleet.now + 15.0)
    for one in everybody:
        fleet.crash(one)
        assert one.disk is not None
        one.disk.is_stuck = False
    fleet.run(fleet.now + 3.0)
    for one in everybody:
        fleet.restart(one)
    fleet.run(fleet.now + 20.0)
    for name in (JOB, TOP):  # whoever followed has ended too, and what was on its way is to be seen
        client_of(life.follower.agent).follow(key_of(name), FIRST_PANE, fleet.now)
    fleet.run(fleet.now + 90.0)
    check_long_windows(life, EVERY_MS)
