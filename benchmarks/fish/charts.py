"""The benchmark's figures as curves, as in Figures 9 to 11 and 18 of the paper."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.panels import Panel, write_panels
from benchmarks.report import Comparison

from .in_flight import THROUGHPUT
from .lines import WORKERS

ALL = f"{WORKERS} workers"
PANELS = (
    *(
        Panel(f"Makespan over an even deal's, {name}", (f"makespan over an even deal's, {name}",), logarithmic=True)
        for name in ("zipf 1.0", "zipf 1.4", "zipf 2.0", "retail words", "retail customers")
    ),
    Panel(
        "(key, worker) entries over one worker a key's", (f"entries over one worker a key's, {ALL}",), logarithmic=True
    ),
    Panel("p99 of waits at full load", (f"p99 wait at full load, {ALL}",), logarithmic=True),
    Panel("Throughput over an even deal's, few rows in flight", (THROUGHPUT,)),
)


def write_chart(comparisons: Sequence[Comparison], path: Path) -> None:
    """Draws the figures of a run, as far as it has them, in the order of the number of workers."""
    write_panels(PANELS, sorted(comparisons, key=_workers), path)


def _workers(line: Comparison) -> int:
    """The number of workers that is a line's place; 0 for others."""
    place = line.case.rpartition(": ")[2].removesuffix(" workers")
    return int(place) if place.isdecimal() else 0
