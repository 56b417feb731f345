"""Computes once what the workers of equal functions need: events go into a store, and runs of panes come out of it.

Theory of operation. Jobs, and versions of one, that read the same feeds with the same filter, keys and aggregates, and
wait equally long for late events, share one operator. Each has a consumer on it, with panes of its own: those from its
first to its last. The operator closes a pane for all of them when its watermark says so, and hands each consumer the
runs it seals, cut to its panes. A consumer whose log is full gets them later: the store keeps a pane until all have it.

A consumer switches to another operator where that gives it the same: if in all panes that are still open for it, both
hold the same events. They do if no event that was read before the younger operator existed lies in one of those panes.

Where there is a disk, a run leaves its consumer once it is there (`agent.runtime.durable`). Sealing begins only between
blocks of feeds, so that the disk can be told where they were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from agent.runtime.durable.read_progress import ReadProgress
from agent.runtime.durable.records import Place
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.nested_states import NestedState
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import ROWS_PER_BATCH, WAITING_ROWS_MAX, EventBatch, EventBatches, rows_of
from agent.runtime.ingest.feed import ColumnNames, FeedKey, OperatorKey, renamed
from agent.runtime.ingest.pane_cursor import PaneCursor
from agent.runtime.ingest.panes.amendments import Amendments
from agent.runtime.ingest.panes.pane_store import PaneStore
from agent.runtime.ingest.seal_timing import SealTiming
from agent.runtime.ingest.watermark import Watermark, due_ms
from agent.runtime.model.panes import END, FIRST_PANE, SELF, Counted, Counts, Patch, Run, closed_ms
from agent.runtime.model.state_encoding import StateEncoding
from agent.runtime.scheduling.lots import CostClass


class PaneConsumer(PaneCursor["Operator"]):
    """Follows an operator."""


class Operator:
    """One store of open panes, and the consumers it seals them for.

    `read_before`: events up to this time (epoch ms) were read of its feeds before it existed. Its watermark closes
    panes or, where a job is `bounded`, the end of its feeds. A run of more than `run_rows` rows is cut at the next pane
    boundary. `on_sealing` is called when there is something to seal, `on_batch` when so many events wait that they are
    to be inserted, `on_inserted` with the number of events that were, and the time that took (s).
    """

    is_blocked, idle_until_ms = False, FIRST_PANE  # could not begin to seal; its feed may rest until then
    handed_in = FIRST_PANE  # the pane up to which it closes panes wherever the watermark is
    is_mapped = has_more = False  # gets its events from the job's code; some wait to be given to it

    def __init__(
        self,
        function: JobFunction,
        names: ColumnNames,
        watermark: Watermark,
        area: SpillArea | None,
        batches: EventBatches,
        *,
        key: OperatorKey,
        bounded: bool,
        read_before: int,
        run_rows: int,
        timing: SealTiming,
        on_sealing: Callable[[Operator], None],
        on_idle: Callable[[Operator], None],
        on_batch: Callable[[Operator], None],
        on_inserted: Callable[[Operator, int, float], None],
    ) -> None:
        self.function, self.pane_ms = function, function.pane_ms  # None: there is only one pane
        self.names, self.watermark = names, watermark
        self.key = key
        self.read_before, self._run_rows = read_before, run_rows
        self._on_sealing, self._on_idle, self.timing = on_sealing, on_idle, timing
        self._on_batch, self._on_inserted = on_batch, on_inserted
        self.consumers: list[PaneConsumer] = []
        self.is_reading = True
        """Whether it takes what its feeds bring; otherwise its job has to be ready first, or maps the events."""
        self.is_ending = False  # another version is being prepared
        self.unseen = set(names)  # feeds that have not yet shown that they yield the needed columns
        self.seen_ms = FIRST_PANE  # time of the newest event that it has taken
        self.lacked_ms = FIRST_PANE  # time of the newest event that it has missed because columns were lacking
        self.malformed = 0  # lines
        self.is_partial = False  # whether events are missing in the panes it seals now
        self.lost_upto = FIRST_PANE  # time (epoch ms) up to which some events were lost: panes before it are partial
        self.closed, self.is_bounded = FIRST_PANE, bounded  # `closed`: the last pane that takes no more events
        self._grace_ms, self._batches = key.grace_ms, batches
        self._store = PaneStore(function, area)
        self._unsealed: deque[tuple[int, Counts]] = deque()  # counts of the panes that are being sealed, in order
        self._waiting, self._waiting_rows = list[pl.DataFrame](), 0
        self._due: list[pl.DataFrame] = []  # events that came before the sealing under way began
        self._due_closed = FIRST_PANE  # the last closed pane when they came
        self.amendments = Amendments(function, area)
        self._progress = ReadProgress()
        self._incomplete: set[int] = set()  # panes that lack some events
        self._early: int | None = None
        self._sealing: Iterator[Run | None] | None = None
        self._sealing_upto = self._sealed_upto = self._emptied_upto = FIRST_PANE
        self._takers: list[PaneConsumer] = []
        self._is_owing = self._is_given_up = False  # whether a consumer that was blocked lacks closed panes

    # Consumers.

    def add(self, consumer: PaneConsumer) -> None:
        """Serves one more consumer with events from now on."""
        self.insert_waiting()
        self.consumers.append(consumer)

    def remove(self, consumer: PaneConsumer) -> None:
        """Stops serving a consumer."""
        self.consumers.remove(consumer)
        self._takers = [one for one in self._takers if one is not consumer]
        self.trim()

    def give_up(self) -> None:
        """Computes no more: something was raised in the midst of it, and its jobs end."""
        self._is_given_up, self.is_reading, self._sealing = True, False, None
        self._waiting, self._due = [], []

    def begin_beside(self, other: Operator, after: int) -> None:
        """Begins with the panes after one, of which no event has come so far."""
        self.closed = self._sealed_upto = self._emptied_upto = after
        self._progress.begin_beside(other._progress)

    def drop_feed(self, key: FeedKey, wall_ms: int) -> None:
        """Reads a feed no more: panes that are open now lack what it would have brought."""
        self.names = {feed: names for feed, names in self.names.items() if feed != key}
        self.key = self.key._replace(names=tuple(sorted(self.names.items())))
        self.watermark.drop(key)
        self.unseen.discard(key)
        self._progress.end_feed(key)
        self.lost_upto = max(self.lost_upto, wall_ms)

    def can_serve(self, consumer: PaneConsumer) -> bool:
        """Whether a consumer of an operator with an equal key gets the same runs from this one."""
        other = consumer.operator
        if any(one.is_sealing or one.has_more for one in (self, other)):
            return False
        if not all(one.is_begun for one in (consumer, *self.consumers)):
            return False
        closed = max(self.closed, self._sealable_upto(), other._sealable_upto())
        read_before = max(self.read_before, other.read_before)
        return closed <= consumer.closed and read_before <= closed_ms(consumer.closed, self.pane_ms)

    def trim(self) -> None:
        """Drops the panes that all consumers have, and closes those that none of them needs."""
        if self.consumers and self._sealing is None and not self._is_given_up:
            self.closed = max(self.closed, min(consumer.closed for consumer in self.consumers))
            self._empty(min(max(consumer.frontier, consumer.first_pane - 1) for consumer in self.consumers))

    def _empty(self, upto: int) -> None:
        if upto > self._emptied_upto:
            self.insert_waiting()
            self._emptied_upto = upto
            if self._store.counted:
                self._store.empty(upto=upto)
            self._incomplete = {pane for pane in self._incomplete if pane > upto}

    # Events.

    def begin_block(self, place: Place | None) -> None:
        """Notes which block of a feed the events that follow are of, by the place after it."""
        replayed = self._progress.replayed if place is None else place.replayed
        if replayed != self._progress.replayed:
            self.insert_waiting()
            self._progress.replayed = replayed

    def _end_block(self, key: FeedKey, malformed: int, place: Place | None) -> None:
        self.malformed += malformed
        for consumer in self.consumers if self._progress.replayed else ():
            consumer.counts.pass_over(malformed, self._progress.replayed)
        self._progress.end_block(key, self.malformed, place)

    def insert(self, key: FeedKey, events: pl.DataFrame, columns: frozenset[str], newest: int) -> None:
        """Takes an event frame of a feed; where `columns` or the function's tables are incomplete, all begin later."""
        names = self.names[key]
        if not self.function.is_ready or not all(name in columns for name, _ in names):
            self.lacks(newest)
            return
        self.see(key, newest)
        for part in self.function.read(key[0], renamed(events, names)):
            self.put(part)

    def see(self, key: FeedKey, newest: int) -> None:
        """Notes that a feed has brought events, the newest of this time (epoch ms)."""
        self.unseen.discard(key)
        self.seen_ms = max(self.seen_ms, newest)

    def lacks(self, newest: int) -> None:
        """Notes that the operator has missed events up to this time (epoch ms)."""
        self.lacked_ms = max(self.lacked_ms, newest)
        for consumer in self.consumers:
            consumer.lacks_upto(newest)

    def lacks_some_at(self, time_ms: int) -> None:
        """Notes that the pane of an instant lacks events: it will be partial."""
        self._incomplete.add(self.pane_of(time_ms))

    def lost_in_step(self, upto: int) -> None:
        """Notes that the wall clock has stepped: panes up to this time (epoch ms) close unread, if they are open."""
        if not self.is_bounded:
            self.lost_upto = max(self.lost_upto, upto)

    def put(self, events: pl.DataFrame) -> None:
        """Takes events as the function names them, and lets them wait for more: each call on columns has its price."""
        self._waiting.append(events)
        self._waiting_rows += events.height
        if self._sealing is not None and self._waiting_rows >= WAITING_ROWS_MAX:
            self.finish_sealing()
        if self.has_batch:
            self._on_batch(self)

    @property
    def has_batch(self) -> bool:
        """Whether so many events wait that they are to be inserted, and may be."""
        return self._sealing is None and self._waiting_rows >= ROWS_PER_BATCH

    def pane_of(self, time_ms: int) -> int:
        """The pane of an instant."""
        return 0 if self.pane_ms is None else time_ms // self.pane_ms * self.pane_ms

    def counted_by_pane(self, times: pl.Series) -> dict[int, int]:
        """The number of these instants in each pane."""
        panes = times * 0 if self.pane_ms is None else times // self.pane_ms * self.pane_ms
        return dict(panes.value_counts(name="events").iter_rows())

    @property
    def open_from_ms(self) -> int:
        """The first instant of which events are not late for all (epoch ms)."""
        closed = max(self.handed_in, min((one.closed for one in self.consumers), default=self.closed))
        return FIRST_PANE if closed == FIRST_PANE else closed_ms(closed, self.pane_ms) + 1

    @property
    def waiting_rows(self) -> int:
        """The number of events that are not inserted."""
        return self._waiting_rows + rows_of(self._due)

    @property
    def cost_class(self) -> CostClass:
        """The class of its events, by what inserting them takes."""
        return CostClass.SPILLED if self._store.is_on_disk else CostClass.CHEAP

    def abandon(self, late: Mapping[int, int]) -> None:
        """Counts events that it does not get, by pane: their panes are partial."""
        self._incomplete.update(pane for pane in late if pane > self._emptied_upto)
        for consumer in self.consumers:
            consumer.count_abandoned(late)

    def await_more(self) -> None:
        """Notes that events wait to be given to it: until then its feeds' ends let nothing be closed."""
        self.has_more = True
        self.watermark.wake()
        self.idle_until_ms = FIRST_PANE
        self._on_idle(self)

    def takes_states(self, pane: int) -> bool:
        """Whether states of a pane may come in place of its events: it is open for all, and there is room."""
        is_open = pane > max([self.closed, *(one.closed for one in self.consumers)])
        return is_open and self.function.is_ready and not self._is_given_up and self._store.has_room

    def take_states(self, key: FeedKey, time_ms: int, nested: NestedState) -> None:
        """Takes the state of a feed's events of one instant of an open pane (epoch ms) in their place."""
        self.see(key, time_ms)
        self._store.take(self.pane_of(time_ms), nested)

    def saw(self, key: FeedKey, malformed: int, newest: int | None, place: Place | None = None) -> None:
        """Ends a block of a feed, or a part of it, with `malformed` lines; `newest` is the time the feed has reached,
        if known, and `place` comes after the block."""
        self._end_block(key, malformed, place)
        self.watermark.saw(key, newest)
        self.start_sealing()

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """Notes that a feed is at its end for now."""
        self.watermark.caught_up(key, wall_ms)
        self.unseen.discard(key)
        self.start_sealing()

    def end_of_feed(self, key: FeedKey) -> None:
        """Notes that a bounded feed is over."""
        self.watermark.ended(key)
        self.start_sealing()

    def insert_batch(self) -> None:
        """Counts and stores as many of the waiting events as are inserted at once."""
        batch, self._waiting = _next_batch(self._waiting)
        self._waiting_rows -= rows_of(batch)
        self._insert(batch)
        if not self._waiting:
            self._progress.count_all()

    def insert_waiting(self) -> None:
        """Counts and stores the waiting events."""
        self._insert_due()
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        self._insert(waiting)
        self._progress.count_all()

    def _insert_due(self) -> None:
        """Counts and stores the events that waited when the sealing began, for the panes that were open then."""
        while self._insert_due_batch():
            pass

    def _insert_due_batch(self) -> bool:
        """Inserts as many of these as are inserted at once; whether that was a whole batch, after which others may have
        their turns."""
        due, self._due = _next_batch(self._due)
        if due:
            now = self.closed, self.amendments.settled
            self.closed, self.amendments.settled = self._due_closed, self.amendments.due_settled
            self._insert(due)
            self.closed, self.amendments.settled = now
        if not self._due:
            self._progress.count_due()
        return rows_of(due) >= ROWS_PER_BATCH

    def _insert(self, waiting: list[pl.DataFrame]) -> None:
        begun_s = self.timing.now
        for batch in self._batches.of(waiting, self.function) if waiting else ():
            open_batch = self._still_open(batch)
            if self.function.lacks_rows:
                self._incomplete.update(open_batch.counted)
            self._store.add(open_batch)
        if waiting:
            self._on_inserted(self, rows_of(waiting), self.timing.now - begun_s)

    def _still_open(self, batch: EventBatch) -> EventBatch:
        """The batch without events of closed panes. Each consumer decides which of them, and of others, are late."""
        oldest, closed = batch.oldest_pane, max((one.closed for one in self.consumers), default=self.closed)
        if oldest is None or oldest > closed:
            return batch
        if self.function.grace.amends_ms:
            batch = self._amend(self._not_replayed(batch))
            if (oldest := batch.oldest_pane) is None or oldest > closed:
                return batch
        panes = batch.events["pane"]
        passed = dict(panes.filter(panes <= closed).value_counts(name="events").iter_rows())
        for consumer in self.consumers:
            consumer.count_late(passed, self._progress.replayed)
        return batch.after(self.closed) if oldest <= self.closed else batch

    def _not_replayed(self, batch: EventBatch) -> EventBatch:
        """The batch without events that an earlier process has put into runs or patches. It has one consumer."""
        upto = max((one.counts.replayed_upto(self._progress.replayed) for one in self.consumers), default=FIRST_PANE)
        return batch if upto == FIRST_PANE else batch.after(upto)

    def _amend(self, batch: EventBatch) -> EventBatch:
        """Takes the late events that can still be put into windows; returns the others. It has one consumer."""
        for consumer in self.consumers:
            first = max(self.amendments.settled + 1, consumer.first_pane)
            last = min(self.closed, consumer.frontier, consumer.last_pane)
            if first <= last and not consumer.has_ended:
                batch = self.amendments.add(batch, first, last)
        return batch

    def _next_patch(self, carrier: int) -> Patch | None:
        lacking, pane_ms, consumer = range(0), self.pane_ms or 1, self._takers[0]
        if consumer.is_resumed and consumer.frontier >= consumer.first_pane - 1:
            consumer.is_resumed = False
            lacking = range(self.function.settled_pane(carrier) + pane_ms, carrier, pane_ms)
        return self.amendments.take(carrier, SELF, lacking)

    def counted(self) -> Counted:
        """The counts of the panes in its store."""
        self.insert_waiting()
        return self._store.counted

    def newest_pane(self) -> int | None:
        """The newest pane with events that is not sealed for all."""
        self.finish_sealing()
        return max(self.counted(), default=None)

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes + self.amendments.memory_bytes

    # Sealing.

    def seal_early(self, upto: int) -> None:
        """Seals up to this pane, wherever the watermark is: no more events are read.

        Panes that are not over are partial.
        """
        reached_ms = self.watermark.value
        if self.pane_ms is not None and reached_ms is not None and upto not in (FIRST_PANE, END):
            first_open = max(reached_ms // self.pane_ms * self.pane_ms, self.closed + self.pane_ms)
            self._incomplete.update(range(first_open, upto + 1, self.pane_ms))
        self._early = upto
        self.start_sealing()

    def start_sealing(self) -> None:
        """Closes what the watermark allows, if anything, and begins to seal it for all with room in their logs."""
        self.watermark.wake()
        if self.has_to_seal:
            self._close_panes()
        self.is_blocked, self.idle_until_ms = self.has_to_seal, FIRST_PANE
        waits = self.is_blocked or self.is_sealing or self._progress.is_inside or self.unseen or self.has_more
        waits = waits or self._early is not None
        if self.pane_ms and self.is_reading and not (waits or self.is_bounded):
            self.idle_until_ms = self.watermark.rest(self.closed, self.pane_ms, self._grace_ms)
        self._on_idle(self)

    def _close_panes(self) -> None:
        upto = self._sealable_upto()
        behind = [consumer for consumer in self.consumers if consumer.is_behind(upto)]
        if not behind or not all(consumer.is_begun for consumer in self.consumers):
            return
        takers = [consumer for consumer in behind if not consumer.log.is_full]
        if not takers and self.function.grace.amends_ms:
            return  # what comes until there is room belongs to these panes, and is no patch
        if takers:  # inserted in the first step: where many jobs' panes end together, nothing waits for all of them
            self._due, self._due_closed = self._waiting, self.closed
            self.amendments.due_settled = self.amendments.settled
            self._progress.begin_sealing()
            self._waiting, self._waiting_rows = [], 0
        else:
            self.insert_waiting()
        self.closed = max(self.closed, upto)
        self.timing.close(self.closed, self.pane_ms, self._grace_ms)
        self.amendments.settled = max(self.amendments.settled, self._settled_upto())
        self._is_owing = len(takers) < len(behind)
        if takers:
            self._begin_sealing(takers)

    @property
    def next_due_ms(self) -> int | None:
        """The time (epoch ms) at which its next pane may be closed; None: not by time, or not known yet."""
        if self.is_blocked or self.is_bounded or not self.is_reading or self.pane_ms is None:
            return None
        return None if self.closed in (FIRST_PANE, END) else due_ms(self.closed, self.pane_ms, self._grace_ms)

    @property
    def has_to_seal(self) -> bool:
        """Whether the watermark allows panes to be closed, or consumers have not got all that are."""
        if self._is_given_up or self._sealing is not None or (self._progress.is_inside and self._early is None):
            return False
        return self._is_owing or self._sealable_upto() > self.closed

    def _begin_sealing(self, takers: list[PaneConsumer]) -> None:
        self._takers = takers
        self._sealed_upto, self._sealing_upto = min(consumer.frontier for consumer in takers), self.closed
        self._sealing = self._runs(self.closed)
        self._on_sealing(self)

    def _sealable_upto(self) -> int:
        if self._early is not None:
            return self._early
        if self.watermark.has_ended:
            return END
        if self.is_bounded or self.pane_ms is None:
            return FIRST_PANE
        # No pane carries what comes late for the last ones of a version: they wait for it.
        ends = self.is_ending or any(consumer.last_pane < END for consumer in self.consumers)
        grace_ms = self._grace_ms + (self.function.grace.amends_ms if ends else 0)
        upto = self.watermark.sealable_upto(self.pane_ms, grace_ms)
        return max(self.handed_in, FIRST_PANE if upto is None else upto)

    def _settled_upto(self) -> int:
        """The last pane of which late events are late for good."""
        reached_ms = self.watermark.value
        is_amended = self.function.grace.amends_ms > 0 and reached_ms is not None
        return self.function.settled_pane(reached_ms or 0) if is_amended else FIRST_PANE

    @property
    def is_sealing(self) -> bool:
        return self._sealing is not None

    @property
    def can_seal(self) -> bool:
        """Whether there is something to seal, and a consumer with room for it."""
        return self._sealing is not None and not all(consumer.log.is_full for consumer in self._takers)

    @property
    def frontier(self) -> int:
        """The last pane that the sealing under way has reached."""
        return self._sealed_upto

    def finish_sealing(self) -> None:
        while self._sealing is not None:
            self.seal_next()

    def catch_up(self, consumer: PaneConsumer) -> None:
        """Gives a consumer all closed panes, even if its log is full."""
        self.finish_sealing()
        if consumer.is_begun and consumer.is_behind(self.closed):
            self._begin_sealing([consumer])
            self.finish_sealing()

    def seal_next(self) -> None:
        """Seals one run, or gathers a frame of a large one. O(rows in it), and once per sealing O(rows in the tree)."""
        assert self._sealing is not None
        run = next(self._sealing)
        if run is None:
            return
        if self.amendments.next is not None:
            run, self.amendments.next = replace(run, patches=(self.amendments.next,)), None
        self._sealed_upto = run.upto
        for consumer in self._takers:
            consumer.take(run)
        if run.upto == self._sealing_upto:
            self._sealing = None
            self.trim()

    def _runs(self, upto: int) -> Iterator[Run | None]:
        """Everything up to a pane, in pane order, as runs of about `run_rows` rows; holds one run at a time, and
        of a pane with too many groups no more than twice as many as are kept. None: a run goes on, after a pause."""
        self.timing.begin()
        while self._insert_due_batch():
            self.timing.inserted()
            yield None
            self.timing.begin()
        self.timing.inserted()
        if self.function.grace.amends_ms and self._sealed_upto != FIRST_PANE:
            self.amendments.next = self._next_patch(closed_ms(self._sealed_upto, self.pane_ms) + 1)
        for consumer in self._takers:
            consumer.begin_run(upto, *self._progress.counted)
        counted = self._store.counted
        self._unsealed = deque(sorted(one for one in counted.items() if self._sealed_upto < one[0] <= upto))
        lacks = self.pane_ms is not None and any(self._sealed_upto < pane <= upto for pane in self._incomplete)
        is_long = len(self._unsealed) > 1 and self._store.taken_rows(self._sealed_upto, upto) > self._run_rows
        if not self._unsealed and not lacks:
            yield self._run(upto, self.function.empty_state)
            return
        if lacks or is_long or self._sealed_upto > self._emptied_upto:
            yield from self._runs_by_pane(upto)
            return
        held: list[pl.DataFrame] = []
        for frame in self._store.flush(upto=None if upto == END else upto):
            if frame is None:
                yield from self._runs_by_pane(upto)
                return
            held.append(frame)
            newest = frame["pane"][-1]
            if rows_of(held) > self._run_rows and held[0]["pane"][0] < newest:
                state = self.function.gather(held)
                older = pl.col("pane") < newest
                yield self._run(newest - 1, state.filter(older))
                held = [state.filter(~older)]
            held = self._store.folded(held, self._run_rows)
            if rows_of(held) > self._run_rows:
                yield None
        yield self._run(upto, self.function.gather(held))

    def _runs_by_pane(self, upto: int) -> Iterator[Run]:
        """Everything up to a pane as one run a pane: only panes that lack something, or cannot be read in full, are
        marked partial, and panes kept for a consumer that was blocked are read for no other."""
        counted = {pane for pane, _ in self._unsealed}
        lacking = {pane - before for pane in self._incomplete for before in (0, self.pane_ms or 0)}
        panes = sorted(pane for pane in counted | lacking if self._sealed_upto < pane < min(upto + 1, END))
        for pane in panes:
            nothing = self.function.empty_state, True
            state, is_whole = self._store.readable(pane, self._run_rows) if pane in counted else nothing
            is_last = pane == panes[-1] and (pane not in lacking or self.pane_ms is None)
            yield self._run(upto if is_last else pane, state, is_partial=not is_whole)
        yield self._run(upto, self.function.empty_state)

    def readable(self, pane: int) -> tuple[pl.DataFrame, bool]:
        """The readable state of a pane, and whether that is all of it."""
        state, is_whole = self._store.readable(pane, self._run_rows)
        return self._store.with_taken(state, pane - 1, pane), is_whole and pane not in self._incomplete

    def _run(self, upto: int, state: pl.DataFrame, *, is_partial: bool = False) -> Run:
        state, counted = self._store.with_taken(state, self._sealed_upto, upto), Counted()
        while self._unsealed and self._unsealed[0][0] <= upto:
            pane, counts = self._unsealed.popleft()
            counted[pane] = counts
        lost = closed_ms(self._sealed_upto, self.pane_ms) < self.lost_upto
        lacking = any(self._sealed_upto < pane <= upto for pane in self._incomplete)
        partial = SELF if is_partial or self.is_partial or lost or lacking else 0
        encoding = StateEncoding(state) if any(one.outlet.keeper is not None for one in self._takers) else None
        return Run(self._sealed_upto, upto, SELF, state, counted, partial, encoding=encoding, path=self.timing.path)


def _next_batch(waiting: list[pl.DataFrame]) -> tuple[list[pl.DataFrame], list[pl.DataFrame]]:
    """As many of the first frames as are inserted at once, and the others."""
    rows = count = 0
    while count < len(waiting) and rows < ROWS_PER_BATCH:
        rows += waiting[count].height
        count += 1
    return waiting[:count], waiting[count:]
