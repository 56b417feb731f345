"""Runs independent figures in processes of their own, and joins their lines."""

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter

from benchmarks.report import Comparison, reaching

from .lines import NAME, shown
from .population import progress

PROCESSES = 2
COLLECT_AFTER = (100_000, 20, 100)
"""Thresholds of Python's garbage collector. A simulated overlay consists of millions of long-lived objects: scanning
all of them as often as in a small program costs a quarter of the time.
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A part of a benchmark's report. Figures of a higher `weight` start earlier."""

    name: str
    measure: Callable[[], list[Comparison]]
    weight: int = 0
    benchmark: str = NAME


def run_all(figures: Sequence[Figure]) -> list[Comparison]:
    """Measure all figures; return their lines in order, those of one curve together."""
    *_, report = reports(figures)
    return report


def reports(figures: Sequence[Figure], processes: int = PROCESSES) -> Iterator[list[Comparison]]:
    """Measure all figures, several at once; after each, yield the lines so far, ordered like the final ones."""
    progress(f"{len(figures)} figures in {processes} processes")
    measured: dict[str, list[Comparison]] = {}
    with ProcessPoolExecutor(processes, get_context("spawn"), gc.set_threshold, COLLECT_AFTER) as pool:
        heavy_first = sorted(figures, key=lambda figure: -figure.weight)
        under_way = {pool.submit(_measured, figure): figure.name for figure in heavy_first}
        for done in as_completed(under_way):
            name = under_way[done]
            try:
                measured[name] = done.result()
            except BrokenProcessPool:
                measured[name] = [_lost(next(one for one in figures if one.name == name), "its process ended")]
            yield together([line for figure in figures for line in measured.get(figure.name, ())])


def together(lines: Sequence[Comparison]) -> list[Comparison]:
    """Move lines of the same label next to the first of them."""
    labels: dict[str, list[Comparison]] = {}
    for line in lines:
        labels.setdefault(line.case.partition(": ")[0], []).append(line)
    return [line for found in labels.values() for line in found]


def _measured(figure: Figure) -> list[Comparison]:
    """Return the figure's lines, or one that reports its failure, so that the other figures are kept."""
    began = perf_counter()
    try:
        lines = figure.measure()
    except Exception as error:
        lines = [_lost(figure, f"{type(error).__name__} {error}")]
    progress(f"{figure.name}: {perf_counter() - began:.0f} s")
    for line in lines:
        progress(f"    {shown(line)}")
    return lines


def _lost(figure: Figure, why: str) -> Comparison:
    """The line of a figure that could not be measured: a target that is missed."""
    return reaching(figure.benchmark, f"{figure.name}, not measured, {why}", 0.0, "runs", 1.0)
