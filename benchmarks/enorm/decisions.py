"""Decisions on how windows are computed, next to the best of all ways and to what the paper would do, on a grid of
windows, keys and moves; every way is measured (Enorm, sections 5.1.1 and 5.1.2).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from statistics import fmean, median

import numpy as np
import polars as pl

from agent.placement import (
    WAYS,
    Counting,
    FrameCost,
    Merging,
    Sending,
    SplitInputs,
    Way,
    WindowCounts,
    WindowJob,
    WindowWork,
    decide,
    split_pays,
)
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, reaching, smaller, within
from cbt.windows import WindowSize

from .window_ways import GROUPS, OWNERS, Load, Spent, run

NAME = "enorm"
AGENTS = 2
ROWS, MANY_ROWS = 1_500, 30_000
"""Rows of each agent in a pane, on average: a third to five thirds of it."""
ROUNDS, QUICK_ROUNDS = 3, 1
CALIBRATIONS = 3
"""Periods that are measured before a decision."""
WITHIN = 1.05
"""Most time of a chosen way, in that of the best."""
SPLIT = Way()
COMBINED = Way(Counting.WINDOWS, Sending.EDGES)


@dataclass(frozen=True)
class Cell:
    """Windows, rows of an agent in a pane, different keys, and groups that move in a period; times are in panes."""

    windows: str
    sizes: tuple[WindowSize, ...]
    panes: int
    rows: int
    keys: int
    moves: int

    @property
    def name(self) -> str:
        return f"{self.windows}, {self.rows:,} rows a pane, {self.keys:,} keys, {self.moves} moves"

    @property
    def counts(self) -> WindowCounts:
        return WindowCounts.of(self.sizes, self.panes, subtracts=True)

    def load(self, moves: int, seed: int) -> Load:
        """Rows of chance, and moves spread over the period."""
        chance = np.random.default_rng([seed, self.keys])
        names = pl.Series([f"key-{one:07}" for one in range(self.keys)])
        agents = [
            {
                pane: pl.DataFrame({"k": names.gather(chance.integers(0, self.keys, rows)), "n": chance.random(rows)})
                for pane, rows in enumerate(chance.integers(self.rows // 3, 5 * self.rows // 3, self.panes).tolist())
            }
            for _ in range(AGENTS)
        ]
        at: dict[int, list[int]] = {}
        for number in range(moves):
            at.setdefault(1 + number * (self.panes - 1) // moves, []).append(number % GROUPS)
        return Load(self.sizes, agents, at)


SEVEN_AND_TEN = (WindowSize(7, 7), WindowSize(10, 10))
WINDOWS: dict[str, tuple[tuple[WindowSize, ...], int, int]] = {
    "W = 2: 7 and 10": (SEVEN_AND_TEN, 70, ROWS),
    "W = 10: 10 every 1": ((WindowSize(10, 1),), 40, ROWS),
    "W = 4: 1, 2, 4 and 8": (tuple(WindowSize(one, one) for one in (1, 2, 4, 8)), 24, ROWS),
    "W = 2, many rows": (SEVEN_AND_TEN, 70, MANY_ROWS),
}
QUICK_WINDOWS = 2
"""Number of windows of the grid that a quick run has."""
KEYS, QUICK_KEYS = (50, 20_000), (20_000,)
MOVES, QUICK_MOVES = (0, 64), (64,)


def decisions(*, quick: bool) -> list[Comparison]:
    """A line for each cell of the grid, and those of all."""
    keys, moves = (QUICK_KEYS, QUICK_MOVES) if quick else (KEYS, MOVES)
    windows = list(WINDOWS.items())[: QUICK_WINDOWS if quick else None]
    cells = [Cell(name, *of_name, k, m) for name, of_name in windows for k in keys for m in moves]
    found = [_measured(cell, QUICK_ROUNDS if quick else ROUNDS) for cell in cells]
    return [*(line for one in found for line in _cell_lines(one)), *_grid_lines(found)]


@dataclass(frozen=True)
class _Found:
    """The times of all ways in a cell, the way that ELF decides for, and the paper's."""

    cell: Cell
    times: dict[Way, float]
    chosen: Way
    published: Way

    @property
    def best(self) -> float:
        return min(self.times.values())

    @property
    def over(self) -> float:
        """The time of the chosen way, in that of the best."""
        return self.times[self.chosen] / self.best


