"""A job's workers on one agent, and the feeds they read: one for each version of its function that is in force.

There may be one more, for a version that is being prepared. All get the events, by way of their operators; each has the
panes of its own version, and what they seal goes out one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from agent.parsing import SourceColumn, parsed_rows
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import InForce, Versions
from agent.runtime.ingest.feed import Feed, FeedKey, columns_of_feed, merged_columns, placed
from agent.runtime.ingest.operator import Names, PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.watermark import Watermark
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.panes import FIRST_PANE, Run


class Pipeline:
    """Goes on through all epochs of a job. `begins`: the first pane that the master can still use.

    `ingest` is that of all of the agent's jobs; `close` tells it that this one is over.
    """

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
    ) -> None:
        self.feeds = {feed.key: feed for feed in feeds}
        self.last_pane: int | None = None
        """Where a worker that leaves ends."""
        self._job = job
        self._ingest = ingest
        self._unopened = set(self.feeds)
        self._ended: list[PaneConsumer] = []
        self._workers: list[PaneConsumer] = []
        self._is_ready = False
        self._proposed: PaneConsumer | None = None
        self._opened_before = FIRST_PANE
        """The time up to which events had been seen when the proposed worker began."""
        self.change_to(versions)
        self._begin(begins, wall_ms)
        self._want_feeds()
        self.get_ready()

    @property
    def worker(self) -> PaneConsumer:
        """The one that seals now."""
        return self._workers[0]

    @property
    def app_feed(self) -> Feed | None:
        """The feed that brings another job's results, if there is one."""
        return next((feed for feed in self.feeds.values() if feed.app is not None), None)

    def _employed(self) -> list[PaneConsumer]:
        """Those that events are given to, now or soon."""
        return [*self._workers, *([self._proposed] if self._proposed is not None else [])]

    def functions(self) -> list[JobFunction]:
        """Theirs."""
        return [worker.function for worker in self._employed()]

    def get_ready(self) -> bool:
        """Whether its feeds may be opened: what is there besides events has come. If that is news, they will be."""
        if not self._is_ready and all(worker.function.is_ready for worker in self._workers):
            self._is_ready = True
            self._want_feeds()
            self._begin_to_read()
        return self._is_ready

    def _want_feeds(self) -> None:
        self._ingest.demand.want(self._job.app_id, self.feeds.values(), now=self._is_ready)

    def _begin_to_read(self) -> None:
        for worker in self._employed():
            worker.operator.is_reading = True

    def _begin(self, earliest: int, wall_ms: int) -> None:
        """Begins to work, but not before the earliest pane. An event that is older than the window under way and the
        grace is not from before the job: its server's clock is wrong, and its window must not look complete."""
        for worker in self._workers:
            first = self._first_pane(worker, wall_ms)
            from_now = first != FIRST_PANE
            expected_from = wall_ms - (worker.pane_ms or 0) - self._grace_ms(worker.function)
            worker.begin_at(max(earliest, first), expected_from if from_now else FIRST_PANE)
        self._go_on()

    def _first_pane(self, worker: PaneConsumer, wall_ms: int) -> int:
        """Where feeds that begin at the end of their streams can know everything: the next pane to start."""
        if any(feed.bounded or feed.start == "beginning" for feed in self.feeds.values()):
            return FIRST_PANE
        return worker.next_pane(wall_ms)

    @property
    def first_pane(self) -> int:
        """From here on there is everything, of one version or the other."""
        return [*self._ended, *self._workers][0].first_pane

    def opened(self, key: FeedKey, wall_ms: int) -> bool:
        """A feed gives a sign of life; whether that is so late that the first pane is a later one now."""
        if key not in self._unopened:
            return False
        self._unopened.discard(key)
        if self._unopened:
            return False
        before = self.first_pane
        self._begin(FIRST_PANE, wall_ms)
        for worker in self._workers:
            self._ingest.settle(worker)
        return self.first_pane != before

    @property
    def awaits_feeds(self) -> bool:
        """Whether a sign of life of a feed would be news."""
        return bool(self._unopened) or (self._proposed is not None and self.prepared_after is None)

    def close(self) -> None:
        """The job is over here."""
        self._stop_reading()
        for worker in self._workers:
            self._ingest.dismiss(worker)

    def _stop_reading(self) -> None:
        self._ingest.demand.drop(self._job.app_id)
        self.withdraw()

    # Versions.

    def prepare(self, function: JobFunction) -> None:
        """Gathers what a further version needs, from now on."""
        self.withdraw()
        before = dict(self.feeds)
        self._want_columns(function)
        self._opened_before = self._opened()
        self._proposed = self._employ(function)
        # Rows of another job's results are only made when they come, with the columns that are wanted then.
        new = {key for key, feed in self.feeds.items() if feed.columns != before[key].columns and feed.app is None}
        self._proposed.operator.unseen &= new

    def _employ(self, function: JobFunction) -> PaneConsumer:
        bounded, grace_ms = self._job.bounded, self._grace_ms(function)
        names = self._names(function)
        worker = self._ingest.employ(
            self._job.app_id, function, names, grace_ms=grace_ms, bounded=bounded, watermark=self._watermark
        )
        worker.operator.is_reading = self._is_ready
        return worker

    def _grace_ms(self, function: JobFunction) -> int:
        """So long late events are waited for."""
        windowing = function.plan.windowing
        return self._job.grace_ms if windowing is None or windowing.grace_ms is None else windowing.grace_ms

    @property
    def _watermark(self) -> Watermark | None:
        return self.worker.operator.watermark if self._workers else None

    def _names(self, function: JobFunction) -> Names:
        names = {}
        for key, feed in self.feeds.items():
            yielded = {(column.path, column.type): column.name for column in feed.columns}
            columns = function.columns_of(feed.stream)
            needed = ((yielded[column.path, column.type], column.name) for column in columns)
            names[key] = tuple(sorted(needed))
        return names

    def _want_columns(self, function: JobFunction) -> None:
        others = self._ingest.demand.all()
        for key, feed in self.feeds.items():
            taken = merged_columns((feed.columns, columns_of_feed(key, others)))
            wanted = placed(function.columns_of(feed.stream), taken)
            self.feeds[key] = replace(feed, columns=merged_columns((feed.columns, wanted)))
        self._want_feeds()

    def _opened(self) -> int:
        """The time (epoch ms) up to which events have been seen, or are not expected any more."""
        if not self._workers:
            return FIRST_PANE
        operator = self.worker.operator
        watermark = FIRST_PANE if operator.watermark.value is None else operator.watermark.value
        return max(operator.seen_ms, watermark, self.worker.closed_ms)

    @property
    def prepared_after(self) -> int | None:
        """The time (epoch ms) after which there are all events for the prepared version; None: not known yet."""
        if self._proposed is None or self._proposed.operator.unseen or not self._proposed.function.is_ready:
            return None
        return max(self._opened_before, self._proposed.operator.lacked_ms)

    def withdraw(self) -> None:
        """The version that is prepared will not be."""
        if self._proposed is not None:
            self._ingest.dismiss(self._proposed)
            self._proposed = None

    def change_to(self, versions: Versions) -> None:
        """These versions are in force. One that was not prepared begins with the next pane, where that is later."""
        chain: list[PaneConsumer] = []
        for one in versions:
            chain += [worker for worker in (*self._ended, *self._workers) if worker.function is one.function]
            last = chain[-1] if chain and chain[-1].function is one.function else None
            if last is not None:
                last.end_at(one.upto)
            if last is None or last.last_pane < one.upto:
                chain.append(self._begun(one, one.after if last is None else last.last_pane))
        for worker in self._workers:
            if worker not in chain:
                self._ingest.dismiss(worker)
        self._ended = [worker for worker in chain if worker in self._ended]
        self._workers = [worker for worker in chain if worker not in self._ended]
        self._go_on()
        if not self._unopened:
            for worker in self._workers:
                self._ingest.settle(worker)

    def _begun(self, one: InForce, after: int) -> PaneConsumer:
        """A worker for panes of a version that nobody works on: the prepared one, or one that begins now."""
        opened, proposed = self._opened(), self._proposed
        if proposed is not None and proposed.function is one.function:
            worker, self._proposed = proposed, None
            opened = max(self._opened_before, worker.operator.lacked_ms)
        else:
            self._want_columns(one.function)
            worker = self._employ(one.function)
        worker.end_at(one.upto)
        worker.begin_after(after, max(one.version.starts, worker.next_pane(opened)))
        return worker

    def _go_on(self) -> None:
        """Leaves sealing to the next version where all panes of one are sealed."""
        self.worker.count_malformed()
        while len(self._workers) > 1 and self.worker.has_ended:
            ended = self._workers.pop(0)
            self._ended.append(ended)
            self.worker.take_over(ended)
            self._ingest.dismiss(ended)
            self.worker.count_malformed()
            self._drop_columns()

    def _drop_columns(self) -> None:
        """Wants nothing read that only versions before needed."""
        for key, feed in self.feeds.items():
            columns = [column for function in self.functions() for column in function.columns_of(feed.stream)]
            needed = {(column.path, column.type) for column in columns}
            kept = tuple(column for column in feed.columns if (column.path, column.type) in needed)
            self.feeds[key] = replace(feed, columns=kept)
        self._want_feeds()

    # What comes by other ways than its feeds.

    def put(self, rows: dict[str, list[Any]], wall_ms: int) -> None:
        """Takes rows of the job's own code as events of this moment."""
        times = [wall_ms] * max(map(len, rows.values()), default=0)
        for worker in self._employed():
            for events in parsed_rows(times, columns_of(worker.function), rows).frames:
                worker.operator.put(events)

    def lacks_some_at(self, time_ms: int) -> None:
        """Of what happened at an instant (epoch ms), not everything will come."""
        for worker in self._employed():
            worker.operator.lacks_some_at(time_ms)

    # What is sealed.

    def finish_early(self) -> None:
        """Seals all there is of a live job, without grace: nothing is to be expected after its last pane.

        Of a bounded job it has read a part that means nothing by itself.
        """
        if self._job.bounded or self.worker.pane_ms is None or self.last_pane is not None:
            return
        last = [self.worker.frontier]
        # Another job's results will be read again, by the agent that has the master next.
        for worker in self._workers if self.app_feed is None else ():
            newest = worker.operator.newest_pane()
            reached = worker.pane_at(worker.operator.watermark.value)
            last += [min(pane, worker.last_pane) for pane in (newest, reached) if pane is not None]
        self.last_pane = max(last)
        self.feeds = {}
        self._stop_reading()
        for worker in self._workers:
            worker.operator.seal_early(self.last_pane)

    @property
    def has_finished(self) -> bool:
        """Whether all that will ever be sealed is."""
        if self.last_pane is None:
            return not self.worker.operator.is_sealing
        return not any(worker.is_behind(self.last_pane) for worker in self._workers)

    def fresh(self, number: int) -> list[Run]:
        """What was sealed since the last call, under the agent's number."""
        self._go_on()
        return [run.by(number) for worker in (*self._ended, self.worker) for run in worker.fresh()]

    def after(self, frontier: int, number: int) -> list[Run]:
        """Everything that was sealed beyond a frontier and is not committed, again."""
        self._go_on()
        return [run.by(number) for worker in (*self._ended, self.worker) for run in worker.after(frontier)]

    def commit(self, frontier: int, kept_after: int) -> None:
        """Frees what is out, but for what windows still need that are not."""
        self._ended = [worker for worker in self._ended if worker.last_pane > frontier]
        for worker in (*self._ended, self.worker):
            worker.commit(frontier, kept_after)

    @property
    def frontier(self) -> int:
        """How far everything is sealed."""
        return self.worker.frontier

    @property
    def late(self) -> int:
        """Events that came for a pane that was closed."""
        return self.worker.late

    @property
    def memory_bytes(self) -> int:
        return sum(worker.memory_bytes for worker in (*self._ended, *self._employed()))


def columns_of(function: JobFunction) -> list[SourceColumn]:
    """The source columns a function reads."""
    return [SourceColumn(column.name, column.path, column.type) for column in function.plan.columns]
