"""Gives events of a job's types to one query on this agent: the job's own, or that of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from agent.parsing import NO_WATERMARK_MS, Parsed
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.ingest.self_paced import SelfPacedPipeline
from agent.runtime.job.local_job import LocalJob
from agent.runtime.keyed.elements.runtime import EVENT_TIME, SEQ, SOURCE
from agent.runtime.keyed.event_columns import event_frames
from agent.runtime.keyed.hosting.job import KeyedJob
from agent.runtime.keyed.hosting.options import Bools
from agent.runtime.keyed.hosting.slot import BEGINNING
from agent.runtime.messages.jobs import Snapshot
from agent.runtime.model.panes import END, FIRST_PANE, PANE_MAX, closed_ms
from overlay import Id

PAST_MS = 60_000
"""Time behind the wall clock, beyond what sources and joins wait for, from which on a job is one of the past."""
KNOWN_MS = -(2**61)
"""Lower bound on times that are known: before, some agent has not told any."""


class GivenPart(NamedTuple):
    """The part of an agent's runs that is made of what its query was given of some `nodes`, in the panes in (after,
    upto]."""

    after: int
    upto: int
    nodes: Bools
    runs: list[Snapshot]


class TypeReader:
    """One pipeline whose feeds are types of a job's elements. `waits_ms`: the time that these are behind the clock."""

    def __init__(self, local: LocalJob, core: KeyedJob, ingest: OperatorPool, waits_ms: int, *, bounded: bool) -> None:
        self.local = local
        self._pipeline = local.pipeline
        self._core, self._ingest = core, ingest
        self._waits_ms = waits_ms
        self._is_bounded = bounded
        self._began_ms: int | None = None
        self._opened: set[FeedKey] = set()
        self._closed_ms: dict[FeedKey, int] = {}

    @property
    def is_current(self) -> bool:
        """Whether the query still has this pipeline."""
        return self._pipeline is not None and self.local.pipeline is self._pipeline

    @property
    def types(self) -> Mapping[str, FeedKey]:
        """The types that the query reads, with their feeds."""
        pipeline = self._pipeline
        return {} if pipeline is None else {key[0]: key for key, feed in pipeline.feeds.items() if feed.is_type}

    @property
    def has_begun(self) -> bool:
        """Whether any of its feeds is open."""
        return bool(self._opened)

    def give(self, rows: Mapping[str, Sequence[pl.DataFrame]], now: float, wall_ms: int) -> None:
        """Gives it the rows of its types, and tells it how far the time of these has come."""
        self._began_ms = wall_ms if self._began_ms is None else self._began_ms
        pipeline = self._pipeline
        if not self.is_current or not isinstance(pipeline, Pipeline | SelfPacedPipeline):
            return
        for type_, key in self.types.items():
            self._open(key, now, rows.get(type_, ()))
            for frame in rows.get(type_, ()):
                frames = tuple(self._frames(key, [frame]))
                self._ingest.insert(key, Parsed(frames, 0, NO_WATERMARK_MS), now, wall_ms)
            self._tell_time(key, now, wall_ms)

    @property
    def needed_from_ms(self) -> int:
        """The time from which on windows are not out yet; FIRST_PANE while that is not known."""
        versions, committed = self.local.versions, self.local.committed
        if versions is None or committed == FIRST_PANE:
            return FIRST_PANE
        needed = versions.retention_pane(committed)
        return closed_ms(needed, versions.at(needed).function.pane_ms) + 1 if needed < END else END

    def given_to(self, node_id: Id, after: int, upto: int, own_ms: int | None) -> GivenPart | None:
        """The runs that an agent would have sealed of what it was given of the nodes hosted here. `own_ms`: of this
        agent itself, which is given more from that time on. None: it cannot be told."""
        versions, pipeline, program = self.local.versions, self._pipeline, self.local.program
        is_mapped = program is not None and program.maps
        if versions is None or not isinstance(pipeline, Pipeline) or not self.is_current or is_mapped:
            return None
        one = versions.at(upto)
        pane_ms = one.function.pane_ms
        if own_ms is not None and pane_ms is not None:
            upto = min(upto, own_ms // pane_ms * pane_ms - pane_ms)
        if pane_ms is None or not one.after <= after < upto:
            return None
        from_ms = BEGINNING if after == FIRST_PANE else closed_ms(after, pane_ms) + 1
        nodes, rows = self._core.given_to(node_id, tuple(self.types), from_ms, closed_ms(upto, pane_ms) + 1)
        given = {self.types[type_]: self._frames(self.types[type_], [events]) for type_, events in rows.items()}
        run = pipeline.run_again(one.function, given, after, upto).by(0)
        pieces = self.local.placement.once.split(one.function, run)
        return GivenPart(
            after, upto, nodes, [snapshot for piece in pieces for snapshot in self.local.snapshots_of(piece)]
        )

    def _frames(self, key: FeedKey, rows: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
        """Rows of a type as events of its feed."""
        assert self._pipeline is not None
        columns = self._pipeline.feeds[key].columns
        fields = (frame.drop(SOURCE, SEQ, strict=False) for frame in rows)
        return [made for frame in fields for made in event_frames(frame, columns)]

    def _open(self, key: FeedKey, now: float, rows: Sequence[pl.DataFrame]) -> None:
        """Lets the query begin where the job does here; or where the job's time is, if that is far behind: its logs are
        of the past, and so are the windows that come first. One that joins has all that it is given from the first."""
        reached_ms, began_ms = self._core.watermark(key[0]), self._began_ms
        if self._is_bounded or key in self._opened or began_ms is None or not (rows or reached_ms >= KNOWN_MS):
            return
        self._opened.add(key)
        if reached_ms < KNOWN_MS:  # the rows are ahead of the news of their time
            reached_ms = min(int(one[EVENT_TIME].to_numpy().min()) for one in rows)
        if self.local.joined_at is not None:
            self._ingest.open_feed(key, now, self.local.joined_at)
            return
        is_past = KNOWN_MS <= reached_ms < began_ms - self._waits_ms - PAST_MS
        self._ingest.open_feed(key, now, reached_ms if is_past else began_ms)

    def _tell_time(self, key: FeedKey, now: float, wall_ms: int) -> None:
        reached_ms, known_ms = self._core.watermark(key[0]), self._closed_ms.get(key)
        if not self._is_bounded and reached_ms < KNOWN_MS:
            return
        if known_ms is not None and reached_ms <= known_ms:
            return
        self._closed_ms[key] = reached_ms
        if not self._is_bounded:
            self._ingest.insert(key, Parsed((), 0, reached_ms), now, wall_ms)
        elif reached_ms >= PANE_MAX:
            self._ingest.end_of_feed(key, now, wall_ms)
