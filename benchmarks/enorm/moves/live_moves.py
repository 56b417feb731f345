"""Windows of eight agent processes under load while key groups move: the time between two, and when each comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import elf
from agent.control.messages import JobPlacement
from agent.runtime.model.fields import Mode
from benchmarks.agents import running_agents
from benchmarks.race import BenchmarkError
from benchmarks.recovery.watching import Publication, WindowWatch, is_complete, watched_job
from benchmarks.report import Comparison, smaller, within
from elf.client import QueryRefusedError, SyncClient

from .owner_rig import HOW

NAME = "enorm"
AGENTS = 8
RATE = 4_000.0
"""Events that all servers together log a second."""
WINDOWS, SIZE_S = "4 SECONDS EVERY 1 SECOND", 4
CLAUSES = "TREES 4"
MOVED = 8
"""Number of groups that move at a time."""
TRIALS, QUICK_TRIALS = 3, 1
BEFORE_S, AFTER_S = 4, 8
"""Windows that are looked at: those that end so long before the first pane with the new owner, and after it."""
MOVE_TIMEOUT_S = 60.0
ASK_AGAIN_S = 0.5
TIMELINES = tuple(f"live, delay, moved {how}" for how in HOW.values())


class _Trial(NamedTuple):
    """The windows around a move, and the start of the first pane that is with the new owner (s)."""

    first_s: float
    windows: list[Publication]

    def gap_s(self, *, moving: bool) -> float:
        """The longest time between two windows, of those of the move or of those before it."""
        times = [one.at_s for one in self.windows if (one.window_end_s > self.first_s) == moving]
        return max(later - earlier for earlier, later in pairwise(times))


def live_moves(*, quick: bool) -> list[Comparison]:
    """Moves groups of one owner to another, in each mode in turn."""
    trials: dict[Mode, list[_Trial]] = {mode: [] for mode in HOW}
    with running_agents(AGENTS) as (fleet, folder, _):
        observer = fleet.names[-1]
        with (
            watched_job(fleet, folder, CLAUSES, observer=observer, windows=WINDOWS, rate=RATE) as (app, watch),
            elf.connect_sync(fleet.socket(observer)) as client,
        ):
            watch.wait(is_complete(AGENTS), "no complete window")
            time.sleep(BEFORE_S + SIZE_S)
            for _ in range(QUICK_TRIALS if quick else TRIALS):
                for mode, found in trials.items():
                    found.append(_trial(client, app, watch, mode))
        faults = fleet.faults()
    if faults:
        raise BenchmarkError(f"agents have complained: {faults[0]}")
    return [line for mode, found in trials.items() for line in _lines(mode, found)]


def _trial(client: SyncClient, app: str, watch: WindowWatch, mode: Mode) -> _Trial:
    first_s = _moved(client, app, mode)
    watch.wait(lambda one: one.window_end_s >= first_s + AFTER_S, "no window after groups have moved")
    found = [one for one in watch.since(0.0) if -BEFORE_S < one.window_end_s - first_s <= AFTER_S]
    return _Trial(first_s, found)


def _moved(client: SyncClient, app: str, mode: Mode) -> float:
    """Moves groups between two owners; the start of the first pane that is with the new one."""
    deadline, refusal = time.monotonic() + MOVE_TIMEOUT_S, ""
    while time.monotonic() < deadline:
        chosen = _chosen(client.place(app))
        if chosen is not None:
            groups, taker = chosen
            try:
                told = client.place(app, move=groups, to=taker, mode=mode)
            except QueryRefusedError as error:
                refusal = str(error)
            else:
                firsts = [one.first_pane for one in told.moves if one.group in groups and one.mode == mode]
                return max(datetime.fromisoformat(first).timestamp() for first in filter(None, firsts))
        time.sleep(ASK_AGAIN_S)
    raise BenchmarkError(f"no groups have moved within {MOVE_TIMEOUT_S:g} s: {refusal}")


def _chosen(placed: JobPlacement) -> tuple[list[int], str] | None:
    """Groups of the owner with most of them, and the owner with the fewest: none of the master's tree, for whose state
    all would wait."""
    needed = {one.group for one in placed.moves if not one.is_over}
    owned = {
        one.agent: [group.group for group in placed.groups if group.trees == [one.tree] and group.group not in needed]
        for one in placed.owners
        if one.tree
    }
    by_groups = sorted(owned, key=lambda agent: len(owned[agent]))
    if len(by_groups) < 2 or len(owned[by_groups[-1]]) < MOVED:
        return None
    return owned[by_groups[-1]][:MOVED], by_groups[0]


def _lines(mode: Mode, trials: Sequence[_Trial]) -> list[Comparison]:
    case = f"live, {AGENTS} agents, {RATE:,.0f} events/s, {MOVED} groups move {HOW[mode]}"
    moving, calm = (median(one.gap_s(moving=is_it) for one in trials) for is_it in (True, False))
    windows = [one for trial in trials for one in trial.windows]
    starts = [round(one.window_end_s - trial.first_s) for trial in trials for one in trial.windows]
    lacking = sum(not is_complete(AGENTS)(one) for one in windows)
    lacking += len(trials) * (BEFORE_S + AFTER_S) - len(windows)
    lines = [
        smaller(NAME, f"{case}: longest time between windows", moving, "s", "before the move", calm),
        within(NAME, f"{case}: windows left out, or without an agent", lacking, "windows", 0.0),
    ]
    timeline = TIMELINES[list(HOW).index(mode)]
    for second in sorted(set(starts)):
        late = [one.late_s for one, start in zip(windows, starts, strict=True) if start == second]
        lines.append(within(NAME, f"{timeline}: {second}", 1000 * median(late), "ms"))
    return lines
