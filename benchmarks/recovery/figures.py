"""Figures of this benchmark, and how much of each is measured."""

from collections.abc import Callable
from functools import partial

from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from . import (
    crashes,
    crashes_simulated,
    durability,
    partitions_simulated,
    replicas,
    restarts,
    stragglers,
    stragglers_simulated,
)
from .lines import AGENTS, FEW, MANY, NAME, TARGET_AGENTS


def _figure(name: str, measure: Callable[..., list[Comparison]], *arguments: object) -> Figure:
    return Figure(name, partial(measure, *arguments), benchmark=NAME)


SIZES = (20, 80, 320, TARGET_AGENTS)
"""Of simulated fleets."""
TRIALS = {20: 8, 80: 10, 320: 5, TARGET_AGENTS: 3}
"""Crashes of each kind: a simulated second of a large fleet takes long."""
FULL = (
    _figure("crashes-8", crashes.run, AGENTS, 10),
    _figure("crashes-32", crashes.run, MANY, 5),
    *(_figure(f"crashes-simulated-{agents}", crashes_simulated.run, agents, TRIALS[agents]) for agents in SIZES),
    _figure("stragglers", stragglers.run, AGENTS, 5),
    *(_figure(f"stragglers-simulated-{agents}", stragglers_simulated.run, agents, 3) for agents in SIZES[:3]),
    *(_figure(f"partitions-simulated-{agents}", partitions_simulated.run, agents) for agents in (AGENTS, *SIZES[:3])),
    _figure("restarts", restarts.run, AGENTS, 3),
    _figure("durability", durability.run, FEW, 2_000_000, 3),
    _figure("durability-loop", durability.run_loop, 120),
    _figure("replicas", replicas.run, FEW, 2_000_000, 3),
    _figure("replicas-loop", replicas.run_loop, 120),
    _figure("replicas-deaths", replicas.run_deaths, AGENTS, 10),
)
QUICK = (
    _figure("crashes-simulated-20", crashes_simulated.run, 20, 1),
    _figure("stragglers-simulated-20", stragglers_simulated.run, 20, 1),
    _figure("partitions-simulated-8", partitions_simulated.run, AGENTS),
    _figure("restarts", restarts.run, AGENTS, 1),
    _figure("durability", durability.run, FEW, 200_000, 1),
    _figure("durability-loop", durability.run_loop, 20),
    _figure("replicas", replicas.run, FEW, 200_000, 1),
    _figure("replicas-loop", replicas.run_loop, 20),
    _figure("replicas-deaths", replicas.run_deaths, FEW, 2),
)
