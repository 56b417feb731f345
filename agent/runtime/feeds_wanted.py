"""What an agent's jobs want to read: its streams' events, each with the columns that are needed of them.

A *feed* is one reading of one stream. Live jobs that start at the end of a stream share one feed of it; a job that
starts at the beginning, or that ends, has a feed of its own. A column that one reads as text and another as a number
comes twice, under two names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from agent.parsing import SourceColumn

Start = Literal["end", "beginning"]
FeedKey = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where live jobs begin to read a stream."""

    read_from: Start = "end"


@dataclass(frozen=True, slots=True)
class Feed:
    """One reading of a stream, while `Agent.feeds()` names it. `columns` may change from call to call.

    `app_id`: the one job it is for; None: all live jobs that start at the stream's end. `bounded`: it ends where the
    stream's files ended when it was opened.
    """

    stream: str
    app_id: int | None
    start: Start
    bounded: bool
    columns: tuple[SourceColumn, ...]

    @property
    def key(self) -> FeedKey:
        """What `insert`, `caught_up` and `end_of_feed` name it by."""
        return (self.stream, self.app_id)


def merged_columns(wanted: Iterable[Iterable[SourceColumn]]) -> tuple[SourceColumn, ...]:
    """The columns of several jobs, each once, in order of first need."""
    return tuple({column: None for columns in wanted for column in columns})


def placed(columns: Iterable[SourceColumn], taken: Iterable[SourceColumn]) -> tuple[SourceColumn, ...]:
    """The columns as one feed yields them beside those that are taken: what is read as two types has two names."""
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
    """All that is read of a feed already."""
    return merged_columns(feed.columns for feed in feeds if feed.key == key)


def feeds_of_job(
    app_id: int,
    columns: Iterable[SourceColumn],
    streams: Mapping[str, StreamOptions],
    shared: Iterable[Feed],
    *,
    bounded: bool,
) -> list[Feed]:
    """The feeds a job wants of its streams; `shared` are those of this agent's other jobs."""
    columns, shared = tuple(columns), tuple(shared)
    feeds = []
    for stream, options in streams.items():
        shares = not bounded and options.read_from == "end"
        start: Start = "beginning" if bounded else options.read_from
        feed = Feed(stream, None if shares else app_id, start, bounded, ())
        feeds.append(replace(feed, columns=placed(columns, columns_of_feed(feed.key, shared))))
    return feeds


def _unite(found: dict[FeedKey, Feed], feeds: Iterable[Feed]) -> None:
    for feed in feeds:
        known = found.get(feed.key)
        columns = feed.columns if known is None else merged_columns((known.columns, feed.columns))
        found[feed.key] = replace(feed, columns=columns)


class WantedFeeds:
    """What all jobs of an agent want to read."""

    def __init__(self) -> None:
        self._of_jobs: dict[int, tuple[Feed, ...]] = {}
        self._united: dict[FeedKey, Feed] | None = {}
        self._all: tuple[Feed, ...] | None = ()

    def want(self, app_id: int, feeds: Iterable[Feed]) -> None:
        """Instead of what the job wanted before."""
        before, feeds = self._of_jobs.get(app_id), tuple(feeds)
        if feeds == before:
            return
        self._of_jobs[app_id] = feeds
        self._all = None
        if self._united is not None and before is None:
            _unite(self._united, feeds)
        else:
            self._united = None

    def drop(self, app_id: int) -> None:
        """The job wants nothing any more."""
        if self._of_jobs.pop(app_id, ()):
            self._united = self._all = None

    def all(self) -> tuple[Feed, ...]:
        """Feeds of one key as one, with all their columns. The same object until something changes."""
        if self._united is None:
            self._united = {}
            for feeds in self._of_jobs.values():
                _unite(self._united, feeds)
        if self._all is None:
            self._all = tuple(self._united.values())
        return self._all
