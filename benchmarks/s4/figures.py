"""Figures of this benchmark, and how much of each is measured."""

from collections.abc import Callable
from functools import partial

from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from . import counting, shedding
from .lines import NAME


def _figure(name: str, measure: Callable[..., list[Comparison]], *arguments: object) -> Figure:
    return Figure(name, partial(measure, *arguments), benchmark=NAME)


FULL = (
    *(_figure(f"count-{agents}", counting.run, agents, 2_000_000, 3, True) for agents in (1, 4, 8)),
    _figure("spark", counting.run_spark, 500_000, (100_000, 500_000), True),
    _figure("shedding", shedding.run, 3_000_000, shedding.LOADS, True),
)
QUICK = (
    *(_figure(f"count-{agents}", counting.run, agents, 100_000, 1, False) for agents in (1, 4)),
    _figure("spark", counting.run_spark, 20_000, (20_000,), False),
    _figure("shedding", shedding.run, 300_000, (0.5, 2.75), False),
)
