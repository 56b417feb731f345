"""Runs of groupings over streams: each is rehearsed with what its routing costs here and now, and medians count."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from statistics import median
from time import process_time

from agent.grouping import GROUPINGS, Assignment, FishOptions, Grouping, PublishedFish
from elf.rehearsal.comparison import PERCENTILES, grouping_maker
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.key_stream import Hashes
from elf.rehearsal.plant import BLOCK_ROWS, SERVICE_S, Plant, worker_names
from elf.rehearsal.served import Served
from elf.rehearsal.stage import GroupingMaker

from .lines import WORKERS
from .streams import Rows, Stream

TIMED_ROWS = 16_384
"""Rows by which the routing of a run is timed."""
PANES = 100
"""Equal parts of a stream whose state workers begin anew."""


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of a run. Times are in those that a worker takes for a row; entries are (key, worker) pairs."""

    makespan: float
    p50: float
    p95: float
    p99: float
    mean: float
    entries: float
    entries_of_panes: float


def published(options: FishOptions | None = None) -> GroupingMaker:
    """FISH as it is published, with these constants or its own."""

    def make(assignment: Assignment, source: int) -> Grouping:
        return PublishedFish(assignment, source, options)

    return make


CONTENDERS: Mapping[str, GroupingMaker] = {name: grouping_maker(name) for name in GROUPINGS} | {
    "published": published()
}


def routing_s(make: GroupingMaker, hashes: Hashes, workers: int, block_rows: int) -> float:
    """Seconds of CPU that a source needs to route a row, which come as fast as workers can work for it."""
    grouping = make(Assignment(1, 1, worker_names(workers)), 0)
    began = process_time()
    for start in range(0, len(hashes), block_rows):
        grouping.assign(hashes[start : start + block_rows], start * SERVICE_S / workers)
    return (process_time() - began) / max(1, len(hashes))


def charged_s(make: GroupingMaker, rows: Rows) -> float:
    """Seconds a row that sources are charged for: the CPU that one of them needs here and now."""
    return routing_s(make, rows.hashes[: TIMED_ROWS * rows.sources : rows.sources], WORKERS, BLOCK_ROWS)


def at_full_load(rows: Rows, workers: int, make: GroupingMaker) -> Run:
    """A grouping's figures over a stream that comes as fast as workers can just work."""
    plant = Plant.even(workers, rows.sources, charged_s(make, rows))
    return figures_of(serve_at_full_load(rows.hashes, plant, make), rows)


def figures_of(served: Served, rows: Rows) -> Run:
    """The figures of a run that is over."""
    seconds = (served.makespan_s, *served.waits_s(*PERCENTILES), served.mean_wait_s)
    entries = served.entries(rows.keys), served.entries_of_panes(rows.keys, PANES)
    return Run(*(one / SERVICE_S for one in seconds), *entries)


def medians(runs: Iterable[Run]) -> Run:
    """Median figures, each by itself."""
    return Run(*map(median, zip(*map(astuple, runs), strict=True)))


def over_runs(stream: Stream, runs: int, measure: Callable[[Rows], dict[str, Run]]) -> dict[str, Run]:
    """The medians of contenders' figures over a stream's runs: one where they would all be the same."""
    found = [measure(stream.rows_of_run(run)) for run in range(runs if stream.random else 1)]
    return {name: medians(one[name] for one in found) for name in found[0]}
