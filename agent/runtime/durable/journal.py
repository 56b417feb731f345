"""Gives sealed runs to the disk, and lets them leave once they are there (DESIGN §4.3).

Theory of operation. What is sealed in one step of the core, for all jobs, goes to the shell as one group. A run leaves
when its group is durable; an agent that is started again finds it, and neither builds it anew nor counts again what
came before its place. Where there is no disk nothing waits.

A disk that fails, or is too slow, holds up nobody. If it does not take a run within `STORE_S`, that and all later ones
leave without it, until it answers. When a group fails, its runs leave too, and so do further ones of their jobs, until
those that are still needed have been written, `RETRY_S` later: what is on the disk of a job has no gap. Until then a
restart begins further back. What waits for the disk is bounded by the logs of the workers (`PaneLog`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from agent.runtime.durable.records import Chain, EndedJob, SealedAt, SealedRecord, SealedRun
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import Run
from overlay import Id

STORE_S = 2.0
"""Time after which a run leaves without waiting for the disk any longer."""
RETRY_S = 10.0
"""Time after a failure of the disk until it is given again what it lacks of a job."""


class SealedDisk(Protocol):
    """The shell's side: whether a disk takes what `SealedJournal.take` yields."""

    @property
    def keeps_sealed(self) -> bool: ...


class NoDisk:
    """Takes nothing."""

    keeps_sealed = False


NO_DISK = NoDisk()


class RunOwner(Protocol):
    """The worker that has sealed a run."""

    def release(self, sealed: SealedRun) -> None:
        """The run may leave. Called once for each run, in pane order."""
        ...

    def kept(self, sealed: SealedRun) -> None:
        """The run is on the disk."""
        ...


@dataclass(slots=True, eq=False)
class _Given:
    """A record for the disk; `owner`: of a run. `since`: when it was seen to wait."""

    record: SealedRecord
    owner: RunOwner | None = None
    is_released: bool = False
    since: float | None = None


class SealedJournal:
    """The journal of one agent."""

    name = "sealed"

    def __init__(self, disk: SealedDisk, containment: JobContainment) -> None:
        self._disk = disk
        self._containment = containment
        self._new: list[_Given] = []
        self._given: deque[_Given] = deque()
        """Records for which the disk has not answered."""
        self._lacking: dict[JobTerm, deque[_Given]] = {}
        """Runs of jobs that the disk does not have."""
        self._is_slow = False
        self._retry_at = 0.0
        self._kept = self._unkept = 0

    @property
    def is_on_disk(self) -> bool:
        """Whether there is a disk to wait for."""
        return self._disk.keeps_sealed

    @property
    def is_urgent(self) -> bool:
        """Whether a run waits to be given to the disk."""
        return any(given.owner is not None for given in self._new)

    @property
    def is_empty(self) -> bool:
        """Whether no run waits for the disk."""
        return not self.is_urgent and not any(given.owner is not None for given in self._given)

    def statistics(self) -> Mapping[str, int]:
        """`kept`: runs that the disk has taken; `unkept`: those that have left without."""
        return {"kept": self._kept, "unkept": self._unkept}

    def seal(self, sealed: SealedRun, owner: RunOwner) -> None:
        """Keeps a run, which is released when the disk has it."""
        given = _Given(sealed, owner)
        lacking = self._lacking.get(sealed.chain.term)
        if lacking is None:
            self._new.append(given)
        else:
            lacking.append(given)
        if self._is_slow or lacking is not None:
            self._release(given)

    def free(self, term: JobTerm, upto: int) -> None:
        """Forgets runs of a job up to a pane that the disk lacks: they are not needed any more."""
        if self._is_slow:
            self._new = [given for given in self._new if not _is_over(given, term, upto)]
        if (lacking := self._lacking.get(term)) is not None:
            while lacking and _run_of(lacking[0]).run.upto <= upto:
                lacking.popleft()
            if not lacking:
                del self._lacking[term]

    def end(self, term: JobTerm) -> None:
        """Notes that a job is over here."""
        self._lacking.pop(term, None)
        self._new.append(_Given(EndedJob(term)))

    # The disk.

    def take(self) -> list[SealedRecord]:
        """Everything new, as one group in order, once; `stored` is to be told its length."""
        new, self._new = self._new, []
        self._given += new
        return [given.record for given in new]

    def stored(self, count: int, now: float, *, are_kept: bool) -> None:
        """The oldest so many records are durable, or are not kept."""
        done = [self._given.popleft() for _ in range(min(count, len(self._given)))]
        self._is_slow = False
        runs = [given for given in done if given.owner is not None]
        if are_kept:
            for given in runs:
                self._kept += 1
                _owner_of(given).kept(_run_of(given))
                self._let_go(given, now, is_kept=True)
        else:
            self._retry_at = now + RETRY_S
            self._go_without(runs, now)

    def _go_without(self, runs: list[_Given], now: float) -> None:
        """Lets runs leave that the disk did not take, and those that follow them."""
        for given in runs:
            self._lacking.setdefault(_run_of(given).chain.term, deque())
        new, self._new = self._new, []
        for given in (*runs, *new):
            lacking = None if given.owner is None else self._lacking.get(_run_of(given).chain.term)
            if lacking is None:
                self._new.append(given)
                continue
            lacking.append(given)
            self._let_go(given, now)

    def _let_go(self, given: _Given, now: float, *, is_kept: bool = False) -> None:
        """Lets a run leave that has not left without the disk."""
        if not given.is_released:
            with self._containment.around(Id(_run_of(given).chain.term.app_id), now):
                self._release(given, is_kept=is_kept)

    def _release(self, given: _Given, *, is_kept: bool = False) -> None:
        given.is_released = True
        self._unkept += not is_kept
        _owner_of(given).release(_run_of(given))

    def tick(self, now: float) -> None:
        """Goes on without a disk that takes too long, and gives one that has failed what it lacks."""
        waiting = [given for given in (*self._given, *self._new) if given.owner is not None]
        for given in waiting:
            given.since = now if given.since is None else given.since
        if any(given.since is not None and now - given.since >= STORE_S for given in waiting if not given.is_released):
            self._is_slow = True
            for given in waiting:  # in order, as what follows them leaves at once from now on
                self._let_go(given, now)
        if self._lacking and now >= self._retry_at:
            self._new += (given for lacking in self._lacking.values() for given in lacking)
            self._lacking.clear()


def _run_of(given: _Given) -> SealedRun:
    assert isinstance(given.record, SealedRun)
    return given.record


def _is_over(given: _Given, term: JobTerm, upto: int) -> bool:
    """Whether it is a run of a job up to a pane that has left."""
    is_run = given.is_released and isinstance(given.record, SealedRun)
    return is_run and _run_of(given).chain.term == term and _run_of(given).run.upto <= upto


def _owner_of(given: _Given) -> RunOwner:
    assert given.owner is not None
    return given.owner


@dataclass(slots=True)
class RunKeeper:
    """Has the runs of one chain kept. `function`, `number`, `oldest` and `old_functions`: see `SealedRun`. `placed`:
    the placement that is to cut them, by its number."""

    journal: SealedJournal
    chain: Chain
    function: bytes
    number: int
    placed: int = 0
    oldest: int = 0
    old_functions: Mapping[int, bytes] = field(default_factory=dict)

    def sealed(self, run: Run, at: SealedAt) -> SealedRun:
        """A run as it goes to the disk."""
        run = replace(run, cut_by=self.placed)
        return SealedRun(self.chain, self.function, run, at, self.number, self.oldest, self.old_functions)
