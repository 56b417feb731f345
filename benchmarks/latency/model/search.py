"""Plans beside the whole grid of settings, each of which is simulated (Figures 6f to 6h).

A setting is valid if it is within the limit in each of three runs, at the rate with room that a plan is made for, and
no agent is overloaded. What GRACE costs, events that are late, is not in the simulation: of a plan with a GRACE of its
own the cost compared is that of the other knobs.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from benchmarks.overlay.population import progress
from benchmarks.race import BenchmarkError
from benchmarks.report import Comparison, reaching, smaller, throughput, within
from query.latency import Choices, LatencyPlan, Setting, plan
from query.latency.planner import ROOM

from .accuracy import NAME
from .sustaining import RUNS, Workload
from .window_simulation import Truth

LIMITS = (0.2, 0.3, 0.5)
QUICK_LIMITS = (0.3,)
COST_MAX, RATE_MIN = 1.1, 0.9
FULL = Choices((0.02, 0.05, 0.1, 0.2, 0.5), (False, True), (1, 2, 4), (1, 2, 4))
QUICK = Choices((0.02, 0.1, 0.5), (False, True), (1, 4), (1, 4))
GRACE_SHARES = (0.25, 0.1, 0.025)
"""GRACE as parts of the limit, as agents try them."""


def search(*, quick: bool = False) -> list[Comparison]:
    """Compares plans with the grid, for each limit. Raises BenchmarkError where a limit is out of reach."""
    lines = []
    for limit in QUICK_LIMITS if quick else LIMITS:
        work = Workload(fleet(8 if quick else 32), limit, Setting(limit / 4, 0.1, on_due=True), 150 if quick else 300)
        lines += _searched(work, QUICK if quick else FULL)
    return lines


def fleet(agents: int) -> Truth:
    """Agents whose reads, seals and merges take about as long as ELF's."""
    return Truth(
        kinds=((agents, 4_000.0),), fanout=4, pane=1.0, share=0.7, parse=(3e-4, 2e-6), insert=(4e-4, 3e-6),
        seal=(6e-3, 6e-6), combine=(2e-3, 2e-6), finish=(4e-3, 2e-6), uplink=(8e-3, 0.4), commit=(2e-2, 0.4),
        spread=0.4, groups=(12.0, 0.6), other_seals=(), locked=False,
    )  # fmt: skip


def _searched(work: Workload, choices: Choices) -> list[Comparison]:
    progress(f"grid of {work.label}")
    graced = replace(choices, graces=[share * work.limit for share in GRACE_SHARES])
    chosen = plan(1000 * work.limit, work.percent, work.known, choices=graced)
    if not isinstance(chosen, LatencyPlan):
        raise BenchmarkError(f"{work.label}: {chosen.reason}")
    runs = {one: [work.run(one, ROOM, seed) for seed in range(1, 1 + RUNS)] for one in work.grid(graced)}
    valid = {one: np.mean([run.cost for run in found]) for one, found in runs.items() if all(r.is_valid for r in found)}
    own = runs[chosen.setting]
    place = work.label
    progress(f" plan {chosen.setting}: {[round(1000 * run.quantile) for run in own]} ms; {len(valid)} of {len(runs)}")
    least = min(valid.values()) if valid else math.inf
    speeds = {one: work.largest_speed(one) for one in work.grid(replace(choices, graces=graced.graces[-1:]))}
    by_model = work.best_by_model(speeds)
    best = max(speeds, key=lambda one: speeds[one])
    progress(f" rate: by the model {by_model} x{speeds[by_model]:.2f}, best {best} x{speeds[best]:.2f}")
    rate = work.known.rate / 1000
    return [
        reaching(NAME, f"search, simulated, runs of {RUNS} in which the plan is valid: {place}",
                 sum(run.is_valid for run in own), "runs", RUNS),
        within(NAME, f"search, simulated, valid settings of {len(runs)}: {place}", len(valid), "settings"),
        smaller(NAME, f"search, simulated, cost of the plan, in processors: {place}",
                float(np.mean([run.cost for run in own])), "CPU s/s", "the cheapest valid setting", float(least),
                1 / COST_MAX),
        throughput(NAME, f"search, simulated, rate within the limit: {place}", rate * speeds[by_model],
                   "thousand events/s", "the best setting", rate * speeds[best], RATE_MIN),
    ]  # fmt: skip
