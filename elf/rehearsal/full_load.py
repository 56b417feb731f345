"""Rehearses a keyed stage in virtual time whose events come as fast as its workers can just work.

Events are dealt to the sources in turn. A source hands blocks of rows to its grouping; each row counts as come when it
arrives, not when its block is full. Workers take a fixed time for a row, and queues have no limit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from elf.rehearsal.key_stream import Hashes
from elf.rehearsal.plant import Plant
from elf.rehearsal.queues import Floats, Places, ServerQueues
from elf.rehearsal.served import Served
from elf.rehearsal.stage import GroupingMaker, RoutingStage


def serve_at_full_load(hashes: Hashes, plant: Plant, make: GroupingMaker) -> Served:
    """The course of a stage at the first crew's full load. O(events · log block)."""
    arrivals_s = np.arange(len(hashes)) / plant.full_load
    sources = (np.arange(len(hashes)) % plant.sources).astype(np.int16)
    departures_s = ServerQueues(np.full(plant.sources, plant.routing_s)).finished(sources, arrivals_s)
    servers = np.empty(len(hashes), np.int16)
    finished_s = np.empty(len(hashes))
    queues, stage = ServerQueues(plant.service_s), RoutingStage(plant, make)
    for crew, shift in plant.shifts(len(hashes)):
        stage.relieve(crew, shift.start / plant.full_load)
        for rows in _routed(hashes, arrivals_s, servers, shift, stage, plant):
            finished_s[rows] = queues.finished(servers[rows], departures_s[rows])
            stage.arrived(sources[rows], servers[rows], float(arrivals_s[rows.stop - 1]))
    return Served(servers, arrivals_s, finished_s)


def _routed(
    hashes: Hashes, arrivals_s: Floats, servers: Places, shift: range, stage: RoutingStage, plant: Plant
) -> Iterator[slice]:
    """Sets the servers of a shift's rows, block by block, and yields runs of rows that have one. Sources begin their
    blocks one after the other."""
    count, most = plant.sources, plant.block_rows
    begins = np.arange(shift.start, shift.start + count)
    lead = np.arange(count) * most // count
    done, step = shift.start, 0
    while done < shift.stop:
        step += 1
        ends = shift.start + np.arange(count) + count * (step * most - lead)
        for begin, end in zip(begins.tolist(), np.minimum(ends, shift.stop).tolist(), strict=True):
            if begin < end:
                block = slice(begin, end, count)
                servers[block] = stage.route(begin % count, hashes[block], float(arrivals_s[begin]))
        begins = ends
        through = min(int(ends.min()), shift.stop)
        yield slice(done, through)
        done = through
