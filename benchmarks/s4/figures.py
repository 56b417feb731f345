"""Figures of this benchmark, and how much of each is measured."""

from collections.abc import Callable
from functools import partial

from benchmarks.overlay.pool import Figure
from benchmarks.report import Comparison

from . import faults, logs, quotes, scaling, shedding
from .counting import program_alone, race
from .graphs import CODE, DECLARED
from .lines import AGENTS, NAME
from .opo import gains


def _figure(name: str, measure: Callable[..., list[Comparison]], *arguments: object) -> Figure:
    return Figure(name, partial(measure, *arguments), benchmark=NAME)


FULL = (
    *(_figure(f"count-{agents}", race.run, DECLARED, agents, 2_000_000, 3, True) for agents in (1, 4, 8)),
    *(_figure(f"code-{agents}", race.run, CODE, agents, 1_000_000, 3, True) for agents in (1, 4, 8)),
    _figure("spark", race.run_spark, 300_000, (100_000, 300_000), True),
    _figure("program", program_alone.run, 2_000_000, 100_000, 3, True),
    _figure("logs", logs.run, AGENTS, 2_000_000, 3, True),
    _figure("shedding", shedding.run, 3_000_000, shedding.LOADS, True),
    _figure("opo", gains.run),
    _figure("quotes", quotes.run, AGENTS, 40.0, False),
    _figure("quotes-guaranteed", quotes.run, AGENTS, 40.0, True),
    _figure("kills", faults.run, faults.KILLED, AGENTS, 8),
    _figure("silence", faults.run, faults.SILENT, AGENTS, 5),
    _figure("hand-over", faults.run, faults.MOVED, 3, 8),
    _figure("scaling", scaling.run, AGENTS, 64, 200_000, True),
)
QUICK = (
    *(_figure(f"count-{agents}", race.run, DECLARED, agents, 100_000, 1, False) for agents in (1, 4, 8)),
    *(_figure(f"code-{agents}", race.run, CODE, agents, 100_000, 1, False) for agents in (1, 4, 8)),
    _figure("spark", race.run_spark, 20_000, (20_000,), False),
    _figure("program", program_alone.run, 100_000, 10_000, 1, False),
    _figure("logs", logs.run, 2, 100_000, 1, False),
    _figure("shedding", shedding.run, 300_000, (0.5, 2.75), False),
    _figure("opo", gains.run, True),
    _figure("quotes", quotes.run, 2, 5.0, False),
    _figure("quotes-guaranteed", quotes.run, 2, 5.0, True),
    _figure("kills", faults.run, faults.KILLED, 4, 1),
    _figure("silence", faults.run, faults.SILENT, 4, 1),
    _figure("hand-over", faults.run, faults.MOVED, 3, 1),
    _figure("scaling", scaling.run, 2, 4, 50_000, False),
)
