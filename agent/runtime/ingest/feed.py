"""Lists the feeds that an agent's jobs want read, with the columns that are needed of each.

A *feed* is one reading of one stream. Live jobs that start at the end of a stream share one feed of it; a job that
starts at the beginning, or that ends, has a feed of its own. A column that one job reads as text and another as a
number comes twice, under two names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import polars as pl

import query
from agent.parsing import COERCED, TIME, Clauses, ColumnTest, SourceColumn
from agent.runtime.durable.feed_memory import FeedMemory
from agent.runtime.messages.jobs import Enrolled
from agent.runtime.model.panes import FIRST_PANE
from query.plan.within import LOOK_MS_DEFAULT

Start = Literal["end", "beginning", "remembered"]
FeedKey = tuple[str, int | None]


ColumnNames = Mapping[FeedKey, tuple[tuple[str, str], ...]]
"""For each feed the needed columns: as the feed names them, and as the function does."""


class OperatorKey(NamedTuple):
    """Operators with equal keys compute the same from the moment on when both exist."""

    function: bytes
    names: tuple[tuple[FeedKey, tuple[tuple[str, str], ...]], ...]
    grace_ms: int
    limit_ms: int | None
    """The time in which results have to be out with what is there; None: they wait."""
    unshared: int | None
    """A number of its own, for an operator that equals no other."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The place where live jobs begin to read a stream."""

    read_from: Literal["end", "beginning"] = "end"


@dataclass(frozen=True, slots=True)
class Feed:
    """One reading of a stream, while `Agent.ingest.feeds()` names it. `columns` may change from call to call.

    `app_id`: the one job it is for; None: all live jobs that start at the stream's end; negative: some that go on
    where they were before the agent was started again. `bounded`: it ends where the
    stream's files ended when it was opened. `app`: it brings the results of the job of this name, and nothing is read
    from files; as where it brings a type of events (`is_type`) that elements of its job emit. `clauses`: events that
    certainly fail one of them may be passed over.
    """

    stream: str
    app_id: int | None
    start: Start
    bounded: bool
    columns: tuple[SourceColumn, ...]
    app: str | None = None
    clauses: Clauses = ()
    is_type: bool = False

    @property
    def is_read(self) -> bool:
        """Whether its events are read from files."""
        return self.app is None and not self.is_type

    @property
    def key(self) -> FeedKey:
        """The name of the feed in calls of the ingest service."""
        return (self.stream, self.app_id)


class FeedUrgency(NamedTuple):
    """The time at which the next window of a feed's jobs is to be out (s of the agent's clock; None: whenever), and the
    length of their panes (s)."""

    deadline: float | None
    pane_s: float


def least_look_s(plans: Iterable[query.Plan]) -> float | None:
    """The interval (s) at which it does to look at the logs that some jobs read: the shortest of any of them, if a
    longer one than that of agents does for all; None otherwise. O(jobs up to the first that wants more looks)."""
    least: int | None = None
    for plan in plans:
        if plan.look_ms == LOOK_MS_DEFAULT:
            return None
        least = min(least or plan.look_ms, plan.look_ms)
    return None if least is None else least / 1000


def clauses_of(plan: query.Plan) -> Clauses:
    """The clauses that WHERE implies of each event, as parsers take them."""
    return tuple(tuple(ColumnTest(*test) for test in clause) for clause in query.where_clauses(plan))


def merged_columns(wanted: Iterable[Iterable[SourceColumn]]) -> tuple[SourceColumn, ...]:
    """The columns of several jobs, each once, in order of first need."""
    return tuple({column: None for columns in wanted for column in columns})


def placed(columns: Iterable[SourceColumn], taken: Iterable[SourceColumn]) -> tuple[SourceColumn, ...]:
    """The columns under the names of one feed, beside columns already taken: a column of two types has two names."""
    names = {column.name for column in taken}
    known = {(column.path, column.type): column for column in taken}
    found = []
    for column in columns:
        name = column.name
        while (column.path, column.type) not in known and name in names:
            name += "'"
        found.append(known.setdefault((column.path, column.type), replace(column, name=name)))
        names.add(found[-1].name)
    return tuple(dict.fromkeys(found))


def columns_of_feed(key: FeedKey, feeds: Iterable[Feed]) -> tuple[SourceColumn, ...]:
    """The columns that are already read of a feed."""
    return merged_columns(feed.columns for feed in feeds if feed.key == key)


def as_named(feed: Feed, columns: Iterable[SourceColumn], events: pl.DataFrame) -> pl.DataFrame | None:
    """A feed's events with these columns under their own names; None where the events lack some: a job cannot use the
    events of a shared feed that were read before its columns were wanted.
    """
    yielded = {(column.path, column.type): column.name for column in feed.columns}
    names = [(yielded[column.path, column.type], column.name) for column in columns]
    return renamed(events, names) if all(name in events.columns for name, _ in names) else None


def renamed(events: pl.DataFrame, names: Sequence[tuple[str, str]]) -> pl.DataFrame:
    """Events with the columns of `names` (name in the feed, name in the function) and those that all events have."""
    if all(name == wanted for name, wanted in names):
        return events
    kept = [name for name in (TIME, COERCED) if name in events.columns]
    return events.select(*kept, *(pl.col(name).alias(wanted) for name, wanted in names))


