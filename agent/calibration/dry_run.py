"""Runs a query's function over the last lines of this agent's logs, to tell what its work would cost here.

Bounded in time and memory, and nothing of it stays. It blocks, so it runs in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np

import query
from agent.calibration.log_times import LogTimes, all_times, log_times
from agent.calibration.machine import MachineCosts
from agent.calibration.timed_work import Costs, TimedWork
from agent.configuration.config import StreamConfig
from agent.parsing import TIME, Format, parser, sniff
from agent.runtime.function.job_function import JobFunction
from agent.sources import Block, Origin, SourceError
from agent.sources.file.source import FileEnd, FileSource
from query.latency.groups import HeapsLaw
from query.latency.parts import ASSUMED_COSTS
from query.latency.phases import Phase
from query.latency.resources import LinearCost, share_of_processor

TAIL_BYTES = 4 << 20
"""Upper bound on the end of a log that is read."""
LOGS_MAX = 8
"""Upper bound on the logs that are read, those that were written last; where there are more, the rate is too low."""
RUN_S = 1.5
"""Time after which no further block is begun, but for the first ones; each log has half of what is left of it."""
BLOCKS_MIN = 3
"""Number of blocks that are run however slow the machine is: of fewer no cost is told."""
BLOCK_SIZES = (1 << 13, 1 << 15, 1 << 17, 1 << 19)
"""Sizes of the blocks that are taken in turn: pieces of unlike sizes tell what each one costs from what lines do."""


class NoDryRunError(Exception):
    """A query that is not run dry, and why, in words."""


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The findings of a run: its lines, their times, groups by lines, bytes of a group on its way, costs of phases, and
    the share of a processor that the work got."""

    lines: int
    times: LogTimes
    groups: HeapsLaw
    group_bytes: float
    costs: Costs
    share: float


def check_dry(plan: query.Plan) -> None:
    """Raises NoDryRunError for a plan whose work cannot be done without what is elsewhere."""
    if plan.windowing is None:
        raise NoDryRunError("a query without windows is not live")
    if plan.aggregates_of_job or query.keyed_stream(plan) is not None:
        raise NoDryRunError("code and keyed events are not run dry")
    if plan.app is not None or plan.reads_types or plan.reads_rows or plan.join is not None:
        raise NoDryRunError("a query that joins, or reads other jobs, needs rows that are elsewhere")


def run_dry(
    plan: query.Plan,
    streams: Iterable[StreamConfig],
    machine: MachineCosts | None,
    worked: Callable[[], float],
    timer: Callable[[], float],
    wall_ms: int,
) -> DryRunResult:
    """Runs a plan over the ends of the logs of some streams. `worked` tells the seconds of work so far, `timer` those
    that have passed. Raises NoDryRunError, and what a function raises that its data ends.
    """
    check_dry(plan)
    assert plan.windowing is not None
    work = TimedWork(JobFunction(plan), worked)
    begun_s, begun = worked(), timer()
    times: list[LogTimes] = []
    logs = ((stream, end) for stream in streams for end in _ends(stream))
    for one, end in islice(logs, LOGS_MAX):
        upto = timer() + (begun + RUN_S - timer()) / 2
        try:
            form = sniff(end.head, end.path, one.format, one.time_field)
        except SourceError:
            continue
        times.append(_times(form, end, wall_ms, plan.windowing.pane_ms))
        for block in _blocks(end.end):
            if timer() >= upto and len(work.groups) >= BLOCKS_MIN:
                break
            work.take(one.name, block, form, wall_ms)
    share = share_of_processor(worked() - begun_s, timer() - begun)
    costs = _costs(work, machine)
    found = all_times(times)
    if not found.doubt and next(logs, None) is not None:
        found = replace(found, doubt="more logs")
    return DryRunResult(work.lines, found, work.law, work.group_bytes, costs, share)


def _costs(work: TimedWork, machine: MachineCosts | None) -> Costs:
    """The costs that the run has shown, and those of the machine for work that it has not."""
    known: Costs = {} if machine is None else machine.phases
    costs = {phase: _unmeasured(cost) for phase, cost in known.items()} | work.costs(known)
    if (seal := costs.get(Phase.SEAL)) is not None:
        write = ASSUMED_COSTS[Phase.SEAL] if machine is None else machine.write
        costs[Phase.SEAL] = seal._replace(fixed=seal.fixed + write.fixed, byte=seal.byte + write.byte)
    return costs


def _unmeasured(cost: LinearCost) -> LinearCost:
    """The cost of other work on the same machine: right in kind."""
    return cost._replace(pieces=0.0, spread=max(cost.spread, 1.0))


def _ends(stream: StreamConfig) -> Iterator[FileEnd]:
    if isinstance(stream.source, FileSource):
        yield from stream.source.tails(LOGS_MAX + 1, TAIL_BYTES)


def _times(form: Format, end: FileEnd, wall_ms: int, pane_ms: int) -> LogTimes:
    """The times of the lines, in their order: without columns they come as one frame."""
    frames = parser(form, ()).parse(end.end, wall_ms).frames
    times = np.concatenate([frame[TIME].to_numpy() for frame in frames]) if frames else np.empty(0, np.int64)
    return log_times(times, wall_ms, 1000 * end.written_s, wall_ms, pane_ms)


def _blocks(end: Block) -> Iterator[Block]:
    """The lines in blocks of unlike sizes."""
    start, data = 0, end.data
    for size in cycle(BLOCK_SIZES):
        if start >= len(data):
            return
        upto = data.find(b"\n", min(start + size, len(data) - 1)) + 1 or len(data)
        yield Block(data[start:upto], Origin(end.origin.file, end.origin.offset + start), 0)
        start = upto
