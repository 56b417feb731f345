"""Assignments of workers, reports of workers, and the interface and counters that all groupings share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from agent.grouping.reported_speeds import ReportedSpeeds

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float64]
Amount = TypeVar("Amount", np.int64, np.float64)
WORKERS_MAX = 1024
"""Workers of one stage, at most: each worker and split key costs a source memory."""


@dataclass(frozen=True)
class Assignment:
    """Workers of a stage; a later (epoch, counter) replaces an earlier one. Raises ValueError for no workers, too many,
    or one named twice."""

    epoch: int
    counter: int
    workers: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.workers) <= WORKERS_MAX:
            raise ValueError(f"a stage has 1 to {WORKERS_MAX:,} workers, not {len(self.workers):,}")
        if len(set(self.workers)) < len(self.workers):
            raise ValueError("a stage names each of its workers once")

    @property
    def version(self) -> tuple[int, int]:
        return self.epoch, self.counter


class Report(NamedTuple):
    """Tells how fast a worker is: its id, or its place in the assignment; the seconds it takes for an event; the share
    of its events that came from the source that is told."""

    worker: bytes | int
    seconds: float
    share: float


class HotKeys(NamedTuple):
    """Keys that a source takes for hot, the hottest first: hashes, estimated shares of its events, workers of each."""

    hashes: Hashes
    shares: Floats
    parts: npt.NDArray[np.int64]

    @property
    def split_keys(self) -> int:
        """Hot keys that may have several workers."""
        return int((self.parts > 1).sum())

    @property
    def mean_parts(self) -> float:
        """Workers that a split key may have, on average; 1 where none is split."""
        return float(self.parts[self.parts > 1].mean()) if self.split_keys else 1.0


class Grouping(ABC):
    """Chooses workers for the events that one source sends to one stage. Not shared between threads."""

    name: str

    def __init__(self, assignment: Assignment, source: int) -> None:
        self.assignment = assignment
        self.source = source
        self.refused_assignments = 0
        self._now = 0.0
        self._speeds = ReportedSpeeds(len(assignment.workers))
        self._places = {worker: place for place, worker in enumerate(assignment.workers)}
        self._stopped = np.zeros(len(assignment.workers), bool)
        self._sent = np.zeros(len(assignment.workers), np.int64)

    def assign(self, hashes: Hashes, now: float) -> Places:
        """The place in `assignment.workers` of each event's worker. O(events · log events)."""
        if not len(hashes):
            return np.empty(0, np.int16)
        self._now = max(self._now, now)
        places = self._assign(hashes).astype(np.int16, copy=False)
        self._sent += np.bincount(places, minlength=len(self._sent))
        return places

    def heard(self, report: Report, now: float) -> None:
        """Takes a worker's report. What cannot be is refused, what is hardly believable clamped; both are counted."""
        worker = report.worker
        place = self._places.get(worker, -1) if isinstance(worker, bytes) else int(worker)
        if 0 <= place < len(self._sent) and self._sent[place]:
            self._now = max(self._now, now)
            self._speeds.heard(place, report.seconds, report.share)
        else:
            self._speeds.refused += 1

    def change(self, assignment: Assignment, now: float) -> None:
        """Puts a later assignment in the place of the present one. All that is known of workers who stay is kept."""
        if assignment.version <= self.assignment.version:
            self.refused_assignments += 1
            return
        origins = np.array([self._places.get(worker, -1) for worker in assignment.workers], np.int64)
        self._now = max(self._now, now)
        self.assignment = assignment
        self._places = {worker: place for place, worker in enumerate(assignment.workers)}
        self._carry(origins)

    def exclude(self, workers: Iterable[bytes]) -> None:
        """Takes these workers for stopped, and no others: no split key chooses them while there is another."""
        stopped = set(workers)
        self._stopped = np.array([worker in stopped for worker in self.assignment.workers], bool)

    @property
    def refused_reports(self) -> int:
        """Reports that were refused or clamped."""
        return self._speeds.refused

    @property
    def sent(self) -> npt.NDArray[np.int64]:
        """Events that went to each worker; one that came later starts with the fewest of those who were there."""
        return self._sent.copy()

    @property
    def waits(self) -> Floats:
        """Seconds that an event is estimated to wait at each worker; NaN where the grouping does not estimate it."""
        return np.full(len(self._sent), np.nan)

    def hot_keys(self) -> HotKeys:
        """Keys that are hot at this source; none where the grouping does not count keys."""
        return HotKeys(np.empty(0, np.uint64), np.empty(0), np.empty(0, np.int64))

    @abstractmethod
    def _assign(self, hashes: Hashes) -> npt.NDArray[np.integer]:
        """The place of each event's worker; there is at least one event."""

    def _carry(self, origins: npt.NDArray[np.int64]) -> None:
        """Carries over what is known of workers: for each its place in the assignment before, -1 where it is new."""
        self._stopped = np.where(origins < 0, False, self._stopped[origins])
        self._sent = carried(self._sent, origins)
        self._speeds.change(origins)


def carried(amounts: npt.NDArray[Amount], origins: npt.NDArray[np.int64]) -> npt.NDArray[Amount]:
    """Amounts of workers in the order of a new assignment; who is new starts with the least of those who stay."""
    stays = origins >= 0
    least = amounts[origins[stays]].min() if stays.any() else amounts.dtype.type(0)
    return np.where(stays, amounts[origins], least)
