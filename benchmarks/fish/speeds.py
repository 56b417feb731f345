"""Workers of which half are twice as fast (Figure 16 of the paper)."""

import numpy as np

from benchmarks.report import Comparison
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.plant import SERVICE_S, Crew, Plant, worker_names

from .lines import OURS, WORKERS, less
from .runs import CONTENDERS, Run, charged_s, figures_of, over_runs
from .streams import Rows, Stream

GAIN = 1.45
COUNTS = "counts"
"""ELF's grouping, whom all workers tell that they are equally fast: it goes by numbers of rows."""


def run(stream: Stream, runs: int) -> list[Comparison]:
    """Makespans with waits in seconds and in rows; those of groupings that count rows are beside."""
    found = over_runs(stream, runs, _once)
    case = f"makespan, half of {WORKERS} workers twice as fast: {stream.name}"
    return [
        less(case, found[OURS].makespan, "rows' times", name, one.makespan, GAIN if name == COUNTS else None)
        for name, one in found.items()
        if name != OURS
    ]


def _once(rows: Rows) -> dict[str, Run]:
    service_s = np.where(np.arange(WORKERS) % 2, SERVICE_S / 2, SERVICE_S)
    equal = np.full(WORKERS, SERVICE_S)
    crew = Crew.of(worker_names(WORKERS))
    found = {}
    for name, told_s in {OURS: None, COUNTS: equal, "published": None, "wchoices": None}.items():
        make = CONTENDERS[OURS if name == COUNTS else name]
        plant = Plant(rows.sources, crew, service_s, charged_s(make, rows), told_s=told_s)
        found[name] = figures_of(serve_at_full_load(rows.hashes, plant, make), rows)
    return found
