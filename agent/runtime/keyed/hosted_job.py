"""One job with keyed elements on one agent: sources bring rows to its core, and its core brings rows to its query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import polars as pl

from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.job.local_job import LocalJob
from agent.runtime.keyed.element_program import CodeElements, ElementAct, ElementProgram
from agent.runtime.keyed.elements.declared import lag_ms
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE, ElementRuntime
from agent.runtime.keyed.graph import CheckedGraph
from agent.runtime.keyed.hosting.job import KeyedJob
from agent.runtime.keyed.hosting.options import KeyedOptions, Ring
from agent.runtime.keyed.reading_progress import KeptPlace
from agent.runtime.keyed.sources import KeyedSources
from agent.runtime.keyed.type_reader import KNOWN_MS, GivenPart, TypeReader
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id, Peer

TIME_WAIT_S, TIME_LOOK_S = 2.0, 0.05
"""Upper bound on the time for which the first rows wait until the job's time is known, and between two looks at it."""
TELL_SOON_S, TELL_S = 0.5, 5.0
"""Times between which the pause grows until a master tells again who takes part: some join the job's group only now."""
NEWEST_MAX = 1 << 16
"""Upper bound on the channels whose last row is remembered, so that rows that come again are told."""


class HostedJob:
    """A job's core on this agent, between the logs and the windows of its query.

    Rows for the query, and for stages, are inserted into this agent's own pipelines, a type as a stream of the job's;
    so they count where they are emitted, and trees combine them as they do events of logs.
    """

    def __init__(
        self,
        local: LocalJob,
        job: Submit,
        graph: CheckedGraph,
        ring: Ring,
        runtimes: Mapping[str, ElementRuntime],
        program: ElementProgram,
        options: KeyedOptions,
        ingest: OperatorPool,
        kept: Mapping[str, KeptPlace] | None = None,
    ) -> None:
        self.local, self.graph = local, graph
        self._program = program
        self._runtimes = tuple(runtimes.values())
        self._code = [runtime for runtime in runtimes.values() if isinstance(runtime, CodeElements)]
        self.app_id = local.app_id
        self._ingest = ingest
        self._rows: dict[str, list[pl.DataFrame]] = {}
        self._newest: dict[tuple[str, int], int] = {}
        grace_ms = _grace_ms(local, job)
        waits_ms = grace_ms + sum(lag_ms(one) for one in graph.graph.elements if one.kind == "join")
        self.core = KeyedJob(
            local.app_id,
            graph,
            ring,
            runtimes,
            replace(options, grace_ms=grace_ms),
            self._take_rows,
            wants=lambda type_: type_ in self._types(),
            on_unsure=self._lacks,
        )
        self.sources = KeyedSources(
            local.app_id,
            graph,
            self.core,
            ingest,
            bounded=options.bounded,
            grace_ms=grace_ms,
            since_ms=job.since_ms,
            until_ms=job.until_ms,
            incarnation=options.incarnation,
            kept=kept,
            on_rows=self._take,
            on_faults=self._note_faults,
        )
        self._malformed = self._coerced = self._told_coerced = 0
        self.is_bounded = options.bounded
        self._rows_at: float | None = None
        self._first_at: float | None = None
        self._new_reader = partial(
            TypeReader, core=self.core, ingest=ingest, waits_ms=waits_ms, bounded=options.bounded
        )
        self._readers = [self._new_reader(local)]
        self._has_failed = False
        self._members: tuple[tuple[Peer, ...], Peer] | None = None
        self._tell_at, self._tell_pause_s, self._enrolments = 0.0, TELL_S, 0

    def close(self) -> None:
        """Reads and hosts no more."""
        self.sources.close()

    def leave(self, now: float) -> None:
        """Reads no more, and begins to hand over what is hosted here."""
        self.sources.close()
        self.core.leave(now)

    def places(self) -> list[KeptPlace]:
        """The places from which its sources would go on after a restart, and which nodes it would have forgotten."""
        if self.term is None or self.is_bounded:
            return []
        return [KeptPlace.of_nodes(self.term, self.core.begun), *self.sources.places(self.term)]

    @property
    def term(self) -> JobTerm | None:
        """The job's life, which its masters share."""
        epoch = self.local.epoch
        return None if epoch is None else JobTerm(self.app_id, epoch.born_ms)

    # Rows for the job's query and stages.

    def read_by(self, stages: Iterable[LocalJob]) -> None:
        """Gives events to the job's query and to these stages from now on, and to no others."""
        known = {one.local.app_id: one for one in self._readers if one.is_current}
        self._readers = [known.get(one.app_id) or self._new_reader(one) for one in (self.local, *stages)]

    def _types(self) -> set[str]:
        """The types that any query reads."""
        return {type_ for reader in self._readers for type_ in reader.types}

    def _take_rows(self, type_: str, rows: pl.DataFrame) -> None:
        """Takes rows that an element has emitted here. Those of elements without a key, of negative channels, may come
        again after a host was lost, and are passed over."""
        if type_ in self._types() and rows.height:
            may_repeat = self.graph.types[type_].guaranteed and rows[SOURCE][0] < 0
            self._take(type_, self._not_taken(type_, rows) if may_repeat else rows)

    def _not_taken(self, type_: str, rows: pl.DataFrame) -> pl.DataFrame:
        channels = rows.group_by(SOURCE).agg(pl.col(SEQ).max(), pl.col(SEQ).min().alias("least"))
        for channel, newest, least in channels.iter_rows():
            known = self._newest.pop((type_, channel), -1)
            self._newest[type_, channel] = max(newest, known)
            if least <= known:
                rows = rows.filter((pl.col(SOURCE) != channel) | (pl.col(SEQ) > known))
        while len(self._newest) > NEWEST_MAX:
            del self._newest[next(iter(self._newest))]
        return rows

    def _lacks(self, type_: str, rows: pl.DataFrame) -> None:
        """Notes that it is not known whether rows count anywhere: windows say so."""
        upto_ms = int(rows[EVENT_TIME].to_numpy().max())
        for reader in self._readers:
            if (key := reader.types.get(type_)) is not None:
                self._ingest.lost(key, upto_ms)

    def _take(self, type_: str, rows: pl.DataFrame) -> None:
        if rows.height and type_ in self._types():
            self._rows.setdefault(type_, []).append(rows)
            self._rows_at = self._ingest.now if self._rows_at is None else self._rows_at

    def flush(self, now: float, wall_ms: int) -> None:
        """Gives queries the rows that have come, and tells them how far the time of their types has come."""
        if self._waits_for_time(now):
            return
        rows, self._rows, self._rows_at = self._rows, {}, None
        self._tell_faults()
        for reader in self._readers:
            reader.give(rows, now, wall_ms)

    def note_published(self) -> None:
        """Tells the core which windows are out, of all who read a type."""
        for type_ in self._types():
            readers = [one for one in self._readers if type_ in one.types]
            if (from_ms := min(one.needed_from_ms for one in readers)) > FIRST_PANE:
                self.core.published(type_, from_ms)

    def given_to(self, app_id: Id, node_id: Id, after: int, upto: int) -> GivenPart | None:
        """The part of an agent that hosts here can make again of the windows of this job, or of a stage; None: its
        windows are made of something else, too. An agent that is asked of itself knows what is over for it."""
        reader = next((one for one in self._readers if one.local.app_id == app_id), None)
        if reader is None or not all(map(self.core.is_given_once, reader.types)):
            return None
        own_ms = min((self.core.watermark(type_) for type_ in reader.types), default=KNOWN_MS)
        return reader.given_to(node_id, after, upto, own_ms if node_id == self.core.me.node_id else None)

    def _note_faults(self, malformed: int, coerced: int) -> None:
        self._malformed, self._coerced = self._malformed + malformed, self._coerced + coerced

    def _tell_faults(self) -> None:
        """Counts, with the windows of the job's query, what did not fit in logs, in reading them and in emitting."""
        emitted = sum(getattr(runtime, "coerced", 0) for runtime in self._runtimes)
        self._coerced, self._told_coerced = self._coerced + emitted - self._told_coerced, emitted
        if (self._malformed or self._coerced) and isinstance(self.local.pipeline, Pipeline):
            self.local.pipeline.note_origins(self._malformed, self._coerced)
            self._malformed = self._coerced = 0

    def _waits_for_time(self, now: float) -> bool:
        """Whether the first rows are to wait, as it is not known yet whether they are of the past."""
        if self.is_bounded or self._rows_at is None or any(reader.has_begun for reader in self._readers):
            return False
        if all(self.core.watermark(type_) >= KNOWN_MS for type_ in self._types()):
            return False
        self._first_at = now if self._first_at is None else self._first_at
        self._rows_at = now + TIME_LOOK_S
        return now < self._first_at + TIME_WAIT_S

    # The core.

    def tick(self, now: float, wall_ms: int) -> None:
        """Does what is due."""
        self.core.tick(now, wall_ms)
        for act in self._program.take_acts():
            self.answered(act)
        self.flush(now, wall_ms)

    def answered(self, act: ElementAct) -> bool:
        """Takes an answer of the job's program; False if it was not asked for."""
        return any(code.answered(act) for code in self._code)

    @property
    def is_active(self) -> bool:
        """Whether somebody waits for what is due here."""
        return self._rows_at is not None or self._program.has_acts or not self.core.is_at_rest

    def next_timer(self) -> float | None:
        """The time at which `tick` wants to be called."""
        timers = (self.core.next_timer(), self._rows_at, self._ingest.now if self._program.has_acts else None)
        return min((due for due in timers if due is not None), default=None)

    def take_failure(self) -> str | None:
        """The reason why the job cannot go on, once."""
        failure = self._program.failure or self.core.failure
        if self._has_failed or failure is None:
            return None
        self._has_failed = True
        return failure

    def check_states(self) -> None:
        """Has code tell what has changed in its states, as for a commit: what cannot be kept is a failure."""
        for code in self._code:
            code.take_changes(lambda _tables: None)

    @property
    def members(self) -> tuple[Peer, ...]:
        """The agents that take part, as the last master told; none where none has."""
        return () if self._members is None else self._members[0]

    def note_members(self, members: tuple[Peer, ...], now: float) -> bool:
        """Tells the core who takes part, and who leads the job; returns whether that is new."""
        master = self.local.master_peer
        if master is None or (members, master) == self._members:
            return False
        self._members = (members, master)
        self.core.members(members, master, now)
        return True

    def is_to_tell(self, members: tuple[Peer, ...], enrolments: int, now: float) -> bool:
        """Whether the master here is to tell all who takes part, which the core learns; it does then. `enrolments`:
        grows where an agent has come that has not been told, which may be one that was started again."""
        is_new = self.note_members(members, now) or enrolments != self._enrolments
        self._enrolments = enrolments
        if not is_new and now < self._tell_at:
            return False
        self._tell_pause_s = TELL_SOON_S if is_new else min(TELL_S, 2 * self._tell_pause_s)
        self._tell_at = now + self._tell_pause_s
        return True


def _grace_ms(local: LocalJob, job: Submit) -> int:
    """The time for which sources wait for late events: the query's own, or the job's."""
    return job.grace_ms if local.versions is None else local.versions.newest.function.plan.grace_ms(job.grace_ms)
