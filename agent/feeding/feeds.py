"""Feeds an agent: reads the streams its jobs want, parses in threads, and inserts the events in order.

For each feed one task reads ahead in a thread, a batch of a few MiB at a time, while another inserts the batch before
into the agent, in small steps with the event loop's other tasks in between. A backlog of any size therefore takes the
memory of about two batches, and heartbeats are sent in time. A reading that fails begins anew behind its last batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Protocol

import polars as pl
import trio

from agent import log
from agent.clocks import wall_at
from agent.configuration.config import StreamConfig
from agent.feeding.reading import Columns, FeedReader, ParsedBlock, ReadBatch, known_in, slices
from agent.feeding.reading_ledger import FeedPosition, Files, ReadingLedger, ReadTo
from agent.feeding.replay import NOTHING_SEALED, followed
from agent.feeding.statistics import StreamMeter, StreamStatistics
from agent.feeding.turns_by_deadline import TurnsByDeadline
from agent.parsing import Parsed
from agent.runtime.durable.feed_memory import FeedNeeds
from agent.runtime.durable.records import Place
from agent.runtime.ingest.event_clock import MAX_SKEW_MS
from agent.runtime.ingest.feed import Feed, FeedKey, FeedUrgency
from agent.runtime.model.latency.critical_path import BlockRead
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.scheduling import PhaseTimes, WorkPhase
from agent.sources.reader import ReaderStatistics
from agent.turns import Turns
from query.plan.within import LOOK_MS_DEFAULT

POLL_S = LOOK_MS_DEFAULT / 1000
"""Interval at which sources without new lines are polled."""
DUE_LOOK_S = 0.02
"""Shortest delay between two looks at a feed the second of which is only for a pane that is due: 50 a second at most.
"""
QUIET_S = 5.0
"""Time without a line after which a source is polled half as often."""
MARGIN_S = 0.0005
"""Delay of a look behind the time that a pane is due, for clocks that do not quite agree."""
RECONCILE_POLLS = 10
"""Number of polls between two checks of the feeds the agent wants, unless a change is reported earlier."""
THREADS = 2
"""Upper bound on batches read at once by all feeds: parsing holds the interpreter's lock most of the time."""
ROOM_S = 0.01
"""Interval between looks whether a feed may be read on whose jobs have no room for its events."""
RESTART_S, RESTART_MAX_S = 0.5, 30.0
"""Delay before a reading that failed begins anew: the first, and after it twice as long each time, up to the last."""

NOTHING_REMEMBERED: Mapping[str, FeedPosition] = MappingProxyType({})

_LOG = logging.getLogger("elf.agent")


class EventSink(Protocol):
    """Receiver of events: see `agent.Agent.ingest`. `now` is monotonic, in seconds.

    `place`: the one after the block, where its source has places. `read`: when the block was read.
    `observe`: the wall clock's time, read together with `now`, without a step of it that is still doubted.
    `lacks`: some of the feed's files cannot be read, or all can.
    `caught_up`: all that had been written at `wall_ms` has been inserted. `next_due`: the first time (epoch ms) after
    one at which a pane is due. `look_s`: the interval of looks that does for a feed's jobs, if fewer do than others
    need. `lost`: some events up to `upto_ms` are gone for good. `needs`: what the feed's jobs
    would need to read again after a restart. `has_room`: the feed may be read on. `urgency`: how soon its turn is due.
    `abandoned_ms`: the time up to which its events are late for all its jobs, none of which waits for them. `began`:
    reading begins at this position. `kept_place`: that from which it goes on, if it was read before this start.
    """

    def feeds(self) -> tuple[Feed, ...]: ...
    def observe(self, now: float, wall_ms: int) -> int: ...
    def began(self, key: FeedKey, reading: object) -> None: ...
    def insert(
        self,
        key: FeedKey,
        parsed: Parsed,
        now: float,
        wall_ms: int,
        place: Place | None = None,
        read: BlockRead | None = None,
    ) -> None: ...
    def caught_up(self, key: FeedKey, now: float, wall_ms: int) -> None: ...
    def next_due(self, key: FeedKey, after_ms: int) -> float | None: ...
    def look_s(self, key: FeedKey) -> float | None: ...
    def lacks(self, key: FeedKey, some: bool) -> None: ...
    def lost(self, key: FeedKey, upto_ms: int) -> None: ...
    def needs(self, key: FeedKey) -> FeedNeeds | None: ...
    def end_of_feed(self, key: FeedKey, now: float, wall_ms: int) -> None: ...
    def has_room(self, key: FeedKey) -> bool: ...
    def urgency(self, key: FeedKey) -> FeedUrgency: ...
    def abandoned_ms(self, key: FeedKey) -> int | None: ...
    def kept_place(self, key: FeedKey) -> object: ...


