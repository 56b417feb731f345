"""Goes on counting versions of a job that are not in force any more, up to the ends of their open windows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from agent.runtime.durable.records import Chain
from agent.runtime.function.job_function import JobFunction
from agent.runtime.function.versions import Beside
from agent.runtime.ingest.operator import Operator, PaneConsumer
from agent.runtime.ingest.operator_pool import OperatorPool
from agent.runtime.ingest.panes.old_panes import SealedOldPanes
from agent.runtime.model.panes import Run
from overlay import Id


class Begin(NamedTuple):
    """The ways to begin a consumer: `attach` makes one with an operator of its own, which gets events from now on;
    `on_more` is called when one has sealed a run."""

    attach: Callable[[JobFunction], PaneConsumer]
    on_more: Callable[[], None]


class FinishingConsumer(PaneConsumer):
    """A consumer of the panes of an old version, whose runs go with others. It counts nothing that has no pane: the
    consumer of the version in force does. `on_more` is called when it has sealed a run."""

    def __init__(self, app_id: Id, function: JobFunction, operator: Operator, on_more: Callable[[], None]) -> None:
        super().__init__(app_id, function, operator, _never)
        self.sealed = SealedOldPanes()
        self._on_more = on_more

    def begin_after(self, after: int) -> None:
        """Begins: the panes after `after` belong to this consumer."""
        super().begin_after(after)
        self.sealed.frontier = after

    def count_late(self, passed: Mapping[int, int], replayed: Collection[Chain]) -> None:
        """Counts nothing."""

    def _emit(self, run: Run) -> None:
        self.frontier = run.upto
        self.sealed.add(run)
        self._on_more()


class FinishingVersions:
    """The old versions of one job on one agent whose windows go on."""

    def __init__(self, app_id: Id, ingest: OperatorPool) -> None:
        self._app_id, self._ingest = app_id, ingest
        self._consumers: dict[int, FinishingConsumer] = {}

    @property
    def running(self) -> list[FinishingConsumer]:
        """The consumers that still need events."""
        return [one for one in self._consumers.values() if one.is_open]

    def carry(
        self, mains: Iterable[tuple[PaneConsumer, Sequence[Beside]]], sealed: Mapping[PaneConsumer, Sequence[Run]],
        opened: int, begin: Begin,
    ) -> None:  # fmt: skip
        """Has consumers, in their order, carry the panes of older versions. `sealed`: what consumers had sealed beyond
        their last panes, before they knew these. `opened`: the time (epoch ms) up to which events have been seen.
        `begin`: ways of the pipeline that holds it; the consumers that are open keep them, and nothing else does."""
        needed, before = set[int](), list[PaneConsumer]()
        for consumer, olds in mains:
            sources = []
            for one in olds:
                needed.add(one.number)
                sources.append((one, self._of(one, before, consumer, sealed, opened, begin).sealed))
            consumer.carried.carry(sources)
            consumer.hand_on()
            before.append(consumer)
        for number in self._consumers.keys() - needed:
            self._ingest.detach(self._consumers.pop(number))

    def _of(
        self, beside: Beside, before: Sequence[PaneConsumer], main: PaneConsumer,
        sealed: Mapping[PaneConsumer, Sequence[Run]], opened: int, begin: Begin,
    ) -> FinishingConsumer:  # fmt: skip
        known = self._consumers.get(beside.number)
        if known is not None and known.function is beside.old.function and known.last_pane >= beside.upto:
            return known
        if known is not None:
            self._ingest.detach(known)
        function = beside.old.function
        source = next((one for one in reversed(before) if one.is_open and _are_alike(one.function, function)), None)
        if source is None:
            attached = begin.attach(function)
            made = self._begun(beside, attached, main, begin)
            made.begin_at(made.next_pane(opened))
            self._ingest.detach(attached)
        else:
            made = self._begun(beside, source, main, begin)
            for run in sealed.get(source, ()):
                made.take(run)
            made.begin_at(source.first_pane)
            made.sealed.lacks_some = self._ingest.next_operator(source) is not None  # what that alone gets
        made.operator.catch_up(made)
        self._consumers[beside.number] = made
        return made

    def _begun(self, beside: Beside, source: PaneConsumer, main: PaneConsumer, begin: Begin) -> FinishingConsumer:
        """A consumer on the operator of another one, for panes after those that go with what `main` has sealed."""
        source.operator.finish_sealing()
        made = FinishingConsumer(self._app_id, beside.old.function, source.operator, begin.on_more)
        made.begin_after(beside.frontier(main.frontier))
        made.end_at(beside.upto)
        return made

    def advance(self) -> bool:
        """Leaves the operators of versions whose panes are all sealed; whether there were any."""
        done = [one for one in self.running if one.frontier >= one.last_pane]
        for one in done:
            self._ingest.detach(one)
        return bool(done)

    def close(self) -> None:
        """Leaves all operators, and forgets the consumers with their callbacks, so that stores are freed at once."""
        for one in self.running:
            self._ingest.detach(one)
        self._consumers.clear()


def _are_alike(one: JobFunction, other: JobFunction) -> bool:
    """Whether what is counted for both is the same."""
    return one is other or (one.operator, one.code) == (other.operator, other.code)


def _never(consumer: PaneConsumer, run: Run) -> None:
    """Stands for the callback of consumers whose runs go with others."""
