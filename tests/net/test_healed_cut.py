"""Five agents on hosts of their own, cut in two and healed: windows that may change get everybody's events."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from watching import Came, Watch, submit

from benchmarks.chaos.hosts import HostedFleet
from benchmarks.chaos.oracle import ids_of
from benchmarks.chaos.servers import Servers
from benchmarks.networks import Network
from elf.demo.agents.agents import AgentSpec, StreamFiles

pytestmark = pytest.mark.net
NAMES = [f"agent-{number}" for number in range(1, 6)]
SIDES = {"agent-1", "agent-2"}, {"agent-3", "agent-4", "agent-5"}
APP = "changing"
QUERY = (
    "SELECT server, COLLECT(id, 10000) AS ids FROM web GROUP BY server WINDOWING 2 SECONDS GRACE 1 SECOND EMIT CHANGES"
)
APART_S = 40.0
"""Time within which each side goes on by itself."""
MERGED_S = 15.0
"""Time after healing within which windows of both sides are merged."""


def test_windows_of_both_sides_of_a_cut_are_corrected_with_all_events(tmp_path: Path) -> None:
    paths = {name: tmp_path / "logs" / name / "web.log" for name in NAMES}
    for path in paths.values():
        path.parent.mkdir(parents=True)
    specs = [AgentSpec(name, (StreamFiles("web", (str(path),)),)) for name, path in paths.items()]
    with (
        Servers(paths) as servers,
        Network(len(NAMES)) as network,
        HostedFleet(tmp_path / "agents", specs, network) as fleet,
    ):
        submit(fleet.socket("agent-1"), QUERY, APP, len(NAMES))
        with Watch(fleet.socket("agent-1"), APP) as few, Watch(fleet.socket("agent-5"), APP) as many:
            for watch in (few, many):
                watch.wait_for("a complete window", _is_whole)
            cut_ms = time.time_ns() // 1_000_000
            fleet.cut(sorted(SIDES[0]), one_way=False)
            for watch, other in ((few, SIDES[1]), (many, SIDES[0])):
                watch.wait_for(f"a window without {other}", partial(_is_without, other, cut_ms), APART_S)
            ended = [one for one in (*few.windows, *many.windows) if one.start_ms >= cut_ms and one.result.final]
            lacking = {one.start_ms: one.result.missing for one in ended if one.result.missing}
            fleet.heal()
            for start_ms, missing in lacking.items():
                for watch in (few, many):
                    what = (
                        f"the window from {start_ms} with all, {start_ms - cut_ms} ms after the cut without {missing}"
                    )
                    _check(watch.wait_for(what, partial(_is_made_again, start_ms), MERGED_S), servers)


def _is_without(names: set[str], since_ms: int, came: Came) -> bool:
    """Whether these agents, and no others, are missing in the last result of a window that began later."""
    result = came.result
    return came.start_ms >= since_ms and result.final and set(result.missing) == names


def _is_made_again(start_ms: int, came: Came) -> bool:
    """Whether it is the corrected result of the window that began then."""
    return came.start_ms == start_ms and _is_whole(came) and came.result.revision > 0


def _is_whole(came: Came) -> bool:
    result = came.result
    return result.final and result.contributors == result.expected == len(NAMES) and not result.partial


def _check(came: Came, servers: Servers) -> None:
    """It holds each event that was logged in its time, once."""
    counted = {row["server"]: ids_of(row["ids"]) for row in came.result.rows}
    for name in NAMES:
        logged = servers.logged(name, came.start_ms, came.end_ms)
        assert logged
        assert sorted(counted[name]) == sorted(logged), (name, came.result.window_start, came.result.revision)
