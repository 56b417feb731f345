"""What the workers of equal functions compute once: events into a store, and out of it runs of panes.

Theory of operation. Jobs, and versions of one, that read the same feeds with the same filter, keys and aggregates, and
wait equally long for late events, have one operator between them. Each has a worker on it, with panes of its own: those
from its first to its last. The operator closes a pane for all of them when its watermark says so, and gives each the
runs it seals, cut to its panes. A worker that may not take any more at the moment gets them later: until all have a
pane, the store keeps it.

A worker turns to another operator where that gives it the same: if in all panes that are still open for it, both hold
the same events. They do if none of what was read before the younger one was there lies in one of those panes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import EventBatch, EventBatches, count_batch
from agent.runtime.ingest.feed import FeedKey, renamed
from agent.runtime.ingest.pane_store import PaneStore
from agent.runtime.ingest.watermark import Watermark
from agent.runtime.model.panes import (
    COUNTS_BYTES,
    END,
    FIRST_PANE,
    Counted,
    Counts,
    Run,
    add_counted,
    closed_ms,
    runs_upto,
)
from overlay import Id

KEPT_BYTES_MAX = 64 << 20
"""Sealed and not yet committed: past it a worker takes nothing further until the master has caught up."""
WANTED_BYTES_MAX = 256 << 20
"""Committed, and needed if another master has to make the windows that are open: past it the oldest go."""
SELF = 1
"""Stands for the worker in `Run.contributors` until its number is known."""


class PaneConsumer:
    """On an operator; it has panes from `begin_after` on."""

    def __init__(self, app_id: Id, function: JobFunction, operator: Operator) -> None:
        self.app_id = app_id
        self.function = function
        self.operator = operator
        self.is_begun = False
        self._is_open = True
        self.frontier = FIRST_PANE
        """How far it has sealed."""
        self.last_pane = END
        """Later panes are none of its own."""
        self.first_pane = FIRST_PANE
        """From here on it has everything."""
        self.late = 0
        """Events that came for a pane that was closed."""
        self._late_from = FIRST_PANE
        self._unexpected_before = FIRST_PANE
        self._given_up = (END, FIRST_PANE)
        self._closed = FIRST_PANE
        self._late = self._malformed = 0
        self._counts_from: int | None = None
        self._counted: tuple[int, int, int] | None = None
        self._sealed: list[Run] = []
        self._fresh: list[Run] = []
        self._kept_bytes = 0
        self._wanted: deque[Run] = deque()
        self._wanted_bytes = 0
        operator.add(self)

    def turn_to(self, operator: Operator) -> None:
        """Goes on with another operator, which suits it."""
        counts = self._counts_from is not None
        self._stop_counting()
        self.operator.insert_waiting()
        self.operator.remove(self)
        self.operator = operator
        operator.add(self)
        if counts:
            self.count_malformed()

    def close(self) -> None:
        """Gets nothing any more."""
        if self._is_open:
            self._is_open = False
            self._stop_counting()
            self.operator.remove(self)

    # Which panes are its own.

    def begin_after(self, after: int, starts: int) -> None:
        """Has its place, and has sealed nothing: panes after this one are its own, and it has all from `starts` on."""
        self.frontier = self._closed = after
        self.is_begun = True
        if starts > FIRST_PANE:
            self.begin_at(starts)

    def begin_at(self, pane: int, unexpected_before: int = FIRST_PANE) -> None:
        """Has nothing to say about its panes before this one, and says so at once.

        Of events older than `unexpected_before` (epoch ms) it had better say something: they count as late.
        """
        pane = min(pane, self.last_pane + 1) if self.last_pane < END else pane
        if pane - 1 <= self.frontier:
            return
        self.operator.catch_up(self)
        if pane - 1 <= self.frontier:
            return
        nothing = Run(self.frontier, pane - 1, 0, self.function.nothing)
        self.first_pane = self._late_from = pane
        self._closed = pane - 1
        self._unexpected_before = unexpected_before
        self._keep(nothing)
        self.operator.trim()

    def lacks_upto(self, time_ms: int) -> None:
        """Events up to this time were read without the columns it needs."""
        if self.is_begun:
            self.begin_at(self.next_pane(time_ms))

    def end_at(self, last_pane: int) -> None:
        """Later panes are another version's, also those that it has sealed."""
        if last_pane >= self.last_pane:
            return
        self.last_pane = last_pane
        if self._counted is not None and self._counted[0] > last_pane:
            self._late += self._counted[1]
            self._malformed += self._counted[2]
            self._counted = None
        if self.frontier > last_pane:
            self._sealed = runs_upto(last_pane, self._sealed)
            self._fresh = runs_upto(last_pane, self._fresh)
            self._kept_bytes = sum(map(_bytes_of, self._sealed))
            self.frontier = last_pane

    @property
    def has_ended(self) -> bool:
        """Whether all of its panes are sealed."""
        return self.frontier >= self.last_pane

    def is_behind(self, upto: int) -> bool:
        """Whether it lacks any of its panes up to this one."""
        return self.frontier < min(upto, self.last_pane)

    @property
    def closed(self) -> int:
        """Panes up to this one take no more events, of this worker."""
        return max(self._closed, self.operator.closed) if self.is_begun else FIRST_PANE

    @property
    def closed_ms(self) -> int:
        """The last instant of what is sealed."""
        return closed_ms(self.frontier, self.pane_ms)

    @property
    def pane_ms(self) -> int | None:
        """Milliseconds a pane lasts; None: there is only one."""
        return self.function.pane_ms

    def pane_at(self, time_ms: int | None) -> int | None:
        """The pane that an instant lies in."""
        return None if time_ms is None or self.pane_ms is None else time_ms // self.pane_ms * self.pane_ms

    def next_pane(self, time_ms: int) -> int:
        """The first pane that begins after an instant; before every pane where there is nothing to choose."""
        pane = None if time_ms == FIRST_PANE else self.pane_at(time_ms)
        return FIRST_PANE if pane is None or self.pane_ms is None else pane + self.pane_ms

    # What is counted for it alone.

    def take_over(self, before: PaneConsumer) -> None:
        """Goes on for the version before, whose panes are sealed: what comes for them is late, and counted here."""
        assert before.has_ended
        for operator in (self.operator, before.operator):
            operator.finish_sealing()
            operator.insert_waiting()
        before.close()
        self._late_from = min(self._late_from, before._late_from)
        self._given_up = (before.closed_ms + 1, self.first_pane)
        self._unexpected_before = max(self._unexpected_before, before._unexpected_before)
        self._late, self._malformed = self._late + before._late, self._malformed + before._malformed
        self.late += before.late

    def count_late(self, passed: Mapping[int, int]) -> None:
        """Of events for panes that are closed, some for this worker, how many in each.

        The window under way when it began is none of its windows, so it does not miss them.
        """
        closed = min(self.closed, self.last_pane)
        begun, ended = self._given_up
        for pane, events in passed.items():
            in_windows = pane >= self._late_from and not begun <= pane < ended
            if pane <= closed and (in_windows or pane < self._unexpected_before):
                self.late += events
                self._late += events

    def count_malformed(self) -> None:
        """From now on lines that are no events count here. They have no time: they are in the newest pane of a run."""
        if self._counts_from is None:
            self._counts_from = self.operator.malformed

    def _stop_counting(self) -> None:
        if self._counts_from is not None:
            self._malformed += self.operator.malformed - self._counts_from
            self._counts_from = None

    def begin_run(self, upto: int) -> None:
        """Everything up to this pane is being sealed: what it has counted by itself goes with that."""
        if self._counts_from is not None:
            self._stop_counting()
            self.count_malformed()
        upto = min(upto, self.last_pane)
        if (self._late or self._malformed) and upto > self.frontier:
            self._counted = (upto, self._late, self._malformed)
            self._late = self._malformed = 0

    # What is sealed.

    def take(self, run: Run) -> None:
        """A run of the operator's, as far as it is this worker's; `fresh` yields it."""
        upto = min(run.upto, self.last_pane)
        if upto <= self.frontier:
            return
        run = run.within(self.frontier, upto)
        if self._counted is not None and self._counted[0] <= upto:
            pane, late, malformed = self._counted
            extra = {pane: Counts(late=late, malformed=malformed)}
            run = replace(run, counted=add_counted([run.counted, extra]))
            self._counted = None
        self._keep(run)

    def _keep(self, run: Run) -> None:
        self.frontier = run.upto
        self._sealed.append(run)
        self._fresh.append(run)
        self._kept_bytes += _bytes_of(run)
        self.operator.tell(self)

    def fresh(self) -> list[Run]:
        """What was sealed since the last call; `SELF` stands for its contributor."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def after(self, frontier: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is still there, again."""
        self._fresh = []
        return [run.within(frontier, run.upto) for run in (*self._wanted, *self._sealed) if run.upto > frontier]

    def commit(self, frontier: int, kept_after: int) -> None:
        """Frees what is out, up to the last pane that no window needs any more."""
        if self._sealed and self._sealed[0].upto <= frontier:
            out = [run for run in self._sealed if run.upto <= frontier]
            self._sealed = self._sealed[len(out) :]
            self._kept_bytes = sum(map(_bytes_of, self._sealed))
            self._wanted += out
            self._wanted_bytes += sum(map(_bytes_of, out))
        while self._wanted and (self._wanted[0].upto <= kept_after or self._wanted_bytes > WANTED_BYTES_MAX):
            self._wanted_bytes -= _bytes_of(self._wanted.popleft())

    @property
    def is_blocked(self) -> bool:
        """Whether so much is sealed and not committed that it may not take more."""
        return self._kept_bytes > KEPT_BYTES_MAX

    @property
    def memory_bytes(self) -> int:
        """What it keeps, and its share of what its operator holds."""
        shared = self.operator.memory_bytes // len(self.operator.workers) if self._is_open else 0
        return shared + self._kept_bytes + self._wanted_bytes


