"""Random jobs of stages whose key groups move in all modes, to owners anywhere: what is published is byte for byte what
the same queries show one by one, in one tree, on one agent."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_fleet import Fleet
from program_fleet import ProgramFleet
from stage_reading import reading
from test_fused_stages import LAST, SECONDS, STREAMS, StagedJob, log_of, play, staged_jobs

import query
from agent import WindowResult
from agent.runtime.model.fields import GROUPS, Mode

MODES: tuple[Mode, ...] = ("instant", "smooth", "disruptive")
AGENTS = 3
FEW_GROUPS = 2
"""A limit on groups that windows go beyond."""
WITHIN = "2023-11-14T22:13:41Z"
"""The end of the last windows that lie within the logs."""
Shown = dict[tuple[str, str | None, str | None], bytes]
"""The rows of each window, what is beyond its limit, and whether it lacks something, as JSON, by job, start and end."""


@dataclass(frozen=True)
class StagedMove:
    """Groups of every job with several trees move there after some second, where they may."""

    second: int
    groups: tuple[int, ...]
    tree: int
    mode: Mode


@dataclass(frozen=True)
class MovedJob:
    """A job of stages, what moves in its life, its limit on groups, and from what the agents' ids follow."""

    job: StagedJob
    moves: tuple[StagedMove, ...]
    max_groups: int
    salt: str


@st.composite
def moved_jobs(draw: st.DrawFn) -> MovedJob:
    """Every query that may have several trees has some."""
    staged = draw(staged_jobs().filter(lambda one: any(map(_may_have_trees, one.queries.values()))))
    queries = {
        name: f"{text.removesuffix(' TREES 2')} TREES {draw(st.integers(3, 5))}" if _may_have_trees(text) else text
        for name, text in staged.queries.items()
    }
    groups = draw(st.permutations(range(GROUPS)))
    moves = []
    for number, mode in enumerate(MODES):
        second = draw(st.sampled_from(range(4, SECONDS - 2, 2)))
        moves.append(StagedMove(second, tuple(groups[16 * number : 16 * number + 16]), draw(st.integers(0, 4)), mode))
    moves.sort(key=lambda one: one.second)
    limit = draw(st.sampled_from((FEW_GROUPS, query.GROUPS_DEFAULT)))
    return MovedJob(replace(staged, queries=queries), tuple(moves), limit, draw(st.sampled_from("abcdef")))


def _may_have_trees(text: str) -> bool:
    return "FROM buys" in text and "GROUP BY product" in text


def live(fleet: Fleet, logs: Sequence[Sequence[pl.DataFrame]], moves: Sequence[StagedMove]) -> Counter[Mode]:
    """Agents read their logs while groups move. Returns how many groups have moved in which ways."""
    moved: Counter[Mode] = Counter()

    def move_some(second: int) -> None:
        for one in moves:
            if one.second == second:
                moved.update(move(fleet, one))

    play(fleet, logs, move_some)
    return moved


def move(fleet: Fleet, one: StagedMove) -> Counter[Mode]:
    moved: Counter[Mode] = Counter()
    for agent in fleet.agents:
        for master in agent.masters.held.values():
            if (trees := master.state.trees) > 1:
                before = len(master.state.moved.moves)
                tree = max(int(one.mode == "disruptive"), one.tree % trees)
                for group in one.groups:  # one by one: what may not move is no reason why others should not
                    master.placement.move([group], tree, one.mode, fleet.now)
                moved.update(each.mode for each in master.state.moved.moves[before:])
    fleet.settle()
    return moved


def shown(results: Sequence[WindowResult], prefix: str = "") -> Shown:
    """The windows that lie within the logs; those that read windows beyond their limit lack something everywhere."""
    found: Shown = {}
    for one in results:
        name = one.app.removeprefix(prefix) if one.app != "staged" else LAST
        assert not one.missing
        if (one.window_end or "") <= WITHIN:
            key = (name, one.window_start, one.window_end)
            assert key not in found, f"a window twice: {key}"
            said = msgspec.json.decode(one.to_bytes())
            found[key] = msgspec.json.encode((said["rows"], said["other"], bool(one.partial)))
    return found


def alone(one: MovedJob, logs: Sequence[pl.DataFrame]) -> Shown:
    """What the queries show as jobs of their own, in one tree."""
    with reading(as_json=True):
        fleet = Fleet(1, streams=STREAMS)
        for name, text in one.job.queries.items():
            fleet.submit(re.sub(r" TREES \d", "", text), name, bounded=False, max_groups=one.max_groups)
            fleet.wait(1.5)
        fleet.wait_long(3.0)
        play(fleet, [logs])
        return shown(fleet.results)


def together(one: MovedJob, logs: Sequence[pl.DataFrame]) -> tuple[Shown, Counter[Mode]]:
    """What the job and its stages show on several agents, and how many groups have moved in which ways."""
    with tempfile.TemporaryDirectory() as directory:
        fleet = ProgramFleet(Path(directory), len(logs), streams=STREAMS, salt=one.salt)
        fleet.max_groups = one.max_groups
        try:
            fleet.submit_code(one.job.code)
            fleet.wait_long(4.0)
            moved = live(fleet, [[log] for log in logs], one.moves)
            return shown(fleet.results, "staged."), moved
        finally:
            fleet.close()


def check_examples(count: int) -> Counter[Mode]:
    """Tries random jobs; returns how many groups have moved in which ways in all of them."""
    moved: Counter[Mode] = Counter()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None)
    @given(moved_jobs())
    def check(one: MovedJob) -> None:
        logs = [log_of(one.job.seed, number) for number in range(AGENTS)]
        found, ways = together(one, logs)
        assert found == alone(one, logs)
        moved.update(ways)

    check()
    return moved


def test_stages_show_the_same_whichever_way_their_groups_move() -> None:
    moved = check_examples(4)
    assert {*moved} == {*MODES}, moved


@pytest.mark.slow
def test_many_jobs_of_stages_show_the_same_whichever_way_their_groups_move() -> None:
    assert {*check_examples(80)} == {*MODES}
