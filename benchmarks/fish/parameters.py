"""Constants of FISH as it is published: decay, threshold, keys counted, workers of a hot key (Figures 12 to 15)."""

from collections.abc import Mapping
from functools import partial

from agent.grouping import FishOptions
from benchmarks.report import Comparison
from elf.rehearsal.comparison import EVEN, ONE_WORKER

from .lines import WORKERS, at_most
from .runs import CONTENDERS, Run, at_full_load, over_runs, published
from .streams import Rows, Stream

DECAYS = (0.0, 0.2, 0.5, 0.8, 1.0)
DIVISORS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Thresholds are 1 over so many times the number of workers."""
CAPACITIES = (100, 1_000)
OPTIONS: Mapping[str, FishOptions] = {
    **{f"decay {decay}": FishOptions(alpha=decay) for decay in DECAYS},
    **{f"threshold {1 / divisor:g}/n": FishOptions(divisor=divisor) for divisor in DIVISORS},
    **{f"{capacity:,} keys": FishOptions(capacity=capacity) for capacity in CAPACITIES},
    "all workers": FishOptions(all_workers=True),
}


def run(stream: Stream, runs: int) -> list[Comparison]:
    """Makespan and memory of `published` with one constant changed at a time."""
    found = over_runs(stream, runs, _once)
    even, least = found[EVEN].makespan, found[ONE_WORKER].entries
    label = f"published, {stream.name}, {WORKERS} workers"
    times = [at_most(f"{label}, makespan: {name}", found[name].makespan / even, "times") for name in OPTIONS]
    memory = [at_most(f"{label}, entries: {name}", found[name].entries / least, "times") for name in OPTIONS]
    return [*times, *memory]


def _once(rows: Rows) -> dict[str, Run]:
    measured = partial(at_full_load, rows, WORKERS)
    standards = {name: measured(make=CONTENDERS[name]) for name in (EVEN, ONE_WORKER)}
    return standards | {name: measured(make=published(options)) for name, options in OPTIONS.items()}