def _measured(cell: Cell, rounds: int) -> _Found:
    """Decides by a period in which panes went to owners, without moves; then measures all ways over another one."""
    counts = cell.counts
    before = cell.load(0, 1)
    work = _work(cell, before, [run(before, SPLIT) for _ in range(CALIBRATIONS)])
    load = cell.load(cell.moves, 2)
    times: dict[Way, list[float]] = {way: [] for way in _different(counts)}
    answers = set()
    for _ in range(rounds):
        for way, taken in times.items():
            spent = run(load, way)
            taken.append(spent.total)
            answers.add(frozenset((key, rows, round(total)) for key, (rows, total) in spent.windows.items()))
    if len(answers) > 1:
        raise BenchmarkError(f"ways differ in their windows: {cell.name}")
    job = WindowJob(counts, period_s=1e6, groups=GROUPS, agents=AGENTS, owners=OWNERS)
    chosen = decide(job, work).way
    copy_s = AGENTS * work.copy_s(job)
    paper = SplitInputs(work.rows, work.count.row_s, counts.overlap, counts.panes, GROUPS, copy_s, cell.moves)
    medians = {way: median(taken) for way, taken in times.items()}
    return _Found(cell, medians, _same(chosen, medians), SPLIT if split_pays(paper) else COMBINED)


def _different(counts: WindowCounts) -> Iterator[Way]:
    """The ways that differ: where each slice is a pane, panes are sent at edges in any case."""
    has_slices = any(one.panes > 1 for one in counts.slices)
    return (way for way in WAYS if has_slices or way[:2] != (Counting.PANES, Sending.EDGES))


def _same(way: Way, times: dict[Way, float]) -> Way:
    return way if way in times else way._replace(sending=Sending.PANES)


def _work(cell: Cell, load: Load, periods: list[Spent]) -> WindowWork:
    """The measurements of periods in which panes went to owners."""
    spent = periods[-1]
    steps = {work: np.concatenate([one.steps[work] for one in periods]).T for work in spent.steps}
    steps["send"][2] += steps["cut"][2]
    cost = {work: FrameCost.fitted(*measured) for work, measured in steps.items()}
    _, rows, _ = spent.sums("count")
    _, sent, _ = spent.sums("send")
    taken, merged, _ = spent.sums("merge")
    of_panes = [pl.concat([agent[pane]["k"] for agent in load.agents]).n_unique() for pane in load.panes]
    longest, span = max((size, size.size_ms / load.pane_ms) for size in load.sizes)
    of_longest = [found for (_, size), (found, _) in spent.windows.items() if size == longest]
    return WindowWork(
        rows=rows,
        keys=sent / (cell.panes * AGENTS),
        count=cost["count"],
        send=cost["send"],
        join=cost["join"],
        merge=cost["merge"],
        show=cost["show"],
        input_keys=merged / (taken / OWNERS),
        spread=max(1.0, fmean(of_panes) * cell.panes * AGENTS / sent),
        growth=min(1.0, log(max(1.0, fmean(of_longest) / fmean(of_panes))) / log(span)),
        moves=cell.moves,
    )


def _cell_lines(found: _Found) -> Iterator[Comparison]:
    chosen = ", ".join(choice.value for choice in found.chosen)
    case = f"processor time of the way decided for ({chosen}): {found.cell.name}"
    yield smaller(NAME, case, found.times[found.chosen], "s", "best of all ways", found.best, 1 / WITHIN)


def _grid_lines(found: list[_Found]) -> Iterator[Comparison]:
    label = f"decisions on a grid of {len(found)}"
    near = sum(one.over <= WITHIN for one in found) / len(found)
    yield reaching(NAME, f"{label}, within 5 % of the best way", 100 * near, "%", 100.0)
    yield within(NAME, f"{label}, worst over the best way", max(one.over for one in found), "times", WITHIN)
    ours = sum(one.times[one.chosen] for one in found)
    best = sum(one.best for one in found)
    yield within(NAME, f"{label}, all over the best ways", ours / best, "times", WITHIN)
    for rival, theirs in (
        ("the paper's choice", sum(one.times[one.published] for one in found)),
        ("always split", sum(one.times[SPLIT] for one in found)),
        ("always combined", sum(one.times[COMBINED] for one in found)),
        ("panes to the master", sum(one.times[Way(merging=Merging.MASTER)] for one in found)),
    ):
        yield smaller(NAME, f"{label}, processor time", ours, "s", rival, theirs, 1.0)
