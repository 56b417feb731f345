"""All operators of an agent: what feeds bring goes to each once, however many jobs it serves, and they seal in turn."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import Protocol

from agent.parsing import Parsed
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.event_batch import EventBatches
from agent.runtime.ingest.feed import Feed, FeedDemand, FeedKey
from agent.runtime.ingest.operator import Identity, Names, Operator, PaneConsumer
from agent.runtime.ingest.watermark import FUTURE_MS, Watermark, believed, come_to
from agent.runtime.model.panes import FIRST_PANE
from overlay import Id


class Reader(Protocol):
    """Who takes what feeds bring by itself: for a job whose code has it first."""

    def insert(self, key: FeedKey, parsed: Parsed, wall_ms: int) -> None: ...
    def caught_up(self, key: FeedKey, wall_ms: int) -> None: ...
    def end_of_feed(self, key: FeedKey) -> None: ...
    def lacks(self, key: FeedKey, some: bool) -> None: ...


class FeedListener(Protocol):
    """Follows the feeds on behalf of jobs that wait for the first sign of life of theirs."""

    def before_feeds(self) -> None:
        """The feeds to read are about to be listed: jobs that have become ready add theirs."""
        ...

    def feed_opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A feed gives a sign of life; its events follow."""
        ...

    def feed_read(self, now: float) -> None:
        """All operators have taken what the feed brought."""
        ...


