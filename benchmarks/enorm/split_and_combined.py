"""Throughput with two and with six windows, for keys per partial result, split and combined, beside Spark (Enorm,
section 7.1 and figure 9).

*Combined* counts and makes windows in one place. *Split* counts at agents, whose states are encoded, sent to owners of
key groups, decoded and joined before windows are made of them. Windows are those of the paper, over half an hour of
40,000 rows a second, as they come there; Spark has fewer, as it takes long.
"""

from collections.abc import Callable
from itertools import pairwise
from statistics import median
from time import perf_counter

import numpy as np
import polars as pl

from agent.placement import Way
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, throughput
from cbt import CompressedBufferTree
from cbt.windows import Consolidator, PanePlan, WindowSize

from .window_ways import AGGREGATES, KEYS, LAYOUT, Load, flushed, run

NAME = "enorm"
TWO = tuple(WindowSize(minutes, minutes) for minutes in (5, 10))
SIX = tuple(WindowSize(minutes, minutes) for minutes in (5, 10, 15, 20, 25, 30))
MINUTES, PANE_MINUTES = 30, 5
AGENTS = 2
PANE_ROWS, QUICK_PANE_ROWS = 40_000 * 60 * PANE_MINUTES, 400_000
SPARK_PANE_ROWS = 300_000
"""Rows of all agents in a pane."""
PANE_KEYS, QUICK_PANE_KEYS = (2_500, 5_000, 10_000), (2_500, 5_000)
ROUNDS = 3
DOUBLED, SIXFOLD, SPARK = 0.9, 0.95, 3.0
"""Least throughput with twice the keys, with six windows next to two, and next to Spark's."""
Found = dict[tuple[int, int], int]
"""The number of keys in each window, by its start and length."""


def split_and_combined(*, quick: bool) -> list[Comparison]:
    """A line for each doubling of keys, each number of windows, and Spark."""
    from .spark_windows import SparkWindows  # only this needs Spark

    pane_keys = QUICK_PANE_KEYS if quick else PANE_KEYS
    loads = {keys: _load(keys, QUICK_PANE_ROWS if quick else PANE_ROWS) for keys in pane_keys}
    rows = sum(frame.height for agent in loads[pane_keys[0]].agents for frame in agent.values())
    ways: dict[str, Callable[[Load], Found]] = {"combined": _combined, "split": _split}
    times: dict[tuple[str, int, int], list[float]] = {}
    fewer = _load(pane_keys[0], QUICK_PANE_ROWS if quick else SPARK_PANE_ROWS)
    with SparkWindows([size.size_ms for size in SIX], spark_rows := _frames(fewer)) as spark:
        for _ in range(ROUNDS):
            for keys, load in loads.items():
                found = []
                for name, work in ways.items():
                    for sizes in (TWO, SIX):
                        began = perf_counter()
                        found.append(work(Load(sizes, load.agents, {})))
                        times.setdefault((name, len(sizes), keys), []).append(perf_counter() - began)
                _check(found)
            spark.measure()
        _check([_combined(Load(SIX, fewer.agents, {})), spark.windows()])
    per_s = {case: rows / median(taken) for case, taken in times.items()}
    lines = [
        *(line for name in ways for line in _doubled(per_s, name, pane_keys)),
        *(line for name in ways for line in _sixfold(per_s, name, pane_keys)),
    ]
    for name in ways:
        case = f"{name}, six windows, {pane_keys[0]:,} keys"
        ours = per_s[name, 6, pane_keys[0]]
        for rival, taken in spark.times.items():
            lines.append(_line(case, ours, rival, spark_rows.height / median(taken), SPARK))
    return lines


def _line(case: str, value: float, rival: str, rival_value: float, target: float) -> Comparison:
    return throughput(NAME, f"throughput, {case}", value / 1e6, "M rows/s", rival, rival_value / 1e6, target)


def _doubled(per_s: dict[tuple[str, int, int], float], name: str, pane_keys: tuple[int, ...]) -> list[Comparison]:
    return [
        _line(f"{name}, {windows} windows, {keys:,} keys", per_s[name, windows, keys], f"{fewer:,} keys",
              per_s[name, windows, fewer], DOUBLED)
        for windows in (2, 6)
        for fewer, keys in pairwise(pane_keys)
    ]  # fmt: skip


def _sixfold(per_s: dict[tuple[str, int, int], float], name: str, pane_keys: tuple[int, ...]) -> list[Comparison]:
    return [
        _line(f"{name}, six windows, {keys:,} keys", per_s[name, 6, keys], "two windows", per_s[name, 2, keys], SIXFOLD)
        for keys in pane_keys
    ]


def _load(keys: int, pane_rows: int) -> Load:
    """Rows of chance, the same in each pane."""
    chance = np.random.default_rng(keys)
    names = pl.Series([f"key-{one:07}" for one in range(keys)])
    share = pane_rows // AGENTS
    rows = [
        pl.DataFrame({"k": names.gather(chance.integers(0, keys, share)), "n": chance.random(share)})
        for _ in range(AGENTS)
    ]
    return Load(SIX, [dict.fromkeys(range(0, MINUTES, PANE_MINUTES), one) for one in rows], {})


def _frames(load: Load) -> pl.DataFrame:
    """All rows, with the minute that they are of."""
    return pl.concat([rows.with_columns(minute=pl.lit(pane)) for agent in load.agents for pane, rows in agent.items()])


def _split(load: Load) -> Found:
    return {(start, size.size_ms): keys for (start, size), (keys, _) in run(load, Way()).windows.items()}


def _combined(load: Load) -> Found:
    """Counts all rows of a pane, and makes windows of panes, in one place."""
    assert PanePlan(load.sizes).pane_ms == PANE_MINUTES
    tree, consolidator, found = CompressedBufferTree(KEYS, AGGREGATES), Consolidator(LAYOUT, load.sizes), Found()
    for pane in load.panes:
        for agent in load.agents:
            tree.insert(agent[pane].with_columns(pane=pl.lit(pane, pl.Int64)))
        for window in [*consolidator.add(pane, flushed(tree, pane)), *consolidator.advance(pane + PANE_MINUTES)]:
            found[window.start_ms, window.size.size_ms] = LAYOUT.lower(window.frame).height
    return found


def _check(every: list[Found]) -> None:
    """Raises BenchmarkError if windows differ that several have made."""
    for one in every:
        if any(keys != every[-1].get(window, keys) for window, keys in one.items()):
            raise BenchmarkError("windows differ in their keys")
