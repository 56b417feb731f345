"""Records of jobs as an agent's disk keeps them.

A descriptor is written again with each of its revisions, so a record has only what has changed since the one before:
the latest results, and of the job, its members and versions those that are new.
"""

from __future__ import annotations

from agent.runtime.messages.jobs import GivenResults, Incomplete, Members, Submit, Totals
from agent.runtime.messages.programs import Line
from agent.runtime.messages.reading import NO_RUNS, GivenRuns
from agent.runtime.messages.versions import GoingOn, VersionList, VersionsCodec
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import Bitmap, Count, Message, Time
from agent.runtime.model.placement import NOT_MOVED, KeyMoves
from overlay import Codec, Id


class DescriptorRecord(Message, frozen=True, tag=True):
    """A revision of a job's descriptor; what is None is as in the record before. `results`, `read`: what is new."""

    epoch: JobEpoch
    revision: Count
    submitter: Id
    next_number: Count
    frontier: Time
    totals: Totals
    written_off: Bitmap
    results: GivenResults
    job: Submit | None = None
    members: Members | None = None
    versions: VersionList | None = None
    unshown: Incomplete = ()
    moved: KeyMoves = NOT_MOVED
    read: GivenRuns = NO_RUNS
    going_on: GoingOn = ()


class LinesRecord(Message, frozen=True, tag=True):
    """Lines that a job's log has got."""

    lines: list[Line]


class EndRecord(Message, frozen=True, tag=True):
    """The job has ended, in this epoch."""

    epoch: JobEpoch


class DropRecord(Message, frozen=True, tag=True):
    """This agent no longer holds the job's descriptor."""


JobRecord = DescriptorRecord | LinesRecord | EndRecord | DropRecord
RECORDS: Codec[JobRecord] = VersionsCodec(JobRecord)
