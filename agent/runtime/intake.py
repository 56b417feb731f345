"""A job's worker on one agent with the feeds it reads: what comes in, and when it may be sealed."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from agent.parsing import NO_WATERMARK_MS, Parsed, SourceColumn
from agent.runtime.feeds_wanted import Feed, FeedKey
from agent.runtime.function import JobFunction
from agent.runtime.messages import Submit
from agent.runtime.panes import END, FIRST_PANE, Run
from agent.runtime.spill_room import SpillRoom
from agent.runtime.watermark import FUTURE_MS, Watermark
from agent.runtime.worker import Worker


class Intake:
    """Goes on through all epochs of a job. `begins`: the first pane that the master can still use."""

    def __init__(
        self,
        function: JobFunction,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        room: SpillRoom | None = None,
    ) -> None:
        self.feeds = {feed.key: feed for feed in feeds}
        self.worker = Worker(function, room)
        self.last_pane: int | None = None
        """Where a worker that leaves ends."""
        self._job = job
        self._needed = {column.name for column in columns_of(function)}
        self._pane_ms = function.plan.window_ms
        self._watermark = Watermark(self.feeds)
        self._lacking: set[FeedKey] = set()
        self._begin(begins, wall_ms)

    def _begin(self, earliest: int, wall_ms: int) -> None:
        """Begins to work, but not before the earliest pane. An event that is older than the window under way and the
        grace is not from before the job: its server's clock is wrong, and its window must not look complete."""
        first = self._first_pane(wall_ms)
        from_now = first != FIRST_PANE
        expected_from = wall_ms - (self._pane_ms or 0) - self._job.grace_ms
        self.worker.begin_at(max(earliest, first), expected_from if from_now else FIRST_PANE)

    def _first_pane(self, wall_ms: int) -> int:
        """Where feeds that begin at the end of their streams can know everything: the next pane to start."""
        if self._pane_ms is None or any(feed.bounded or feed.start == "beginning" for feed in self.feeds.values()):
            return FIRST_PANE
        return wall_ms // self._pane_ms * self._pane_ms + self._pane_ms

    # What the feeds bring.

    def opened(self, key: FeedKey, wall_ms: int) -> bool:
        """A feed gives a sign of life; whether that is so late that the first pane is a later one now."""
        if not self._watermark.open(key):
            return False
        before = self.worker.first_pane
        self._begin(FIRST_PANE, wall_ms)
        return self.worker.first_pane != before

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Takes a parsed block of one of the feeds."""
        malformed, newest = parsed.malformed, None
        for events in parsed.frames:
            # A shared feed was read before this job came to it: what is without its columns is not for it.
            if events.is_empty() or not self._needed.issubset(events.columns):
                continue
            if not self.feeds[key].bounded:
                believed, last = _believed(events, wall_ms + FUTURE_MS)
                malformed += events.height - believed.height
                newest = last if newest is None or (last is not None and last > newest) else newest
                events = believed
            self.worker.insert(events)
        self.worker.count_malformed(malformed)
        if parsed.watermark_ms is not None:  # of many files, some may hold much older events than others
            is_known = parsed.watermark_ms != NO_WATERMARK_MS
            newest = min(parsed.watermark_ms, wall_ms + FUTURE_MS) if is_known else None
        self._watermark.saw(key, newest)

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """A feed is at its end for now."""
        self._watermark.caught_up(key, wall_ms)

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Whether some of a feed's files cannot be read."""
        (self._lacking.add if some else self._lacking.discard)(key)
        self.worker.is_partial = bool(self._lacking)

    def end_of_feed(self, key: FeedKey) -> None:
        """A bounded feed is over."""
        self._watermark.ended(key)

    # Sealing.

    def start_sealing(self) -> None:
        """Begins to seal what the watermark allows, if anything."""
        worker, upto = self.worker, self.last_pane
        if worker.is_sealing or worker.frontier == END:
            return
        if upto is None:
            upto = self._sealable_upto()
        if upto is not None and upto > worker.frontier:
            worker.start_sealing(upto)

    def _sealable_upto(self) -> int | None:
        if self._job.bounded or self._pane_ms is None:
            return END if self._watermark.has_ended else None
        return self._watermark.sealable_upto(self._pane_ms, self._job.grace_ms)

    @property
    def can_seal(self) -> bool:
        """Whether there is something to seal, and room for it."""
        return self.worker.is_sealing and not self.worker.is_blocked

    def finish_early(self) -> None:
        """Will seal all there is of a live job, without grace: nothing is to be expected after its last pane.

        Of a bounded job it has read a part that means nothing by itself.
        """
        if self._job.bounded or self._pane_ms is None or self.last_pane is not None:
            return
        newest = [self.worker.newest_pane(), self._watermark.value]
        self.last_pane = max(
            [self.worker.frontier, *(time // self._pane_ms * self._pane_ms for time in newest if time)]
        )
        self.feeds = {}

    @property
    def has_finished(self) -> bool:
        """Whether all that will ever be sealed is."""
        return not self.worker.is_sealing and (self.last_pane is None or self.worker.frontier >= self.last_pane)

    def fresh(self, number: int) -> list[Run]:
        """What was sealed since the last call, under the worker's number."""
        return [run.by(number) for run in self.worker.fresh()]

    def after(self, frontier: int, number: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is not committed, again."""
        return [run.by(number) for run in self.worker.after(frontier)]


def columns_of(function: JobFunction) -> list[SourceColumn]:
    """The source columns a function reads."""
    return [SourceColumn(column.name, column.path, column.type) for column in function.plan.columns]


def _believed(events: pl.DataFrame, latest_ms: int) -> tuple[pl.DataFrame, int | None]:
    """Events that are not later than that, and the time of the newest."""
    newest = events["@time"].max()
    if isinstance(newest, int) and newest > latest_ms:
        events = events.filter(events["@time"] <= latest_ms)
        newest = events["@time"].max()
    return events, newest if isinstance(newest, int) else None
