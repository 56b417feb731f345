"""What is measured, and how much of it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.overlay.pool import Figure, reports, together
from benchmarks.overlay.population import progress
from benchmarks.report import Comparison

from . import (
    ad_hoc,
    asking,
    changes,
    changes_simulated,
    loops,
    many_jobs,
    own_aggregates,
    paper_load,
    shuffling,
    shuffling_simulated,
)
from .lines import AGENTS, MANY, NAME, TARGET_AGENTS

SIZES = (20, 80, 320, TARGET_AGENTS)
"""Of simulated fleets. Each is four times the one before: what grows with the logarithm grows by as much each time."""


def _figure(name: str, measure: Callable[..., list[Comparison]], *arguments: object) -> Figure:
    return Figure(name, partial(measure, *arguments), benchmark=NAME)


FULL = (
    _figure("changes-8", changes.run, AGENTS, 20),
    _figure("changes-32", changes.run, MANY, 20),
    *(_figure(f"changes-simulated-{agents}", changes_simulated.run, agents, 5) for agents in SIZES),
    _figure("shuffling", shuffling.run, MANY, 20),
    _figure("shuffling-simulated", shuffling_simulated.run, SIZES, 3),
    _figure("jobs-500", many_jobs.run, AGENTS, 500, 90.0),
    _figure("jobs-1000", many_jobs.run, AGENTS, 1_000, 90.0),
    _figure("ad-hoc", ad_hoc.run, AGENTS, 1_000_000),
    _figure("loop", loops.run, AGENTS, 300),
    _figure("paper-load", paper_load.run, TARGET_AGENTS, 60.0),
    _figure("ask", asking.run, AGENTS, 500),
    _figure("own-aggregates", own_aggregates.run, 10_000),
)
QUICK = (
    _figure("changes-8", changes.run, AGENTS, 4),
    _figure("changes-simulated-20", changes_simulated.run, 20, 3),
    _figure("shuffling", shuffling.run, AGENTS, 4),
    _figure("shuffling-simulated", shuffling_simulated.run, (20, 40, 80), 1),
    _figure("jobs-500", many_jobs.run, AGENTS, 100, 10.0),
    _figure("ad-hoc", ad_hoc.run, AGENTS, 100_000),
    _figure("loop", loops.run, AGENTS, 50),
    _figure("paper-load", paper_load.run, 64, 10.0),
    _figure("ask", asking.run, AGENTS, 100),
    _figure("own-aggregates", own_aggregates.run, 1_000),
)


def in_turn(figures: Sequence[Figure]) -> Iterator[list[Comparison]]:
    """Measure one after the other, each in a process of its own; after each, yield the lines of all so far."""
    lines: list[Comparison] = []
    for number, figure in enumerate(figures, 1):
        progress(f"{number} of {len(figures)}: {figure.name}")
        *_, measured = reports([figure], processes=1)
        lines = together([*lines, *measured])
        yield lines
