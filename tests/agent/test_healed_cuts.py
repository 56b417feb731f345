"""Windows of both sides of a cut, where they may be corrected: merged soon after healing, nobody in them twice."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from lives import JOB, Life, begin
from seeds import seeds
from simulated_fleet import key_of
from test_hopping_simulated import CHANGES, check_contents

from agent import PublishedWindow
from agent.runtime.function.result import WindowRows
from agent.runtime.function.versions import FunctionCache, Versions, first_version
from agent.runtime.master.healing import CORRECTED_MAX, Healing
from agent.runtime.master.windows import ClosedWindow
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.incomplete import IncompleteSpan
from agent.runtime.model.panes import Counts
from query import Schema, analyze, parse
from query.model.timestamps import parse_timestamp

CUT_S = 60.0
MERGED_S = 15.0
SIZE_MS = 6000
SOON_MS = 8000
"""Windows that ended so short before healing may have all sides in them anyway, or not yet be out."""


def cut_and_healed(seed: int, *, one_way: bool = False, sql: str = CHANGES) -> tuple[Life, int, int]:
    """A life with a cut, and when it was begun and healed (epoch ms)."""
    source = random.Random(seed)
    life = begin(seed, source.choice((4, 5, 6)), sql=sql)
    fleet = life.fleet
    servers = list(fleet.servers.values())
    few = source.sample(servers, source.randint(1, len(servers) // 2))
    rest = [one for one in servers if one not in few]
    sides = [one.node for one in few], [one.node for one in rest]
    life.note(f"{', '.join(one.name for one in few)} cut off")
    begun_ms = fleet.wall_ms
    fleet.simulator.cut(*sides, one_way=one_way)
    fleet.run(fleet.now + CUT_S)
    fleet.simulator.heal()
    life.note("healed")
    healed_ms = fleet.wall_ms
    fleet.run(fleet.now + MERGED_S)
    return life, begun_ms, healed_ms


def last_words(life: Life) -> dict[int, dict[str, Any]]:
    """What the follower has of each window in the end, by its start."""
    notices = [one for one in life.follower.followed[key_of(JOB)] if isinstance(one, PublishedWindow)]
    assert [one.pane for one in notices] == sorted({one.pane for one in notices}), life.about()
    results = [json.loads(bytes(one.result)) for one in notices]
    return {parse_timestamp(one["window_start"]) or 0: one for one in results if one.get("final", True)}


@pytest.mark.parametrize("seed", seeds(slow=range(60)))
def test_windows_of_a_cut_are_corrected_after_healing(seed: int) -> None:
    life, begun_ms, healed_ms = cut_and_healed(seed)
    check_contents(life)
    fleet, last = life.fleet, last_words(life)
    starts = range((begun_ms // SIZE_MS + 1) * SIZE_MS, healed_ms - SIZE_MS - SOON_MS, SIZE_MS)
    assert len(starts) >= 6
    for start in starts:
        result, logged = last[start], Counter[str]()
        for server in fleet.servers.values():
            logged += server.counted(start, SIZE_MS)
        about = f"{life.about()}: {result}"
        assert (result["contributors"], result["missing"]) == (len(fleet.servers), []), about
        assert {row["product"]: row["n"] for row in result["rows"]} == logged, about
        assert result["revision"] >= 1, about


@pytest.mark.parametrize("seed", seeds(slow=range(40)))
def test_nobody_counts_twice_after_a_cut_of_one_way(seed: int) -> None:
    """Some hear of the others, who do not hear of them: the same panes may be on both sides."""
    life, _, _ = cut_and_healed(seed, one_way=True)
    check_contents(life)
    for start, result in last_words(life).items():
        most = Counter[str]()
        for server in life.fleet.servers.values():
            most += server.counted(start, SIZE_MS)
        rows = Counter({row["product"]: row["n"] for row in result["rows"]})
        assert rows <= most, f"{life.about()}: {result}"
        lacks = result["contributors"] < len(life.fleet.servers) or result["partial"]
        assert rows == most or lacks, f"{life.about()}: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_windows_that_are_shown_once_are_not_shown_again(seed: int) -> None:
    life, _, _ = cut_and_healed(seed, sql=CHANGES.removesuffix(" EMIT CHANGES"))
    check_contents(life)
    assert all(not one.result.revision for one in life.fleet.of(JOB))


PANE = 1000


def window(start: int) -> ClosedWindow:
    return ClosedWindow(start, start, start, PANE, Counts(), 1, 1, 0)


@pytest.mark.parametrize("more", [0, 1, 9 * CORRECTED_MAX])
def test_so_many_windows_are_corrected_at_a_time(more: int) -> None:
    plan = analyze(parse(CHANGES), {"web": Schema({}, open=True)})
    job = Submit(key_of(JOB), JOB, plan.stream, plan.to_wire(), CHANGES, bounded=False)
    healing, version = Healing((), 10**9), Versions([first_version(job)], job, FunctionCache()).newest
    for number in range(CORRECTED_MAX + more):
        healing.add(window(number), WindowRows([], {}, None, 0), None, version)
    assert healing.take_left_out() == more
    assert healing.take(10**9, PANE) == [], "not before all panes are made again"
    taken = [one for one, *_ in healing.take(10**9 + PANE, PANE)]
    assert [one.start_ms for one in taken] == list(range(more, CORRECTED_MAX + more))
    assert [one.position for one in taken] == list(range(10**9 + PANE - CORRECTED_MAX, 10**9 + PANE))
    assert {one.revision for one in taken} == {1}


def expected(_first: int, _last: int) -> int:
    return 0b111


@pytest.mark.parametrize(
    ("stretches", "gains"),
    [
        ([(0, 30, 0b111)], True),
        ([(0, 10, 0b111), (10, 30, 0b111)], True),
        ([(0, 30, 0b011)], False),  # nobody came back
        ([(0, 30, 0b101)], False),  # somebody came back, and somebody else is gone
        ([(0, 20, 0b111), (20, 30, 0b011)], False),  # a pane that was complete is not any more
        ([(0, 20, 0b111)], False),  # panes are not there
        ([(10, 30, 0b111)], False),
        ([(0, 10, 0b111), (20, 30, 0b111)], False),
        ([], False),
    ],
)
def test_a_window_is_corrected_if_it_loses_nobody(stretches: list[tuple[int, int, int]], gains: bool) -> None:
    healing = Healing([IncompleteSpan(5, 15, 0b011)], 100)
    assert healing.gains(stretches, 1, 30, expected) is gains
