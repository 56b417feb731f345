"""Figures of this benchmark, and how much of each is measured."""

from collections.abc import Callable
from functools import partial

from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from . import crashes, crashes_simulated, replicas, restarts, stragglers
from .lines import AGENTS, FEW, MANY, NAME, TARGET_AGENTS


def _figure(name: str, measure: Callable[..., list[Comparison]], *arguments: object) -> Figure:
    return Figure(name, partial(measure, *arguments), benchmark=NAME)


FULL = (
    _figure("crashes-8", crashes.run, AGENTS, 10),
    _figure("crashes-32", crashes.run, MANY, 5),
    *(_figure(f"crashes-simulated-{agents}", crashes_simulated.run, agents, 5) for agents in (80, 320, TARGET_AGENTS)),
    _figure("stragglers", stragglers.run, AGENTS, 5),
    _figure("restarts", restarts.run, AGENTS, 3),
    _figure("replicas", replicas.run, FEW, 2_000_000, 3),
    _figure("replicas-loop", replicas.run_loop, 120),
    _figure("replicas-deaths", replicas.run_deaths, AGENTS, 10),
)
QUICK = (
    _figure("crashes-8", crashes.run, AGENTS, 2),
    _figure("crashes-simulated-80", crashes_simulated.run, 80, 2),
    _figure("stragglers", stragglers.run, AGENTS, 1),
    _figure("restarts", restarts.run, AGENTS, 1),
    _figure("replicas", replicas.run, FEW, 200_000, 1),
    _figure("replicas-loop", replicas.run_loop, 20),
    _figure("replicas-deaths", replicas.run_deaths, FEW, 2),
)