def feeds_of_job(
    app_id: int,
    columns: Callable[[str], Iterable[SourceColumn]],
    streams: Mapping[str, StreamOptions],
    shared: Iterable[Feed],
    *,
    bounded: bool,
    remembered: int | None = None,
    clauses: Clauses = (),
) -> list[Feed]:
    """The feeds a job wants of its streams, with the `columns` of each; `shared`: those of this agent's other jobs.

    `remembered`: it goes on where it was; its feeds have this id. `clauses` count where it is bounded: other feeds are
    shared, or their jobs are updated.
    """
    shared = tuple(shared)
    feeds = []
    for stream, options in streams.items():
        shares = not bounded and options.read_from == "end"
        start = "beginning" if bounded else options.read_from
        feed = Feed(stream, None if shares else app_id, start, bounded, (), clauses=clauses if bounded else ())
        if remembered is not None:
            feed = Feed(stream, remembered, "remembered", bounded, ())
        feeds.append(replace(feed, columns=placed(columns(stream), columns_of_feed(feed.key, shared))))
    return feeds


def feeds_of_worker(
    message: Enrolled,
    app: str | None,
    columns: Callable[[str], Iterable[SourceColumn]],
    streams: Mapping[str, StreamOptions],
    shared: Iterable[Feed],
    memory: FeedMemory | None = None,
    clauses: Clauses = (),
) -> list[Feed]:
    """The feeds of a new worker: of its agent's streams, or of the `app` whose results the job reads. `memory`: it may
    go on where it was."""
    job = message.job
    if app is not None:
        return [Feed(job.stream, job.app_id, "end", job.bounded, placed(columns(job.stream), ()), app)]
    if memory is not None and memory.knows(message, streams):
        return feeds_of_job(job.app_id, columns, streams, shared, bounded=False, remembered=memory.next_feed_id())
    if message.begins > FIRST_PANE and not job.bounded:
        # Published panes are final, so a late worker starts at the end of the stream.
        streams = dict.fromkeys(streams, StreamOptions("end"))
    return feeds_of_job(job.app_id, columns, streams, shared, bounded=job.bounded, clauses=clauses)


def feeds_of_types(
    app_id: int, columns: Callable[[str], Iterable[SourceColumn]], types: Iterable[str], *, bounded: bool
) -> list[Feed]:
    """The feeds that bring a job events of these types, which its own elements emit."""
    return [Feed(name, app_id, "end", bounded, placed(columns(name), ()), is_type=True) for name in types]


class _MergedFeeds:
    """The feeds of jobs; feeds of one key are merged into one with all their columns."""

    def __init__(self) -> None:
        self._of_jobs: dict[int, tuple[Feed, ...]] = {}
        self._merged: dict[FeedKey, Feed] | None = {}
        self._all: tuple[Feed, ...] | None = ()

    def put(self, app_id: int, feeds: Iterable[Feed]) -> None:
        """Replaces the feeds of a job."""
        before, feeds = self._of_jobs.get(app_id), tuple(feeds)
        if feeds == before:
            return
        self._of_jobs[app_id] = feeds
        self._all = None
        if self._merged is not None and before is None:
            self._merge(self._merged, feeds)
        else:
            self._merged = None

    def drop(self, app_id: int) -> None:
        """Removes the feeds of a job."""
        if self._of_jobs.pop(app_id, ()):
            self._merged = self._all = None

    def all(self) -> tuple[Feed, ...]:
        """All feeds; the same object until something changes."""
        if self._merged is None:
            self._merged = {}
            for feeds in self._of_jobs.values():
                self._merge(self._merged, feeds)
        if self._all is None:
            self._all = tuple(self._merged.values())
        return self._all

    @staticmethod
    def _merge(found: dict[FeedKey, Feed], feeds: Iterable[Feed]) -> None:
        for feed in feeds:
            known = found.get(feed.key)
            columns = feed.columns if known is None else merged_columns((known.columns, feed.columns))
            found[feed.key] = replace(feed, columns=columns)


class FeedDemand:
    """The feeds that all jobs of an agent want to be read, now or once the jobs are ready."""

    def __init__(self) -> None:
        self._wanted = _MergedFeeds()
        self._to_read = _MergedFeeds()

    def want(self, app_id: int, feeds: Iterable[Feed], *, now: bool) -> None:
        """Replaces the feeds that a job wants; `now`: the job is ready."""
        feeds = tuple(feeds)
        self._wanted.put(app_id, feeds)
        if now:
            self._to_read.put(app_id, (feed for feed in feeds if feed.is_read))

    def drop(self, app_id: int) -> None:
        """Removes the feeds of a job that no longer wants any."""
        self._wanted.drop(app_id)
        self._to_read.drop(app_id)

    def all(self) -> tuple[Feed, ...]:
        """All wanted feeds, with the columns that have names already."""
        return self._wanted.all()

    def to_read(self) -> tuple[Feed, ...]:
        """The feeds to read from files now."""
        return self._to_read.all()
