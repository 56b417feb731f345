"""Figure 10a of the paper: the time to produce a window's result, for windows of 30 to 300 seconds."""

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.contender import Answer
from benchmarks.report import Comparison, smaller, within

from .comparing import named
from .keys import spelled
from .runs import Job, Outcome, Program, measure

UNIT = "ms"
PANE_MS = 10_000
TIMED_WINDOWS = 10
RESULT, WORK = "ELF, a result", "ELF, all work of 10 s"
NEARLY_FLAT = 1.5
"""Upper bound on the time of the longest window's result, as a multiple of the shortest's."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a run: events and keys of a pane of 10 s, the windows that are measured, and repetitions."""

    pane_events: int
    keys: int
    sizes_s: Sequence[int]
    rounds: int


FULL = Extent(200_000, 50_000, (30, 60, 120, 180, 240, 300), rounds=3)
QUICK = Extent(20_000, 5_000, (30, 120), rounds=1)


def _program(name: str, way: str) -> Program:
    return Program(name, lambda: [sys.executable, "-m", "benchmarks.cbt.window_runs", way])


TREE = _program("ELF", "tree")
RIVALS = (_program("eager slate, Python dict", "slate"), _program("recompute, Polars group-by", "recompute"))


def run(extent: Extent, *, with_targets: bool) -> list[Comparison]:
    """All windows in each round. Raises BenchmarkError."""
    lines: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="elf-bench-") as directory:
        data = Path(directory) / "keys"
        outcomes = iter(measure(_jobs(extent, data, _write_stream(data, extent)), extent.rounds))
    for size_s in extent.sizes_s:
        lines += compare(size_s, {program.name: next(outcomes) for program in (TREE, *RIVALS)})
    return [*lines, *growth(lines, NEARLY_FLAT if with_targets else None)]


def _jobs(extent: Extent, data: Path, numbers: NDArray[np.int64]) -> list[Job]:
    """Everyone's, for one size of windows after the other."""
    jobs: list[Job] = []
    for size_s in extent.sizes_s:
        panes = size_s * 1000 // PANE_MS
        arguments = (str(panes), str(extent.pane_events), str(data))
        expected = _expected(numbers, panes, extent.pane_events)
        jobs += [Job(program, arguments, expected) for program in (TREE, *RIVALS)]
    return jobs


def compare(size_s: int, found: dict[str, Outcome]) -> list[Comparison]:
    """A window's lines: what passes until its result is there, and all that is done for one result."""
    return [
        smaller(
            "cbt",
            f"{label}: {size_s} s",
            found[TREE.name].figures[figure],
            UNIT,
            named(rival.name, found),
            found[rival.name].figures.get(figure),
        )
        for label, figure in ((RESULT, "result_ms"), (WORK, "work_ms"))
        for rival in RIVALS
    ]


def growth(lines: Sequence[Comparison], target: float | None) -> list[Comparison]:
    """The time of the last window as a multiple of the first's."""
    found = []
    for label in (RESULT, WORK):
        values = [line.value for line in lines if line.case.startswith(f"{label}:")]
        found.append(within("cbt", f"{label}, longest window over shortest", values[-1] / values[0], "x", target))
    return found


def _write_stream(path: Path, extent: Extent) -> NDArray[np.int64]:
    """Write as many events as the longest window needs, their keys distributed as 1/rank; yields their numbers."""
    random = np.random.default_rng(10)
    panes = max(extent.sizes_s) * 1000 // PANE_MS + TIMED_WINDOWS
    popularity = 1 / np.arange(1, extent.keys + 1)
    numbers = random.choice(extent.keys, panes * extent.pane_events, p=popularity / popularity.sum())
    path.write_bytes(spelled(extent.keys, random)[numbers].tobytes())
    return numbers


def _expected(numbers: NDArray[np.int64], panes: int, pane_events: int) -> Answer:
    """The sum over all timed windows."""
    ends = range(panes + 1, panes + TIMED_WINDOWS + 1)
    counts = [np.bincount(numbers[(end - panes) * pane_events : end * pane_events]) for end in ends]
    return Answer.of([int(count) for window in counts for count in window[window > 0]])
