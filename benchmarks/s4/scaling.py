"""How many more events a second simulated agents count together, the more there are.

Time is virtual: each agent has one processor of its own, and what a message or a batch costs its core, in CPU time of
this process, passes there; so a run takes as long as the agent that has most to do, with all that it waits for. What
many agents in one process cost beyond that, as they share its caches, is charged to them too.
"""

import gc
from typing import NamedTuple

import numpy as np
import polars as pl

from benchmarks.report import Comparison

from .counting.simulated import CountingRun
from .graphs import DECLARED
from .lines import at_least, at_most

KEYS = 100_000
FEW_RUNS = 3
"""Runs of the few agents, of which the median counts."""
SHARE_TARGET = 0.7
"""Of as many times the events as there are more agents."""


def run(few: int, many: int, events_of_each: int, with_targets: bool) -> list[Comparison]:
    """Counts as many events of each agent, by few agents and by many."""
    _rate(few, events_of_each // 4)  # for practice
    few_runs = sorted(_rate(few, events_of_each) for _ in range(FEW_RUNS))
    runs = {few: few_runs[FEW_RUNS // 2], many: _rate(many, events_of_each)}
    rates = {agents: run.rate for agents, run in runs.items()}
    label = f"simulated events/s, count of {KEYS:,} keys, {events_of_each:,} events of each agent, a processor each"
    target = SHARE_TARGET * many / few
    ratio = rates[many] / rates[few]
    case = f"{label}: {many} agents over {few}"
    lines = [at_most(f"{label}: {agents} agents", rate / 1e6, "M events/s") for agents, rate in rates.items()]
    lines += [at_most(f"{label}, busiest over mean: {agents} agents", run.uneven, "") for agents, run in runs.items()]
    lines += [at_most(f"{label}, CPU of all: {agents} agents", run.cpu_ns, "ns/event") for agents, run in runs.items()]
    return [*lines, at_least(case, ratio, "times", target) if with_targets else at_most(case, ratio, "times")]


class Run(NamedTuple):
    """Events a second, how busy the busiest agent was beside the mean one, and the CPU time of all for an event."""

    rate: float
    uneven: float
    cpu_ns: float


def _rate(agents: int, events_of_each: int) -> Run:
    chance = np.random.default_rng(agents)
    keys = pl.Series("key", [f"key-{number:06}" for number in range(KEYS)])
    shares = [keys[chance.integers(0, KEYS, events_of_each)] for _ in range(agents)]
    gc.disable()  # one agent would pay for looking through the objects of all
    try:
        counting = CountingRun(shares, DECLARED, measured=True)
        began, before = counting.fleet.now, [host.spent_s for host in counting.fleet.hosts]
        counting.run()
        events, took_s = agents * events_of_each, counting.fleet.now - began
        spent = [host.spent_s - was for host, was in zip(counting.fleet.hosts, before, strict=True)]
        return Run(events / took_s, max(spent) * agents / sum(spent), 1e9 * sum(spent) / events)
    finally:
        gc.enable()
