"""Gives events of a job's types to one query on this agent: the job's own, or that of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from agent.runtime.model.panes import PANE_MAX

PAST_MS = 60_000
"""Time behind the wall clock, beyond what sources and joins wait for, from which on a job is one of the past."""
KNOWN_MS = -(2**61)
"""Lower bound on times that are known: before, some agent has not told any."""


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
            columns = pipeline.feeds[key].columns
            for frame in rows.get(type_, ()):
                fields = pl.DataFrame([one for one in frame.get_columns() if one.name not in (SOURCE, SEQ)])
                frames = event_frames(fields, columns)
                self._ingest.insert(key, Parsed(frames, 0, NO_WATERMARK_MS), now, wall_ms)
            self._tell_time(key, now, wall_ms)

    def _open(self, key: FeedKey, now: float, rows: Sequence[pl.DataFrame]) -> None:
        """Lets the query begin where the job does here; or where the job's time is, if that is far behind: its logs are
        of the past, and so are the windows that come first."""
        reached_ms, began_ms = self._core.watermark(key[0]), self._began_ms
        if self._is_bounded or key in self._opened or began_ms is None or not (rows or reached_ms >= KNOWN_MS):
            return
        self._opened.add(key)
        if reached_ms < KNOWN_MS:  # the rows are ahead of the news of their time
            reached_ms = min(int(one[EVENT_TIME].to_numpy().min()) for one in rows)
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
