"""Computes a job on one agent: its feeds, and a consumer for each version of its function that is in force.

There may be one consumer more, for a version that is being prepared. All get the events, by way of their operators.
Each has the panes of its own version, and their runs leave in pane order: those of a version that begins early wait in
its log until the version before has ended. Windows of that which are open then go on: see `finishing`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from agent.parsing import SourceColumn, parsed_rows
from agent.runtime.durable.feed_memory import Resumption
from agent.runtime.durable.journal import RunKeeper
from agent.runtime.durable.records import NO_NUMBER, Chain, Place, first_place
from agent.runtime.durable.restoring import InheritedPast, Past, SealedPast, identity_of
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Beside, InForce, Versions
from agent.runtime.ingest.feed import ColumnNames, Feed, FeedKey, columns_of_feed, merged_columns, placed, renamed
from agent.runtime.ingest.finishing import Begin, FinishingVersions
from agent.runtime.ingest.operator import Operator, PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.panes.begun_panes import so_far
from agent.runtime.ingest.panes.pane_store import run_again
from agent.runtime.ingest.watermark import Watermark
from agent.runtime.messages.jobs import Submit
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.incomplete import Publication
from agent.runtime.model.panes import END, FIRST_PANE, Counted, Counts, Run, closed_ms, total
from overlay import Id
from query.latency.phases import Phase

OnSealed = Callable[[Run], None]
"""Takes each sealed run, with `SELF` for its contributor."""


class Pipeline:
    """Goes on through all epochs of a job. `begins`: the first pane that the master can still use. `resumption`: an
    earlier process of this agent has begun the job. `inherited`: another agent has read its events until now.

    `ingest` is that of all of the agent's jobs; `close` leaves it.
    """

    def __init__(
        self,
        versions: Versions,
        job: Submit,
        feeds: Iterable[Feed],
        begins: int,
        wall_ms: int,
        ingest: OperatorPool,
        on_sealed: OnSealed,
        term: JobTerm,
        resumption: Resumption | None = None,
        inherited: InheritedPast | None = None,
    ) -> None:
        self.feeds = {feed.key: feed for feed in feeds}
        self.last_pane: int | None = None
        """The last pane of an agent that leaves."""
        self._job = job
        self._ingest = ingest
        self._on_sealed = on_sealed
        self._unopened = set(self.feeds)
        self._added: set[FeedKey] = set()
        """Feeds that were added later and are not open yet."""
        self._term = term
        self._resumption = resumption
        self._past: Past | None = inherited if resumption is None else SealedPast(resumption, begins)
        self._has_inherited = inherited is not None
        self.read_before = FIRST_PANE if inherited is None else inherited.read_upto
        """The pane of the last result of another job that is in its panes, as another agent has read it."""
        self._number = NO_NUMBER
        self._placed = 0
        self._committed = FIRST_PANE
        self._ended: list[PaneConsumer] = []
        """Consumers whose panes are all sealed, and not all committed."""
        self._consumers: list[PaneConsumer] = []
        self._finishing = FinishingVersions(job.app_id, ingest)
        self._current: PaneConsumer | None = None
        """The consumer whose runs are handed on as they are sealed."""
        self._out_upto = FIRST_PANE
        """The last pane of the versions that the master has forgotten, as all their panes are out."""
        self._is_ready = False
        self._proposed: PaneConsumer | None = None
        self._opened_before = FIRST_PANE
        """Time up to which events had been seen when the proposed version's consumer began."""
        self.change_to(versions)
        self._note_past()
        self._begin(begins, wall_ms)
        self._want_feeds()
        if self._can_replay:
            ingest.memory.follow(term, self)
        self.get_ready()

    @property
    def app_id(self) -> Id:
        return self._job.app_id

    @property
    def consumer(self) -> PaneConsumer:
        """The consumer whose panes are sealed now."""
        return self._consumers[0]

    @property
    def app_feed(self) -> Feed | None:
        """The feed that brings another job's results, if there is one."""
        return next((feed for feed in self.feeds.values() if feed.app is not None), None)

    @property
    def _running(self) -> list[PaneConsumer]:
        """The consumers of versions in force, and of those before whose windows are open."""
        return [*self._consumers, *self._finishing.running]

    def _attached(self) -> list[PaneConsumer]:
        """The consumers that events are given to, now or soon."""
        return [*self._running, *([self._proposed] if self._proposed is not None else [])]

    def operators(self) -> list[Operator]:
        """The operators of these consumers, each once."""
        return list(dict.fromkeys(consumer.operator for consumer in self._attached()))

    def functions(self) -> list[JobFunction]:
        """The functions of all consumers that events are given to."""
        return [consumer.function for consumer in self._attached()]

    def get_ready(self) -> bool:
        """Whether its feeds may be opened: everything it needs besides events has come. Wants them as soon as so."""
        if not self._is_ready and all(consumer.function.is_ready for consumer in self._consumers):
            if not self._has_its_turn():
                return False
            self._is_ready = True
            self._want_feeds()
            self._begin_to_read()
        return self._is_ready

    def _has_its_turn(self) -> bool:
        """Whether its feeds may be opened. One that comes too late for the feeds it shares begins anew."""
        if self._resumption is None:
            return True
        if not self._ingest.memory.join(self._resumption):
            return False
        if not self._ingest.memory.has_joined(self._resumption):
            self._resumption = None
        return True

    def _want_feeds(self) -> None:
        self._ingest.demand.want(self._job.app_id, self.feeds.values(), now=self._is_ready)

    def _begin_to_read(self) -> None:
        for operator in self.operators():
            operator.is_reading = True

    def _begin(self, earliest: int, wall_ms: int) -> None:
        """Begins, but not before the earliest pane. An event that is older than the window under way and the grace is
        not from before the job: its server's clock is wrong, and its window must not look complete."""
        for consumer in self._running:
            first = self._first_pane(consumer, wall_ms)
            from_now = first != FIRST_PANE and self._resumption is None
            expected_from = wall_ms - (consumer.pane_ms or 0) - self._grace_ms(consumer.function)
            # Old panes that go with later ones may begin before them.
            first = max(earliest, first) if consumer in self._consumers else first
            consumer.begin_at(first, expected_from if from_now else FIRST_PANE)
            if self._resumption is not None:
                consumer.counts.expect_after(self._resumption.counted_upto)
        self.advance()

    def _first_pane(self, consumer: PaneConsumer, wall_ms: int) -> int:
        """The first pane with every event: the next one to start where feeds begin at the end of their streams."""
        if any(feed.bounded or feed.start == "beginning" for feed in self.feeds.values()):
            return FIRST_PANE
        if self._has_inherited or any(self.feeds[key].is_type for key in self._unopened):
            return FIRST_PANE  # as the reader before; not known before the time of its elements is
        if self._resumption is not None:
            complete_from_ms = self._resumption.complete_from_ms
            return FIRST_PANE if complete_from_ms == FIRST_PANE else consumer.next_pane(complete_from_ms - 1)
        return consumer.next_pane(wall_ms)

    @property
    def first_pane(self) -> int:
        """The first pane with every event, whichever version computes it."""
        return [*self._ended, *self._consumers][0].first_pane

    def opened(self, key: FeedKey, wall_ms: int) -> bool:
        """Notes a feed's sign of life; whether it came so late that the first pane is a later one now."""
        if key in self._added:
            self._opened_later(key, wall_ms)
        if key not in self._unopened:
            return False
        self._unopened.discard(key)
        if self._unopened:
            return False
        before = self.first_pane
        self._begin(FIRST_PANE, wall_ms)
        for consumer in self._consumers:
            self._ingest.try_share(consumer)
        return self.first_pane != before

    @property
    def awaits_feeds(self) -> bool:
        """Whether a feed's sign of life would change anything."""
        return bool(self._unopened or self._added) or (self._proposed is not None and self.prepared_after is None)

    # Feeds that come and go.

    @property
    def is_growable(self) -> bool:
        """Whether feeds may be added now: those before are open, and no version is being prepared."""
        is_settled = self._is_ready and not self._unopened and self._proposed is None
        return is_settled and all(self._ingest.next_operator(one) is None for one in self._running)

    def read_also(self, feeds: Iterable[Feed], wall_ms: int) -> None:
        """Reads further feeds: their events count in panes that have not begun."""
        added = {feed.key: feed for feed in feeds}
        self.feeds |= added
        self._added |= added.keys()
        self._want_feeds()
        for consumer in self._running:
            after = max(consumer.next_pane(max(self._opened(), wall_ms)) - 1, consumer.frontier)
            if after < consumer.last_pane:
                self._ingest.read_also(consumer, self._names(consumer.function), after)

    def _opened_later(self, key: FeedKey, wall_ms: int) -> None:
        """An added feed is open; a pane that has begun before lacks some of its events."""
        self._added.discard(key)
        for operator in (self._ingest.next_operator(one) or one.operator for one in self._running):
            operator.lost_upto = max(operator.lost_upto, wall_ms)

    def stop_reading(self, streams: Container[str], wall_ms: int) -> None:
        """Reads these streams no more."""
        for key in [key for key in self.feeds if key[0] in streams]:
            del self.feeds[key]
            self._added.discard(key)
            self._ingest.end_feed(key, wall_ms)
            self.opened(key, wall_ms)  # it is waited for no more
        self._want_feeds()

    def close(self) -> None:
        """Leaves the ingest service: the job is over here."""
        self._ingest.memory.forget(self._term)
        if self._is_kept:
            self._ingest.journal.end(self._term)
        self._stop_reading()
        for consumer in self._consumers:
            self._ingest.detach(consumer)
        self._finishing.close()

    @property
    def _can_replay(self) -> bool:
        return not self._job.bounded and all(feed.is_read for feed in self.feeds.values())

    @property
    def _is_kept(self) -> bool:
        """Whether runs are to be on disk before they leave."""
        return self._can_replay and self._ingest.journal.is_on_disk

    def renumber(self, number: int) -> None:
        """Gives what is sealed from now on this number."""
        self._number = number
        for consumer in self._consumers:
            if consumer.outlet.keeper is not None:
                consumer.outlet.keeper.number = number

    def place(self, placed: int) -> None:
        """Has what is sealed from now on cut for the trees by the placement of this number."""
        self._placed = placed
        for consumer in self._consumers:
            if consumer.outlet.keeper is not None:
                consumer.outlet.keeper.placed = placed

    @property
    def feed_keys(self) -> Iterable[FeedKey]:
        """The keys of its feeds."""
        return self.feeds.keys()

    @property
    def needed_from_ms(self) -> int:
        """The time (epoch ms) from which on events would have to be read again after a restart."""
        every, done = (*self._ended, *self._consumers), self._committed
        for one in every:
            done = max(done, one.outlet.kept_upto)
            if done < one.last_pane:
                break
        pane_ms = next((one.pane_ms for one in every if done <= one.last_pane), every[-1].pane_ms)
        olds = [needed_ms for one in self._consumers for needed_ms in one.carried.needed_from_ms(done)]
        return max(min([closed_ms(done, pane_ms) + 1, *olds]), self.first_pane)

    def kept_place(self, key: FeedKey) -> Place | None:
        """The place in a feed before which all runs end that are on disk."""
        ended = (one for one in self._ended if one.last_pane > self._committed)
        return first_place(one.outlet.kept_places.get(key) for one in (*ended, *self._consumers))

    def code_ended(self, code: bytes) -> None:
        """Waits no more for what this code of the job would make of events."""

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
        self._proposed = self._attach(function)
        # Rows of another job's results are only made when they come, with the columns that are wanted then.
        new = {key for key, feed in self.feeds.items() if feed.columns != before[key].columns and feed.is_read}
        self._proposed.operator.unseen &= new
        for consumer in self._consumers:
            consumer.operator.is_ending = True

    def _attach(self, function: JobFunction) -> PaneConsumer:
        bounded, grace_ms = self._job.bounded, function.grace.waits_ms
        names, watermark = self._names(function), self._watermark
        consumer = self._ingest.attach(
            self.app_id, function, names, self._sealed, grace_ms=grace_ms, bounded=bounded, watermark=watermark
        )
        consumer.operator.is_reading = self._is_ready
        return consumer

    def _grace_ms(self, function: JobFunction) -> int:
        """Milliseconds that late events are waited for."""
        if function.plan.reads_types:
            return 0  # its events come behind the watermark
        return function.plan.grace_ms(self._job.grace_ms)

    @property
    def _watermark(self) -> Watermark | None:
        return self.consumer.operator.watermark if self._consumers else None

    def _names(self, function: JobFunction) -> ColumnNames:
        names = {}
        for key, feed in self.feeds.items():
            yielded = {(column.path, column.type): column.name for column in feed.columns}
            columns = function.columns_of(feed.stream)
            needed = ((yielded[column.path, column.type], column.name) for column in columns)
            names[key] = tuple(sorted(needed))
        return names

    def run_again(
        self, function: JobFunction, given: Mapping[FeedKey, Sequence[pl.DataFrame]], after: int, upto: int
    ) -> Run:
        """The run of the panes in (after, upto] that a worker seals whose feeds bring these frames. O(events)."""
        names = self._names(function)
        events = [
            part
            for key, frames in given.items()
            for frame in frames
            for part in function.read(key[0], renamed(frame, names[key]))
        ]
        return run_again(function, events, after, upto)

    def _want_columns(self, function: JobFunction) -> None:
        others = self._ingest.demand.all()
        for key, feed in self.feeds.items():
            taken = merged_columns((feed.columns, columns_of_feed(key, others)))
            wanted = placed(function.columns_of(feed.stream), taken)
            self.feeds[key] = replace(feed, columns=merged_columns((feed.columns, wanted)))
        self._want_feeds()

    def _opened(self) -> int:
        """The time (epoch ms) up to which events have been seen, or are not expected any more."""
        if not self._consumers:
            return FIRST_PANE
        operator = self.consumer.operator
        watermark = FIRST_PANE if operator.watermark.value is None else operator.watermark.value
        return max(operator.seen_ms, watermark, self.consumer.closed_ms)

    @property
    def prepared_after(self) -> int | None:
        """The time (epoch ms) after which the prepared version has every event; None: not known yet."""
        if self._proposed is None or self._proposed.operator.unseen or not self._proposed.function.is_ready:
            return None
        return max(self._opened_before, self._proposed.operator.lacked_ms)

    def withdraw(self) -> None:
        """Gives up the version that is being prepared."""
        if self._proposed is not None:
            self._ingest.detach(self._proposed)
            self._proposed = None
        for consumer in self._consumers:
            consumer.operator.is_ending = False

    def change_to(self, versions: Versions) -> None:
        """Puts these versions in force. One that was not prepared begins with the next pane, where that is later: what
        has been counted of its windows until then is in none, and late."""
        counted = [_counted(consumer) for consumer in (*self._ended, *self._consumers)]
        chain, beyond = self._out_before(versions), dict[PaneConsumer, list[Run]]()
        for one in versions:
            chain += [consumer for consumer in (*self._ended, *self._consumers) if consumer.function is one.function]
            last = chain[-1] if chain and chain[-1].function is one.function else None
            if last is not None:
                beyond[last] = last.log.after(one.upto)
                last.end_at(one.upto)
            if last is None or last.last_pane < one.upto:
                after = one.after if last is None else last.last_pane
                ended_ms = closed_ms(after, chain[-1].pane_ms if chain else None)
                chain.append(self._begun(one, after, versions.beside(one.upto)))
                _leave_out(chain[-1], max(one.version.starts, ended_ms + 1), counted)
        for consumer in self._consumers:
            if consumer not in chain:
                self._ingest.detach(consumer)
        self._ended = [consumer for consumer in chain if consumer in self._ended]
        self._consumers = [consumer for consumer in chain if consumer not in self._ended]
        olds = {one.function: [old for old in versions.beside(one.upto) if old.is_carried] for one in versions}
        mains = [(one, olds.get(one.function, ()) if one in self._consumers else ()) for one in chain]
        self._finishing.carry(mains, beyond, self._opened(), Begin(self._attach, self._hand_on_waiting))
        self.advance()
        if not self._unopened:
            for consumer in self._consumers:
                self._ingest.try_share(consumer)

    def _out_before(self, versions: Versions) -> list[PaneConsumer]:
        """The consumers of versions that the master has forgotten, as all their panes are out. What they seal goes
        nowhere; but what of it is in no window is still to be counted as late."""
        in_force = {one.function for one in versions}
        self._out_upto, before, begun = next(iter(versions)).after, list[PaneConsumer](), FIRST_PANE
        for consumer in (*self._ended, *self._consumers):
            if begun >= self._out_upto or consumer.function in in_force:
                break
            consumer.end_at(self._out_upto)
            before.append(consumer)
            begun = consumer.last_pane
        return before

    def _begun(self, one: InForce, after: int, olds: Sequence[Beside]) -> PaneConsumer:
        """A consumer for panes of a version that has none: the prepared one, or one that begins now. `olds`: the older
        versions whose panes it may have carried before a restart."""
        opened, proposed = self._opened(), self._proposed
        if proposed is not None and proposed.function is one.function:
            consumer, self._proposed = proposed, None
            opened = max(self._opened_before, consumer.operator.lacked_ms)
        else:
            self._want_columns(one.function)
            consumer = self._attach(one.function)
        consumer.end_at(one.upto)
        consumer.starts = one.version.starts
        if self._is_kept:
            chain = Chain(self._term, one.version.number)
            keeper = RunKeeper(self._ingest.journal, chain, identity_of(one.function), self._number, self._placed)
            keeper.old_functions = {old.number: identity_of(old.old.function) for old in olds}
            consumer.outlet.keeper = keeper
        consumer.begin_after(after)
        if self._past is not None and (sealed := self._past.of(one, olds)) is not None:
            consumer.restore(sealed, self._past.first_pane)
        if isinstance(self._past, InheritedPast):
            consumer.begun.restore(self._past.opened(one))
        consumer.begin_at(max(one.version.starts, consumer.next_pane(opened)))
        return consumer

    def so_far(self) -> list[Run] | None:
        """The panes that are not sealed, as they are so far; None while that cannot be told, as versions change."""
        is_steady = len(self._consumers) == 1 and self._proposed is None and not self._finishing.running
        return so_far(self.consumer) if is_steady else None

    def _note_past(self) -> None:
        """Has the first consumer count what came too late of what an earlier process has read."""
        if self._past is not None:
            for consumer in self._consumers:
                consumer.is_resumed = consumer.outlet.kept_upto == FIRST_PANE
            first = self.consumer
            first.counts.sealed_before(self._past.chains, self._past.first_pane)
            self._past = None

    def advance(self) -> None:
        """Goes on to the next version where all panes of one are sealed, and may leave."""
        self._hand_on_first()
        for consumer in self._running:
            self._ingest.switch_if_due(consumer)
        if self._finishing.advance():
            self._drop_columns()
        while len(self._consumers) > 1 and self.consumer.has_ended:
            ended, following = self._consumers[:2]
            following.take_over(ended)
            del self._consumers[0]
            self._ended.append(ended)
            self._ingest.detach(ended)
            self._drop_columns()
            self._hand_on_first()

    def _hand_on_first(self) -> None:
        """Makes the first consumer the current one, and hands on what waits in its log."""
        self.consumer.count_malformed()
        if self._current is not self.consumer:
            self._current = self.consumer
            for run in self.consumer.released(self.consumer.log.after(FIRST_PANE)):
                self._sealed(self.consumer, run)

    def _hand_on_waiting(self) -> None:
        """Lets runs leave that have waited for panes of older versions."""
        for consumer in self._consumers:
            consumer.hand_on()

    def _sealed(self, consumer: PaneConsumer, run: Run) -> None:
        """Hands on a run of the current version; runs of later versions wait in their logs."""
        if consumer is self._current and run.upto > self._out_upto:
            if run.path is not None:
                run = replace(run, path=run.path.spent(Phase.SEAL, self._ingest.time.now))
            self._on_sealed(run)

    def _drop_columns(self) -> None:
        """Stops reading columns that only earlier versions needed."""
        for key, feed in self.feeds.items():
            columns = [column for function in self.functions() for column in function.columns_of(feed.stream)]
            needed = {(column.path, column.type) for column in columns}
            kept = tuple(column for column in feed.columns if (column.path, column.type) in needed)
            self.feeds[key] = replace(feed, columns=kept)
        self._want_feeds()

    # Events that come by other ways than its feeds.

    def put(self, rows: dict[str, list[Any]], wall_ms: int) -> None:
        """Takes rows of the job's own code as events of this moment."""
        times = [wall_ms] * max(map(len, rows.values()), default=0)
        for operator in self.operators():
            for events in parsed_rows(times, columns_of(operator.function), rows).frames:
                operator.put(events)

    def note_origins(self, malformed: int, coerced: int) -> None:
        """Counts malformed lines, and values that did not fit, of what its events have been made of."""
        self.consumer.counts.note(malformed, coerced)

    def lacks_some_at(self, time_ms: int) -> None:
        """Notes that some events of an instant (epoch ms) will not come."""
        for operator in self.operators():
            operator.lacks_some_at(time_ms)

    # Sealed runs.

    def finish_early(self) -> None:
        """Seals everything of a live job, without grace: no event is expected after its last pane.

        A bounded job has read a part that means nothing by itself, and seals nothing.
        """
        if self._job.bounded or self.consumer.pane_ms is None or self.last_pane is not None:
            return
        for operator in self.operators():
            self._ingest.waiting.insert_all(operator)
        self.advance()
        for consumer in self._running:
            self._ingest.stay(consumer)
        last = [self.consumer.frontier]
        # Another job's results will be read again, by the agent that has the master next.
        for consumer in self._consumers if self.app_feed is None else ():
            newest = consumer.operator.newest_pane()
            reached = consumer.pane_at(consumer.operator.watermark.value)
            last += [min(pane, consumer.last_pane) for pane in (newest, reached) if pane is not None]
        self.last_pane = max(last)
        self.feeds = {}
        self._stop_reading()
        olds = [old.frontier(self.last_pane) for one in self._consumers for old, _ in one.carried.sources]
        for operator in self.operators():
            operator.seal_early(max([self.last_pane, *olds]))

    @property
    def has_finished(self) -> bool:
        """Whether everything that will ever be sealed is sealed."""
        if any(consumer.holds_runs for consumer in self._consumers):
            return False
        if self.last_pane is None:
            return not self.consumer.operator.is_sealing
        return not any(consumer.is_behind(self.last_pane) for consumer in self._consumers)

    def after(self, frontier: int, published: int = END) -> list[Run]:
        """Every run sealed beyond a frontier that may leave, again, for a master that has published panes up to
        another."""
        self.advance()
        frontier = max(frontier, self._out_upto)
        consumers = (*self._ended, self.consumer)
        return [run for one in consumers for run in one.released(one.log.after(frontier, published))]

    def commit(self, published: Publication, retention_pane: int) -> Counts:
        """Frees published runs, except those that open windows still need. Returns the counts of runs that are in no
        window."""
        self._committed = max(self._committed, published.frontier)
        consumers = (*self._ended, self.consumer)
        lost = total([consumer.log.commit(published, retention_pane) for consumer in consumers])
        self._ended = [one for one in self._ended if one.last_pane > retention_pane]
        if not self._ended:
            self.consumer.log.merge(self.consumer.function, published.frontier)
        for consumer in self._consumers:
            consumer.carried.forget(published.frontier)
        self._note_held()
        return lost

    def _note_held(self) -> None:
        """Notes which runs the disk still needs to keep, with the next one."""
        every = (*self._ended, *self._consumers)
        for consumer in self._consumers:
            if consumer.outlet.keeper is not None and every[0].outlet.keeper is not None:
                consumer.outlet.keeper.oldest = every[0].outlet.keeper.chain.version
        if held := every[0].log.held:
            self._ingest.journal.free(self._term, held[0][0])

    def owe(self, lost: Counts) -> None:
        """Counts what is in no window as late, with the next pane."""
        self.consumer.counts.owe(lost)

    def take_late(self) -> int:
        """The late events that no run tells of so far, for an agent that is leaped over; returned once. Where windows
        are out at their deadlines nobody waits for what it says: there they go with its next run."""
        if self.consumer.operator.key.limit_ms is not None:
            return 0
        return self.consumer.counts.take_late()

    @property
    def frontier(self) -> int:
        """The last pane up to which everything is sealed, and may have left."""
        return min(self.consumer.frontier, self.consumer.outlet.released_upto)

    @property
    def late(self) -> int:
        """Events that came for a closed pane."""
        return self.consumer.counts.late

    @property
    def memory_bytes(self) -> int:
        return sum(consumer.memory_bytes for consumer in (*self._ended, *self._attached()))


def _counted(consumer: PaneConsumer) -> tuple[int, Counted]:
    """Milliseconds that a consumer's panes last, and what has been counted of each, sealed or not."""
    open_panes = consumer.operator.counted().items() if consumer.frontier < consumer.last_pane else ()
    mine = {pane: counts for pane, counts in open_panes if consumer.frontier < pane <= consumer.last_pane}
    return consumer.pane_ms or 0, {**consumer.log.counted, **mine}


def _leave_out(consumer: PaneConsumer, begins: int, counted: Iterable[tuple[int, Counted]]) -> None:
    """Has a consumer count as late what was and will be read of panes that begin at `begins` (epoch ms) or later, and
    end before its own first one. `counted`: what others have counted."""
    for pane_ms, panes in counted:
        lost = (counts for pane, counts in panes.items() if begins <= pane and pane + pane_ms <= consumer.first_pane)
        consumer.counts.owe(total(lost))
        consumer.counts.expect_after(begins - 1)


def columns_of(function: JobFunction) -> list[SourceColumn]:
    """The source columns a function reads."""
    return [SourceColumn(column.name, column.path, column.type) for column in function.plan.columns]
