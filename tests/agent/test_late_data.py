"""Late events of windows that are shown while they change: within GRACE they are put in, later they count as late."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_fleet import KEY, WALL_MS, Fleet, events
from recording_client import client_of

from agent import WindowResult
from agent.runtime.function.changing_windows import AMENDED_AT_ONCE, ChangingWindows
from agent.runtime.function.grace import AMENDED_MAX, grace_of
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.function.versions import FunctionCache, Versions, first_version
from agent.runtime.messages.jobs import Submit, Update
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import COUNT_MAX, Counts, Patch, Run
from agent.runtime.reduce.snapshot import run_of, snapshot_of
from cbt import WindowSize
from query import Plan, Schema, analyze, parse
from query.model.timestamps import parse_timestamp

CHANGES = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 4 SECONDS GRACE 3 SECONDS EMIT CHANGES"
FINAL = CHANGES.removesuffix(" EMIT CHANGES")
START = (WALL_MS // 4000 + 1) * 4000
"""The start of the first whole window."""


class Shop:
    """A fleet that logs events at times of its own, while the clock goes on."""

    def __init__(self, text: str = CHANGES, size: int = 2) -> None:
        self.fleet = Fleet(size)
        self.fleet.submit(text, bounded=False)
        self.fleet.catch_up()
        self.until(START)

    def until(self, wall_ms: int) -> None:
        """Lets the clock come to a time, by steps in which all read their logs to the end."""
        while self.fleet.wall_ms < wall_ms:
            self.fleet.wait(min(0.5, (wall_ms - self.fleet.wall_ms) / 1000))
            self.fleet.catch_up()

    def log(self, number: int, product: str, at_ms: int) -> None:
        self.fleet.insert(number, events(product, at_ms=at_ms))

    def of(self, start: int) -> list[WindowResult]:
        """What was shown of a window."""
        return [one for one in self.fleet.results if parse_timestamp(one.window_start or "") == start]


def rows(result: WindowResult) -> dict[str, int]:
    return {str(row["product"]): int(row["n"] or 0) for row in result.rows}


def shown(result: WindowResult) -> tuple[dict[str, int], int, bool]:
    return rows(result), result.revision, result.final


@pytest.mark.parametrize("trees", ["", " TREES 2"])
def test_a_late_event_within_grace_changes_the_window_that_holds_it(trees: str) -> None:
    shop = Shop(CHANGES + trees)
    shop.log(0, "a", START + 100)
    shop.log(1, "b", START + 3900)
    shop.until(START + 4600)
    assert [shown(one) for one in shop.of(START)] == [({"a": 1}, 0, False), ({"a": 1, "b": 1}, 0, False)]
    shop.log(1, "a", START + 200)
    shop.log(0, "a", START + 300)
    shop.until(START + 5600)
    assert [shown(one) for one in shop.of(START)][2:] == [({"a": 3, "b": 1}, 1, False)]
    shop.log(0, "c", START + 400)
    shop.until(START + 9000)
    last = shop.of(START)
    assert [shown(one) for one in last][3:] == [
        ({"a": 3, "b": 1, "c": 1}, 2, False),
        ({"a": 3, "b": 1, "c": 1}, 2, True),
    ]
    assert [(one.events, one.late, one.partial, one.contributors) for one in last[-2:]] == [(5, 0, [], 2)] * 2
    shop.log(0, "a", START + 500)
    shop.until(START + 20_000)
    assert len(shop.of(START)) == 5, "what was the last word stays so"
    assert sum(one.late for one in shop.fleet.results if one.final) == 1
    assert b"revision" in last[-1].to_bytes()
    assert b"revision" not in last[0].to_bytes()


def test_a_window_in_which_all_events_came_late_is_shown() -> None:
    shop = Shop()
    shop.until(START + 5100)
    assert shop.of(START) == []
    shop.log(0, "a", START + 3900)
    shop.until(START + 8000)
    assert [shown(one) for one in shop.of(START)] == [({"a": 1}, 1, False), ({"a": 1}, 1, True)]


def test_windows_that_are_shown_once_wait_for_late_events_as_before() -> None:
    shop = Shop(FINAL)
    shop.log(0, "a", START + 100)
    shop.until(START + 5000)
    shop.log(0, "a", START + 200)
    shop.until(START + 12_000)
    assert [shown(one) for one in shop.of(START)] == [({"a": 2}, 0, True)]


def test_overlapping_windows_change_together() -> None:
    shop = Shop(CHANGES.replace("4 SECONDS", "4 SECONDS EVERY 2 SECONDS"))
    shop.log(0, "a", START + 2500)
    shop.until(START + 6600)
    shop.log(0, "a", START + 2600)
    shop.until(START + 11_000)
    for start in (START, START + 2000):
        assert shown(shop.of(start)[-1])[::2] == ({"a": 2}, True)


def test_windows_of_the_version_before_have_their_last_word() -> None:
    shop = Shop()
    shop.log(0, "a", START + 100)
    shop.until(START + 2000)
    text = FINAL.replace("COUNT(*) AS n", "COUNT(*) AS n, COUNT(*) AS m")
    update = Update(KEY, plan_of(text).to_wire(), text, False, 1)
    client_of(shop.fleet.agents[0]).update(update, shop.fleet.now, shop.fleet.wall_ms)
    shop.until(START + 20_100)
    shop.log(0, "a", START + 20_000)
    shop.until(START + 30_000)
    assert {one.version for one in shop.fleet.results} == {1, 2}
    finals = Counter(one.window_start for one in shop.fleet.results if one.final)
    assert max(finals.values()) == 1
    assert shown(shop.of(START)[-1]) == ({"a": 1}, 0, True)


logs = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 15_999), st.integers(0, 9_000)))


@settings(max_examples=settings.default.max_examples // 3)
@given(logs.filter(bool), st.sampled_from([0, 2, 5]), st.sampled_from(["", " TREES 2"]), st.integers(0, 40_000))
def test_the_last_word_on_each_window_has_all_events_within_grace(
    logged: list[tuple[int, str, int, int]], grace_s: int, trees: str, killed_at: int
) -> None:
    """Random times of events and of their coming, and of the master's end: conserved, and nobody twice."""
    shop = Shop(CHANGES.replace("GRACE 3", f"GRACE {grace_s}") + trees, 3)
    agents = shop.fleet.agents
    master = next(agent for agent in agents if agent.masters.get(KEY) is not None)
    others = [agent for agent in agents if agent is not master]
    came = sorted((START + at + delay, number, product, START + at) for number, product, at, delay in logged)
    for at, number, product, time in came:
        shop.until(min(at, START + killed_at))
        if at > START + killed_at and master in agents:
            agents.remove(master)
            shop.fleet.network.remove(master.node)
        shop.until(at)
        shop.log(agents.index(others[number]), product, time)
    shop.until(START + 60_000)
    finals = [one for one in shop.fleet.results if one.final]
    assert max(Counter(one.window_start for one in finals).values()) == 1
    sums = Counter[str]()
    for one in finals:
        sums.update(rows(one))
    late = sum(one.late for one in finals)
    assert sums.total() + late == len(logged)
    assert sums.total() == sum(one.events for one in finals)
    in_time = Counter(product for at, _, product, time in came if at - time < grace_s * 1000)
    assert sums >= in_time


