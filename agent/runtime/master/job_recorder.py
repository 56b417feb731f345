"""Gives the descriptors on this agent to its disk, if it has one, and tells when the disk has them.

The disk is one more holder of a descriptor: a master announces no epoch, and publishes no window, that its own disk
does not have, and a replica confirms nothing before. So whatever was seen of a job is there when a whole fleet starts
again. A disk that takes nothing is waited for no longer than `STORE_S`.

Attached jobs end with their readers, and are not kept.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.runtime.master.kept_jobs import KeptJob, records_of
from agent.runtime.master.results.reader_runs import NOTHING_READ, ReaderRuns, ReadMark
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.messages.job_records import DropRecord, EndRecord, JobRecord, LinesRecord
from agent.runtime.messages.jobs import Replica
from agent.runtime.messages.programs import Line
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id

STORE_S = 2.0
"""Time after which what waits for the disk goes on without it."""
Then = Callable[[float], None]


class JobDisk(Protocol):
    """The shell's side: takes records in order, and has the core's `stored` called when they are durable."""

    @property
    def keeps_jobs(self) -> bool: ...
    def job_recorded(self, record: JobRecord) -> None: ...


@dataclass(slots=True)
class _Given:
    replica: Replica
    results: ResultLog
    upto: int
    read: ReaderRuns
    mark: ReadMark


@dataclass(slots=True)
class _Waiting:
    app_id: Id
    since: float
    then: Then | None


class JobRecorder:
    """Knows what the disk was given of each job, and what waits until it is durable."""

    name = "recorder"

    def __init__(self, disk: JobDisk, containment: JobContainment) -> None:
        self._disk = disk
        self._containment = containment
        self._given: dict[Id, _Given] = {}
        self._waiting: deque[_Waiting] = deque()
        self._unstored = 0

    def statistics(self) -> Mapping[str, int]:
        return {"kept": len(self._given), "unstored": self._unstored}

    def restore(self, jobs: Iterable[KeptJob]) -> None:
        """Takes what the disk has at the start."""
        for job in jobs:
            self._given.setdefault(job.replica.app_id, _given(job.replica, job.results, job.read))

    def keep(self, replica: Replica, results: ResultLog, read: ReaderRuns, now: float, then: Then) -> bool:
        """Keeps a descriptor, with the results and the runs of a reader that go with it, and calls `then` once they are
        durable; False if there is nothing to wait for, and `then` is not called."""
        if not self._disk.keeps_jobs or replica.job.attached:
            return False
        given = self._given.get(replica.app_id)
        if given is not None and not replica.epoch.is_same_job(given.replica.epoch):
            given = None
        new = results.to_give(given.upto if given is not None else FIRST_PANE)
        before = given.replica if given is not None else None
        new_runs = read.given(given.mark if given is not None else NOTHING_READ)
        self._given[replica.app_id] = _given(replica, results, read)
        *pieces, last = records_of(replica, new, new_runs, before)
        for piece in pieces:
            self._write(piece, now)
        self._write(last, now, then)
        return True

    def keep_lines(self, app_id: Id, lines: Iterable[Line]) -> None:
        """Keeps lines of the log of a job whose descriptor is kept; nothing waits for them."""
        if app_id in self._given:
            self._write(LinesRecord(app_id, list(lines)), math.inf)

    def end(self, app_id: Id, now: float) -> None:
        """Notes that a job is over."""
        if (given := self._given.pop(app_id, None)) is not None:
            self._write(EndRecord(app_id, given.replica.epoch), now)

    def drop(self, app_id: Id, upto: JobEpoch, now: float) -> None:
        """Drops the descriptor of a job, unless it is of a later epoch."""
        given = self._given.get(app_id)
        if given is not None and given.replica.epoch <= upto:
            del self._given[app_id]
            self._write(DropRecord(app_id), now)

    def _write(self, record: JobRecord, now: float, then: Then | None = None) -> None:
        self._waiting.append(_Waiting(record.app_id, now, then))
        self._disk.job_recorded(record)

    def stored(self, count: int, now: float) -> None:
        """The oldest so many records are durable, or will never be."""
        for _ in range(min(count, len(self._waiting))):
            self._go_on(self._waiting.popleft(), now)

    def tick(self, now: float) -> None:
        """Goes on without a disk that takes too long."""
        for waiting in list(self._waiting):
            if waiting.then is not None and now - waiting.since >= STORE_S:
                self._unstored += 1
                self._go_on(waiting, now)

    def _go_on(self, waiting: _Waiting, now: float) -> None:
        then, waiting.then = waiting.then, None
        if then is not None:
            with self._containment.around(waiting.app_id, now):
                then(now)

    def repeat(self, now: float) -> None:
        """Gives the disk every descriptor anew, because it has lost records."""
        for given in list(self._given.values()):
            given.upto, given.mark = given.results.last, given.read.mark
            for record in records_of(given.replica, given.results.to_give(FIRST_PANE), given.read.given(), None):
                self._write(record, now)


def _given(replica: Replica, results: ResultLog, read: ReaderRuns) -> _Given:
    """A descriptor that the disk has, with all that goes with it."""
    return _Given(replica, results, results.last, read, read.mark)
