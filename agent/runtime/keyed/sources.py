"""Reads the sources of a job on one agent: events of its logs go through the sources' plans, as rows of their types.

Each event has a number in its stream, and so each row the same number whenever the same log is read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import polars as pl

import query
from agent.parsing import COERCED, Parsed, SourceColumn
from agent.runtime.durable.records import Place
from agent.runtime.ingest.feed import Feed, FeedKey, StreamOptions, as_named, merged_columns, placed
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.watermark import Watermark, believed, come_to
from agent.runtime.keyed.elements.declared import lag_ms
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE
from agent.runtime.keyed.event_columns import field_columns
from agent.runtime.keyed.graph import CheckedGraph, CheckedSource
from agent.runtime.keyed.logical_nodes import NODES, ring_key
from agent.runtime.keyed.reading_progress import KeptPlace, ReadingProgress
from agent.runtime.model.epoch import JobTerm
from overlay import Id

EMISSIONS = 1 << 20
"""Numbers that each event of a log has for what is emitted of it."""

BEHIND_ROWS = 1 << 10
"""Events of one block from which on a log is taken to have more at hand, until it is known to be at its end."""

_NUMBER = "pane"
"""The column of an event's number: stages of plans keep it, as they keep panes."""


class RowsTaker(Protocol):
    """Takes the rows of sources: see `KeyedJob`."""

    def channel(self, type_: str) -> int: ...
    def acknowledged(self, source: int) -> int: ...
    def insert(self, type_: str, rows: pl.DataFrame, now: float, *, is_read: bool = False) -> None: ...
    def forget_choices(self, safe: Mapping[int, int]) -> None: ...
    def expect(self, type_: str, *, more: bool) -> None: ...
    def source_time(self, type_: str, watermark_ms: int) -> None: ...
    def end_of_source(self, type_: str) -> None: ...
    @property
    def has_room(self) -> bool: ...


class _Source:
    """One source of the job, over all streams of this agent that it reads."""

    def __init__(self, source: CheckedSource, graph: CheckedGraph, channel: int) -> None:
        self.type = source.type
        self.stream = source.plan.stream
        self.columns = tuple(SourceColumn(one.name, one.path, one.type) for one in source.plan.columns)
        self.watermark = Watermark(())
        self.has_ended = False
        joins = [one for one in graph.graph.elements if one.kind == "join" and one.options["right"] == source.type]
        self.margin_ms = max(map(lag_ms, joins), default=0)
        """Time before and after the job's range of time from which events count."""
        self.channel = channel
        """The channel of this agent's rows of it, where its input is bounded; others are derived from it."""
        self._fields = graph.types[source.type].fields
        self._stage = query.EventStage(source.plan, ordered=False)

    def rows(self, feed: Feed, events: pl.DataFrame, channel: int) -> pl.DataFrame | None:
        """The rows of a frame of events, with their numbers in a channel. None: they lack columns."""
        mine = as_named(feed, self.columns, events)
        if mine is None:
            return None
        numbered = mine if _NUMBER in mine.columns else mine.hstack([events[_NUMBER]])
        selected = self._stage.apply(numbered)
        numbers = [
            pl.Series(SOURCE, [channel], pl.Int64).new_from_index(0, selected.height),
            (selected[_NUMBER] * EMISSIONS).rename(SEQ),
        ]
        return field_columns(selected, self._fields).hstack(numbers)


