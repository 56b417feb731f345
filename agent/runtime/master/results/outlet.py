"""Publishes the results of one master, in order, each once the agents nearest to it hold what goes with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.programs.calls import WindowPublished
from agent.runtime.function.result import WindowMembership, WindowResult
from agent.runtime.function.state_rows import StateRows
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.program_table import Programs
from agent.runtime.master.results.late_json import LateJson, ResultJson, json_of, size_of
from agent.runtime.master.results.latency_meter import LatencyMeter, MadeResult, Paths
from agent.runtime.master.results.result_archive import ResultRecord, ResultRecords
from agent.runtime.master.results.result_log import GIVEN_RESULT_BYTES_MAX
from agent.runtime.master.results.subscribers import Subscribers
from agent.runtime.master.state import JobState
from agent.runtime.model.meters import JobMeter
from overlay import Id

RESULT_BYTES_MAX = 48 << 20
"""Upper bound on a result; a larger one loses its last rows."""
HERE_MAX = 256
"""Upper bound on the results whose columns wait for readers on this agent; of earlier ones they take the JSON."""
Results = Sequence[tuple[int, WindowResult]]
"""Results with their positions, in order."""


@dataclass(frozen=True, slots=True)
class ReleasableResults:
    """Results that are published once the replicas hold their revision, or a time has come."""

    revision: int
    frontier: int
    results: Results
    json: tuple[tuple[int, ResultJson], ...]
    membership: Mapping[int, WindowMembership]
    release_at: float
    events: int
    made: Mapping[int, MadeResult]


class ResultOutlet:
    """The results that wait. `on_result` is called with each published result, and the listener of `record` with each
    result of a live job as a line of a log."""

    def __init__(
        self, state: JobState, local: LocalJob, subscribers: Subscribers, programs: Programs, meter: JobMeter,
        latency: LatencyMeter,
    ) -> None:  # fmt: skip
        self.on_result: Callable[[WindowResult], None] | None = None
        self._record: Callable[[ResultRecord], None] | None = None
        self._records = ResultRecords(state)
        self._state, self._local, self._subscribers = state, local, subscribers
        self._programs, self._meter, self._latency = programs, meter, latency
        self._outcomes: deque[ReleasableResults] = deque()
        self._here: dict[int, tuple[WindowResult, set[Id]]] = {}
        """Published results, with those readers on this agent that have not taken them yet."""

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the results that wait, as JSON."""
        return sum(size_of(json) for outcome in self._outcomes for _, json in outcome.json)

    def encoded(self, results: Results) -> tuple[tuple[int, ResultJson], ...]:
        """The results as JSON, if anybody may read them so."""
        if not len(self._subscribers) and self._state.job.bounded and self._local.program is None:
            return ()
        may_be_late = not self._subscribers.log.is_of_stage and self._record is None and self._local.program is None
        may_be_late = may_be_late and self._subscribers.are_readers_at(self._state.epoch.master)
        return tuple((pane, _encoded(result, may_be_late=may_be_late)) for pane, result in results)

    def add(
        self,
        results: Results,
        json: tuple[tuple[int, ResultJson], ...],
        membership: Mapping[int, WindowMembership],
        revision: int,
        release_at: float,
        paths: Paths,
    ) -> None:
        """Takes results, made now by these paths, that may go once the replicas hold this revision, or at a time."""
        is_read = self._record is not None or self.on_result is not None or self._readers_here()
        kept = tuple(results) if is_read else ()
        frontier, events = self._state.published_upto, self._state.totals.events
        made = self._latency.made(results, paths)
        self._outcomes.append(ReleasableResults(revision, frontier, kept, json, membership, release_at, events, made))

    def release(self, is_held: Callable[[int], bool], now: float) -> Iterator[int]:
        """Publishes what may go; yields the frontier after each part."""
        while self._outcomes:
            outcome = self._outcomes[0]
            if not is_held(outcome.revision) and now < outcome.release_at:
                return
            self._outcomes.popleft()
            outcome = replace(outcome, json=self._latency.published(outcome.made, outcome.json))
            self._subscribers.frontier, self._subscribers.events = outcome.frontier, outcome.events
            self._show_here(outcome.results)
            self._subscribers.publish(outcome.json, now)
            self._count(outcome)
            self._archive(outcome)
            for _, json in outcome.json if self._local.program is not None else ():
                self._call_back(json_of(json))
            if self.on_result is not None:
                for _, result in outcome.results:
                    self.on_result(result)
            yield outcome.frontier

    def release_all(self, now: float) -> None:
        """Publishes everything at once, as the next master has taken it over as published."""
        for outcome in self._outcomes:
            self._subscribers.publish(outcome.json, now)
            self._archive(outcome)
        self._outcomes.clear()

    def _readers_here(self) -> set[Id]:
        return self._subscribers.readers_at(self._state.epoch.master)

    def _show_here(self, results: Results) -> None:
        """Keeps results for readers on this agent, whose messages follow."""
        if readers := self._readers_here():
            self._here |= {pane: (result, set(readers)) for pane, result in results}
        while len(self._here) > HERE_MAX or (self._here and not readers):
            del self._here[next(iter(self._here))]

    def json(self, pane: int) -> bytes:
        """A published result as JSON; empty if it is not kept any more."""
        return next((json for at, json in self._subscribers.log.after(pane - 1) if at == pane), b"")

    def take(self, pane: int, reader: Id) -> WindowResult | None:
        """A published result as it was made, for a reader on this agent, once; None if it is not there any more."""
        result, readers = self._here.get(pane, (None, set[Id]()))
        readers.discard(reader)
        if not readers:
            self._here.pop(pane, None)
        return result

    def _count(self, outcome: ReleasableResults) -> None:
        is_live = bool(outcome.json) and not self._state.job.bounded
        pane_ms = self._state.versions.at(outcome.frontier).function.pane_ms if is_live else None
        self._meter.count_windows(len(outcome.json), outcome.frontier, pane_ms, self._programs.wall_ms)

    def record(self, listener: Callable[[ResultRecord], None]) -> None:
        """Gives a live job's results to a log: first the last results of the master before, then each published one."""
        if not self._state.job.bounded:
            self._record, self._state.membership = listener, {}
            for record in self._records.carried_over(self._subscribers.log):
                listener(record)

    def _archive(self, outcome: ReleasableResults) -> None:
        if self._record is None:
            return
        program = self._local.program
        maps = program is not None and program.maps
        for (pane, result), (_, json) in zip(outcome.results, outcome.json, strict=True):
            self._record(self._records.record(result, json_of(json), outcome.membership[pane], maps=maps))

    def _call_back(self, json: bytes) -> None:
        if (program := self._local.program) is not None:
            self._programs.call(program, WindowPublished(self._programs.place(program), program.app, json))


def _encoded(result: WindowResult, *, may_be_late: bool) -> ResultJson:
    """A result as JSON, which `may_be_late` where it is not given to the next master: it is too large for that."""
    rows = result.rows
    if may_be_late and isinstance(rows, StateRows) and rows.json_bytes_min > GIVEN_RESULT_BYTES_MAX:
        return LateJson(result, RESULT_BYTES_MAX, max(rows.json_bytes_min, int(rows.state.estimated_size())))
    return result.to_bytes(RESULT_BYTES_MAX)