def patched(**changes: Any) -> Run:
    patch = Patch(8, pl.DataFrame({"pane": [2, 4]}), {2: Counts(1), 4: Counts(2)}, {2: 0b01, 4: 0b11})
    return Run(6, 12, 0b11, pl.DataFrame({"pane": [8]}), {8: Counts(5)}, patches=(replace(patch, **changes),))


def test_late_events_go_where_the_pane_goes_that_carries_them() -> None:
    whole = patched()
    assert whole.is_sound(2)
    assert not whole.within(8, 12).patches
    assert whole.within(6, 8).patches == whole.patches
    assert [len(piece.patches) for piece in whole.pieces(1)] == [1]
    assert whole.without_patches().counted == {8: Counts(5, late=3)}
    assert whole.patches[0].of({4}).agents == {4: 0b11}
    assert replace(whole, contributors=0b10).by(5).patches[0].agents == {2: 1 << 5, 4: 1 << 5}


@pytest.mark.parametrize(
    "changes",
    [
        {"carrier": 6}, {"carrier": 7}, {"carrier": 14}, {"agents": {2: 0b01}}, {"agents": {2: 0b101, 4: 1}},
        {"agents": {2: 0, 4: 1}}, {"agents": {2: 1, 4: 1, 8: 1}}, {"agents": {2: 1, 4: 1, 3: 1}},
        {"counted": {2: Counts(COUNT_MAX + 1)}}, {"counted": {2: Counts(-1)}}, {"counted": {6: Counts(1)}},
        {"state": pl.DataFrame({"pane": [0]})},
    ],
)  # fmt: skip
def test_what_no_honest_agent_sends_is_refused(changes: dict[str, Any]) -> None:
    assert not patched(**changes).is_sound(2)


