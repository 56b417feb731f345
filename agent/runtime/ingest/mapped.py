"""Computes a job whose code maps events: its program gets them first, and operators get what the program returns.

Programs take their time, so everything that feeds bring queues behind the events before it: time does not run ahead of
events that are still being mapped. A program that does not keep up loses events; they are counted, and the panes that
lack them are marked partial. Where windows are to be out in time, `CodeTurns` says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from agent.parsing import NO_WATERMARK_MS, TIME, Parsed, parsed_rows
from agent.runtime.durable.feed_memory import Resumption
from agent.runtime.durable.records import Place
from agent.runtime.durable.restoring import InheritedPast
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Versions
from agent.runtime.ingest.feed import ColumnNames, Feed, FeedKey
from agent.runtime.ingest.in_time.code_turns import CodeTurns
from agent.runtime.ingest.in_time.feed_block import catch_up, count_undecoded
from agent.runtime.ingest.operator import Operator, PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pipeline import OnSealed, Pipeline, columns_of
from agent.runtime.ingest.watermark import believed, come_to
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.latency.critical_path import Found
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.scheduling.lots import Lot

WAITING_ROWS_MAX = 200_000
"""Upper bound on events that wait to be mapped; further ones are dropped."""
BATCH_ROWS_MAX = 10_000
"""Upper bound on events in one call of the program."""

Send = Callable[[bytes, int, list[int], dict[str, list[Any]]], bool]
"""Sends a batch (number, times, columns) to the code of this digest; returns whether there is such a program."""

_Made = tuple[list[int], dict[str, list[Any]]]
NOT_ASKED: _Made = ([], {})
"""Stands for what a code has made of events that it was not given."""


@dataclass(slots=True)
class _Batch:
    """Events on their way through the programs, of which some may wait. `fields`: the code's names of their columns.
    `times`: those of the events that these have got. `made`: the rows each code has returned, with the places of the
    events that they come from; None: none yet. `newest`: the time of the newest event that is believed. `place`: the
    one after them. `due`: the time by which they are to be mapped; None: whenever. `late`: the times of those that
    nobody gets."""

    number: int
    key: FeedKey
    found: Found
    events: pl.DataFrame
    waiting: int
    fields: dict[str, str]
    newest: int | None
    watermark_ms: int | None
    latest_ms: int
    place: Place | None
    due: float | None
    times: list[int] = field(default_factory=list)
    made: dict[bytes, _Made | None] = field(default_factory=dict)
    late: list[pl.Series] = field(default_factory=list)

    def take(self, first: int, count: int) -> pl.DataFrame:
        """Takes out some of the events, which wait no more."""
        taken = self.events.slice(first, count)
        self.waiting -= count
        if not self.waiting:  # it may stay for as long as the code is stuck
            self.events = self.events.clear()
        return taken


class _Note(NamedTuple):
    """Something that operators are told between events, with the place after it."""

    key: FeedKey
    action: Callable[[Operator], None]
    place: Place | None


class MappedPipeline(Pipeline):
    """A pipeline with a queue of events before it; `send` gives events to the job's code."""

    has_room = True

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
        on_sealed: OnSealed,
        term: JobTerm,
        resumption: Resumption | None,
        inherited: InheritedPast | None,
        send: Send,
    ) -> None:
        self.unmapped = 0
        """Events that were dropped because the program did not keep up."""
        self._send = send
        self._queue: deque[_Batch | _Note] = deque()
        self._given_up: set[tuple[bytes, int]] = set()
        """The batches that each code has got and not answered in time: what it answers is not wanted any more."""
        self._rows = 0
        self._numbers = 0
        self._lost_upto = FIRST_PANE
        self._turns = CodeTurns(ingest.time, ingest.waiting.now, ingest.slice_s)
        super().__init__(versions, job, feeds, begins, wall_ms, ingest, on_sealed, term, resumption, inherited)

    def so_far(self) -> None:
        """None: some events are with the code."""

    def _want_columns(self, function: JobFunction) -> None:
        """The code decides what is read, not the query."""

    def _drop_columns(self) -> None:
        """The code decides what is read, not the query."""

    def _names(self, function: JobFunction) -> ColumnNames:  # noqa: ARG002
        """No columns: its operators get rows that are made for them."""
        return dict.fromkeys(self.feeds, ())

    def _attach(self, function: JobFunction) -> PaneConsumer:
        consumer = super()._attach(function)
        consumer.operator.is_reading, consumer.operator.is_mapped = False, True
        consumer.operator.lost_upto = self._lost_upto
        return consumer

    def _begin_to_read(self) -> None:
        self._ingest.add_feed_consumer(self, self.feeds)

    def read_also(self, feeds: Iterable[Feed], wall_ms: int) -> None:
        feeds = tuple(feeds)
        super().read_also(feeds, wall_ms)
        self._ingest.add_feed_consumer(self, [feed.key for feed in feeds])

    def stop_reading(self, streams: Container[str], wall_ms: int) -> None:
        self._ingest.end_feeds_of(self, [key for key in self.feeds if key[0] in streams])
        super().stop_reading(streams, wall_ms)

    def _stop_reading(self) -> None:
        self._ingest.remove_feed_consumer(self)
        super()._stop_reading()

    @property
    def prepared_after(self) -> int | None:
        """As `Pipeline` says, and after the queued events that were not given to the version's code: it lacks them."""
        after = super().prepared_after
        if after is None or self._proposed is None:
            return after
        code = self._proposed.function.code
        lacked = (one.newest for one in self._queue if isinstance(one, _Batch) and _lacks(one, code))
        return max(after, after, *(newest for newest in lacked if newest is not None))

    # Feeds.

    def began(self, key: FeedKey, reading: object) -> None:
        """Does nothing: its runs are not on disk."""

    @property
    def abandons(self) -> bool:
        """Whether the job does not wait for events that are late."""
        return all(operator.key.limit_ms is not None for operator in self.operators())

    def insert(self, key: FeedKey, parsed: Parsed, place: Place | None) -> None:
        """Sends a parsed block to be mapped, in calls of bounded size."""
        rows = self._turns.call_rows(BATCH_ROWS_MAX) if self.abandons else BATCH_ROWS_MAX
        chunks = [chunk for frame in parsed.frames for chunk in frame.iter_slices(rows)]
        watermark_ms = NO_WATERMARK_MS if chunks else parsed.watermark_ms
        limit_ms, inside = self._ingest.clock.limit_ms, None if place is None else replace(place, is_inside=True)
        after = inside if chunks else place
        undecoded = parsed.abandoned
        newest = None if undecoded is None else undecoded.newest_ms

        def begin(operator: Operator) -> None:
            operator.begin_block(after)
            if undecoded is not None:
                count_undecoded(operator, undecoded, place)
            operator.saw(key, parsed.malformed, come_to(watermark_ms, newest, limit_ms), after)

        self._later(key, begin, after)
        for number, chunk in enumerate(chunks, 1):
            is_last = number == len(chunks)
            self._map(key, chunk, parsed.watermark_ms if is_last else None, place if is_last else inside)

    def _map(self, key: FeedKey, chunk: pl.DataFrame, watermark_ms: int | None, place: Place | None) -> None:
        latest_ms, limit_ms = self._ingest.clock.latest_ms, self._ingest.clock.limit_ms
        times = chunk[TIME]
        newest = times.filter(times <= latest_ms).max()
        newest = newest if isinstance(newest, int) else None
        fields = {column.name: column.field for column in self.feeds[key].columns}
        if any(name not in chunk.columns for name in fields):
            passed = latest_ms if newest is None else newest
            reached_ms = come_to(watermark_ms, passed, limit_ms)
            self._later(key, lambda operator: _pass_over(operator, key, passed, reached_ms, place), place)
            return
        self._numbers += 1
        found = self._ingest.found
        due = self._ingest.waiting.due(self.consumer.operator, [chunk], place)
        batch = _Batch(
            self._numbers, key, found, chunk, chunk.height, fields, newest, watermark_ms, latest_ms, place, due
        )
        is_full = self._rows + len(self._turns) + chunk.height > WAITING_ROWS_MAX
        may_abandon = self._ingest.waiting.may_abandon(self.consumer.operator, place)
        if is_full and not may_abandon:
            self._lose(batch)
            return
        self._queue.append(batch)
        if not may_abandon:
            self._ask(batch, 0, chunk.height)
        elif is_full or due is None:  # or all of them are late
            batch.late.append(batch.take(0, chunk.height)[TIME])
        else:
            self._turns.wait(batch, chunk.height, due)
            self._ask_in_turn()
        self._drain_queue()

    def _lose(self, batch: _Batch) -> None:
        """Drops events: the program does not keep up, and no more may wait."""
        times, key, place = batch.events[TIME].to_list(), batch.key, batch.place
        self.unmapped += len(times)
        self._lost_upto = max(self._lost_upto, *times)
        for operator in self._operators(key):
            operator.lost_upto = max(operator.lost_upto, self._lost_upto)
        self._later(key, lambda operator: operator.saw(key, 0, None, place), place)

    def _ask(self, batch: _Batch, first: int, count: int) -> None:
        """Gives events of a batch to the job's code, to that of each version."""
        events = batch.take(first, count)
        batch.times = events[TIME].to_list()
        columns = {name: events[column].to_list() for column, name in batch.fields.items()}
        for code in dict.fromkeys(function.code for function in self.functions()):
            if code is not None and self._send(code, batch.number, batch.times, columns):
                batch.made[code] = None
        self._rows += len(batch.times)

    # Turns, where windows are to be out in time.

    def _ask_in_turn(self) -> None:
        """Gives the code what it can do next, and nobody what cannot be done in time."""
        while (lot := self._turns.take()) is not None:
            batch = lot.source
            assert isinstance(batch, _Batch)
            self._ask(batch, lot.first, lot.events)
            if None in batch.made.values():
                self._turns.asked(batch.number, lot.events)
        self._leave_out(self._turns.abandoned())

    def _leave_out(self, lots: Iterable[Lot]) -> None:
        """Has events be late that nobody gets."""
        for lot in lots:
            batch = lot.source
            assert isinstance(batch, _Batch)
            batch.late.append(batch.take(lot.first, lot.events)[TIME])

    def hand_in(self) -> None:
        """Leaves out what cannot be mapped in time any more, and what was not."""
        self._turns.abandon_late()
        self._ask_in_turn()
        now = self._ingest.waiting.now()
        for batch in self._queue:
            if isinstance(batch, _Batch) and batch.due is not None and batch.due <= now:
                self._give_up(batch)
        self._drain_queue()

    def _give_up(self, batch: _Batch) -> None:
        """Waits no more for code that has a batch; if none has answered, its events are late."""
        for code in [code for code, made in batch.made.items() if made is None]:
            self._given_up.add((code, batch.number))
            del batch.made[code]
        if batch.times and not batch.made:
            batch.late.append(pl.Series(batch.times, dtype=pl.Int64))
            self._rows -= len(batch.times)
            batch.times = []

    def finish_early(self) -> None:
        self._leave_out(self._turns.withdraw())
        self._drain_queue()
        super().finish_early()

    def mapped(self, code: bytes, number: int, origins: list[int], columns: dict[str, list[Any]]) -> str | None:
        """Takes a program's answer; returns the fault in it, if any."""
        if (code, number) in self._given_up:
            self._given_up.remove((code, number))
            self._turns.answered(number)
            self._ask_in_turn()
            self._drain_queue()
            return None
        batch = next((one for one in self._queue if isinstance(one, _Batch) and one.number == number), None)
        if batch is None or batch.made.get(code, columns) is not None:
            return "answered for events that it was not asked about"
        if any(len(values) != len(origins) for values in columns.values()) or max(origins, default=-1) >= len(
            batch.times
        ):
            return "answered with rows of events that it was not asked about"
        batch.made[code] = (origins, columns)
        if None not in batch.made.values():
            self._turns.answered(number)
            self._ask_in_turn()
        self._drain_queue()
        return None

    def code_ended(self, code: bytes) -> None:
        for batch in self._queue:
            if isinstance(batch, _Batch) and batch.made.get(code, NOT_ASKED) is None:
                del batch.made[code]
        self._given_up = {one for one in self._given_up if one[0] != code}
        self._turns.ended()
        self._ask_in_turn()
        self._drain_queue()

    def _drain_queue(self) -> None:
        """Takes whole blocks from the head of the queue, up to the first that waits for a program: inside of a block no
        pane can be closed."""
        while entries := self._whole_block():
            for _ in range(entries):
                entry = self._queue.popleft()
                if isinstance(entry, _Batch):
                    self._rows -= len(entry.times)
                    self._count(entry)
                else:
                    for operator in self._operators(entry.key):
                        entry.action(operator)

    def _whole_block(self) -> int:
        """The number of entries of the first block; 0: it is not all there, or waits for a program."""
        for number, entry in enumerate(self._queue, 1):
            if isinstance(entry, _Batch) and (entry.waiting or None in entry.made.values()):
                return 0
            if entry.place is None or not entry.place.is_inside:
                return number
        return 0

    def _later(self, key: FeedKey, action: Callable[[Operator], None], place: Place | None = None) -> None:
        self._queue.append(_Note(key, action, place))
        self._drain_queue()

    def _count(self, batch: _Batch) -> None:
        for operator in self._operators(batch.key):
            operator.begin_block(batch.place)
            for times in batch.late:
                operator.abandon(operator.counted_by_pane(times))
            made = batch.made.get(operator.function.code or b"")
            if made is not None:
                self._insert(operator, batch, made)
            elif batch.newest is not None and batch.times:
                operator.lacks(batch.newest)
            if batch.newest is not None:
                operator.seen_ms = max(operator.seen_ms, batch.newest)
            reached_ms = come_to(batch.watermark_ms, batch.newest, self._ingest.clock.limit_ms)
            operator.timing.take(batch.found._replace(reached_ms=reached_ms))
            operator.saw(batch.key, 0, reached_ms, batch.place)

    def _insert(self, operator: Operator, batch: _Batch, made: _Made) -> None:
        origins, values = made
        times = [batch.times[origin] for origin in origins]
        for frame in parsed_rows(times, columns_of(operator.function), values).frames:
            events, newest = believed(frame, batch.latest_ms)
            if newest is not None:
                operator.insert(batch.key, events, frozenset(events.columns), newest)

    def _operators(self, key: FeedKey) -> list[Operator]:
        """The operators that take what a feed brings."""
        every = (
            one for consumer in self._attached() for one in (consumer.operator, self._ingest.next_operator(consumer))
        )
        return [operator for operator in dict.fromkeys(every) if operator is not None and key in operator.names]

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """Notes that a feed is at its end for now, after the queued events."""
        found = self._ingest.found
        self._later(key, lambda operator: catch_up(operator, key, wall_ms, found))

    def end_of_feed(self, key: FeedKey) -> None:
        """Notes that a bounded feed is over, after the queued events."""
        self._later(key, lambda operator: operator.end_of_feed(key))

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Does nothing: the operators get this call too."""


def _lacks(batch: _Batch, code: bytes | None) -> bool:
    """Whether this code does not get the events of a batch, which others have got."""
    return bool(batch.times) and code not in batch.made


def _pass_over(operator: Operator, key: FeedKey, newest: int, watermark_ms: int | None, place: Place | None) -> None:
    """Skips events that were read without the columns that the code wants: its operators begin after them."""
    operator.lacks(newest)
    operator.saw(key, 0, watermark_ms, place)
