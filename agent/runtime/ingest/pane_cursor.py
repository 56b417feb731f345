"""Follows an operator for one version of a job's function: the panes that are its own, what is counted of them, and the
runs that may leave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from agent.runtime.durable.outlet import RunOutlet
from agent.runtime.durable.records import Chain, Places, RestoredChain
from agent.runtime.function.job_function import JobFunction
from agent.runtime.ingest.feed import ColumnNames
from agent.runtime.ingest.panes.amendments import Amendments
from agent.runtime.ingest.panes.begun_panes import BegunPanes
from agent.runtime.ingest.panes.old_panes import CarriedPanes
from agent.runtime.ingest.panes.own_counts import OwnCounts
from agent.runtime.ingest.panes.pane_log import PaneLog
from agent.runtime.model.panes import END, FIRST_PANE, Counts, Run, closed_ms, runs_upto
from overlay import Id


class FollowedOperator(Protocol):
    """Serves cursors: see `Operator`."""

    closed: int
    malformed: int
    names: ColumnNames
    amendments: Amendments
    consumers: list[Any]

    @property
    def memory_bytes(self) -> int: ...
    def add(self, consumer: Any) -> None: ...
    def remove(self, consumer: Any) -> None: ...
    def insert_waiting(self) -> None: ...
    def trim(self) -> None: ...
    def finish_sealing(self) -> None: ...
    def catch_up(self, consumer: Any) -> None: ...


OperatorT = TypeVar("OperatorT", bound=FollowedOperator)


class PaneCursor(Generic[OperatorT]):
    """A cursor on an operator. Its panes are known from `begin_after` on; `on_sealed` gets each run of them
    once it may leave by its `outlet`.
    """

    def __init__(
        self, app_id: Id, function: JobFunction, operator: OperatorT, on_sealed: Callable[[Any, Run], None]
    ) -> None:
        self.app_id = app_id
        self.function = function
        self.operator = operator
        self.log, self.carried, self.begun = PaneLog(), CarriedPanes(), BegunPanes(function)
        self.is_begun, self.is_open = False, True
        self._on_sealed = on_sealed
        self.outlet = RunOutlet(lambda run: self._on_sealed(self, run))
        self.frontier = self._closed = FIRST_PANE
        """The last pane it has sealed."""
        self.last_pane = END
        """Later panes belong to another consumer."""
        self.first_pane = FIRST_PANE
        """The first pane of which the consumer has every event."""
        self.starts = FIRST_PANE
        """Start of the first window of its version."""
        self.counts = OwnCounts()
        self.is_resumed = False
        """Whether late events of earlier panes may be lost, which an earlier process of the agent has sealed."""
        self.stops_after = END
        """The pane after which its operator is to be another one."""
        operator.add(self)

    def _takes_upto(self) -> int:
        """The last pane that it takes of its present operator."""
        return min(self.last_pane, self.stops_after)

    def switch_operator(self, operator: OperatorT) -> None:
        """Continues with another operator, which can serve the consumer."""
        self.stops_after, self._closed = END, max(self._closed, self.frontier)
        has_malformed = self.counts.has_malformed
        self.counts.stop_at(self.operator.malformed)
        self.operator.insert_waiting()
        self.operator.remove(self)
        self.operator = operator
        operator.add(self)
        if has_malformed:
            self.count_malformed()

    def close(self) -> None:
        """Leaves its operator: no further run comes. Releases the callback and with it, perhaps, the store's files."""
        if self.is_open:
            self.is_open = False
            self.counts.stop_at(self.operator.malformed)
            self.operator.remove(self)
            self.outlet.close()
            self._on_sealed = lambda consumer, run: None  # noqa: ARG005

    # Its panes.

    def begin_after(self, after: int) -> None:
        """Begins: the panes after `after` belong to this consumer."""
        self.frontier = self._closed = after
        self.outlet.begin_after(after)
        self.is_begun = True

    def restore(self, sealed: RestoredChain, first_pane: int) -> None:
        """Goes on behind what an earlier process has sealed, which may leave again. `first_pane`: that of the job."""
        for run in sealed.runs:
            self.log.append(run)
        self.frontier = self._closed = min(sealed.upto, self.last_pane)
        self.log.cut(self.frontier)
        self.outlet.restore(sealed, self.log.held, self.operator.names)
        self.first_pane = first_pane
        self.operator.trim()

    def begin_at(self, pane: int, unexpected_before: int = FIRST_PANE) -> None:
        """Emits an empty run up to `pane`, so that nobody waits for earlier panes from this consumer.

        Events older than `unexpected_before` (epoch ms) count as late.
        """
        pane = min(pane, self.last_pane + 1) if self.last_pane < END else pane
        if pane - 1 > self.frontier:
            self.operator.catch_up(self)
        if pane - 1 <= self.frontier:
            return
        nothing = Run(self.frontier, pane - 1, 0, self.function.empty_state)
        self.first_pane, self._closed = pane, pane - 1
        self.counts.begin_at(pane, unexpected_before)
        self._emit(nothing)
        self.operator.trim()

    def lacks_upto(self, time_ms: int) -> None:
        """Events up to this time were read without the columns it needs: it begins after them."""
        if self.is_begun:
            self.begin_at(self.next_pane(time_ms))

    def end_at(self, last_pane: int) -> None:
        """Leaves all later panes to another version, including sealed ones."""
        if last_pane >= self.last_pane:
            return
        self.last_pane = last_pane
        self.outlet.end_at(last_pane)
        self.counts.put_back(last_pane)
        if self.frontier > last_pane:
            self.carried.cut(last_pane)
            self.log.cut(last_pane)
            self.frontier = last_pane

    @property
    def has_ended(self) -> bool:
        """Whether all of the consumer's panes are sealed, and may have left."""
        return min(self.frontier, self.outlet.released_upto) >= self.last_pane

    @property
    def holds_runs(self) -> bool:
        """Whether sealed runs wait for the disk."""
        return self.outlet.released_upto < self.frontier

    def is_behind(self, upto: int) -> bool:
        """Whether any of the consumer's panes up to this one is not sealed."""
        return self.frontier < min(upto, self._takes_upto())

    @property
    def closed(self) -> int:
        """The last pane that takes no more events of this consumer."""
        return max(self._closed, self.operator.closed) if self.is_begun else FIRST_PANE

    @property
    def closed_ms(self) -> int:
        """The last instant of the consumer's sealed panes."""
        return closed_ms(self.frontier, self.pane_ms)

    @property
    def pane_ms(self) -> int | None:
        """Milliseconds a pane lasts; None: there is only one."""
        return self.function.pane_ms

    def pane_at(self, time_ms: int | None) -> int | None:
        """The pane that contains an instant."""
        return time_ms // self.pane_ms * self.pane_ms if time_ms is not None and self.pane_ms else None

    def next_pane(self, time_ms: int) -> int:
        """The first pane that begins after an instant; FIRST_PANE before all time, or if there is only one pane."""
        pane = None if time_ms == FIRST_PANE else self.pane_at(time_ms)
        return FIRST_PANE if pane is None or self.pane_ms is None else pane + self.pane_ms

    # Counts of its own.

    def take_over(self, before: Self) -> None:
        """Succeeds the version before, whose panes are sealed: events that come for them are late, and counted here."""
        assert before.has_ended
        for operator in (self.operator, before.operator):
            operator.finish_sealing()
            operator.insert_waiting()
        before.counts.owe(Counts(events=before.operator.amendments.drop()))
        before.close()
        self.counts.take_over(before.counts, (before.closed_ms + 1, self.starts))

    def count_late(self, passed: Mapping[int, int], replayed: Collection[Chain]) -> None:
        """Counts late events: see `OwnCounts`. Some of the panes may be this consumer's."""
        self.counts.count_late(passed, min(self.closed, self._takes_upto()), replayed)

    def count_abandoned(self, passed: Mapping[int, int]) -> None:
        """Counts events as late that nobody inserts, of open panes as well."""
        if self.is_begun:
            self.counts.count_late(passed, self._takes_upto(), ())

    def count_malformed(self) -> None:
        """Counts malformed lines here from now on."""
        self.counts.count_malformed_after(self.operator.malformed)

    def begin_run(self, upto: int, places: Places, malformed: int) -> None:
        """Sets its own counts aside for the run of `upto`: everything up to this pane is being sealed, with all that
        was read before `places`, and the operator's `malformed` lines until then."""
        self.outlet.begin_sealing(places, self.log.held)
        upto = min(upto, self._takes_upto())
        self.counts.set_aside(upto, malformed, has_panes=upto > self.frontier)

    # Sealed runs.

    def take(self, run: Run) -> None:
        """Takes a run of the operator, cut to the consumer's panes."""
        if (upto := min(run.upto, self._takes_upto())) > self.frontier:
            self._emit(self.counts.with_run(self.begun.joined(run.within(self.frontier, upto)), self.pane_ms))

    def _emit(self, run: Run) -> None:
        self.frontier = run.upto
        self.carried.add(run, self.outlet.moment_of(run))
        self.hand_on()

    def hand_on(self) -> None:
        """Keeps the sealed runs that wait for no panes of older versions, and lets them leave."""
        for run, at in self.carried.take_ready():
            self.log.append(run)
            self.outlet.emit(run, at)

    def released(self, kept: Iterable[Run]) -> list[Run]:
        """The kept runs that may leave."""
        return runs_upto(self.outlet.released_upto, map(self.carried.without_stale, kept))

    @property
    def memory_bytes(self) -> int:
        """The size of the consumer's log, and its share of the operator's store."""
        shared = self.operator.memory_bytes // len(self.operator.consumers) if self.is_open else 0
        return shared + self.log.memory_bytes
