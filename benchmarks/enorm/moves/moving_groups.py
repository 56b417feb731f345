"""Delay of windows as key groups move (figure 10), as all groups of an owner are split among others and combined again
(figure 11), and the time for all windows where any share of the groups moves (figure 12).

Processor times are measured, on owners that do the work; how long panes wait for each other is virtual time.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import NamedTuple, TypeVar

from agent.runtime.model.fields import GROUPS, Mode
from benchmarks.report import Comparison, smaller, within

from .owner_rig import HOW, Owners, PaneCosts, function_of, moved, of_groups, pane_at, pane_of, takers_of
from .virtual_time import LOAD, completion_s, latencies

NAME = "enorm"
MODES: tuple[Mode, ...] = ("instant", "smooth", "disruptive")
PANES = 5
"""Panes of a window, one of which ends with each pane."""
SETTLED = 2
"""Panes before groups move, and after their windows are out, of which the ordinary times are taken."""
FLOOR_MS = 0.1
"""Least delay that is told of: less is noise."""
RUNS, QUICK_RUNS = 3, 1

MOVED_KEYS = (10_000, 100_000)
"""Keys that move: half of those that their owner has, and as many as the other one has."""
MILLION = 1_000_000
FIRST_PANE = "figure 10, first pane later, instantly"
WINDOWS: dict[Mode, str] = {
    "instant": "figure 10, windows later, instantly",
    "smooth": "figure 10, windows later, smoothly",
}
INSTANT_MS = 5.0
DISRUPTIVE_TIMES, LARGE_KEYS = 10.0, 100_000
"""Least delay of groups that move with their state, in times of that of others, from so many keys on."""

SPLIT_KEYS, QUICK_SPLIT_KEYS = 200_000, 20_000
"""Keys of all groups, in figures 11 and 12."""
OWNERS = 4
SHARES, QUICK_SHARES = (25, 50, 75, 100), (50, 100)
"""Groups that move (%)."""
COMPLETION = "figure 12, all windows, instantly"
COMPLETION_TIMES = 1 / 1.1
"""Least completion time of groups that move with their state, in times of that of groups that move instantly."""
_less = partial(smaller, NAME)


class Moved(NamedTuple):
    """Seconds of virtual time. `pane_s`: by which a pane of groups that move comes later into windows. `window_s`: by
    which a window is shown later, at most. `done_s`: until new owners alone have panes of the groups, from the first
    such pane on. `free_s`: until no window needs the owners before."""

    pane_s: float
    window_s: float
    done_s: float
    free_s: float


def moving_groups(*, quick: bool) -> list[Comparison]:
    """Lines of figure 10: an owner gives half of its keys to one that has as many."""
    runs = QUICK_RUNS if quick else RUNS
    return [line for keys in MOVED_KEYS for line in _moving(keys, runs)]


def moving_million(*, quick: bool) -> list[Comparison]:
    """The lines of a million keys, of one run of two modes, as it takes minutes; none of a quick run."""
    return [] if quick else _moving(MILLION, 1, ("instant", "disruptive"))


def _moving(keys: int, runs: int, modes: Sequence[Mode] = MODES) -> list[Comparison]:
    quarter = GROUPS // 4
    before = [1] * (2 * quarter) + [2] * (2 * quarter)
    after = [1] * quarter + [2] * (3 * quarter)
    found = {mode: _median([_moved(mode, before, after, 4 * keys, 3 * quarter) for _ in range(runs)]) for mode in modes}
    place, rival = f"{keys:,} keys", HOW["disruptive"]
    instant, disruptive = (1000 * found[mode].pane_s for mode in ("instant", "disruptive"))
    target = DISRUPTIVE_TIMES if keys >= LARGE_KEYS else None
    others = 1000 * found["disruptive"].window_s
    return [
        within(NAME, f"{FIRST_PANE}, at most: {place}", instant, "ms", INSTANT_MS),
        _less(f"{FIRST_PANE}: {place}", max(FLOOR_MS, instant), "ms", rival, disruptive, target),
        *(
            _less(f"{label}: {place}", max(FLOOR_MS, 1000 * found[mode].window_s), "ms", rival, others)
            for mode, label in WINDOWS.items()
            if mode in modes
        ),
    ]


def split_and_combine(*, quick: bool) -> list[Comparison]:
    """Lines of figure 11: all groups of one owner are split among four, and combined at one again."""
    keys, runs = (QUICK_SPLIT_KEYS, QUICK_RUNS) if quick else (SPLIT_KEYS, RUNS)
    one, four = [1] * GROUPS, [1 + group % OWNERS for group in range(GROUPS)]
    lines: list[Comparison] = []
    for what, before, after in (("split", one, four), ("combine", four, one)):
        found = {mode: _median([_moved(mode, before, after, keys, GROUPS) for _ in range(runs)]) for mode in MODES}
        state = found["disruptive"]
        for mode in ("instant", "smooth"):
            own, case = found[mode], f"figure 11: {what} of {keys:,} keys {HOW[mode]}"
            titles = {
                "time to done": (own.done_s, state.done_s),
                "delay of their first pane": (own.pane_s, state.pane_s),
                "delay of windows": (own.window_s, state.window_s),
            }
            if own.free_s > own.done_s:
                titles["time until windows have one owner"] = (own.free_s, state.free_s)
            for title, (ours, theirs) in titles.items():
                shown = max(FLOOR_MS, 1000 * ours)
                lines.append(_less(f"{case}, {title}", shown, "ms", HOW["disruptive"], 1000 * theirs))
    return lines


def completion(*, quick: bool) -> list[Comparison]:
    """Lines of figure 12: the time that four owners and the master take for all panes, where groups move on to the next
    owner in the middle."""
    keys = QUICK_SPLIT_KEYS if quick else SPLIT_KEYS
    before = [1 + group % OWNERS for group in range(GROUPS)]
    lines: list[Comparison] = []
    for share in QUICK_SHARES if quick else SHARES:
        moving = GROUPS * share // 100
        after = [tree % OWNERS + 1 if group < moving else tree for group, tree in enumerate(before)]
        runs: dict[str, list[float]] = {"none": [], "instant": [], "disruptive": []}
        for _ in range(QUICK_RUNS if quick else RUNS):
            runs["none"].append(completion_s(_run("instant", before, before, keys)))
            for mode in ("instant", "disruptive"):
                runs[mode].append(completion_s(_run(mode, before, after, keys)))
        none, instant, disruptive = (median(found) for found in runs.values())
        case, rival = f"{COMPLETION}: {share} %", HOW["disruptive"]
        lines.append(_less(case, instant, "s", rival, disruptive, COMPLETION_TIMES))
        lines.append(_less(case, instant, "s", "no moves", none))
    return lines


def _median(found: Sequence[Moved]) -> Moved:
    return Moved(*(median(values) for values in zip(*found, strict=True)))


_AT = PANES + SETTLED
"""The number of the first pane that is with the new owners."""


def _run(
    mode: Mode, before: Sequence[int], after: Sequence[int], keys: int, groups: int = GROUPS, takers: int = OWNERS
) -> list[PaneCosts]:
    """The costs of each pane from before a move until after it, where so many groups have keys, and go to that many
    owners at most."""
    gc.collect()
    trees = sorted({*before, *after})
    version = function_of(max(trees) + 1, PANES)
    moves = moved(before, after, _AT, mode, version.function.window_ms)
    owners = Owners(version, moves, trees)
    state = of_groups(pane_of(version.function, keys), groups)
    return [owners.take(pane_at(number), state) for number in range(_AT + takers + PANES - 2 + SETTLED)]


def _moved(mode: Mode, before: Sequence[int], after: Sequence[int], keys: int, groups: int) -> Moved:
    takers = takers_of(before, after)
    costs = _run(mode, before, after, keys, groups, len(takers))
    busiest_s = max(median(max(cost.answers.values()) for cost in few) for few in _calm(costs))
    period_s = busiest_s / LOAD
    found = list(latencies(costs, period_s))
    ordinary_s = max(median(max(one.answered_s.values()) for one in few) for few in _calm(found))
    ordinary_shown_s = max(median(one.shown_s for one in few) for few in _calm(found))
    firsts = {taker: _AT + (index if mode == "disruptive" else 0) for index, taker in enumerate(takers)}
    alone = {taker: first + (PANES if mode == "smooth" else 0) for taker, first in firsts.items()}
    done_s = max((last - _AT) * period_s + found[last].answered_s[taker] for taker, last in alone.items())
    last = _AT + PANES - 2
    out_s = 0.0 if mode == "disruptive" else (last - _AT) * period_s + found[last].shown_s
    return Moved(
        max(0.0, max(found[first].answered_s[taker] for taker, first in firsts.items()) - ordinary_s),
        max(0.0, max(one.shown_s for one in found[_AT:-SETTLED]) - ordinary_shown_s),
        done_s,
        max(done_s, out_s),
    )


T = TypeVar("T")


def _calm(panes: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """The panes before a move, and those after it."""
    return panes[PANES:_AT], panes[-SETTLED:]
