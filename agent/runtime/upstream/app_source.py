"""Jobs that read another job's results: on the agent of their master, which follows that job as clients do.

Each row of a result is an event at the start of its window. What comes after the last window that is committed is asked
for, so that the next master's agent goes on where this one has ended: no window is read twice, and none is left out as
long as the other job's master keeps it. Event time is as far as the other job is out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agent.parsing import Parsed
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named
from agent.runtime.function.upstream_rows import ResultError, read_result
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.jobs import NoJob
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.requests.following import LOST_S, JobSubscriptions
from agent.runtime.requests.notices import Accepted, CoreEvent, Ended, Published
from overlay import Id


@dataclass(slots=True)
class _UpstreamJob:
    """Of one job. `app` is the name of the job it reads, `app_id` that job, while it is followed.

    `begins_after`: the last instant that is out already; None: that of what it reads. `after`: the pane of the last
    window that has come. `closed_ms`: up to this instant, all have. `sought_at`: since when no such job is known.
    """

    pipeline: Pipeline
    key: FeedKey
    app: str
    begins_after: int | None
    after: int | None
    sought_at: float
    followings: JobSubscriptions
    notices: list[CoreEvent] = field(default_factory=list)
    app_id: Id | None = None
    closed_ms: int = FIRST_PANE
    ends_with_app: bool = False
    is_over: bool = False


class UpstreamJobs:
    """Of one agent."""

    def __init__(self, post: MessageSender, announcements: JobDirectory, parts: LocalJobs) -> None:
        self.refused = 0
        self._post = post
        self._announcements = announcements
        self._parts = parts
        self._readings: dict[Id, _UpstreamJob] = {}

    def of(self, reader: Id) -> JobSubscriptions | None:
        """How a job follows the one it reads."""
        reading = self._readings.get(reader)
        return reading.followings if reading is not None else None

    def announced(self, app_id: Id, epoch: JobEpoch, now: float) -> None:
        """A master has announced its job."""
        for reading in self._readings.values():
            reading.followings.announced(app_id, epoch, now)

    def no_job(self, message: NoJob, now: float) -> None:
        """A node says that there is no such job."""
        for reading in self._readings.values():
            reading.followings.no_job(message, now)

    def extend_deadlines(self, seconds: float) -> None:
        """This agent stood still for so long: masters may have spoken meanwhile."""
        for reading in self._readings.values():
            reading.followings.extend_deadlines(seconds)
            reading.sought_at += seconds

    def tick(self, now: float, wall_ms: int) -> None:
        """Begins and ends to read, and asks again where it is time."""
        parts = [part for part in self._parts if part.reads_rows]
        pipelines = {part.app_id: part.pipeline for part in parts if isinstance(part.pipeline, Pipeline)}
        wanted = {app_id: pipeline for app_id, pipeline in pipelines.items() if pipeline.app_feed is not None}
        for reader, reading in list(self._readings.items()):
            if wanted.get(reader) is not reading.pipeline:
                self._end(reader, now)
        for reader, pipeline in wanted.items():
            if reader not in self._readings and pipeline.get_ready():
                self._readings[reader] = self._reading(reader, pipeline, now)
        for reading in self._readings.values():
            if reading.app_id is None and not reading.is_over:
                self._seek(reading, now, wall_ms)
            reading.followings.tick(now)
        self.take(now, wall_ms)

    def _reading(self, reader: Id, pipeline: Pipeline, now: float) -> _UpstreamJob:
        feed = pipeline.app_feed
        assert feed is not None
        assert feed.app is not None
        after: int | None = pipeline.consumer.closed_ms
        if after == FIRST_PANE and not feed.bounded:
            after = None
        notices: list[CoreEvent] = []
        followings = JobSubscriptions(self._post, self._announcements, notices, reader)
        return _UpstreamJob(pipeline, feed.key, feed.app, after, after, now, followings, notices)

    def _end(self, reader: Id, now: float) -> None:
        reading = self._readings.pop(reader)
        self.refused += reading.followings.refused
        if reading.app_id is not None:
            reading.followings.unfollow(reading.app_id, now)

    def _seek(self, reading: _UpstreamJob, now: float, wall_ms: int) -> None:
        """The job may not have been heard of yet; one that is not heard of for long is no more."""
        reading.app_id = app_named(reading.app, self._announcements.all())
        if reading.app_id is not None:
            reading.followings.follow(reading.app_id, reading.after, now)
        elif now - reading.sought_at > LOST_S:
            self._is_over(reading, now, wall_ms, is_whole=False)

    def take(self, now: float, wall_ms: int) -> None:
        """Takes what has come."""
        for reading in list(self._readings.values()):
            if reading.app_id is None or reading.key not in reading.pipeline.feeds:
                continue  # an agent that leaves reads nothing any more
            if (gap := reading.followings.take_gap(reading.app_id)) is not None:
                for instant in gap:
                    reading.pipeline.lacks_some_at(instant)
            closed_ms = reading.followings.closed_ms(reading.app_id)
            notices = list(reading.notices)
            reading.notices.clear()
            for notice in notices:
                self._take(reading, notice, now, wall_ms)
            if closed_ms is not None and not reading.is_over:
                self._closed(reading, closed_ms, now, wall_ms)

    def _take(self, reading: _UpstreamJob, notice: CoreEvent, now: float, wall_ms: int) -> None:
        match notice:
            case Accepted(bounded=bounded):
                reading.ends_with_app = bounded
            case Published(pane=pane, json=json):
                reading.after = pane
                self._open(reading, pane - 1, now)
                parsed = self._events(reading, pane, json)
                reading.closed_ms = max(reading.closed_ms, (parsed.watermark_ms or 0) - 1)
                self._parts.ingest.insert(reading.key, parsed, now, wall_ms)
            case Ended(reason="lost"):
                reading.app_id, reading.sought_at = None, now
            case Ended(reason=reason):
                self._is_over(reading, now, wall_ms, is_whole=reason == "finished")

    def _open(self, reading: _UpstreamJob, closed_ms: int, now: float) -> None:
        """The first that comes tells from where on there is everything; of a job over what logs hold, all is."""
        if reading.begins_after is not None:
            closed_ms = reading.begins_after
        if closed_ms != FIRST_PANE or reading.ends_with_app:
            self._parts.feed_opened(reading.key, now, FIRST_PANE if reading.ends_with_app else closed_ms)

    def _events(self, reading: _UpstreamJob, pane: int, json: bytes) -> Parsed:
        columns = reading.pipeline.feeds[reading.key].columns
        try:
            result = read_result(json)
        except ResultError:
            self.refused += 1
            reading.pipeline.lacks_some_at(pane)
            return Parsed((), 0, pane)
        if not result.final:
            return Parsed((), 0, reading.closed_ms + 1)  # it will come once more, as a whole
        if not result.is_whole:
            reading.pipeline.lacks_some_at(pane)
        closed_ms = pane + 1 if result.more else result.closed_ms()
        return replace(result.events(pane, columns), watermark_ms=closed_ms)

    def _closed(self, reading: _UpstreamJob, closed_ms: int, now: float, wall_ms: int) -> None:
        """The other job is out so far, whether it had anything to tell or not."""
        self._open(reading, closed_ms, now)
        if reading.pipeline.feeds[reading.key].bounded and not reading.ends_with_app:
            self._is_over(reading, now, wall_ms, is_whole=True)
        elif closed_ms > reading.closed_ms:
            reading.closed_ms = closed_ms
            self._parts.ingest.insert(reading.key, Parsed((), 0, closed_ms + 1), now, wall_ms)

    def _is_over(self, reading: _UpstreamJob, now: float, wall_ms: int, *, is_whole: bool) -> None:
        """Nothing more will come. Of a job that did not come to its end by itself, the window under way is missing."""
        reading.is_over = True
        if not is_whole:
            reading.pipeline.lacks_some_at(reading.closed_ms + 1)
        self._open(reading, reading.closed_ms, now)
        self._parts.ingest.end_of_feed(reading.key, now, wall_ms)
