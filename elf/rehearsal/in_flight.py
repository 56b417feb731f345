"""Rehearses a keyed stage in virtual time whose sources may have few rows in flight.

Events are dealt to the sources in turn, which send them as fast as acknowledgements let them: of the rows that may be
under way to all workers or in their queues, each source has an equal part. Acknowledgements come in rounds. A source
sends when it may send a round's rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from elf.rehearsal.key_stream import Hashes
from elf.rehearsal.plant import Plant
from elf.rehearsal.queues import ServerQueues
from elf.rehearsal.served import Served
from elf.rehearsal.stage import GroupingMaker, RoutingStage

ROUNDS = 5
"""Rounds of acknowledgements in the time that workers take for the rows that may be in flight."""


def serve_in_flight(hashes: Hashes, plant: Plant, make: GroupingMaker, in_flight: int) -> Served:
    """The course of a stage with at most so many rows in flight for each worker; a row arrives when it is sent.
    O(events · log window + rounds · sources)."""
    workers = len(plant.crew.servers)
    windows = _Windows(plant.sources, max(1, in_flight * workers // plant.sources), len(hashes))
    round_s = in_flight * workers / plant.full_load / ROUNDS
    queues, stage = ServerQueues(plant.service_s), RoutingStage(plant, make)
    servers = np.empty(len(hashes), np.int16)
    arrivals_s, finished_s = np.empty((2, len(hashes)))
    now = 0.0
    while windows.unsent:
        released = windows.released(now)
        for one in released:
            servers[one.rows] = stage.route(one.source, hashes[one.rows], now)
            arrivals_s[one.rows] = now + plant.routing_s * np.arange(1, len(one.rows) + 1)
        rows = _in_turn([one.rows for one in released])
        finished_s[rows] = queues.finished(servers[rows], arrivals_s[rows])
        stage.arrived((rows % plant.sources).astype(np.int16), servers[rows], now)
        for one in released:
            windows.sent(one, finished_s[one.rows])
        now = max(now + round_s, windows.next_s)
    return Served(servers, arrivals_s, finished_s)


class _Released(NamedTuple):
    """Rows that a source may send now, and the slots of its window that they take."""

    source: int
    rows: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]


class _Windows:
    """Times at which rows in flight are done, for each source and slot of its window, and the rows that come next."""

    def __init__(self, sources: int, slots: int, rows: int) -> None:
        self._done_s = np.full((sources, slots), -np.inf)
        self._least = max(1, slots // ROUNDS)
        self._next = np.arange(sources)
        self._rows = rows

    @property
    def unsent(self) -> bool:
        return bool((self._next < self._rows).any())

    @property
    def next_s(self) -> float:
        """The time from which a source may send rows that it still has."""
        enough = np.partition(self._done_s, self._least - 1, axis=1)[:, self._least - 1]
        return float(enough[self._next < self._rows].min(initial=np.inf)) if self.unsent else 0.0

    def released(self, now: float) -> list[_Released]:
        """Rows for the slots of sources that have enough free ones by now."""
        free = self._done_s <= now
        found = []
        for source in np.flatnonzero((free.sum(axis=1) >= self._least) & (self._next < self._rows)).tolist():
            slots = np.flatnonzero(free[source])
            rows = np.arange(
                self._next[source], min(self._rows, self._next[source] + len(free) * len(slots)), len(free)
            )
            found.append(_Released(source, rows, slots[: len(rows)]))
        return found

    def sent(self, released: _Released, done_s: npt.NDArray[np.float64]) -> None:
        """Notes when rows that were released will be done."""
        self._done_s[released.source, released.slots] = done_s
        self._next[released.source] += len(released.rows) * len(self._next)


def _in_turn(rows: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The rows of all sources: the first of each, the second of each, and so on."""
    ranks = np.concatenate([np.arange(len(one)) for one in rows])
    turned: npt.NDArray[np.int64] = np.concatenate(rows)[np.argsort(ranks, kind="stable")]
    return turned