class Feeds:
    """Keeps one reading running for every feed the agent wants, and no other.

    `clock` (seconds, monotonic) and `wall_ms` (epoch milliseconds) tell the time; `pump` is called whenever the agent
    was given events, so that its messages are sent. `remembered`: the positions of remembered feeds, by stream.
    `timer` tells seconds in any thread, for how long parsing takes. `due_looks`: feeds are looked at when panes are due
    as well, and not only at the interval of polls.
    """

    def __init__(
        self,
        sink: EventSink,
        streams: Iterable[StreamConfig],
        *,
        clock: Callable[[], float],
        wall_ms: Callable[[], int],
        pump: Callable[[], None],
        poll_s: float = POLL_S,
        remembered: Mapping[str, FeedPosition] = NOTHING_REMEMBERED,
        max_skew_ms: int = MAX_SKEW_MS,
        timer: Callable[[], float] = lambda: 0.0,
        due_looks: bool = True,
    ) -> None:
        self._timer, self._due_looks = timer, due_looks
        self._remembered = remembered
        self._is_paused = False
        self._sink = sink
        self._streams = {stream.name: stream for stream in streams}
        self._clock, self._wall_ms, self._pump, self._poll_s = clock, wall_ms, pump, poll_s
        self._wall_at = partial(wall_at, clock=clock, wall_ms=wall_ms)
        self._max_skew_ms = max_skew_ms
        self._meters = {name: StreamMeter() for name in self._streams}
        self._readings: dict[FeedKey, _FeedTask] = {}
        self._reconciled: tuple[Feed, ...] | None = None
        self._has_news = False
        self._threads = trio.CapacityLimiter(THREADS)
        self._times = PhaseTimes()
        self._reads = TurnsByDeadline(WorkPhase.READ, THREADS, clock, sink.urgency, self._times)
        self._inserts = TurnsByDeadline(WorkPhase.INSERT, 1, clock, sink.urgency, self._times)
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        """Reads until it is cancelled. A thread that is stuck then is left to itself, and closes what it reads."""
        async with trio.open_nursery() as self._nursery:
            try:
                while True:
                    self.reconcile()
                    await trio.sleep(RECONCILE_POLLS * self._poll_s)
            finally:
                self._nursery = None

    def change_streams(self, streams: Iterable[StreamConfig], max_skew_ms: int) -> None:
        """Reads streams as they are configured now. Readings go on where they are, in another source where theirs has
        changed; those whose stream has gone end when nobody wants them any more."""
        self._streams = {stream.name: stream for stream in streams}
        self._max_skew_ms = max_skew_ms
        read = {reading.feed.stream for reading in self._readings.values()}
        self._meters = {name: self._meters.get(name) or StreamMeter() for name in (*self._streams, *read)}
        for reading in self._readings.values():
            reading.reader.max_skew_ms = max_skew_ms

    def reconcile(self) -> None:
        """Starts and stops readings to match the feeds the agent wants now. Cheap enough to be called often."""
        feeds = self._sink.feeds()
        if self._nursery is None or feeds is self._reconciled or self._is_paused:
            return
        self._reconciled = feeds
        wanted = {feed.key: feed for feed in feeds}
        for key, reading in list(self._readings.items()):
            if not reading.serves(wanted.get(key)):
                reading.scope.cancel()
                del self._readings[key]
        for key, feed in wanted.items():
            if key in self._readings:
                self._aim_at_poll(self._readings[key], 1)  # a new job may need more looks
            elif feed.stream in self._streams:
                self._readings[key] = self._reading(feed)
                self._nursery.start_soon(self._run, self._readings[key])

    def _reading(self, feed: Feed) -> _FeedTask:
        position = self._remembered.get(feed.stream) if feed.start == "remembered" else None
        known = position.known_files if position else None
        kept = self._sink.kept_place(feed.key)
        if isinstance(kept, ReadTo):
            known = kept.files
        elif isinstance(kept, tuple):  # where the job's elements have all that is before it
            known = kept
        stream = self._streams[feed.stream]
        return _FeedTask(feed, stream, self._meters[feed.stream], self._reader(feed, stream, known), known)

    def _reader(self, feed: Feed, stream: StreamConfig, known: Files | None) -> FeedReader:
        position = self._remembered.get(feed.stream) if feed.start == "remembered" else None
        sealed = NOTHING_SEALED if position is None else position.sealed
        return FeedReader(feed, stream, known, self._max_skew_ms, sealed, self._timer)

    async def pause(self) -> None:
        """Reads no more, and returns once all that was read is inserted."""
        self._is_paused = True
        for reading in list(self._readings.values()):
            await reading.ended.wait()

    def take_news(self) -> bool:
        """Whether anything was read since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def positions(self) -> list[FeedPosition]:
        """The positions from which live feeds have to be read after a restart."""
        needs = ((reading, self._sink.needs(key)) for key, reading in self._readings.items())
        found = [reading.ledger.needed(need) for reading, need in needs if need is not None]
        return [position for position in found if position is not None]

    def last_positions(self) -> list[FeedPosition]:
        """The positions that paused feeds have reached."""
        needs = ((reading, self._sink.needs(key)) for key, reading in self._readings.items())
        found = [reading.ledger.reached(need, self._wall_ms()) for reading, need in needs if need is not None]
        return [position for position in found if position is not None]

    def statistics(self) -> Mapping[str, StreamStatistics]:
        """Statistics of reading, by stream."""
        now = self._clock()
        return {name: meter.statistics(now) for name, meter in self._meters.items()}

    async def _run(self, reading: _FeedTask) -> None:
        send, receive = trio.open_memory_channel[ReadBatch](0)
        try:
            with reading.scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._read_batches, reading, send)
                    await self._insert_batches(reading, receive)
        finally:
            reading.ended.set()
            reading.reader.close()
            reading.meter.end(reading.reader)
            self._times.forget(reading.feed.key)

    async def _read_batches(self, reading: _FeedTask, send: trio.MemorySendChannel[ReadBatch]) -> None:
        async with send:
            last_line = self._clock()
            begins_now = reading.feed.start == "end"
            while not self._is_paused:
                now = self._clock()
                wall_ms = self._sink.observe(now, self._wall_at(now))
                reading.looked_at, reading.looked_ms = trio.current_time(), wall_ms
                try:
                    await self._follow_changes(reading)
                    found = await self._read_batch(reading, now, wall_ms)
                except (Exception, pl.exceptions.PanicException) as error:
                    await send.send(self._failed(reading, error, wall_ms))
                    if reading.feed.bounded:
                        return
                    await self._begin_anew(reading)
                    continue
                if begins_now:
                    # Only from here on there is nothing missed of a file that is read from its end. The next batch,
                    # whose events may have its time, is later.
                    found, begins_now = replace(found, wall_ms=self._wall_ms()), False
                await send.send(found)
                reading.note(found)
                if found.at_end and reading.feed.bounded:
                    return
                if found.blocks:
                    last_line = now
                if found.at_end:
                    await self._until_next_look(reading, 2 if now > last_line + QUIET_S else 1)

    async def _read_batch(self, reading: _FeedTask, now: float, wall_ms: int) -> ReadBatch:
        found = reading.reader.quiet_batch(now, wall_ms)  # a thread costs more than a look at a few files
        if found is not None:
            return found
        columns = self._columns(reading) or ()
        async with self._reads.turn(reading.feed.key):
            reading.abandoned_ms = self._sink.abandoned_ms(reading.feed.key)
            return await trio.to_thread.run_sync(
                reading.reader.read, columns, now, wall_ms, lambda: reading.abandoned_ms, limiter=self._threads,
                abandon_on_cancel=True,
            )  # fmt: skip

    def _failed(self, reading: _FeedTask, error: BaseException, wall_ms: int) -> ReadBatch:
        """Says that a reading has failed: its feed lacks events until the next batch, a bounded one for good."""
        log.failed("reading a stream failed", error, stream=reading.feed.stream)
        last = reading.statistics
        statistics = replace(last, broken=last.broken + 1, unreadable=last.unreadable + 1)
        fault = f"reading failed: {log.summary(error)}"
        return ReadBatch((), reading.feed.bounded, wall_ms, (fault,), statistics)

    async def _begin_anew(self, reading: _FeedTask) -> None:
        """Reads on behind the last batch, with a new reader, after a while."""
        await trio.sleep(reading.next_delay_s())
        self._replace_reader(reading, reading.read_upto)

    async def _follow_changes(self, reading: _FeedTask) -> None:
        """Goes on in another source behind the last batch, if the stream has changed; a bounded reading ends as it
        began."""
        stream = self._streams.get(reading.feed.stream)
        if (
            stream is None
            or reading.feed.bounded
            or reading.stream == replace(stream, read_from=reading.stream.read_from)
        ):
            return
        known = await trio.to_thread.run_sync(
            known_in, stream, reading.stream, reading.read_upto, abandon_on_cancel=True
        )
        reading.stream = stream
        self._replace_reader(reading, known)

    def _replace_reader(self, reading: _FeedTask, known: Files | None) -> None:
        reading.reader.close()
        reading.meter.end(reading.reader)
        reading.replace_reader(self._reader(reading.feed, reading.stream, known))

    async def _until_next_look(self, reading: _FeedTask, polls: int) -> None:
        """Waits for the next poll, at a moment common to all feeds and the core's timers (`CoreDriver`) where the agent
        is idle: a wake-up costs as much as a poll. If a pane is due before, it waits no longer than that."""
        reading.poll_at = math.inf
        with trio.CancelScope() as reading.until_look:
            self._aim_at_poll(reading, polls)
            await trio.sleep_forever()

    def _aim_at_poll(self, reading: _FeedTask, polls: int) -> None:
        """Sets the next look at a feed to so many polls from now, unless it is to come before."""
        period_ms = round(1000 * polls * self._look_s(reading.feed))
        reading.poll_at = min(reading.poll_at, trio.current_time() + (period_ms - self._wall_ms() % period_ms) / 1000)
        self._aim(reading)

    def _look_s(self, feed: Feed) -> float:
        """The interval of looks at a feed. It may be a longer one where there is a further look when a pane is due."""
        chosen = self._sink.look_s(feed.key) if self._due_looks and self._may_tell_end(feed) else None
        return self._poll_s if chosen is None else chosen

    def _aim(self, reading: _FeedTask) -> None:
        """Sets the time of the next look at a feed that was read to its end, also when that has closed panes."""
        reading.until_look.deadline = min(reading.poll_at, self._due_at(reading))

    def _due_at(self, reading: _FeedTask) -> float:
        """The time (of trio's clock) of a look for the next pane that is due. Panes that were due before the last look
        need no other: it closes them once it is inserted, unless something else holds them back."""
        if not (self._due_looks and self._may_tell_end(reading.feed)):
            return math.inf
        due_ms = self._sink.next_due(reading.feed.key, reading.looked_ms)
        if due_ms is None:
            return math.inf
        now = self._clock()
        left_s = (due_ms - self._sink.observe(now, self._wall_at(now))) / 1000
        return max(trio.current_time() + left_s + MARGIN_S, reading.looked_at + DUE_LOOK_S)

    async def _insert_batches(self, reading: _FeedTask, receive: trio.MemoryReceiveChannel[ReadBatch]) -> None:
        feed = reading.feed
        async for found in receive:
            reading.meter.note(reading.reader, found)
            for fault in found.faults:
                _LOG.warning("source", extra={"fields": {"stream": feed.stream, "fault": fault}})
            statistics = found.statistics
            if found.began is not None:
                self._note_beginning(reading, found.began)
            if reading.has_lost(statistics):
                self._sink.lost(feed.key, self._wall_ms())
            self._sink.lacks(feed.key, statistics.unreadable > 0 or (feed.bounded and statistics.broken > 0))
            self._has_news |= bool(found.blocks) or found.files is not None or found.began is not None
            for parsed in found.blocks:
                await self._insert(reading, parsed)
            if found.files is not None:
                reading.ledger.note(found.files, found.newest_ms + 1)
            if found.at_end and self._may_tell_end(feed) and self._columns(reading) is not None:
                tell = self._sink.end_of_feed if feed.bounded else self._sink.caught_up
                tell(feed.key, self._clock(), found.wall_ms)
                self._pump()
                self._aim(reading)

    def _may_tell_end(self, feed: Feed) -> bool:
        """Whether the time of a feed that is at its end is the wall clock's."""
        stream = self._streams.get(feed.stream)
        return feed.bounded or stream is None or stream.clock == "wall"

    def _note_beginning(self, reading: _FeedTask, began: Files) -> None:
        """Notes where a reading begins, also anew: all that was read before is inserted."""
        feed, now_ms = reading.feed, self._wall_ms()
        complete_from_ms = now_ms if feed.start == "end" else FIRST_PANE
        if feed.start == "remembered" and feed.stream in self._remembered:
            complete_from_ms = self._remembered[feed.stream].complete_from_ms
        self._sink.began(feed.key, began)
        reading.ledger.note(began, FIRST_PANE if reading.ledger.is_begun else complete_from_ms)

    async def _insert(self, reading: _FeedTask, batch: ParsedBlock) -> None:
        """Inserts a block with at least the columns of all jobs that existed when it was read.

        A later job has no use for it, since the block was written before.
        """
        columns = self._columns(reading)
        if columns is not None and not batch.covers(columns):
            batch = await trio.to_thread.run_sync(
                reading.reader.reparse, batch, columns, limiter=self._threads, abandon_on_cancel=True
            )
        place = None
        if batch.read_to is not None:
            place = reading.ledger.place(batch.read_to, batch.replayed, followed(batch.piece.part).identity)
        parts = list(slices(batch.parsed))
        for part in parts:
            while not self._sink.has_room(reading.feed.key):
                await trio.sleep(ROOM_S)
            async with self._inserts.turn(reading.feed.key):
                await reading.turns.give_way()
                if self._columns(reading) is None:
                    return
                after = place if place is None or part is parts[-1] else replace(place, is_inside=True)
                with reading.turns.piece():
                    now = self._clock()
                    self._sink.insert(reading.feed.key, part, now, self._wall_at(now), after, batch.read)
                    reading.meter.count(part, self._clock())
                    self._pump()
            reading.abandoned_ms = self._sink.abandoned_ms(reading.feed.key)

    def _columns(self, reading: _FeedTask) -> Columns | None:
        """The columns that the agent wants of a reading now; None if the feed is no longer wanted."""
        if reading.scope.cancel_called:
            return None
        return next((feed.columns for feed in self._sink.feeds() if reading.serves(feed)), None)


class _FeedTask:
    """The reading for one feed, and the scope that ends it."""

    def __init__(
        self, feed: Feed, stream: StreamConfig, meter: StreamMeter, reader: FeedReader, known: Files | None
    ) -> None:
        self.feed = feed
        self.stream = stream
        self.meter = meter
        self.reader = reader
        self.ledger = ReadingLedger(feed.stream)
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.turns = Turns()
        self.looked_at, self.looked_ms = -math.inf, FIRST_PANE
        """The last look, by trio's clock (s) and by the wall clock (epoch ms)."""
        self.abandoned_ms: int | None = None
        """The time up to which its events are late by now (epoch ms), for jobs that do not wait for them."""
        self.poll_at = math.inf
        """The time of the next poll, by trio's clock."""
        self.until_look = trio.CancelScope()
        """The wait for the next look, until its deadline."""
        self.read_upto = known
        """The position behind the last batch; None: none has been read, or the source has no positions."""
        self.statistics = ReaderStatistics()
        """The reader's totals with its last batch."""
        self._failures = 0
        self._losses = 0

    def has_lost(self, statistics: ReaderStatistics) -> bool:
        """Whether lines are known to have been lost since the last call."""
        before, self._losses = self._losses, statistics.losses
        return self._losses > before

    def note(self, found: ReadBatch) -> None:
        """Notes a batch that has been read."""
        self._failures = 0
        self.statistics = found.statistics
        self.read_upto = found.files or self.read_upto or found.began

    def next_delay_s(self) -> float:
        """The delay before a failed reading begins anew: it doubles with each failure since the last batch."""
        self._failures += 1
        return float(min(RESTART_S * 2 ** (self._failures - 1), RESTART_MAX_S))

    def replace_reader(self, reader: FeedReader) -> None:
        """Goes on with another reader."""
        self.reader, self.statistics, self._losses = reader, ReaderStatistics(), 0

    def serves(self, feed: Feed | None) -> bool:
        """Whether the reading serves a feed, whatever its columns are by now."""
        return feed is not None and replace(feed, columns=()) == replace(self.feed, columns=())
