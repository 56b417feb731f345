"""A job's workers on one agent with the feeds they read: what comes in, and when it may be sealed.

There is a worker for each version of the job's function that is in force, and for one that is being prepared. All get
the events; each has the panes of its own version, and they seal one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from agent.parsing import NO_WATERMARK_MS, Parsed, SourceColumn, parsed_rows
from agent.runtime.feeds_wanted import Feed, FeedKey, as_named, columns_of_feed, merged_columns, placed
from agent.runtime.function import JobFunction
from agent.runtime.messages import Submit
from agent.runtime.panes import END, FIRST_PANE, Run
from agent.runtime.spill_room import SpillRoom
from agent.runtime.versions import InForce, Versions
from agent.runtime.watermark import FUTURE_MS, Watermark
from agent.runtime.worker import Worker


@dataclass(slots=True)
class _Proposed:
    """The worker of a version that is not in force yet. It has all events later than `opened` (epoch ms).

    `unseen`: feeds that have not shown yet that they yield its columns.
    """

    worker: Worker
    opened: int
    unseen: set[FeedKey]


class Intake:
    """Goes on through all epochs of a job. `begins`: the first pane that the master can still use.

    `all_feeds` tells what the agent's other jobs read.
    """

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        room: SpillRoom | None = None,
        all_feeds: Callable[[], Iterable[Feed]] = tuple,
    ) -> None:
        self.feeds = {feed.key: feed for feed in feeds}
        self.last_pane: int | None = None
        """Where a worker that leaves ends."""
        self._job = job
        self._room = room
        self._all_feeds = all_feeds
        self._watermark = Watermark(self.feeds)
        self._lacking: set[FeedKey] = set()
        self._seen_ms = FIRST_PANE
        self._ended: list[Worker] = []
        self._workers: list[Worker] = []
        self._proposed: _Proposed | None = None
        self._was_ready = False
        self.change_to(versions)
        self._begin(begins, wall_ms)

    @property
    def worker(self) -> Worker:
        """The one that seals now."""
        return self._workers[0]

    @property
    def app_feed(self) -> Feed | None:
        """The feed that brings another job's results, if there is one."""
        return next((feed for feed in self.feeds.values() if feed.app is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether its feeds may be opened: what is there besides events has come."""
        self._was_ready = self._was_ready or all(worker.function.is_ready for worker in self._workers)
        return self._was_ready

    def functions(self) -> list[JobFunction]:
        """Those that events are given to, now or soon."""
        proposed = [] if self._proposed is None else [self._proposed.worker]
        return [worker.function for worker in (*self._workers, *proposed)]

    def _begin(self, earliest: int, wall_ms: int) -> None:
        """Begins to work, but not before the earliest pane. An event that is older than the window under way and the
        grace is not from before the job: its server's clock is wrong, and its window must not look complete."""
        for worker in self._workers:
            first = self._first_pane(worker, wall_ms)
            from_now = first != FIRST_PANE
            expected_from = wall_ms - (worker.pane_ms or 0) - self._job.grace_ms
            worker.begin_at(max(earliest, first), expected_from if from_now else FIRST_PANE)
        self._go_on()

    def _first_pane(self, worker: Worker, wall_ms: int) -> int:
        """Where feeds that begin at the end of their streams can know everything: the next pane to start."""
        if any(feed.bounded or feed.start == "beginning" for feed in self.feeds.values()):
            return FIRST_PANE
        return worker.next_pane(wall_ms)

    @property
    def first_pane(self) -> int:
        """From here on there is everything, of one version or the other."""
        return [*self._ended, *self._workers][0].first_pane

    # Versions.

    def prepare(self, function: JobFunction) -> None:
        """Gathers what a further version needs, from now on."""
        before = dict(self.feeds)
        self._want_columns(function)
        # Rows of another job's results are only made when they come, with the columns that are wanted then.
        new = {key for key, feed in self.feeds.items() if feed.columns != before[key].columns and feed.app is None}
        worker = Worker(function, self._room)
        worker.is_partial = bool(self._lacking)
        self._proposed = _Proposed(worker, self._opened(), new)

    def _want_columns(self, function: JobFunction) -> None:
        others = list(self._all_feeds())
        for key, feed in self.feeds.items():
            taken = merged_columns((feed.columns, columns_of_feed(key, others)))
            wanted = placed(columns_of(function), taken)
            self.feeds[key] = replace(feed, columns=merged_columns((feed.columns, wanted)))

    def _opened(self) -> int:
        """The time (epoch ms) up to which events have been seen, or are not expected any more."""
        if not self._workers:
            return FIRST_PANE
        watermark = FIRST_PANE if self._watermark.value is None else self._watermark.value
        return max(self._seen_ms, watermark, self.worker.closed_ms)

    @property
    def prepared_after(self) -> int | None:
        """The time (epoch ms) after which there are all events for the prepared version; None: not known yet."""
        if self._proposed is None or self._proposed.unseen or not self._proposed.worker.function.is_ready:
            return None
        return self._proposed.opened

    def withdraw(self) -> None:
        """The version that is prepared will not be."""
        self._proposed = None

    def change_to(self, versions: Versions) -> None:
        """These versions are in force. One that was not prepared begins with the next pane, where that is later."""
        chain: list[Worker] = []
        for one in versions:
            chain += [worker for worker in (*self._ended, *self._workers) if worker.function is one.function]
            last = chain[-1] if chain and chain[-1].function is one.function else None
            if last is not None:
                last.end_at(one.upto)
            if last is None or last.last_pane < one.upto:
                chain.append(self._begun(one, one.after if last is None else last.last_pane))
        self._ended = [worker for worker in chain if worker in self._ended]
        self._workers = [worker for worker in chain if worker not in self._ended]
        self._go_on()

    def _begun(self, one: InForce, after: int) -> Worker:
        """A worker for panes of a version that nobody works on: the prepared one, or one that begins now."""
        opened, proposed = self._opened(), self._proposed
        if proposed is not None and proposed.worker.function is one.function:
            worker, opened, self._proposed = proposed.worker, proposed.opened, None
        else:
            worker = Worker(one.function, self._room)
            worker.is_partial = bool(self._lacking)
            self._want_columns(one.function)
        worker.end_at(one.upto)
        worker.begin_after(after, max(one.version.starts, worker.next_pane(opened)))
        return worker

    def _go_on(self) -> None:
        """Leaves sealing to the next version where all panes of one are sealed."""
        while len(self._workers) > 1 and self.worker.has_ended:
            ended = self._workers.pop(0)
            self._ended.append(ended)
            self.worker.take_over(ended)
            self._drop_columns()

    def _drop_columns(self) -> None:
        """Wants nothing read that only versions before needed."""
        needed = {(column.path, column.type) for function in self.functions() for column in columns_of(function)}
        for key, feed in self.feeds.items():
            kept = tuple(column for column in feed.columns if (column.path, column.type) in needed)
            self.feeds[key] = replace(feed, columns=kept)

    # What the feeds bring.

    def opened(self, key: FeedKey, wall_ms: int) -> bool:
        """A feed gives a sign of life; whether that is so late that the first pane is a later one now."""
        if not self._watermark.open(key):
            return False
        before = self.first_pane
        self._begin(FIRST_PANE, wall_ms)
        return self.first_pane != before

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        """Takes a parsed block of one of the feeds."""
        malformed, newest = parsed.malformed, None
        for events in parsed.frames:
            if events.is_empty():
                continue
            if not self.feeds[key].bounded:
                credible, last = believed(events, wall_ms + FUTURE_MS)
                malformed += events.height - credible.height
                newest = last if newest is None or (last is not None and last > newest) else newest
                events = credible
            if not events.is_empty():
                self._give(key, events)
        self.worker.count_malformed(malformed)
        self._saw(key, parsed.watermark_ms, newest, wall_ms)

    def _saw(self, key: FeedKey, watermark_ms: int | None, newest: int | None, wall_ms: int) -> None:
        """A feed has come so far: of many files, some may hold much older events than others."""
        if newest is not None:
            self._seen_ms = max(self._seen_ms, newest)
        if watermark_ms is not None:
            is_known = watermark_ms != NO_WATERMARK_MS
            newest = min(watermark_ms, wall_ms + FUTURE_MS) if is_known else None
        self._watermark.saw(key, newest)

    def _give(self, key: FeedKey, events: pl.DataFrame) -> None:
        """To every version. One that lacks columns of them begins later."""
        newest = events["@time"].max()
        assert isinstance(newest, int), "every event has a time"
        for worker in self._workers:
            mine = self._as_named(key, worker.function, events)
            if mine is None:
                worker.begin_at(worker.next_pane(newest))
            else:
                worker.insert(mine)
        if self._proposed is not None:
            mine = self._as_named(key, self._proposed.worker.function, events)
            if mine is None:
                self._proposed.opened = max(self._proposed.opened, newest)
            else:
                self._proposed.worker.insert(mine)
                self._proposed.unseen.discard(key)

    def _as_named(self, key: FeedKey, function: JobFunction, events: pl.DataFrame) -> pl.DataFrame | None:
        """A feed's events as a function reads them; None where they, or the function, lack some."""
        return as_named(self.feeds[key], columns_of(function), events) if function.is_ready else None

    def put(self, rows: dict[str, list[Any]], wall_ms: int) -> None:
        """Takes rows of the job's own code as events of this moment."""
        proposed = [self._proposed.worker] if self._proposed is not None else []
        times = [wall_ms] * max(map(len, rows.values()), default=0)
        for worker in (*self._workers, *proposed):
            for events in parsed_rows(times, columns_of(worker.function), rows).frames:
                worker.insert(events)

    def caught_up(self, key: FeedKey, wall_ms: int) -> None:
        """A feed is at its end for now."""
        self._watermark.caught_up(key, wall_ms)
        if self._proposed is not None:
            self._proposed.unseen.discard(key)

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Whether some of a feed's files cannot be read."""
        (self._lacking.add if some else self._lacking.discard)(key)
        for worker in (*self._workers, *([self._proposed.worker] if self._proposed else [])):
            worker.is_partial = bool(self._lacking)

    def lacks_some_at(self, time_ms: int) -> None:
        """Of what happened at an instant (epoch ms), not everything will come."""
        for worker in (*self._workers, *([self._proposed.worker] if self._proposed else [])):
            worker.lacks_some_at(time_ms)

    def end_of_feed(self, key: FeedKey) -> None:
        """A feed that ends is over."""
        self._watermark.ended(key)

    # Sealing.

    def start_sealing(self) -> None:
        """Begins to seal what the watermark allows, if anything."""
        worker, upto = self.worker, self.last_pane
        if worker.is_sealing or worker.frontier == END:
            return
        if upto is None:
            upto = self._sealable_upto()
        if upto is not None and min(upto, worker.last_pane) > worker.frontier:
            worker.start_sealing(worker.alike_upto(min(upto, worker.last_pane)))

    def _sealable_upto(self) -> int | None:
        pane_ms = self.worker.pane_ms
        if self._watermark.has_ended:
            return END
        if self._job.bounded or pane_ms is None:
            return None
        return self._watermark.sealable_upto(pane_ms, self._job.grace_ms)

    @property
    def can_seal(self) -> bool:
        """Whether there is something to seal, and room for it."""
        return self.worker.is_sealing and not self.worker.is_blocked

    def seal_next(self) -> None:
        """Seals one run of the version whose turn it is."""
        self.worker.seal_next()
        self._go_on()

    def finish_early(self) -> None:
        """Will seal all there is of a live job, without grace: nothing is to be expected after its last pane.

        Of a bounded job it has read a part that means nothing by itself.
        """
        if self._job.bounded or self.worker.pane_ms is None or self.last_pane is not None:
            return
        last = [self.worker.frontier]
        # Another job's results will be read again, by the agent that has the master next.
        for worker in self._workers if self.app_feed is None else ():
            newest = worker.newest_pane()
            reached = worker.pane_at(self._watermark.value)
            last += [min(pane, worker.last_pane) for pane in (newest, reached) if pane is not None]
        self.last_pane = max(last)
        self.feeds = {}
        self._proposed = None

    @property
    def has_finished(self) -> bool:
        """Whether all that will ever be sealed is."""
        return not self.worker.is_sealing and (self.last_pane is None or self.worker.frontier >= self.last_pane)

    def fresh(self, number: int) -> list[Run]:
        """What was sealed since the last call, under the agent's number."""
        return [run.by(number) for worker in (*self._ended, self.worker) for run in worker.fresh()]

    def after(self, frontier: int, number: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is not committed, again."""
        return [run.by(number) for worker in (*self._ended, self.worker) for run in worker.after(frontier)]

    def commit(self, frontier: int) -> None:
        """Frees what is out."""
        self._ended = [worker for worker in self._ended if worker.last_pane > frontier]
        for worker in (*self._ended, self.worker):
            worker.commit(frontier)

    @property
    def frontier(self) -> int:
        """How far everything is sealed."""
        return self.worker.frontier

    @property
    def late(self) -> int:
        """Events that came for a pane that was sealed."""
        return self.worker.late

    @property
    def memory_bytes(self) -> int:
        proposed = [self._proposed.worker] if self._proposed is not None else []
        return sum(worker.memory_bytes for worker in (*self._ended, *self._workers, *proposed))


def columns_of(function: JobFunction) -> list[SourceColumn]:
    """The source columns a function reads."""
    return [SourceColumn(column.name, column.path, column.type) for column in function.plan.columns]


def believed(events: pl.DataFrame, latest_ms: int) -> tuple[pl.DataFrame, int | None]:
    """Events that are not later than that, and the time of the newest."""
    newest = events["@time"].max()
    if isinstance(newest, int) and newest > latest_ms:
        events = events.filter(events["@time"] <= latest_ms)
        newest = events["@time"].max()
    return events, newest if isinstance(newest, int) else None