def plan_of(text: str) -> Plan:
    return analyze(parse(text), {"web": Schema({}, open=True)})


@pytest.mark.parametrize("more", [0, 1, 9 * AMENDED_MAX])
def test_where_too_many_windows_could_change_panes_wait_for_grace(more: int) -> None:
    grace_ms = (AMENDED_MAX + more) * 4000
    text = CHANGES.replace("GRACE 3 SECONDS", f"GRACE {grace_ms // 1000} SECONDS")
    plan = plan_of(text)
    job = Submit(KEY, "shop", plan.stream, plan.to_wire(), text, bounded=False)
    assert grace_of(plan, job) == ((0, grace_ms, True) if not more else (grace_ms, 0, True))


def as_received(text: str, patch: Patch) -> Run | None:
    plan = plan_of(text)
    job = Submit(KEY, "shop", plan.stream, plan.to_wire(), text, bounded=False)
    versions, epoch = Versions([first_version(job)], job, FunctionCache()), JobEpoch(1, 1, KEY)
    run = Run(START, START + 1000, 0b11, versions.newest.function.empty_state, patches=(patch,))
    return run_of(snapshot_of(run, versions, KEY, epoch, detached=False), versions, TreePlacement(1), None)


def test_a_parent_takes_late_events_of_jobs_that_show_changes_only() -> None:
    plan = plan_of(CHANGES)
    function = JobFunction(plan)
    store = function.new_store()
    store.insert(function.select(function.in_range(events("a", "b", at_ms=START - 3000).frames[0])))
    state = function.gather([frame for frame in store.flush() if frame is not None])
    patch = Patch(START + 1000, state, {START - 3000: Counts(2, 1)}, {START - 3000: 0b10, START - 4000: 0b01}, 0b01)
    taken = as_received(CHANGES, patch)
    assert taken is not None
    (received,) = taken.patches
    assert received.state.equals(state)
    assert (received.carrier, received.counted, received.agents) == (patch.carrier, patch.counted, patch.agents)
    assert received.lacking == 0b01
    assert as_received(CHANGES, replace(patch, lacking=0b100)) is None
    assert as_received(CHANGES, replace(patch, carrier=START - 3000)) is None
    assert as_received(FINAL, patch) is None


@given(st.binary(max_size=64))
def test_a_state_of_late_events_that_is_none_is_refused(state: bytes) -> None:
    plan = plan_of(CHANGES)
    job = Submit(KEY, "shop", plan.stream, plan.to_wire(), CHANGES, bounded=False)
    versions, epoch = Versions([first_version(job)], job, FunctionCache()), JobEpoch(1, 1, KEY)
    run = Run(START, START + 1000, 0b1, versions.newest.function.empty_state)
    sound = snapshot_of(run, versions, KEY, epoch, detached=False)
    entry = (START - 1000, 1, 1, 0, 0, 0, 0, b"\x01")
    forged = msgspec.structs.replace(sound, patches=[(START + 1000, state, [entry], b"")])
    assert run_of(forged, versions, TreePlacement(1), None) is None


@pytest.mark.parametrize("more", [0, 1, 9 * AMENDED_AT_ONCE])
def test_so_many_windows_are_shown_again_at_a_time(more: int) -> None:
    count = AMENDED_AT_ONCE + more
    windows = ChangingWindows(pl.concat, [WindowSize(10, 10)], 10, amends_ms=10 * count + 1000)
    for number in range(count):
        windows.amend(10 * number, pl.DataFrame({"pane": [10 * number]}))
    at = 10 * count
    assert len(list(windows.show(at))) == AMENDED_AT_ONCE
    assert len(list(windows.show(at + 10))) == min(more, AMENDED_AT_ONCE)
    last = list(windows.end())
    assert [one.revision for one in last] == [1] * count, "each was shown once since its change, if only in the end"
