"""Workers that leave or come in the middle of a run (Figure 17 of the paper)."""

import numpy as np

from benchmarks.report import Comparison
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.plant import SERVICE_S, Crew, Plant, Relief, worker_names

from .lines import OURS, WORKERS, at_most, less
from .runs import CONTENDERS, PANES, Run, figures_of, over_runs
from .streams import Rows, Stream

GROWTH, PANE_GROWTH = 1.02, 1.005
"""Most entries in those of a run without a change: of all of it, and of panes, where 1.00 is aimed at."""
ANEW = "all places drawn anew"
"""The same grouping whose workers get other names at the change, so that all keys have other workers on the ring, as
they have with a hash modulo the number of workers."""


def run(stream: Stream, runs: int) -> list[Comparison]:
    """Entries with one worker less, and one more, from the middle of the run on."""
    found = over_runs(stream, runs, _once)
    still = found["still"]
    lines = []
    for change in ("less", "more"):
        ring, anew = found[change], found[f"{change} {ANEW}"]
        case = f"entries over those without a change, one of {WORKERS} workers {change}: {stream.name}"
        panes = ring.entries_of_panes / still.entries_of_panes
        lines += [
            at_most(case, ring.entries / still.entries, "times", GROWTH),
            less(case, ring.entries / still.entries, "times", ANEW, anew.entries / still.entries),
            at_most(f"entries of panes {case.removeprefix('entries ')}", panes, "times", PANE_GROWTH),
        ]
    return lines


def _once(rows: Rows) -> dict[str, Run]:
    """The change comes with a pane."""
    middle = int(np.linspace(0, len(rows.hashes), PANES + 1)[PANES // 2])
    crew = Crew.of(worker_names(WORKERS))
    found = {"still": _served(rows, crew, ())}
    for change, workers in (("less", WORKERS - 1), ("more", WORKERS + 1)):
        for suffix, prefix in (("", "worker"), (f" {ANEW}", "newcomer")):
            relief = Relief(middle, Crew.of(worker_names(workers, prefix), counter=2))
            found[f"{change}{suffix}"] = _served(rows, crew, (relief,))
    return found


def _served(rows: Rows, crew: Crew, reliefs: tuple[Relief, ...]) -> Run:
    plant = Plant(rows.sources, crew, np.full(WORKERS + 1, SERVICE_S), reliefs=reliefs)
    return figures_of(serve_at_full_load(rows.hashes, plant, CONTENDERS[OURS]), rows)
