"""Ingests the feeds of an agent: each event goes to each operator once, however many jobs it serves, and operators seal
their runs in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import polars as pl

from agent.parsing import Parsed
from agent.runtime.durable.feed_memory import FeedMemory, FeedNeeds
from agent.runtime.durable.journal import NO_DISK, SealedDisk, SealedJournal
from agent.runtime.durable.records import Place
from agent.runtime.durable.restoring import InheritedPast
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.nested_states import NestedState
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import ROWS_PER_BATCH, EventBatches
from agent.runtime.ingest.event_clock import EventClock
from agent.runtime.ingest.feed import ColumnNames, Feed, FeedDemand, FeedKey, FeedUrgency, OperatorKey, least_look_s
from agent.runtime.ingest.in_time.feed_block import BlockFrame, FeedBlock, catch_up
from agent.runtime.ingest.in_time.hand_ins import HandIns, hand_in, limit_of
from agent.runtime.ingest.in_time.waiting_events import WaitingEvents
from agent.runtime.ingest.operator import Operator, PaneConsumer
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.ingest.seal_timing import SealTiming
from agent.runtime.ingest.watermark import Watermark, believed, come_to
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.incomplete import HEAL_RETENTION_MS
from agent.runtime.model.latency.critical_path import NOT_FOUND, BlockRead, found_at_end, found_in_block
from agent.runtime.model.meters import JobMeter
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run, closed_ms
from agent.runtime.model.schedule import ANY_TIME, Schedule
from agent.runtime.model.step_clock import StepClock
from agent.runtime.scheduling.deadline_queue import DeadlineQueue, PhaseWork, WorkPhase
from overlay import Id

ROWS_PER_RUN = 1 << 14
"""Rows past which a run is cut at the next pane boundary, so that no message holds a job's whole past."""
PANE_MAX_S = 60.0
"""Upper bound on the time for which work without a deadline may be put off: its pane, if that is shorter."""
BATCHES_MAX = 2
"""Number of batches from which on an operator does not wait for its turn to insert one."""
SEALED_ROWS = 10_000
"""Number of events that pay as much work as sealing a run may take."""


class FeedConsumer(Protocol):
    """Takes the blocks of feeds without an operator, for a job whose code gets the events first. `abandons`: it does
    not wait for events that are late."""

    @property
    def app_id(self) -> Id: ...
    @property
    def has_room(self) -> bool: ...
    @property
    def abandons(self) -> bool: ...
    def hand_in(self) -> None: ...
    def began(self, key: FeedKey, reading: object) -> None: ...
    def insert(self, key: FeedKey, parsed: Parsed, place: Place | None) -> None: ...
    def caught_up(self, key: FeedKey, wall_ms: int) -> None: ...
    def end_of_feed(self, key: FeedKey) -> None: ...
    def lacks(self, key: FeedKey, some: bool) -> None: ...


class ReadWindow(Protocol):
    """A window of another job. `time_ms`: the time of its rows; `closed_ms`: that up to which the job is out."""

    @property
    def time_ms(self) -> int: ...
    @property
    def closed_ms(self) -> int: ...
    def state_for(self, operator: Operator) -> NestedState | None:
        """The state of its rows, for an operator that needs no more."""
        ...

    def to_events(self) -> Parsed:
        """Its rows as events."""
        ...


class FeedListener(Protocol):
    """Follows the feeds on behalf of jobs that wait for their feeds to open."""

    def before_feeds(self) -> None:
        """The feeds to read are about to be listed: jobs that have become ready add theirs."""
        ...

    def feed_opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A feed is open; its events follow."""
        ...

    def feed_read(self, now: float) -> None:
        """All operators have taken the feed's block."""
        ...


