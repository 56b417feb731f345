"""Reads other jobs' results as events, on the agent of the reading job's master, which follows them as clients do.

Each row of a result is an event at the start of its window. The agent asks for the windows after the last pane that it,
or the reader before, has sealed, so that the next master's agent continues where this one has ended: no window is read
twice, and none is left out while the other job's master keeps it. Event time is the time up to which the other job has
published. Rows of a master on the same agent, as that of a job's stages is, come in columns, as they were made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from agent.parsing import NO_WATERMARK_MS, Parsed, SourceColumn
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named
from agent.runtime.function.nested_states import NestedState, NestedStates
from agent.runtime.function.state_rows import StateFunction, StateRows
from agent.runtime.function.upstream_rows import AppResult, ResultError, read_result
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.ingest.operator import Operator
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.client_events import Accepted, Ended, JobEvent, PublishedWindow
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.model.step_clock import StepClock
from agent.runtime.requests.following import LOST_S, JobSubscriptions
from agent.runtime.requests.status import NO_ROWS, RowsRead
from overlay import Id

WAYS_MAX = 64
"""Number of pairs of functions of which one reader knows whether they nest."""
NOTED_RESULTS, NOTED_BYTES = 32, 2 << 20
"""Number of results, and their bytes as JSON, after which a reader's open panes are noted: the other job's master keeps
more, for whoever reads on."""


class _Ways:
    """The ways from states of functions to those of their readers, which are looked for once."""

    def __init__(self) -> None:
        self._known: dict[tuple[StateFunction, StateFunction], NestedStates | None] = {}

    def between(self, reader: StateFunction, read: StateFunction) -> NestedStates | None:
        """The way between two functions, if there is one."""
        if (reader, read) not in self._known:
            if len(self._known) >= WAYS_MAX:
                self._known.clear()
            self._known[reader, read] = NestedStates.between(reader, read)
        return self._known[reader, read]


@dataclass(frozen=True, slots=True)
class _Window:
    """A window that the reader has got: its rows are events of one instant. Without a `result` there are none."""

    time_ms: int
    closed_ms: int
    result: AppResult | None = None
    columns: Iterable[SourceColumn] = ()
    ways: _Ways = field(default_factory=_Ways)

    def state_for(self, operator: Operator) -> NestedState | None:
        """The state of its rows, for an operator that needs no more (Enorm, figure 5.3)."""
        result = self.result
        if result is None or result.other is not None or not isinstance(result.rows, StateRows):
            return None
        pane, rows = operator.pane_of(self.time_ms), result.rows
        if not operator.takes_states(pane):
            return None
        way = self.ways.between(operator.function, rows.function)
        return None if way is None else way.taken(rows, pane)

    @property
    def json_bytes_min(self) -> int:
        """Lower bound on the size of its rows as JSON, which may not have come; 0 where it is not known."""
        rows = None if self.result is None else self.result.rows
        return rows.json_bytes_min if isinstance(rows, StateRows) else 0

    def to_events(self) -> Parsed:
        """Its rows as events."""
        if self.result is None:
            return Parsed((), 0, self.closed_ms)
        return replace(self.result.to_events(self.time_ms, self.columns), watermark_ms=self.closed_ms)


@dataclass(eq=False, slots=True)
class _UpstreamJob:
    """The job that one local job, the `reader`, reads. `app` is its name, `app_id` its id while it is followed.

    `begins_after`: the last instant that the reader has published; None: it begins where the other job is.
    `after`: the pane of the last window that has arrived. `closed_ms`: the instant up to which all windows have.
    `sought_at`: the time since when no such job is known. `events`: the job's events that have not been taken yet.
    `rows_here`, `rows_sent`: rows that came from a master on this agent, in columns, and as JSON from elsewhere.
    `rows_as_states`: those from here of which only the state was taken.
    `unnoted`, `unnoted_bytes`: results since the reader's open panes were noted last, and their size as JSON.
    """

    reader: Id
    pipeline: Pipeline
    key: FeedKey
    app: str
    begins_after: int | None
    after: int | None
    sought_at: float
    events: list[JobEvent] = field(default_factory=list)
    app_id: Id | None = None
    closed_ms: int = FIRST_PANE
    ends_with_app: bool = False
    is_over: bool = False
    rows_here: int = 0
    rows_sent: int = 0
    rows_as_states: int = 0
    ways: _Ways = field(default_factory=_Ways)
    unnoted: int = 0
    unnoted_bytes: int = 0

    def queue(self, event: JobEvent) -> None:
        self.events.append(event)

    @property
    def rows(self) -> RowsRead:
        return RowsRead(self.rows_here, self.rows_sent, self.rows_as_states)


class UpstreamJobs:
    """The upstream jobs of all local jobs whose master is here."""

    name = "upstream"

    def __init__(
        self,
        directory: JobDirectory,
        jobs: LocalJobs,
        following: JobSubscriptions,
        clock: StepClock,
        containment: JobContainment,
    ) -> None:
        self.refused = 0
        self._containment = containment
        self._directory = directory
        self._jobs = jobs
        self._following = following
        self._clock = clock
        self._upstream: dict[Id, _UpstreamJob] = {}

    def extend_deadlines(self, seconds: float) -> None:
        """Makes up for a standstill of this agent: masters may have announced their jobs meanwhile."""
        for upstream in self._upstream.values():
            upstream.sought_at += seconds

    def tick(self, now: float) -> None:
        """Begins and ends reading, and looks for jobs that are not known yet."""
        jobs = [job for job in self._jobs if job.reads_rows]
        pipelines = {job.app_id: job.pipeline for job in jobs if isinstance(job.pipeline, Pipeline)}
        wanted = {app_id: pipeline for app_id, pipeline in pipelines.items() if pipeline.app_feed is not None}
        for reader, upstream in list(self._upstream.items()):
            if wanted.get(reader) is not upstream.pipeline:
                del self._upstream[reader]
                if upstream.app_id is not None:
                    self._following.unfollow(upstream.app_id, upstream.queue, now, reader=reader)
        for reader, pipeline in wanted.items():
            if reader not in self._upstream and pipeline.get_ready():
                self._upstream[reader] = _upstream_job(reader, pipeline, now)
        for upstream in list(self._upstream.values()):
            if upstream.app_id is None and not upstream.is_over:
                with self._containment.around(upstream.reader, now):
                    self._seek(upstream, now)
        self.take(now)

    def _seek(self, upstream: _UpstreamJob, now: float) -> None:
        upstream.app_id = app_named(upstream.app, self._directory.all())
        if upstream.app_id is not None:
            self._following.follow(upstream.app_id, upstream.after, upstream.queue, now, reader=upstream.reader)
        elif now - upstream.sought_at > LOST_S:
            self._is_over(upstream, now, is_whole=False)

    def take(self, now: float) -> None:
        """Gives the readers the events that have arrived."""
        for upstream in list(self._upstream.values()):
            with self._containment.around(upstream.reader, now):
                self._take_all(upstream, now)

    def _take_all(self, upstream: _UpstreamJob, now: float) -> None:
        if upstream.app_id is None or upstream.key not in upstream.pipeline.feeds:
            return  # an agent that leaves reads no further
        if (gap := self._following.take_gap(upstream.app_id, upstream.reader)) is not None:
            for instant in gap:
                upstream.pipeline.lacks_some_at(instant)
        closed_ms = self._following.closed_ms(upstream.app_id, upstream.reader)
        events, upstream.events = upstream.events, []
        for event in events:
            self._take(upstream, event, now)
        if upstream.unnoted >= NOTED_RESULTS or upstream.unnoted_bytes >= NOTED_BYTES:
            self._note_read(upstream, now)
        if closed_ms is not None and not upstream.is_over:
            self._closed(upstream, closed_ms, now)

    def _note_read(self, upstream: _UpstreamJob, now: float) -> None:
        """Has the reader's master give the open panes to others, before the other job's master drops their results."""
        job, opened = self._jobs.get(upstream.reader), upstream.pipeline.so_far()
        if opened is not None and job is not None and job.root is not None and upstream.after is not None:
            upstream.unnoted = upstream.unnoted_bytes = 0
            job.root.note_read(opened, upstream.after, now)

    def _take(self, upstream: _UpstreamJob, event: JobEvent, now: float) -> None:
        match event:
            case Accepted(bounded=bounded):
                upstream.ends_with_app = bounded
            case PublishedWindow(pane=pane, result=result):
                upstream.after = pane
                self._open(upstream, pane - 1, now)
                window = self._window(upstream, pane, result)
                upstream.closed_ms = max(upstream.closed_ms, window.closed_ms - 1)
                upstream.rows_as_states += self._jobs.ingest.insert_window(upstream.key, window, now, self._clock.ms)
                upstream.unnoted, read_bytes = upstream.unnoted + 1, max(len(result), window.json_bytes_min)
                upstream.unnoted_bytes += read_bytes
            case Ended(reason="lost"):
                upstream.app_id, upstream.sought_at = None, now
            case Ended(reason=reason):
                self._is_over(upstream, now, is_whole=reason == "finished")

    def _open(self, upstream: _UpstreamJob, closed_ms: int, now: float) -> None:
        """Opens the reader's feed where it begins, which is at the very start if the other job is bounded."""
        if upstream.begins_after is not None:
            closed_ms = upstream.begins_after
        if closed_ms != FIRST_PANE or upstream.ends_with_app:
            self._jobs.feed_opened(upstream.key, now, FIRST_PANE if upstream.ends_with_app else closed_ms)

    def _result(self, upstream: _UpstreamJob, pane: int, json: msgspec.Raw) -> AppResult:
        """A result as its master has made it, if that is on this agent, or as it has come. Raises ResultError."""
        job = None if upstream.app_id is None else self._jobs.get(upstream.app_id)
        made = None if job is None or job.root is None else job.root.outlet.take(pane, upstream.reader)
        if made is None and job is not None and job.root is not None and not bytes(json):
            json = msgspec.Raw(job.root.outlet.json(pane))  # readers here are told of a large result without it
        result = read_result(bytes(json)) if made is None else AppResult.of(made)
        if made is None:
            upstream.rows_sent += len(result.rows)
        else:
            upstream.rows_here += len(result.rows)
        return result

    def _window(self, upstream: _UpstreamJob, pane: int, json: msgspec.Raw) -> _Window:
        """The window of a result, with its rows if they are to be counted."""
        try:
            result = self._result(upstream, pane, json)
        except ResultError:
            self.refused += 1
            upstream.pipeline.lacks_some_at(pane)
            return _Window(pane, pane)
        if not result.final:
            return _Window(pane, upstream.closed_ms + 1)  # the final result is still to come
        end = result.closed_ms()
        if end != NO_WATERMARK_MS:
            if upstream.begins_after not in (None, FIRST_PANE) and end - 2 <= (upstream.begins_after or 0):
                return _Window(pane, upstream.closed_ms + 1)  # it came later than its last pane, and was read before
            pane = min(pane, end - 2)
        if not result.is_whole:
            upstream.pipeline.lacks_some_at(pane)
        columns = upstream.pipeline.feeds[upstream.key].columns
        return _Window(pane, pane + 1 if result.more else end, result, columns, upstream.ways)

    def _closed(self, upstream: _UpstreamJob, closed_ms: int, now: float) -> None:
        """Notes that the other job has published everything up to this instant, with or without results."""
        self._open(upstream, closed_ms, now)
        if upstream.pipeline.feeds[upstream.key].bounded and not upstream.ends_with_app:
            self._is_over(upstream, now, is_whole=True)
        elif closed_ms > upstream.closed_ms:
            upstream.closed_ms = closed_ms
            self._jobs.ingest.insert(upstream.key, Parsed((), 0, closed_ms + 1), now, self._clock.ms)

    def _is_over(self, upstream: _UpstreamJob, now: float, *, is_whole: bool) -> None:
        """Ends the reader's feed. The next window lacks events if the other job did not end by itself."""
        upstream.is_over = True
        if not is_whole:
            upstream.pipeline.lacks_some_at(upstream.closed_ms + 1)
        self._open(upstream, upstream.closed_ms, now)
        self._jobs.ingest.end_of_feed(upstream.key, now, self._clock.ms)

    def rows_of(self, reader: Id) -> RowsRead:
        """The rows that a job has read."""
        upstream = self._upstream.get(reader)
        return NO_ROWS if upstream is None else upstream.rows

    def statistics(self) -> Mapping[str, int]:
        """Adds up the rows that all jobs have read: see `RowsRead`."""
        every = [one.rows for one in self._upstream.values()]
        totals = RowsRead(*map(sum, zip(NO_ROWS, *every, strict=True)))
        return {"refused": self.refused, "read": len(every), **totals._asdict()}


def _upstream_job(reader: Id, pipeline: Pipeline, now: float) -> _UpstreamJob:
    feed = pipeline.app_feed
    assert feed is not None
    assert feed.app is not None
    after: int | None = pipeline.consumer.closed_ms
    if after == FIRST_PANE and not feed.bounded:
        after = None
    read = after
    if pipeline.read_before != FIRST_PANE:
        read = pipeline.read_before if after is None else max(after, pipeline.read_before)
    return _UpstreamJob(reader, pipeline, feed.key, feed.app, after, read, now)
