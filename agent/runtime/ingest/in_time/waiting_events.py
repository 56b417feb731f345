"""Holds the events of operators that hand in until they are inserted, or abandoned (Li et al., VLDB 2015, section 4).

Theory of operation. The events of a block wait as lots, for each operator by itself. Their deadline is the time at
which the window of the earliest of them that is not late is handed in: a block is done as a whole, so that the operator
can seal between it and the next. While all can be done in time, `FairScheduler` hands lots out by deadline; where not,
it abandons the dearest of jobs that want more than their share. What a feed brings keeps its order: the end of a block
moves watermark and place once none of its events wait, and none of those before it.

To insert many events at once costs a fraction of inserting few. So lots are handed out until they are a slice of work,
and inserted then; where there is less than a slice to do, they are inserted as their panes are sealed.

Times are seconds of the wall clock, from a moment on, since windows are of that clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import polars as pl

from agent.parsing import TIME
from agent.runtime.durable.records import Place
from agent.runtime.ingest.event_batch import ROWS_PER_BATCH, WAITING_ROWS_MAX
from agent.runtime.ingest.in_time.feed_block import BlockFrame, FeedBlock
from agent.runtime.ingest.in_time.hand_ins import HandIns
from agent.runtime.ingest.operator import Operator
from agent.runtime.model.step_clock import StepClock
from agent.runtime.scheduling.event_costs import TRIAL_EVENTS, EventCosts
from agent.runtime.scheduling.fair import FairScheduler
from agent.runtime.scheduling.lots import Lot, slot_of

PACE_WEIGHT = 0.1
"""Weight of the last slice in how much of the time is left for events."""
PACE_MAX = 4.0
"""Upper bound on the time that passes for each second of inserting."""

Evaluating = Callable[[Operator, int, float], AbstractContextManager[None]]
"""Contains what an operator raises: the operator, new events, and the time (s)."""


@dataclass(slots=True, eq=False)
class _Entry:
    """Holds what was brought to an operator at once: events of a block, with its end, or only an end. `waiting`: its
    events that wait. `late`: those that were abandoned, by pane."""

    end: Callable[[], None]
    waiting: int = 0
    late: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class _Pace:
    """The time that passes for each second of inserting while events wait: other work has its turns, too."""

    value: float = 1.0
    _all_s: float = 0.0
    _inserting_s: float = 0.0
    _ended_at: float | None = None

    def note(self, began: float, ended: float, *, more: bool) -> None:
        """Notes a slice, and whether more waits after it."""
        before_s = 0.0 if self._ended_at is None else max(0.0, began - self._ended_at)
        self._inserting_s += PACE_WEIGHT * (ended - began - self._inserting_s)
        self._all_s += PACE_WEIGHT * (ended - began + before_s - self._all_s)
        if self._inserting_s > 0:
            self.value = min(PACE_MAX, self._all_s / self._inserting_s)
        self._ended_at = ended if more else None


class WaitingEvents:
    """The events of one agent that wait for their turn. `slice_s` tells how long a slice of work may be."""

    def __init__(
        self, clock: StepClock, hand_ins: HandIns, slice_s: Callable[[], float], evaluating: Evaluating
    ) -> None:
        self.costs = EventCosts()
        self._scheduler = FairScheduler()
        self._clock, self._hand_ins, self._slice_s, self._evaluating = clock, hand_ins, slice_s, evaluating
        self._queues: dict[Operator, deque[_Entry]] = {}
        self._inside: dict[Operator, float] = {}
        """The deadlines of blocks of which more parts follow."""
        self._pace = _Pace()
        self._origin_ms: int | None = None

    @property
    def abandoned(self) -> int:
        """The number of events that were abandoned, of each operator."""
        return self._scheduler.abandoned_events

    @property
    def has_work(self) -> bool:
        """Whether events wait for their turn."""
        return len(self._scheduler) > 0

    @property
    def has_room(self) -> bool:
        """Whether more may come: where they may not, feeds are not read on."""
        return self._scheduler.has_room and len(self._scheduler) < WAITING_ROWS_MAX

    def waits(self, operator: Operator) -> bool:
        """Whether something waits of an operator: nothing may overtake it."""
        return operator in self._queues

    def now(self) -> float:
        """The time on the clock of deadlines."""
        return self._seconds(self._clock.wall_ms)

    def _seconds(self, time_ms: float) -> float:
        if self._origin_ms is None:
            self._origin_ms = int(self._clock.wall_ms) // 1000 * 1000
        return (time_ms - self._origin_ms) / 1000

    # What feeds bring.

    def add(self, operator: Operator, block: FeedBlock) -> bool:
        """Takes a block for an operator, before `share_out`; False: the operator may have it at once, all of it."""
        due = self.due(operator, [frame.events for frame in block.frames], block.place)
        if due is None and operator not in self._queues:
            return False
        queue = self._queues.setdefault(operator, deque())
        entry = _Entry(lambda: block.end(operator))
        queue.append(entry)
        if due is None:
            with self._evaluating(operator, block.rows, self._clock.now):
                for frame in block.frames:
                    block.give(operator, frame, frame.events)
        else:
            self._release(operator, block, entry, due)
        return True

    def share_out(self, operators: Iterable[Operator]) -> None:
        """Gives these operators what they can have now of a block that all of them have been told of."""
        self._gather()
        for operator in operators:
            self._drain(operator)

    def after(self, operator: Operator, end: Callable[[], None]) -> None:
        """Calls something once nothing waits of an operator: now, perhaps."""
        if (queue := self._queues.get(operator)) is None:
            end()
        else:
            queue.append(_Entry(end))

    def due(self, operator: Operator, frames: Iterable[pl.DataFrame], place: Place | None) -> float | None:
        """The time by which events of the next block, or of a part of one, are to be inserted, so that all of it is
        done between two sealings, with the parts before; None: whenever."""
        earlier = self._inside.pop(operator, None)
        if not self.may_abandon(operator, place):
            return None
        live = [oldest for events in frames if (oldest := _oldest(events, operator.open_from_ms)) is not None]
        due_ms = self._hand_ins.due_ms(operator, min(live)) if live else None
        limit_ms = operator.key.limit_ms
        if due_ms is None or limit_ms is None:
            return None
        due = slot_of(self._seconds(due_ms), limit_ms / 1000)
        due = due if earlier is None else min(due, earlier)
        if place is not None and place.is_inside:
            self._inside[operator] = due
        return due

    def may_abandon(self, operator: Operator, place: Place | None) -> bool:
        """Whether events of a block may be abandoned: nobody has read it before, and its operator hands in."""
        return self._hand_ins.may_abandon(operator) and not (place is not None and place.replayed)

    def _release(self, operator: Operator, block: FeedBlock, entry: _Entry, due: float) -> None:
        cost_class = operator.cost_class
        cost_s = self.costs.cost_s(operator, cost_class)
        lots = [
            Lot(operator, operator, due, cost_class, frame.events.height, cost_s, (entry, block, frame))
            for frame in block.frames
            if frame.events.height
        ]
        entry.waiting = sum(lot.events for lot in lots)
        self._scheduler.release(lots, self.now())

    # Turns.

    def step(self, now: float) -> None:
        """Does the slice of work that is gathered, and gathers the next one."""
        began = self._clock.now
        for operator in tuple(self._hand_ins.operators):
            if operator.waiting_rows:
                with self._evaluating(operator, 0, now):
                    operator.insert_waiting()
        self._gather()
        self._pace.note(began, self._clock.now, more=self.has_work)

    def abandon_late(self) -> None:
        """Abandons what cannot be done any more."""
        self._scheduler.release((), self.now())
        self._count_abandoned()

    def insert_all(self, operator: Operator) -> None:
        """Gives an operator all of its events that wait: it reads no more, or one feed less."""
        self._inside.pop(operator, None)
        if operator in self._queues:
            for lot in self._scheduler.withdraw(operator):
                self._take(lot)
            self._drain(operator)

    def drop(self, operator: Operator) -> None:
        """Forgets an operator, with all that waits of it."""
        self._scheduler.drop(operator)
        self.costs.forget(operator)
        self._queues.pop(operator, None)
        self._inside.pop(operator, None)

    def inserted(self, operator: Operator, rows: int, took_s: float) -> None:
        """Measures what events of an operator cost."""
        if self._hand_ins.may_abandon(operator):
            cost_class = operator.cost_class
            self.costs.measured(operator, cost_class, rows, self._pace.value * took_s)
            if (cost_s := self.costs.revision(operator, cost_class)) is not None:
                self._scheduler.revise(operator, cost_class, cost_s)

    def _gather(self) -> None:
        """Hands out lots until they are a slice of work. O(operators and lots)."""
        slice_s = self._slice_s()
        gathered_s = sum(self._gathered_s(operator) for operator in self._hand_ins.operators)
        while (left_s := slice_s - gathered_s) > slice_s / 2:
            lot = self._scheduler.next_to_process(self.now(), left_s)
            if lot is None:
                break
            operator = _source(lot)[-1]
            gathered_s -= self._gathered_s(operator)
            self._take(lot)
            self._drain(operator)
            gathered_s += self._gathered_s(operator)
        self._count_abandoned()

    def _gathered_s(self, operator: Operator) -> float:
        """The work on events that an operator has and has not inserted; a batch of them is always a slice."""
        rows, cost_class = operator.waiting_rows, operator.cost_class
        batch = ROWS_PER_BATCH // 2 if self.costs.is_known(operator, cost_class) else TRIAL_EVENTS
        return self._slice_s() if rows >= batch else rows * self.costs.cost_s(operator, cost_class)

    def _take(self, lot: Lot) -> None:
        """Gives the events of a lot to their operator."""
        entry, block, frame, operator = _source(lot)
        entry.waiting -= lot.events
        events = frame.events  # itself, if all of it: operators that take the same frames share their batches
        if lot.events < events.height:
            events = events.slice(lot.first, lot.events)
        with self._evaluating(operator, lot.events, self._clock.now):
            block.give(operator, frame, events)

    def _count_abandoned(self) -> None:
        """Notes which events are abandoned: they are late when their block ends."""
        operators = dict[Operator, None]()
        for lot in self._scheduler.abandoned():
            entry, _, frame, operator = _source(lot)
            entry.waiting -= lot.events
            entry.late.update(operator.counted_by_pane(frame.events[TIME].slice(lot.first, lot.events)))
            operators[operator] = None
        for operator in operators:
            self._drain(operator)

    def _drain(self, operator: Operator) -> None:
        """Ends all blocks from the first on of which no event waits."""
        while (queue := self._queues.get(operator)) and not queue[0].waiting:
            entry = queue.popleft()
            operator.has_more = bool(queue)
            with self._evaluating(operator, 0, self._clock.now):
                operator.abandon(entry.late)
                entry.end()
        if not queue:
            self._queues.pop(operator, None)
        elif not operator.has_more:
            operator.await_more()


def _source(lot: Lot) -> tuple[_Entry, FeedBlock, BlockFrame, Operator]:
    assert isinstance(lot.source, tuple)
    assert isinstance(lot.operator, Operator)
    return (*lot.source, lot.operator)


def _oldest(events: pl.DataFrame, from_ms: int) -> int | None:
    """The time of the first of some events that is not from before a time."""
    times = events[TIME]
    oldest = times.min()
    if isinstance(oldest, int) and oldest < from_ms:
        oldest = times.filter(times >= from_ms).min()
    return oldest if isinstance(oldest, int) else None