def _bytes_of(run: Run) -> int:
    return int(run.state.estimated_size()) + COUNTS_BYTES * len(run.counted)


ROWS_PER_RUN = 1 << 16
"""A run is cut at the next pane boundary past this many rows, so that no message holds a job's whole past."""
ROWS_PER_BATCH = 1 << 16
"""Events that are filtered and aggregated at once."""
WAITING_ROWS_MAX = 1 << 19
"""Events that wait for a sealing under way to end; past it the sealing is not cut in slices any more."""

Names = Mapping[FeedKey, tuple[tuple[str, str], ...]]
"""Of each feed the columns that are needed: as it names them, and as the function does."""


class Identity(NamedTuple):
    """Operators of which this is equal compute the same, from when both are there."""

    function: bytes
    names: tuple[tuple[FeedKey, tuple[tuple[str, str], ...]], ...]
    grace_ms: int
    alone: int | None
    """A number of its own, where it is equal to no other."""


class Operator:
    """`read_before`: events up to this time (epoch ms) were read of its feeds before it was there.

    Its watermark closes panes, or, where a job is `bounded`, the end of its feeds. `tell` gets each worker that has
    something new, `sealing` is called when there is something to seal.
    """

    def __init__(
        self,
        function: JobFunction,
        names: Names,
        watermark: Watermark,
        room: SpillArea | None,
        batches: EventBatches,
        *,
        grace_ms: int,
        bounded: bool,
        read_before: int,
        alone: int | None,
        tell: Callable[[PaneConsumer], None],
        sealing: Callable[[Operator], None],
    ) -> None:
        self.function = function
        self.names = names
        self.watermark = watermark
        self.identity = Identity(function.operator, tuple(sorted(names.items())), grace_ms, alone)
        self.read_before = read_before
        self.tell = tell
        self._tell_sealing = sealing
        self.workers: list[PaneConsumer] = []
        self.is_reading = True
        """Whether it takes what its feeds bring; else its job has to be ready first, or maps it."""
        self.unseen: set[FeedKey] = set(names)
        """Feeds that have not shown yet that they yield its columns."""
        self.seen_ms = FIRST_PANE
        """The newest event it was given."""
        self.lacked_ms = FIRST_PANE
        """The newest event that it was not given, for want of columns."""
        self.malformed = 0
        """Lines that were no events."""
        self.is_partial = False
        """Whether it lacks events of what it seals now."""
        self.lost_upto = FIRST_PANE
        """Of events up to this time (epoch ms) some were lost: what is sealed before is partial."""
        self.closed = FIRST_PANE
        """Panes up to this one take no more events."""
        self.is_bounded = bounded
        self._grace_ms = grace_ms
        self._store = PaneStore(function, room)
        self._batches = batches
        self._counted: Counted = {}
        """Of panes that are not sealed for all."""
        self._unsealed: deque[tuple[int, Counts]] = deque()
        """Of those that are being sealed, in order."""
        self._waiting: list[pl.DataFrame] = []
        self._waiting_rows = 0
        self._lacking: set[int] = set()
        self._early: int | None = None
        self._sealing: Iterator[Run] | None = None
        self._sealing_upto = self._sealed_upto = self._emptied_upto = FIRST_PANE
        self._takers: list[PaneConsumer] = []
        self._is_owing = False

    @property
    def pane_ms(self) -> int | None:
        """Milliseconds a pane lasts; None: there is only one."""
        return self.function.pane_ms

    # Workers.

    def add(self, worker: PaneConsumer) -> None:
        """The worker gets what comes from now on."""
        self.insert_waiting()
        self.workers.append(worker)

    def remove(self, worker: PaneConsumer) -> None:
        """The worker needs nothing from here any more."""
        self.workers.remove(worker)
        if worker in self._takers:
            self._takers.remove(worker)
        self.trim()

    def suits(self, worker: PaneConsumer) -> bool:
        """Whether a worker of an equal operator gets the same from this one, all in all."""
        other = worker.operator
        if self.is_sealing or other.is_sealing or not all(one.is_begun for one in (worker, *self.workers)):
            return False
        closed = max(self.closed, self._sealable_upto(), other._sealable_upto())
        read_before = max(self.read_before, other.read_before)
        return closed <= worker.closed and read_before <= closed_ms(worker.closed, self.pane_ms)

    def trim(self) -> None:
        """Forgets what all workers have, and closes what none has anything to do with."""
        if self.workers and self._sealing is None:
            self.closed = max(self.closed, min(worker.closed for worker in self.workers))
            self._empty(min(max(worker.frontier, worker.first_pane - 1) for worker in self.workers))

    def _empty(self, upto: int) -> None:
        if upto > self._emptied_upto:
            self.insert_waiting()
            self._emptied_upto = upto
            if self._counted:
                self._store.empty(upto=None if upto == END else upto)
                self._counted = {pane: counts for pane, counts in self._counted.items() if pane > upto}
            self._lacking = {pane for pane in self._lacking if pane > upto}

    # Events.

    def insert(self, key: FeedKey, events: pl.DataFrame, columns: frozenset[str], newest: int) -> None:
        """Takes an event frame of a feed with these columns; where it or the function lacks some, all begin later."""
        names = self.names[key]
        if not self.function.is_ready or not all(name in columns for name, _ in names):
            self.lacks(newest)
            return
        self.unseen.discard(key)
        self.seen_ms = max(self.seen_ms, newest)
        for part in self.function.read(key[0], renamed(events, names)):
            self.put(part)

    def lacks(self, newest: int) -> None:
        """Was not given events up to this time (epoch ms)."""
        self.lacked_ms = max(self.lacked_ms, newest)
        for worker in self.workers:
            worker.lacks_upto(newest)

    def lacks_some_at(self, time_ms: int) -> None:
        """Lacks something of the pane that an instant lies in: sealed, that will be partial."""
        self._lacking.add(0 if self.pane_ms is None else time_ms // self.pane_ms * self.pane_ms)

    def put(self, events: pl.DataFrame) -> None:
        """Takes events as the function names them. They wait for each other: each call on columns has its price."""
        self._waiting.append(events)
        self._waiting_rows += events.height
        if self._sealing is not None and self._waiting_rows >= WAITING_ROWS_MAX:
            self.finish_sealing()
        if self._sealing is None and self._waiting_rows >= ROWS_PER_BATCH:
            self.insert_waiting()

    def saw(self, key: FeedKey, malformed: int, newest: int | None) -> None:
        """A block of a feed is over: how many lines were no events, and how far the feed has come, if known."""
        self.malformed += malformed
        self.watermark.saw(key, newest)
        self.start_sealing()

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """A feed is at its end for now."""
        self.watermark.caught_up(key, wall_ms)
        self.unseen.discard(key)
        self.start_sealing()

    def end_of_feed(self, key: FeedKey) -> None:
        """A bounded feed is over."""
        self.watermark.ended(key)
        self.start_sealing()

    def insert_waiting(self) -> None:
        """What has come is counted."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        for batch in self._batches.of(waiting, self.function) if waiting else ():
            self._insert_batch(self._still_open(batch))

    def _insert_batch(self, batch: EventBatch) -> None:
        if self.function.lacks_rows:
            self._lacking.update(batch.counted)
        count_batch(self.function, self._store, self._counted, batch)

    def _still_open(self, batch: EventBatch) -> EventBatch:
        """Without events of panes that are closed. Each worker decides which of them, and of others, are late."""
        oldest, closed = batch.oldest_pane, max((worker.closed for worker in self.workers), default=self.closed)
        if oldest is None or oldest > closed:
            return batch
        panes = batch.events["pane"]
        passed = dict(panes.filter(panes <= closed).value_counts(name="events").iter_rows())
        for worker in self.workers:
            worker.count_late(passed)
        return batch.after(self.closed) if oldest <= self.closed else batch

    def newest_pane(self) -> int | None:
        """The newest pane that it has counted anything in and that is not sealed for all."""
        self.finish_sealing()
        self.insert_waiting()
        return max(self._counted, default=None)

    @property
    def memory_bytes(self) -> int:
        return self._store.memory_bytes

    # Sealing.

    def seal_early(self, upto: int) -> None:
        """There will be no more events: seals up to this pane, wherever the watermark is."""
        self._early = upto
        self.start_sealing()

    def start_sealing(self) -> None:
        """Closes what the watermark allows, if anything, and begins to seal it for those who may take it."""
        upto = self._sealable_upto()
        if self._sealing is not None or (upto <= self.closed and not self._is_owing):
            return
        behind = [worker for worker in self.workers if worker.is_behind(upto)]
        if not behind or not all(worker.is_begun for worker in self.workers):
            return
        self.insert_waiting()
        self.closed = max(self.closed, upto)
        takers = [worker for worker in behind if not worker.is_blocked]
        self._is_owing = len(takers) < len(behind)
        if takers:
            self._begin_sealing(takers)

    def _begin_sealing(self, takers: list[PaneConsumer]) -> None:
        self._takers = takers
        self._sealed_upto, self._sealing_upto = min(worker.frontier for worker in takers), self.closed
        self._sealing = self._runs(self.closed)
        self._tell_sealing(self)

    def _sealable_upto(self) -> int:
        if self._early is not None:
            return self._early
        if self.watermark.has_ended:
            return END
        if self.is_bounded or self.pane_ms is None:
            return FIRST_PANE
        upto = self.watermark.sealable_upto(self.pane_ms, self._grace_ms)
        return FIRST_PANE if upto is None else upto

    @property
    def is_sealing(self) -> bool:
        return self._sealing is not None

    @property
    def can_seal(self) -> bool:
        """Whether there is something to seal, and room for it."""
        return self._sealing is not None and not all(worker.is_blocked for worker in self._takers)

    @property
    def frontier(self) -> int:
        """How far the sealing under way has come."""
        return self._sealed_upto

    def finish_sealing(self) -> None:
        while self._sealing is not None:
            self.seal_next()

    def catch_up(self, worker: PaneConsumer) -> None:
        """Gives a worker all that is closed, also if it may not take any more."""
        self.finish_sealing()
        if worker.is_begun and worker.is_behind(self.closed):
            self._begin_sealing([worker])
            self.finish_sealing()

    def seal_next(self) -> None:
        """Seals one run. O(rows in it), and once per sealing O(rows in the tree)."""
        assert self._sealing is not None
        run = next(self._sealing)
        self._sealed_upto = run.upto
        for worker in self._takers:
            worker.take(run)
        if run.upto == self._sealing_upto:
            self._sealing = None
            self.trim()

    def _runs(self, upto: int) -> Iterator[Run]:
        """Everything up to a pane, in pane order, as runs of about `ROWS_PER_RUN` rows; holds one run at a time, and
        of a pane with too many groups no more than twice those that are kept."""
        for worker in self._takers:
            worker.begin_run(upto)
        self._unsealed = deque(sorted(one for one in self._counted.items() if self._sealed_upto < one[0] <= upto))
        lacks = self.pane_ms is not None and any(self._sealed_upto < pane <= upto for pane in self._lacking)
        if not self._unsealed and not lacks:
            yield self._run(upto, self.function.nothing)
            return
        if lacks or self._sealed_upto > self._emptied_upto:
            yield from self._runs_by_pane(upto)
            return
        held: list[pl.DataFrame] = []
        for frame in self._store.flush(upto=None if upto == END else upto):
            if frame is None:
                yield from self._runs_by_pane(upto)
                return
            held.append(frame)
            newest = frame["pane"][-1]
            if _rows(held) > ROWS_PER_RUN and held[0]["pane"][0] < newest:
                state = self.function.gather(held)
                older = pl.col("pane") < newest
                yield self._run(newest - 1, state.filter(older))
                held = [state.filter(~older)]
            held = self._folded(held)
        yield self._run(upto, self.function.gather(held))

    def _runs_by_pane(self, upto: int) -> Iterator[Run]:
        """The same, a run a pane: only those that lack something, or where some of it cannot be read, say so, and what
        is kept for a worker that was blocked is read for no other."""
        counted = {pane for pane, _ in self._unsealed}
        lacking = {pane - before for pane in self._lacking for before in (0, self.pane_ms or 0)}
        panes = sorted(pane for pane in counted | lacking if self._sealed_upto < pane < min(upto + 1, END))
        for pane in panes:
            state, is_whole = self._readable(pane) if pane in counted else (self.function.nothing, True)
            is_last = pane == panes[-1] and (pane not in lacking or self.pane_ms is None)
            yield self._run(upto if is_last else pane, state, is_partial=not is_whole)
        yield self._run(upto, self.function.nothing)

    def _readable(self, pane: int) -> tuple[pl.DataFrame, bool]:
        """What of a pane can be read, and whether that is all of it."""
        held: list[pl.DataFrame] = []
        for frame in self._store.flush(pane):
            if frame is None:
                return self.function.gather(held), False
            held = self._folded([*held, frame])
        return self.function.gather(held), True

    def _folded(self, held: list[pl.DataFrame]) -> list[pl.DataFrame]:
        crowded = len(held) > 1 and _rows(held) > max(ROWS_PER_RUN, 2 * self.function.plan.max_groups)
        return [self.function.gather(held)] if crowded else held

    def _run(self, upto: int, state: pl.DataFrame, *, is_partial: bool = False) -> Run:
        counted: Counted = {}
        while self._unsealed and self._unsealed[0][0] <= upto:
            pane, counts = self._unsealed.popleft()
            counted[pane] = counts
        lost = closed_ms(self._sealed_upto, self.pane_ms) < self.lost_upto
        lacking = any(self._sealed_upto < pane <= upto for pane in self._lacking)
        partial = SELF if is_partial or self.is_partial or lost or lacking else 0
        return Run(self._sealed_upto, upto, SELF, state, counted, partial)


def _rows(frames: list[pl.DataFrame]) -> int:
    return sum(frame.height for frame in frames)
