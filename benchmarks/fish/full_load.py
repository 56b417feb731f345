"""Makespans, memory and waits at full load (Figures 2, 9 to 11, 18 and 20 of the paper)."""

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.report import Comparison
from elf.rehearsal.comparison import EVEN, ONE_WORKER

from .lines import OURS, RIVALS, WORKERS, at_most, less
from .runs import CONTENDERS, Run, at_full_load, over_runs
from .streams import Rows, Stream

ZIPF_TIME, REAL_TIME = 1.01, 1.07
MEMORY = 2.61
OF_PUBLISHED = 2.0
"""Least number of times that ELF's entries go into those of `published`, over keys of a shop."""
P99_GAIN = 4.2
RETAIL = "retail"
MEAN_GAIN = 2.0
"""Of the geometric mean over Zipf streams."""
MEANS = f"mean wait at full load, {WORKERS} workers"
"""Label of the lines whose ratios make a geometric mean."""


def sizes(stream: Stream, workers: Sequence[int], runs: int) -> list[Comparison]:
    """Makespans of a stream over those of an even deal, by the number of workers."""
    return [line for count in workers for line in _times(stream, count, over_runs(stream, runs, partial(_once, count)))]


def whole(stream: Stream, runs: int) -> list[Comparison]:
    """All figures of a stream with as many workers as the paper has at most."""
    found = over_runs(stream, runs, partial(_once, WORKERS))
    return [*_times(stream, WORKERS, found), *_memory(stream, found), *_waits(stream, found)]


def long_run(stream: Stream) -> list[Comparison]:
    """The memory of a long run."""
    return _memory(stream, over_runs(stream, 1, partial(_once, WORKERS)))


def _once(workers: int, rows: Rows) -> dict[str, Run]:
    return {name: at_full_load(rows, workers, make) for name, make in CONTENDERS.items()}


def _times(stream: Stream, workers: int, found: Mapping[str, Run]) -> list[Comparison]:
    case = f"makespan over an even deal's, {stream.name}: {workers} workers"
    times = {name: run.makespan / found[EVEN].makespan for name, run in found.items()}
    beside = [less(case, times[OURS], "times", name, times[name]) for name in RIVALS]
    return [at_most(case, times[OURS], "times", ZIPF_TIME if stream.random else REAL_TIME), *beside]


def _memory(stream: Stream, found: Mapping[str, Run]) -> list[Comparison]:
    least = found[ONE_WORKER].entries
    entries = {name: run.entries / least for name, run in found.items()}
    panes = {name: run.entries_of_panes / found[ONE_WORKER].entries_of_panes for name, run in found.items()}
    case = f"entries over one worker a key's, {WORKERS} workers: {stream.name}"
    pane_case = f"entries of a hundred panes over one worker a key's, {WORKERS} workers: {stream.name}"
    halved = OF_PUBLISHED if stream.name.startswith(RETAIL) else None
    return [
        at_most(case, entries[OURS], "times", MEMORY),
        less(case, entries[OURS], "times", "published", entries["published"], halved),
        *(less(case, entries[OURS], "times", name, entries[name]) for name in (EVEN, "pkg", "dchoices", "wchoices")),
        *(less(pane_case, panes[OURS], "times", name, panes[name]) for name in (EVEN, "wchoices", "published")),
    ]


def _waits(stream: Stream, found: Mapping[str, Run]) -> list[Comparison]:
    ours, rivals = found[OURS], {name: found[name] for name in (EVEN, "wchoices", "published")}
    label, unit = f"wait at full load, {WORKERS} workers: {stream.name}", "rows' times"
    gain = P99_GAIN if stream.random else None
    return [
        *(less(f"p50 {label}", ours.p50, unit, name, run.p50) for name, run in rivals.items()),
        *(less(f"p95 {label}", ours.p95, unit, name, run.p95) for name, run in rivals.items()),
        *(
            less(f"p99 {label}", ours.p99, unit, name, run.p99, gain if name == "wchoices" else None)
            for name, run in rivals.items()
        ),
        *(less(f"{MEANS}: {stream.name}", ours.mean, unit, name, run.mean) for name, run in rivals.items()),
    ]