class KeyedSources:
    """Takes the feeds of a job's sources. Each job has feeds of its own, so that they can wait for it alone.

    Times of live sources are taken `grace_ms` back, for events that are late. `since_ms`, `until_ms`: events before and
    from then on are passed over, but for those that a join may pair with others. `on_rows` gets a source's rows too;
    `on_faults` the malformed lines, and the values that did not fit their use.
    `kept`: the places in store by stream; nothing is read before its beginning is there, too. None: there is no store.
    """

    def __init__(
        self,
        app_id: Id,
        graph: CheckedGraph,
        taker: RowsTaker,
        ingest: OperatorPool,
        *,
        bounded: bool,
        grace_ms: int,
        since_ms: int | None = None,
        until_ms: int | None = None,
        incarnation: int = 0,
        kept: Mapping[str, KeptPlace] | None = None,
        on_rows: Callable[[str, pl.DataFrame], None] = lambda _type, _rows: None,
        on_faults: Callable[[int, int], None] = lambda _malformed, _coerced: None,
    ) -> None:
        self.app_id = app_id
        self._demand_id = ring_key(app_id, NODES + incarnation % NODES)  # a core before this one has had readings
        self._taker = taker
        self._ingest = ingest
        self._bounded, self._grace_ms = bounded, grace_ms
        self._since_ms, self._until_ms = since_ms, until_ms
        self._on_rows, self._on_faults = on_rows, on_faults
        self._sources = [_Source(one, graph, taker.channel(one.type)) for one in graph.sources]
        self._feeds: dict[FeedKey, Feed] = {}
        self._incarnation, self._kept, self._has_store = incarnation, kept or {}, kept is not None
        self._progress: dict[FeedKey, ReadingProgress] = {}

    # Streams.

    def read(self, streams: Mapping[str, StreamOptions]) -> None:
        """Reads those of the agent's streams that sources are over, and no others."""
        wanted = {}
        for name, options in streams.items():
            columns = merged_columns(one.columns for one in self._sources if query.selects(one.stream, name))
            if any(query.selects(one.stream, name) for one in self._sources):
                kept = self._kept.get(name)
                start = "beginning" if self._bounded or kept is not None else options.read_from
                feed = Feed(name, self._demand_id, start, self._bounded, placed(columns, ()))
                wanted[feed.key] = self._feeds.get(feed.key, feed)
                if feed.key not in self._feeds:
                    self._progress[feed.key] = self._begun(feed.key, kept)
        if wanted.keys() == self._feeds.keys() and self._feeds:
            return
        added, gone = wanted.keys() - self._feeds.keys(), self._feeds.keys() - wanted.keys()
        self._feeds = wanted
        self._ingest.end_feeds_of(self, gone)
        self._ingest.add_feed_consumer(self, added)
        self._ingest.demand.want(self._demand_id, wanted.values(), now=True)
        for source in self._sources:
            keys = [key for key in wanted if query.selects(source.stream, key[0])]
            for key in gone:
                source.watermark.drop(key)
                self._progress.pop(key, None)
            source.watermark = source.watermark.copy(keys)
            if not keys:
                self._end(source)

    def _begun(self, key: FeedKey, kept: KeptPlace | None) -> ReadingProgress:
        if kept is None or self._bounded:
            return ReadingProgress(self._incarnation)
        self._ingest.kept_places[key] = kept.reading
        return ReadingProgress.after(kept)

    def places(self, term: JobTerm) -> list[KeptPlace]:
        """The places from which its feeds would go on after a restart: all before them is safe."""
        found = []
        for key, progress in self._progress.items() if not self._bounded else ():
            if (safe := progress.safe(self._taker.acknowledged)) is not None:
                place, counts = safe
                found.append(KeptPlace(term, key[0], progress.incarnation, place.reading, counts))
        return found

    def stored(self, kept: KeptPlace) -> None:
        """Learns that a place is in store: rows before it are never read again."""
        for key, progress in self._progress.items():
            if key[0] == kept.stream:
                progress.is_kept = True
                if progress.incarnation == kept.incarnation:
                    self._taker.forget_choices(
                        {
                            progress.channel(source.channel, file): count * EMISSIONS
                            for source in self._of(key)
                            for file, count in kept.counts.items()
                        }
                    )

    def close(self) -> None:
        """Reads no more."""
        for key in self._feeds:
            self._ingest.kept_places.pop(key, None)
        self._ingest.remove_feed_consumer(self)
        self._ingest.demand.drop(self._demand_id)
        self._feeds = {}

    def _of(self, key: FeedKey) -> Iterable[_Source]:
        return (one for one in self._sources if query.selects(one.stream, key[0]))

    # Feeds.

    @property
    def has_room(self) -> bool:
        """Whether the feeds may be read on."""
        return self._taker.has_room and all(progress.is_kept for progress in self._progress.values())

    @property
    def abandons(self) -> bool:
        """False: elements get every event."""
        return False

    def hand_in(self) -> None:
        """Does nothing: nothing is left out."""

    def began(self, key: FeedKey, reading: object) -> None:
        """Notes where the reading of a feed has begun."""
        if key in self._progress and not self._bounded:
            self._progress[key].begin(reading, is_kept=not self._has_store)

    def insert(self, key: FeedKey, parsed: Parsed, place: Place | None) -> None:
        """Takes the events of a parsed block."""
        feed = self._feeds.get(key)
        if feed is None:
            return
        count = sum(frame.height for frame in parsed.frames)
        progress, file = self._progress[key], None if place is None else place.file
        begin = progress.take(file, count)
        if self._bounded and place is not None:
            begin = place.number - count
        lasts: dict[int, int] = {}
        read = self._read(parsed, begin)
        newest = max((last for _, last in read if last is not None), default=None)
        for source in self._of(key):
            channel = source.channel if self._bounded else progress.channel(source.channel, file)
            for events, _ in read:
                rows = source.rows(feed, self._in_range(events, source.margin_ms), channel) if events.height else None
                if rows is not None and rows.height:
                    lasts[channel] = rows[SEQ][-1]
                    self._taker.insert(source.type, rows, self._ingest.now, is_read=True)
                    self._on_rows(source.type, rows)
            if not self._bounded:
                self._taker.expect(source.type, more=count >= BEHIND_ROWS)
                source.watermark.saw(key, come_to(parsed.watermark_ms, newest, self._ingest.clock.limit_ms))
                self._tell_time(source)
        if place is not None and not place.is_inside and not self._bounded:
            progress.note(place, lasts)

    def _read(self, parsed: Parsed, first: int) -> list[tuple[pl.DataFrame, int | None]]:
        """The events that are believed, with their numbers, and the time of the newest of each frame. Others count as
        malformed, as lines that are none do."""
        latest_ms = None if self._bounded else self._ingest.clock.latest_ms
        read, malformed = [], parsed.malformed
        for frame in parsed.frames:
            numbers = pl.int_range(first, first + frame.height, dtype=pl.Int64, eager=True)
            read.append(believed(frame.hstack([numbers.alias(_NUMBER)]), latest_ms))
            malformed += frame.height - read[-1][0].height
            first += frame.height
        coerced = sum(int(events[COERCED].sum()) for events, _ in read if COERCED in events.columns)
        if malformed or coerced:
            self._on_faults(malformed, coerced)
        return read

    def _in_range(self, events: pl.DataFrame, margin_ms: int) -> pl.DataFrame:
        if self._since_ms is not None:
            events = events.filter(pl.col(EVENT_TIME) >= self._since_ms - margin_ms)
        return events if self._until_ms is None else events.filter(pl.col(EVENT_TIME) < self._until_ms + margin_ms)

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """Notes that a feed is at its end for now: its time is the wall clock's."""
        for source in self._of(key):
            self._taker.expect(source.type, more=False)
            source.watermark.caught_up(key, wall_ms)
            self._tell_time(source)

    def _tell_time(self, source: _Source) -> None:
        if not self._bounded and (reached_ms := source.watermark.value) is not None:
            self._taker.source_time(source.type, reached_ms - self._grace_ms)

    def end_of_feed(self, key: FeedKey) -> None:
        """Notes that a bounded feed is over."""
        for source in self._of(key):
            source.watermark.ended(key)
            if source.watermark.has_ended:
                self._end(source)

    def _end(self, source: _Source) -> None:
        if not source.has_ended:
            source.has_ended = True
            self._taker.expect(source.type, more=False)
            self._taker.end_of_source(source.type)

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Does nothing: files that cannot be read are told of where streams are."""
