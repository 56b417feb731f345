"""Compares the groupings over one stream of keys, and says which to take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.grouping import GROUPINGS, Assignment, Grouping, make_grouping
from elf.rehearsal.full_load import serve_at_full_load
from elf.rehearsal.key_stream import KeyStream
from elf.rehearsal.plant import SERVICE_S, Plant
from elf.rehearsal.served import Served
from elf.rehearsal.stage import GroupingMaker

EVEN, ONE_WORKER = "shuffle", "fields"
"""The groupings that deal evenly, and that keep each key at one worker: others are measured by them."""
SOURCES, FEW_SOURCES, MANY_ROWS = 32, 4, 100_000
"""Sources of a stage, and of one over a stream of fewer rows: each needs rows enough to see which keys are hot."""
TIME_MAX = 1.1
"""Most time, of the fastest grouping's, that one may take which is advised for its memory."""
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class GroupingFigures:
    """A grouping over a stream at full load, next to an even deal and to one worker a key.

    `time` is in those of the even deal, `memory` in entries of one worker a key; `entries` are (key, worker) pairs.
    Waits, from arrival until done, are in the times a worker takes for an event.
    """

    grouping: str
    time: float
    memory: float
    entries: int
    p50: float
    p95: float
    p99: float
    mean: float


@dataclass(frozen=True, slots=True)
class Advice:
    """The grouping to take, and why, as one sentence."""

    grouping: str
    sentence: str


def usual_sources(rows: int) -> int:
    """The number of sources of a stage over so many rows."""
    return SOURCES if rows >= MANY_ROWS else FEW_SOURCES


def grouping_maker(name: str) -> GroupingMaker:
    """Makes groupings of this name, one for each source."""

    def make(assignment: Assignment, source: int) -> Grouping:
        return make_grouping(name, assignment, source)

    return make


def compare(
    stream: KeyStream, workers: int, sources: int, done: Callable[[], None] = lambda: None
) -> list[GroupingFigures]:
    """All groupings over a stream; `done` is called after each."""
    plant = Plant.even(workers, sources)
    served = {}
    for name in GROUPINGS:
        served[name] = serve_at_full_load(stream.hashes, plant, grouping_maker(name))
        done()
    even_s, least = served[EVEN].makespan_s, served[ONE_WORKER].entries(stream.places)
    return [_figures(name, one, stream, even_s, least) for name, one in served.items()]


def _figures(name: str, served: Served, stream: KeyStream, even_s: float, least: int) -> GroupingFigures:
    entries = served.entries(stream.places)
    waits = [wait_s / SERVICE_S for wait_s in (*served.waits_s(*PERCENTILES), served.mean_wait_s)]
    return GroupingFigures(name, served.makespan_s / even_s, entries / least, entries, *waits)


def advise(figures: Iterable[GroupingFigures]) -> Advice:
    """The grouping with the least memory of those that are about as fast as the fastest."""
    by_name = {one.grouping: one for one in figures}
    fastest = min(one.time for one in by_name.values())
    fast = [one for one in by_name.values() if one.time <= TIME_MAX * fastest]
    best = min(fast, key=lambda one: (one.entries, one.grouping != ONE_WORKER, one.p99))
    return Advice(best.grouping, _sentence(best, by_name[ONE_WORKER]))


def _sentence(best: GroupingFigures, one_worker: GroupingFigures) -> str:
    taken = f"take {best.grouping}: it takes {best.time:.2f} times as long as an even deal"
    if best.grouping == ONE_WORKER:
        return f"{taken}, no key is too hot for one worker, and nothing has to be merged"
    return (
        f"{taken}, and {best.memory:.2f} times the memory of {ONE_WORKER}, "
        f"which takes {one_worker.time:.2f} times as long as an even deal"
    )
