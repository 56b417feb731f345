"""Delay of windows as key groups move (figure 10), and the busiest agent's work where keys have owners."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import polars as pl

from agent.runtime.function.tree_placement import TreePlacement
from agent.runtime.model.placement import GROUPS, KeyMoves, Mode, Move
from benchmarks.report import Comparison, smaller, within
from overlay import Id

from .owner_rig import PANE_MS, WINDOW_PANES, Owner, function_of, pane_of, show, timed

MOVED_KEYS, QUICK_KEYS = (10_000, 100_000, 1_000_000), (10_000, 100_000)
"""Keys that move, a half of those that their owner has."""
RUNS = 3
INSTANT_MS = 5.0
DISRUPTIVE_TIMES, LARGE_KEYS = 10.0, 100_000
"""Least delay of groups that move with their state, in times of that of others, from so many keys on."""
FLOOR_MS = 0.1
"""Least delay that is told of: less is noise."""
OWNERS = 4
OWNED_KEYS, QUICK_OWNED_KEYS = 4_000_000, 200_000
OWNED_PANES = 3
"""Panes that are measured, after as many as a window has."""
GAIN = 2.5
"""Least work of a master alone, in that of the busiest agent of four: 0.4 of it are aimed at."""
_MODES: tuple[Mode, ...] = ("instant", "smooth", "disruptive")
_FIRST = 1_000_000


class Delays(NamedTuple):
    """Seconds by which a pane of a group that moves comes later into windows than others do, at its new owner, and by
    which windows are shown later: the latest of those that begin before the move."""

    pane_s: float
    window_s: float


def moving_groups(*, quick: bool) -> list[Comparison]:
    """Lines of figure 10: what it takes to move half of an owner's keys."""
    lines: list[Comparison] = []
    for keys in QUICK_KEYS if quick else MOVED_KEYS:
        delays = {mode: _median([_delays(mode, keys) for _ in range(RUNS)]) for mode in _MODES}
        case = f"figure 10: {keys:,} keys move"
        instant, disruptive = (1000 * delays[mode].pane_s for mode in ("instant", "disruptive"))
        lines.append(within("enorm", f"{case} instantly: delay of their first pane", instant, "ms", INSTANT_MS))
        target = DISRUPTIVE_TIMES if keys >= LARGE_KEYS else None
        rival = "with their state"
        lines.append(
            smaller(
                "enorm", f"{case}: delay of their first pane", max(FLOOR_MS, instant), "ms", rival, disruptive, target
            )
        )
        for mode in ("instant", "smooth"):
            shown, others = 1000 * delays[mode].window_s, 1000 * delays["disruptive"].window_s
            how = "instantly" if mode == "instant" else "smoothly"
            lines.append(smaller("enorm", f"{case} {how}: delay of windows", max(FLOOR_MS, shown), "ms", rival, others))
    return lines


def _median(found: Sequence[Delays]) -> Delays:
    return Delays(*(median(values) for values in zip(*found, strict=True)))


def _delays(mode: Mode, keys: int) -> Delays:
    """Owners work beside each other; the master waits for all of them, and shows."""
    version = function_of(2)
    function, pane = version.function, _FIRST + WINDOW_PANES * PANE_MS + 2 * PANE_MS
    state = pane_of(function, 4 * keys)
    moving = range(GROUPS // 2, 3 * GROUPS // 4)
    until = pane + function.window_ms if mode == "smooth" else pane
    moved = KeyMoves(1, tuple(Move(1, pane, group, 2, mode, until) for group in moving), (Id(7),))
    owners = tuple(Owner.of(tree, version, 3) for tree in (1, 2))
    steps: list[_Step] = []
    for number in range(2 * WINDOW_PANES + 2):
        at = _FIRST + number * PANE_MS
        pieces = TreePlacement(2, moved).cut(function, state.with_columns(pane=pl.lit(at, dtype=pl.Int64)))
        steps.append(_step(mode, at, pane, moved, list(moving), owners, pieces))
    before, after = steps[WINDOW_PANES : WINDOW_PANES + 2], steps[WINDOW_PANES + 2 :]
    ordinary = median(step.before_s for step in before)
    shown = median(step.shown_s for step in before)
    return Delays(max(0.0, after[0].after_s - ordinary), max(0.0, max(step.shown_s for step in after) - shown))


class _Step(NamedTuple):
    """Seconds from the master's decision on a pane to the answers of the old and the new owner, and to the rows of
    windows."""

    before_s: float
    after_s: float
    shown_s: float


def _step(
    mode: Mode,
    at: int,
    pane: int,
    moved: KeyMoves,
    groups: Sequence[int],
    owners: Sequence[Owner],
    pieces: Sequence[pl.DataFrame],
) -> _Step:
    before, after = owners
    before.hold(at, pieces[before.tree])
    gives_s = takes_s = after_s = 0.0
    restores = []
    if at == pane and mode == "disruptive":
        given, gives_s = timed(lambda: before.give(before.decision(at, moved), groups))
        _, takes_s = timed(lambda: after.take(given, (before.tree, 1), at - PANE_MS))
        restores = [(before.tree, Id(1))]
    decision = before.decision(at, moved, begins=at == _FIRST)
    answer, before_s = timed(lambda: before.answer(decision))
    answers = [answer]
    if at >= pane:
        after.hold(at, pieces[after.tree])
        decision = after.decision(at, moved, begins=at == pane, restores=restores)
        answer, after_s = timed(lambda: after.answer(decision))
        answers.append(answer)
    _, shown_s = timed(lambda: show(answers, before.version.function))
    before_s, after_s = gives_s + before_s, gives_s + takes_s + after_s
    return _Step(before_s, after_s, max(before_s, after_s) + shown_s)


def owned_keys(*, quick: bool) -> list[Comparison]:
    """The work of a master that makes all windows, beside that of the busiest of four agents that own the keys."""
    keys = QUICK_OWNED_KEYS if quick else OWNED_KEYS
    alone_s = _busiest_s(1, keys)
    busiest_s = _busiest_s(OWNERS, keys)
    case = f"windows of {keys:,} keys, {OWNERS} owners: the busiest agent's time for a window"
    return [smaller("enorm", case, busiest_s, "s", "all at the master", alone_s, GAIN)]


def _busiest_s(owners: int, keys: int) -> float:
    """Seconds of the busiest agent for a window; the master is one of the owners, and shows."""
    version = function_of(max(2, owners))
    function = version.function
    state = pane_of(function, keys)
    moved = KeyMoves()
    parts = [Owner.of(tree, version, owners) for tree in range(owners)]
    pieces = TreePlacement(owners).cut(function, state)
    times: list[float] = []
    for number in range(WINDOW_PANES + OWNED_PANES):
        at = _FIRST + number * PANE_MS
        spent, answers = [], []
        for owner, piece in zip(parts, pieces, strict=True):
            owner.hold(at, piece.with_columns(pane=pl.lit(at, dtype=pl.Int64)))
            decision = owner.decision(at, moved, begins=number == 0)
            answer, seconds = timed(lambda owner=owner, decision=decision: owner.answer(decision))  # type: ignore[misc]
            spent.append(seconds)
            answers.append(answer)
        _, shown_s = timed(lambda answers=answers: show(answers, function))  # type: ignore[misc]
        spent[0] += shown_s
        times.append(max(spent))
    return median(times[WINDOW_PANES:])
