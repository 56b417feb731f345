"""Adds up the records that a disk has kept of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.runtime.fleet.job_directory import ENDED_MAX, JOBS_MAX
from agent.runtime.master.results.job_log import JobLog
from agent.runtime.master.results.reader_runs import ReaderRuns, in_records
from agent.runtime.master.results.result_log import ResultLog
from agent.runtime.messages.job_records import DescriptorRecord, DropRecord, EndRecord, JobRecord, LinesRecord
from agent.runtime.messages.jobs import Replica
from agent.runtime.messages.programs import LOG_LINES_MAX
from agent.runtime.messages.reading import NO_RUNS, GivenRuns
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id

LOG_BYTES_MAX = 64 << 10
"""Upper bound on a job's log on disk; the oldest lines are dropped first."""


def record_of(
    replica: Replica, results: list[tuple[int, bytes]], read: GivenRuns, before: Replica | None
) -> DescriptorRecord:
    """The record that leads from one descriptor of a job to the next; `before` None: from nothing."""
    return DescriptorRecord(
        app_id=replica.app_id,
        epoch=replica.epoch,
        revision=replica.revision,
        submitter=replica.submitter,
        next_number=replica.next_number,
        frontier=replica.frontier,
        totals=replica.totals,
        written_off=replica.written_off,
        results=results,
        job=replica.job if before is None or replica.job != before.job else None,
        members=replica.members if before is None or replica.members != before.members else None,
        versions=replica.versions if before is None or replica.versions != before.versions else None,
        unshown=replica.unshown,
        moved=replica.moved,
        read=read,
    )


def records_of(
    replica: Replica, results: list[tuple[int, bytes]], read: GivenRuns, before: Replica | None
) -> Iterator[DescriptorRecord]:
    """The records that lead from one descriptor to the next, where a reader's runs may be too large for one; only the
    last has results."""
    *pieces, last = in_records(read)
    yield from (record_of(replica, [], piece, before) for piece in pieces)
    yield record_of(replica, results, last, before)


@dataclass(slots=True)
class KeptJob:
    """A job as a disk has it: its descriptor without results, its last results, what its reader has read if it reads
    another job's results, and its log."""

    replica: Replica
    results: ResultLog
    read: ReaderRuns = field(default_factory=ReaderRuns)
    log: JobLog = field(default_factory=lambda: JobLog(LOG_BYTES_MAX))

    def records(self, results_bytes_max: int) -> Iterator[JobRecord]:
        """The job as few records."""
        read = self.read.given() if results_bytes_max else NO_RUNS
        yield from records_of(self.replica, self.results.to_give(FIRST_PANE, results_bytes_max), read, None)
        if results_bytes_max and (lines := self.log.lines):
            yield LinesRecord(self.replica.app_id, lines[-LOG_LINES_MAX:])


class KeptJobs:
    """Adds records up. `ended` has the epochs of jobs that are over."""

    def __init__(self, records: Iterable[JobRecord] = ()) -> None:
        self.jobs: dict[Id, KeptJob] = {}
        self.ended: dict[Id, JobEpoch] = {}
        for record in records:
            self.take(record)

    def take(self, record: JobRecord) -> None:
        """Adds a record to those before."""
        app_id = record.app_id
        match record:
            case DescriptorRecord():
                self._take_descriptor(record)
            case LinesRecord(lines=lines):
                if (job := self.jobs.get(app_id)) is not None:
                    job.log.add(lines)
            case EndRecord(epoch=epoch):
                self.jobs.pop(app_id, None)
                self.ended.pop(app_id, None)
                self.ended[app_id] = epoch
                if len(self.ended) > ENDED_MAX:
                    del self.ended[next(iter(self.ended))]
            case DropRecord():
                self.jobs.pop(app_id, None)

    def _take_descriptor(self, record: DescriptorRecord) -> None:
        app_id, ended = record.app_id, self.ended.get(record.app_id)
        if ended is not None and record.epoch.born_ms <= ended.born_ms:
            return
        kept = self.jobs.get(app_id)
        if kept is not None and not record.epoch.is_same_job(kept.replica.epoch):
            kept = None
        before = kept.replica if kept is not None else None
        job = record.job or (before.job if before is not None else None)
        versions = record.versions or (before.versions if before is not None else None)
        members = record.members
        if members is None:
            members = before.members if before is not None else None
        if job is None or versions is None or members is None or (kept is None and len(self.jobs) >= JOBS_MAX):
            return
        same = {name: getattr(record, name) for name in _SAME}
        replica = Replica(job=job, versions=versions, members=members, results=[], **same)
        kept = self.jobs[app_id] = kept or KeptJob(replica, ResultLog.of(replica))
        kept.replica = replica
        kept.read.take(record.read)
        for pane, json in record.results:
            kept.results.append(pane, json)

    def records(self, results_bytes_max: int) -> Iterator[JobRecord]:
        """Few records that add up to the same, with so many bytes of results of each job; if these are 0, without
        logs, and what readers have read."""
        for app_id, epoch in self.ended.items():
            yield EndRecord(app_id, epoch)
        for job in self.jobs.values():
            yield from job.records(results_bytes_max)


_SAME = (
    "app_id",
    "epoch",
    "revision",
    "submitter",
    "next_number",
    "frontier",
    "totals",
    "written_off",
    "unshown",
    "moved",
)
"""Fields that each record has whole."""