class OperatorPool:
    """The ingest service: all operators of one agent, whose stores spill to `area`, and whose runs are on `disk` before
    they leave. `containment` ends the jobs of an operator that raises, or takes too long.

    A consumer begins with an operator of its own, and switches to an older one with `try_share`.
    """

    name = "ingest"

    def __init__(
        self,
        containment: JobContainment,
        area: SpillArea | None = None,
        clock: EventClock | None = None,
        heal_ms: int = HEAL_RETENTION_MS,
        disk: SealedDisk = NO_DISK,
        time: StepClock | None = None,
    ) -> None:
        self.area = area
        self.journal = SealedJournal(disk, containment)
        self.run_rows = ROWS_PER_RUN
        self.heal_ms = heal_ms
        """Time for which sealed panes are kept that were published without somebody, for windows to be corrected."""
        self.clock = clock or EventClock()
        self.kept_places: dict[FeedKey, object] = {}
        """The places from which feeds go on that were read before this start, as the shell knows them."""
        self.now = 0.0
        """The time of the last call that a feed has made."""
        self.time = time or StepClock()
        self.meter = JobMeter()
        self._containment = containment
        self.demand = FeedDemand()
        self.memory = FeedMemory()
        self.listener: FeedListener | None = None
        self.inherited: dict[Id, InheritedPast] = {}
        """The runs of agents in whose place this one reads other jobs' results on."""
        self._batches = EventBatches()
        self._alike: dict[OperatorKey, list[Operator]] = {}
        self._next: dict[PaneConsumer, Operator] = {}
        """The operators to which consumers are to switch."""
        self._unshared = itertools.count()
        self._reading: dict[FeedKey, list[Operator]] = {}
        self._feed_consumers: dict[FeedKey, list[FeedConsumer]] = {}
        self._newest: dict[FeedKey, int] = {}
        self._incomplete: set[FeedKey] = set()
        """Feeds some of whose files cannot be read."""
        self._ends: dict[FeedKey, int] = {}
        """The last time (epoch ms) at which each feed was at its end."""
        self._idle: dict[FeedKey, Schedule[Operator]] = {}
        """The operators of each feed by the time up to which they need not hear of that."""
        self._panes_due: dict[FeedKey, Schedule[Operator]] = {}
        """The operators of each feed by the time at which their next panes are due."""
        self._blocked: dict[Operator, None] = {}
        """The operators that may have something to seal, whatever their feeds bring."""
        self._work: DeadlineQueue[Operator] = DeadlineQueue()
        """The operators that have events to insert in turns, or something to seal; consumers have its constraints."""
        self._hand_ins = HandIns(self.time, self._work.times)
        self.waiting = WaitingEvents(self.time, self._hand_ins, self.slice_s, self._evaluating)
        self._ahead = 0
        self.found = NOT_FOUND
        """The look that has found what is being inserted."""

    def statistics(self) -> Mapping[str, int]:
        """`abandoned`: events that could not be inserted in time. `ahead`: those that were ahead of the wall clock by
        more than `max_skew`. `frames`: those of sealed panes that are kept for masters."""
        frames = sum(consumer.log.frames for operator in self for consumer in operator.consumers)
        return {
            "abandoned": self.waiting.abandoned,
            "ahead": self._ahead,
            "clock_steps": self.clock.steps,
            "frames": frames,
        }

    def __iter__(self) -> Iterator[Operator]:
        return (operator for operators in self._alike.values() for operator in operators)

    # Consumers.

    def attach(
        self,
        app_id: Id,
        function: JobFunction,
        names: ColumnNames,
        on_sealed: Callable[[PaneConsumer, Run], None],
        *,
        grace_ms: int,
        bounded: bool,
        watermark: Watermark | None = None,
    ) -> PaneConsumer:
        """A consumer of the feeds' events from now on. `watermark`: the time they have reached; None: not known."""
        operator = self._new_operator(function, names, watermark, grace_ms, bounded=bounded)
        consumer = PaneConsumer(app_id, function, operator, on_sealed)
        if (within := function.plan.within) is not None and not bounded:
            self._work.constrain(consumer, within.limit_ms / 1000)
        if function.grace.corrects:
            consumer.log = PaneLog(self.heal_ms, function.window_ms)
        return consumer

    def _new_operator(
        self, function: JobFunction, names: ColumnNames, watermark: Watermark | None, grace_ms: int, *, bounded: bool
    ) -> Operator:
        """An operator that gets the feeds' events from now on."""
        key = OperatorKey(
            function.operator,
            tuple(sorted(names.items())),
            grace_ms,
            limit_of(function, bounded=bounded),
            None if function.is_shareable else next(self._unshared),
        )
        operator = Operator(
            function,
            names,
            Watermark(names, self._ends) if watermark is None else watermark.copy(names),
            self.area,
            self._batches,
            key=key,
            bounded=bounded,
            read_before=max((self._newest.get(key, FIRST_PANE) for key in names), default=FIRST_PANE),
            run_rows=self.run_rows,
            timing=SealTiming(self.time, self._containment.clock),
            on_sealing=self._begin_sealing,
            on_idle=self._note_idle,
            on_batch=self._insert_batch,
            on_inserted=self.waiting.inserted,
        )
        operator.is_partial = not self._incomplete.isdisjoint(names)
        self._alike.setdefault(key, []).append(operator)
        self._hand_ins.add(operator)
        for feed in names:
            self._reading.setdefault(feed, []).append(operator)
            self._idle.setdefault(feed, Schedule()).set(operator, ANY_TIME)
            self._panes_due.setdefault(feed, Schedule())
        return operator

    def read_also(self, consumer: PaneConsumer, names: ColumnNames, after: int) -> None:
        """Has a consumer read these feeds, of which some are new, in its panes after `after`: no event has come for
        those."""
        before = consumer.operator
        operator = self._new_operator(
            consumer.function, names, before.watermark, before.key.grace_ms, bounded=before.is_bounded
        )
        operator.begin_beside(before, after)
        operator.is_reading = before.is_reading
        consumer.stops_after = after
        self._next[consumer] = operator

    def switch_if_due(self, consumer: PaneConsumer) -> None:
        """Switches a consumer to the operator with its further feeds, if it has sealed the panes before."""
        operator = self._next.get(consumer)
        if operator is None or consumer.frontier < consumer.stops_after:
            return
        del self._next[consumer]
        before = consumer.operator
        before.finish_sealing()
        operator.is_ending = before.is_ending
        consumer.switch_operator(operator)
        if not before.consumers:
            consumer.counts.owe(Counts(events=before.amendments.drop()))
        operator.trim()
        operator.start_sealing()
        self._drop_idle(before)
        self.try_share(consumer)

    def next_operator(self, consumer: PaneConsumer) -> Operator | None:
        """The operator to which a consumer switches soon, if there is one: that gets all events already."""
        return self._next.get(consumer)

    def stay(self, consumer: PaneConsumer) -> None:
        """Leaves a consumer where it is: its further feeds bring it nothing any more."""
        consumer.stops_after = END
        if (operator := self._next.pop(consumer, None)) is not None:
            self._drop_idle(operator)

    def end_feed(self, key: FeedKey, wall_ms: int) -> None:
        """Reads a feed no more for anybody: panes that are open now are partial."""
        for operator in tuple(self._reading.get(key, ())):
            self.waiting.insert_all(operator)
        for operator in self._reading.pop(key, ()):
            self._alike[operator.key].remove(operator)
            if not self._alike[operator.key]:
                del self._alike[operator.key]
            operator.drop_feed(key, wall_ms)
            self._blocked[operator] = None
            self._alike.setdefault(operator.key, []).append(operator)
            operator.is_partial = not self._incomplete.isdisjoint(operator.names)
        for found in (self._newest, self._idle, self._panes_due, self._ends):
            found.pop(key, None)
        self._incomplete.discard(key)

    def _note_idle(self, operator: Operator) -> None:
        """Notes when an operator has to hear again that its feeds are at their ends, and when that is worth a look."""
        pane_due = operator.next_due_ms
        for key in operator.names:
            if (idle := self._idle.get(key)) is not None:
                idle.set(operator, ANY_TIME if operator.idle_until_ms == FIRST_PANE else operator.idle_until_ms)
                self._panes_due[key].set(operator, ANY_TIME if pane_due is None else pane_due)
        if operator.is_blocked:
            self._blocked[operator] = None
        else:
            self._blocked.pop(operator, None)

    def _begin_sealing(self, operator: Operator) -> None:
        self._add_work(operator, WorkPhase.SEAL)

    def _insert_batch(self, operator: Operator) -> None:
        """Has an operator insert a batch of what waits: at once, or where results have to be out in time in its turn,
        unless as much again has come meanwhile."""
        if not self._work.is_constrained:
            operator.insert_waiting()
        elif operator.waiting_rows < BATCHES_MAX * ROWS_PER_BATCH:
            self._add_work(operator, WorkPhase.INSERT)
        else:
            operator.insert_batch()

    def _add_work(self, operator: Operator, phase: WorkPhase) -> None:
        """Puts work where it comes by the deadline of its window."""
        deadline, pane_s = self._urgency(operator, is_sealing=phase is WorkPhase.SEAL)
        self._work.add(operator, phase, self.time.now, pane_s, deadline)

    def _urgency(self, operator: Operator, *, is_sealing: bool) -> FeedUrgency:
        """The urgency of the pane that is being sealed, or of the one after it: that of its window."""
        limits = [within.limit_ms for one in operator.consumers if (within := one.function.plan.within) is not None]
        pane_ms, is_timed = operator.pane_ms, limits and operator.closed not in (FIRST_PANE, END)
        end_ms = closed_ms(operator.closed, pane_ms) + 1 + (0 if is_sealing else pane_ms or 0)
        deadline = self.deadline(end_ms + min(limits) if is_timed else None)
        return FeedUrgency(deadline, PANE_MAX_S if pane_ms is None else min(PANE_MAX_S, pane_ms / 1000))

    def urgency(self, key: FeedKey) -> FeedUrgency:
        """The urgency of reading a feed, and of inserting its events: that of the most urgent of its operators."""
        found = [self._urgency(operator, is_sealing=False) for operator in self._reading.get(key, ())]
        deadlines = [one.deadline for one in found if one.deadline is not None]
        return FeedUrgency(min(deadlines, default=None), min((one.pane_s for one in found), default=PANE_MAX_S))

    def deadline(self, time_ms: int | None) -> float | None:
        """A time (epoch ms), if there is one, as one of the clock of steps (s)."""
        return None if time_ms is None else self.time.now + (time_ms - self.time.wall_ms) / 1000

    def try_share(self, consumer: PaneConsumer) -> None:
        """Switches a consumer to an older operator, if one can serve it."""
        own = consumer.operator
        for operator in self._alike[own.key]:
            if operator is own:
                return
            if operator.can_serve(consumer):
                consumer.switch_operator(operator)
                self._drop_idle(own)
                return

    def detach(self, consumer: PaneConsumer) -> None:
        """Stops serving a consumer."""
        self._work.constrain(consumer, None)
        consumer.close()
        self._drop_idle(consumer.operator)
        self.stay(consumer)

    def _drop_idle(self, operator: Operator) -> None:
        alike = self._alike.get(operator.key, [])
        if operator.consumers or operator not in alike:
            return
        alike.remove(operator)
        if not alike:
            del self._alike[operator.key]
        self._work.drop(operator)
        self._hand_ins.drop(operator)
        self.waiting.drop(operator)
        self._blocked.pop(operator, None)
        for key in operator.names:
            self._reading[key].remove(operator)
            self._idle[key].forget(operator)
            self._panes_due[key].forget(operator)
            if not self._reading[key]:
                del self._reading[key], self._idle[key], self._panes_due[key]
                self._ends.pop(key, None)
                if key[1] is not None:  # nobody else will read this feed
                    self._newest.pop(key, None)
                    self._incomplete.discard(key)

    def add_feed_consumer(self, consumer: FeedConsumer, keys: Collection[FeedKey]) -> None:
        """Gives the blocks of these feeds to a feed consumer as well from now on."""
        for key in keys:
            self._feed_consumers.setdefault(key, []).append(consumer)

    def remove_feed_consumer(self, consumer: FeedConsumer) -> None:
        """Stops giving blocks to a feed consumer."""
        kept = {key: [one for one in found if one is not consumer] for key, found in self._feed_consumers.items()}
        self._feed_consumers = {key: found for key, found in kept.items() if found}

    def end_feeds_of(self, consumer: FeedConsumer, keys: Collection[FeedKey]) -> None:
        """Gives the blocks of these feeds no more to a feed consumer."""
        kept = [key for key, found in self._feed_consumers.items() if consumer in found and key not in keys]
        self.remove_feed_consumer(consumer)
        self.add_feed_consumer(consumer, kept)

    # Feeds.

    def feeds(self) -> tuple[Feed, ...]:
        """The feeds to read from files for all jobs together, with the columns they need; the same object until
        something changes.
        """
        if self.listener is not None:
            self.listener.before_feeds()
        return self.demand.to_read()

    def insert(
        self, key: FeedKey, parsed: Parsed, now: float, wall_ms: int, place: Place | None = None,
        read: BlockRead | None = None,
    ) -> None:  # fmt: skip
        """Gives a feed's parsed block to every job on it. Both clocks are read together. `place`: the one after the
        block, where the feed can be read again. `read`: when it was read; None: just now."""
        wall_ms = self.observe(now, wall_ms)
        self.found = found_in_block(read or BlockRead(now, 0.0), now, wall_ms)
        self._opened(key, now, wall_ms)
        if operators := self._reading_now(key):
            self._insert(operators, key, parsed, now, place)
        self._give(key, parsed, now, place)
        self._read(now)

    def _give(self, key: FeedKey, parsed: Parsed, now: float, place: Place | None) -> None:
        """Gives a block to those that take it without an operator."""
        rows = sum(frame.height for frame in parsed.frames)
        for consumer in self._consumers_of(key):
            with self._containment.evaluating((consumer.app_id,), rows, now):
                consumer.insert(key, parsed, place)

    def insert_window(self, key: FeedKey, window: ReadWindow, now: float, wall_ms: int) -> int:
        """Gives the rows of another job's window to its reader, or the state of them where that will do; returns the
        number of rows of which nobody has needed more."""
        wall_ms = self.observe(now, wall_ms)
        self._opened(key, now, wall_ms)
        operators, taken = self._reading_now(key), dict[Operator, NestedState]()
        if not self._consumers_of(key) and window.time_ms <= self.clock.limit_ms:
            for operator in operators:
                with self._evaluating(operator, 0, now):
                    if (nested := window.state_for(operator)) is not None:
                        taken[operator] = nested
        others = [operator for operator in operators if operator not in taken]
        for operator, nested in taken.items():
            self._newest[key] = max(window.time_ms, self._newest.get(key, FIRST_PANE))
            with self._evaluating(operator, nested.rows, now):
                operator.take_states(key, window.time_ms, nested)
                operator.saw(key, 0, come_to(window.closed_ms, window.time_ms, self.clock.limit_ms))
        if others or not taken:
            parsed = window.to_events()
            if others:
                self._insert(others, key, parsed, now, None)
            self._give(key, parsed, now, None)
        self._read(now)
        return max((nested.rows for nested in taken.values()), default=0) if not others else 0

    def began(self, key: FeedKey, reading: object) -> None:
        """Notes the place at which the reading of a feed has begun, before any of its blocks."""
        for consumer in self._consumers_of(key):
            consumer.began(key, reading)

    def open_feed(self, key: FeedKey, now: float, from_ms: int) -> None:
        """Opens a feed whose events are those from a time of the past (epoch ms) on."""
        self._opened(key, now, from_ms)

    @contextmanager
    def _evaluating(self, operator: Operator, rows: int, now: float) -> Iterator[None]:
        """Runs a block in which an operator computes, for all jobs that it serves."""
        with self._containment.evaluating([consumer.app_id for consumer in operator.consumers], rows, now):
            try:
                yield
            except BaseException:
                operator.give_up()
                raise

    def _opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        self.now = now
        self.time.tell(now, self.clock.wall_at(now))
        if self.listener is not None:
            self.listener.feed_opened(key, now, wall_ms)

    def _read(self, now: float) -> None:
        self._batches.clear()
        if self.listener is not None:
            self.listener.feed_read(now)

    def observe(self, now: float, wall_ms: int) -> int:
        """Notes a reading of both clocks; returns the wall clock's, without a step that is still doubted."""
        steady_ms = self.clock.observe(now, wall_ms)
        self.time.tell(now, self.clock.wall_at(now))
        stepped_upto = self.clock.take_step()
        if stepped_upto is not None:
            for operator in self:
                operator.lost_in_step(stepped_upto)
        return steady_ms

    def _insert(self, operators: list[Operator], key: FeedKey, parsed: Parsed, now: float, place: Place | None) -> None:
        block = self._block(key, parsed, place, is_bounded=operators[0].is_bounded)
        in_turn = list[Operator]()
        for operator in operators:
            if self.waiting.add(operator, block):
                in_turn.append(operator)
            else:
                with self._evaluating(operator, block.rows, now):
                    block.insert(operator)
        if in_turn:
            self.waiting.share_out(in_turn)
        for operator in in_turn:
            if self.waiting.waits(operator):
                self._add_work(operator, WorkPhase.INSERT)

    def _block(self, key: FeedKey, parsed: Parsed, place: Place | None, *, is_bounded: bool) -> FeedBlock:
        """The events of a parsed block that are believed, and the time that they have come to."""
        malformed, newest, reached = parsed.malformed, None, None
        latest_ms = None if is_bounded else self.clock.latest_ms
        passed_over = None if parsed.passed_over is None else parsed.passed_over.times
        frames = []
        for frame in parsed.all_frames:
            events, last = believed(frame, latest_ms)
            malformed += frame.height - events.height
            if last is None:
                continue
            frames.append(BlockFrame(events, last, frame is passed_over))
            newest = last if newest is None else max(last, newest)
            credible = last if latest_ms is None else self._credible(events, last)
            if credible is not None:
                reached = credible if reached is None else max(credible, reached)
        if parsed.abandoned is not None:
            newest = reached = parsed.abandoned.newest_ms
        if newest is not None:
            self._newest[key] = max(newest, self._newest.get(key, FIRST_PANE))
        found = self.found._replace(reached_ms=come_to(parsed.watermark_ms, reached, self.clock.limit_ms))
        return FeedBlock(key, tuple(frames), malformed, parsed.abandoned, place, found)

    def _credible(self, events: pl.DataFrame, newest: int) -> int | None:
        """The time of the newest event that may move a watermark. Others wait in their panes for their time."""
        if newest <= self.clock.limit_ms:
            return newest
        on_time, credible = believed(events, self.clock.limit_ms)
        self._ahead += events.height - on_time.height
        return credible

    def caught_up(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """Notes that a feed has been read to its end for now, also one that was just opened there.

        `wall_ms`: when it was read, which may be a while ago.
        """
        wall_ms = self.clock.not_later(now, wall_ms)
        self._opened(key, now, wall_ms)
        self._ends[key] = wall_ms
        idle = self._idle.get(key)
        self.found = found = found_at_end(wall_ms, now, self.clock.wall_at(now))
        for operator in idle.due(wall_ms) if idle is not None else ():
            if operator.is_reading:
                with self._evaluating(operator, 0, now):
                    self.waiting.after(operator, partial(catch_up, operator, key, wall_ms, found))
        for consumer in self._consumers_of(key):
            with self._containment.evaluating((consumer.app_id,), 0, now):
                consumer.caught_up(key, wall_ms)
        self._read(now)

    def next_due(self, key: FeedKey, after_ms: int) -> float | None:
        """The first time (epoch ms) after one at which a pane is due: a look that finds the feed at its end then lets
        the pane be closed. None: no such time is known. O(panes that have become due · log operators)."""
        panes_due = self._panes_due.get(key)
        return None if panes_due is None else panes_due.next_after(after_ms)

    def look_s(self, key: FeedKey) -> float | None:
        """The interval at which it does to look at a feed's logs (s), if fewer looks do than agents make; else None."""
        operators = () if self._consumers_of(key) else self._reading.get(key, ())
        return least_look_s(one.function.plan for operator in operators for one in operator.consumers)

    def end_of_feed(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """Notes that a bounded feed has been read to its end."""
        self._opened(key, now, wall_ms)
        for operator in self._reading_now(key):
            with self._evaluating(operator, 0, now):
                operator.end_of_feed(key)
        for consumer in self._consumers_of(key):
            with self._containment.evaluating((consumer.app_id,), 0, now):
                consumer.end_of_feed(key)
        self._read(now)

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Notes whether some of a feed's files are unreadable: panes sealed meanwhile are partial."""
        if not some and key not in self._incomplete:
            return
        (self._incomplete.add if some else self._incomplete.discard)(key)
        for operator in self._reading.get(key, ()):
            operator.is_partial = not self._incomplete.isdisjoint(operator.names)
        for consumer in self._consumers_of(key):
            consumer.lacks(key, some)

    def has_room(self, key: FeedKey) -> bool:
        """Whether a feed may be read on now: all that get its events first have room for them."""
        return self.waiting.has_room and all(consumer.has_room for consumer in self._feed_consumers.get(key, ()))

    def kept_place(self, key: FeedKey) -> object:
        """The place from which a feed goes on that was read before this start, if it was."""
        return self.kept_places.get(key)

    def lost(self, key: FeedKey, upto_ms: int) -> None:
        """Notes that some events of a feed up to a time (epoch ms) are gone for good: panes up to then are partial."""
        for operator in self._reading.get(key, ()):
            operator.lost_upto = max(operator.lost_upto, upto_ms)
            for consumer in operator.consumers:
                consumer.is_resumed = True

    def needs(self, key: FeedKey) -> FeedNeeds | None:
        """The need of a feed's jobs after a restart."""
        return self.memory.needs(key)

    def _reading_now(self, key: FeedKey) -> list[Operator]:
        return [operator for operator in self._reading.get(key, ()) if operator.is_reading]

    def _consumers_of(self, key: FeedKey) -> tuple[FeedConsumer, ...]:
        return tuple(self._feed_consumers.get(key, ()))

    # Sealing.

    def start_sealing(self, now: float) -> None:
        """Begins to seal panes that had to wait because logs were full."""
        for operator in list(self._blocked):
            with self._evaluating(operator, 0, now):
                operator.start_sealing()

    def next_hand_in(self) -> float | None:
        """The time (s) at which `hand_in` wants to be called. O(operators that hand in)."""
        return self._hand_ins.next_at()

    def hand_in(self, now: float) -> None:
        """Closes the panes of windows that are to be out, without what is not inserted by now."""
        self.waiting.abandon_late()
        for consumer in {one: None for found in self._feed_consumers.values() for one in found}:
            with self._containment.evaluating((consumer.app_id,), 0, now):
                consumer.hand_in()
        for operator, upto in self._hand_ins.due():
            with self._evaluating(operator, 0, now):
                hand_in(operator, upto)

    def abandoned_ms(self, key: FeedKey) -> int | None:
        """The instant up to which events of a feed are late for all its jobs, none of which waits for them."""
        waits = any(not consumer.abandons for consumer in self._consumers_of(key))
        return None if waits else self._hand_ins.abandoned_ms(self._reading.get(key, ()))

    def slice_s(self) -> float:
        """The most that a slice of work may take (s)."""
        return self._work.slice_s

    def turn(self) -> PhaseWork[Operator] | None:
        """The work whose turn it is, to insert events or to seal a run, if an operator can do any."""
        found, inserted, settled = None, list[Operator](), list[Operator]()
        for work in self._work.in_order():
            if work.phase is WorkPhase.INSERT:
                if work.job.has_batch or self.waiting.has_work:
                    found = work
                    break
                inserted.append(work.job)
            elif not work.job.is_sealing:
                settled.append(work.job)
            elif work.job.can_seal:
                found = work
                break
        for operator in inserted:
            self._work.remove(operator, WorkPhase.INSERT)
        for operator in settled:
            self._work.remove(operator, WorkPhase.SEAL)
            self._blocked[operator] = None
        return found

    def work_next(self, now: float) -> None:
        """Inserts a slice of events, or seals one run; the next turn is another operator's."""
        work = self.turn()
        assert work is not None
        begun_s, operator = self.time.now, work.job
        self._work.remove(operator, work.phase)
        if work.phase is WorkPhase.INSERT:
            if self.waiting.waits(operator) or not operator.has_batch:
                self.waiting.step(now)
            else:
                with self._evaluating(operator, 0, now):
                    operator.insert_batch()
            if operator.consumers:  # its jobs have not ended
                self._work.times.measured(operator, work.phase, self.time.now - begun_s)
                if operator.has_batch or self.waiting.waits(operator):
                    self._add_work(operator, WorkPhase.INSERT)
            return
        with self._evaluating(operator, SEALED_ROWS, now):  # which drops an operator whose jobs end
            operator.seal_next()
            self._work.times.measured(operator, work.phase, self.time.now - begun_s)
            if operator.is_sealing:
                self._begin_sealing(operator)
            else:
                operator.start_sealing()
                self._share_alike(operator.key)

    def _share_alike(self, key: OperatorKey) -> None:
        for operator in self._alike[key][1:]:
            for consumer in tuple(operator.consumers):
                self.try_share(consumer)