class OperatorPool:
    """They count in the `room`. A worker begins with an operator of its own, and turns to another with `settle`."""

    def __init__(self, room: SpillArea | None = None) -> None:
        self.room = room
        self.demand = FeedDemand()
        self.listener: FeedListener | None = None
        self._batches = EventBatches()
        self._alike: dict[Identity, list[Operator]] = {}
        self._alone = itertools.count()
        self._reading: dict[FeedKey, list[Operator]] = {}
        self._readers: dict[FeedKey, list[Reader]] = {}
        self._newest: dict[FeedKey, int] = {}
        self._lacking: set[FeedKey] = set()
        self._sealing: dict[Operator, None] = {}
        self._news: dict[Id, None] = {}

    def __iter__(self) -> Iterator[Operator]:
        return (operator for operators in self._alike.values() for operator in operators)

    # Workers.

    def employ(
        self,
        app_id: Id,
        function: JobFunction,
        names: Names,
        *,
        grace_ms: int,
        bounded: bool,
        watermark: Watermark | None = None,
    ) -> PaneConsumer:
        """A worker that gets what the feeds bring from now on. `watermark`: how far they have come; None: not known."""
        operator = Operator(
            function,
            names,
            Watermark(names) if watermark is None else watermark.copy(),
            self.room,
            self._batches,
            grace_ms=grace_ms,
            bounded=bounded,
            read_before=max((self._newest.get(key, FIRST_PANE) for key in names), default=FIRST_PANE),
            alone=None if function.is_shareable else next(self._alone),
            tell=self._tell,
            sealing=self._begin_sealing,
        )
        operator.is_partial = not self._lacking.isdisjoint(names)
        self._alike.setdefault(operator.identity, []).append(operator)
        for key in names:
            self._reading.setdefault(key, []).append(operator)
        return PaneConsumer(app_id, function, operator)

    def _tell(self, worker: PaneConsumer) -> None:
        self.tell_of(worker.app_id)

    def _begin_sealing(self, operator: Operator) -> None:
        self._sealing[operator] = None

    def settle(self, worker: PaneConsumer) -> None:
        """Lets a worker share an older operator, if there is one that gives it the same."""
        own = worker.operator
        for operator in self._alike[own.identity]:
            if operator is own:
                return
            if operator.suits(worker):
                worker.turn_to(operator)
                self._drop_idle(own)
                return

    def dismiss(self, worker: PaneConsumer) -> None:
        """A worker needs nothing more."""
        worker.close()
        self._drop_idle(worker.operator)

    def _drop_idle(self, operator: Operator) -> None:
        alike = self._alike.get(operator.identity, [])
        if operator.workers or operator not in alike:
            return
        alike.remove(operator)
        if not alike:
            del self._alike[operator.identity]
        self._sealing.pop(operator, None)
        for key in operator.names:
            self._reading[key].remove(operator)
            if not self._reading[key]:
                del self._reading[key]
                if key[1] is not None:  # nobody else will read this feed
                    self._newest.pop(key, None)
                    self._lacking.discard(key)

    def attach(self, reader: Reader, keys: Collection[FeedKey]) -> None:
        """From now on the reader gets what these feeds bring, too."""
        for key in keys:
            self._readers.setdefault(key, []).append(reader)

    def detach(self, reader: Reader) -> None:
        """It does not any more."""
        kept = {key: [one for one in readers if one is not reader] for key, readers in self._readers.items()}
        self._readers = {key: readers for key, readers in kept.items() if readers}

    # What feeds bring.

    def feeds(self) -> tuple[Feed, ...]:
        """The feeds to read from files for all jobs together, with the columns they need; the same object until
        something changes.
        """
        if self.listener is not None:
            self.listener.before_feeds()
        return self.demand.to_read()

    def insert(self, key: FeedKey, parsed: Parsed, now: float, wall_ms: int) -> None:
        """Gives a feed's parsed block to every job on it."""
        self._opened(key, now, wall_ms)
        if operators := self._reading_now(key):
            self._insert(operators, key, parsed, wall_ms)
        for reader in self._readers_of(key):
            reader.insert(key, parsed, wall_ms)
        self._read(now)

    def _opened(self, key: FeedKey, now: float, wall_ms: int) -> None:
        if self.listener is not None:
            self.listener.feed_opened(key, now, wall_ms)

    def _read(self, now: float) -> None:
        self._batches.clear()
        if self.listener is not None:
            self.listener.feed_read(now)

    def _insert(self, operators: list[Operator], key: FeedKey, parsed: Parsed, wall_ms: int) -> None:
        malformed, newest = parsed.malformed, None
        latest_ms = None if operators[0].is_bounded else wall_ms + FUTURE_MS
        for frame in parsed.frames:
            events, last = believed(frame, latest_ms)
            malformed += frame.height - events.height
            if last is None:
                continue
            newest = last if newest is None else max(last, newest)
            columns = frozenset(events.columns)
            for operator in operators:
                operator.insert(key, events, columns, last)
        if newest is not None:
            self._newest[key] = max(newest, self._newest.get(key, FIRST_PANE))
        for operator in operators:
            operator.saw(key, malformed, come_to(parsed.watermark_ms, newest, wall_ms))

    def caught_up(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A feed has been read to its end for now; said also of a feed that was just opened there."""
        self._opened(key, now, wall_ms)
        for operator in self._reading_now(key):
            operator.caught_up(key, wall_ms)
        for reader in self._readers_of(key):
            reader.caught_up(key, wall_ms)
        self._read(now)

    def end_of_feed(self, key: FeedKey, now: float, wall_ms: int) -> None:
        """A bounded feed has been read to its end."""
        self._opened(key, now, wall_ms)
        for operator in self._reading_now(key):
            operator.end_of_feed(key)
        for reader in self._readers_of(key):
            reader.end_of_feed(key)
        self._read(now)

    def lacks(self, key: FeedKey, some: bool) -> None:
        """Whether some of a feed's files cannot be read."""
        (self._lacking.add if some else self._lacking.discard)(key)
        for operator in self._reading.get(key, ()):
            operator.is_partial = not self._lacking.isdisjoint(operator.names)
        for reader in self._readers_of(key):
            reader.lacks(key, some)

    def _reading_now(self, key: FeedKey) -> list[Operator]:
        return [operator for operator in self._reading.get(key, ()) if operator.is_reading]

    def _readers_of(self, key: FeedKey) -> tuple[Reader, ...]:
        return tuple(self._readers.get(key, ()))

    # Sealing.

    def start_sealing(self) -> None:
        """Begins to seal what could not be begun earlier, because jobs had too much that is not out."""
        for operator in self:
            operator.start_sealing()

    def turn(self) -> Operator | None:
        """Whose turn it is to seal a run, if anybody can."""
        while (operator := next(iter(self._sealing), None)) is not None and not operator.is_sealing:
            del self._sealing[operator]
        return next((operator for operator in self._sealing if operator.can_seal), None)

    def seal_next(self) -> None:
        """Seals one run. Then it is another operator's turn."""
        operator = self.turn()
        assert operator is not None
        del self._sealing[operator]
        operator.seal_next()
        if operator.is_sealing:
            self._begin_sealing(operator)
        else:
            operator.start_sealing()
            self._settle_alike(operator.identity)

    def _settle_alike(self, identity: Identity) -> None:
        for operator in self._alike[identity][1:]:
            for worker in tuple(operator.workers):
                self.settle(worker)

    def tell_of(self, app_id: Id) -> None:
        """A job has something new to pass on: sealed here, or from below in its trees."""
        self._news[app_id] = None

    def next_news(self) -> Id | None:
        """A job that has something new to pass on, each once; None when no other has."""
        app_id = next(iter(self._news), None)
        if app_id is not None:
            del self._news[app_id]
        return app_id

    @property
    def has_news(self) -> bool:
        """Whether `next_news` would tell of a job."""
        return bool(self._news)
