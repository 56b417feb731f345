"""Remembers what an agent read before it was started again, so that its jobs go on where they were.

Theory of operation. For each feed the shell stores a position, and the time from which on reading from there yields
every event (`complete_from_ms`), not later than the first pane that the masters of the feed's jobs have not committed.
After a restart a job that is enrolled again claims that memory: its feed starts "remembered", and it contributes from
the master's frontier on. Events of panes that were published before are counted late, except where the master says
that this agent has contributed to them: then they are in a window already.

Remembered jobs of one stream share a feed. It opens when all of them are ready or, as jobs may have ended meanwhile, a
little after the first one is. Jobs that are enrolled later share another one, which opens in the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from agent.runtime.durable.records import NO_NUMBER, Place, StoredChains, first_place
from agent.runtime.messages.jobs import Enrolled
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import FIRST_PANE

NOTHING_SEALED: Mapping[JobTerm, StoredChains] = MappingProxyType({})
REMEMBERED = -1
"""Takes the place of the appId in the key of the feed that the first remembered jobs share; later ones count down."""
WAIT_S = 1.5
"""Time for which a ready job waits for other remembered jobs; less than masters hold windows back."""


@dataclass(frozen=True, slots=True)
class JobMemory:
    """The memory of a job on one stream.

    `exact`: every event before the position was counted in a sealed pane or as late, and none after it. `first_pane`:
    the first one of the job here.
    """

    complete_from_ms: int
    exact: bool
    first_pane: int = FIRST_PANE


@dataclass(frozen=True, slots=True)
class Resumption:
    """The point from which a pipeline goes on: it has every event from `complete_from_ms` on, and those of panes up to
    `counted_upto` were counted before. `feed_id` is in the keys of its feeds. `first_pane`: the first one of the job.
    `number`: the worker's on the roster. `sealed`: what an earlier process has sealed.
    """

    job: JobTerm
    complete_from_ms: int
    counted_upto: int
    feed_id: int
    first_pane: int = FIRST_PANE
    number: int = NO_NUMBER
    sealed: StoredChains = field(default_factory=dict)


class Replayer(Protocol):
    """A pipeline whose events can be read again."""

    @property
    def first_pane(self) -> int: ...
    @property
    def needed_from_ms(self) -> int: ...
    @property
    def feed_keys(self) -> Iterable[tuple[str, int | None]]: ...
    def kept_place(self, key: tuple[str, int | None]) -> Place | None: ...


@dataclass(frozen=True, slots=True)
class FeedNeeds:
    """The need of a feed's jobs after a restart: events from `from_ms` on, and those behind the place `sealed`, before
    which all of their runs on disk end. `jobs`: where each of them begins."""

    from_ms: int
    jobs: Mapping[JobTerm, int]
    sealed: Place | None = None


class FeedMemory:
    """The memory of one agent; without one, every job begins anew."""

    def __init__(self) -> None:
        self._jobs: dict[JobTerm, dict[str, JobMemory]] = {}
        self._sealed: dict[JobTerm, StoredChains] = {}
        self._joined: dict[JobTerm, int] = {}
        """Jobs that get all that is read of the feeds with this id."""
        self._feed_id = REMEMBERED
        self._has_opened = False
        self._opens_at: float | None = None
        self._replayers: dict[JobTerm, Replayer] = {}

    def remember(
        self,
        streams: Mapping[str, Mapping[JobTerm, JobMemory]],
        sealed: Mapping[JobTerm, StoredChains] = NOTHING_SEALED,
    ) -> None:
        """Begins with what was stored of each stream, and what each job had sealed."""
        self._sealed.update(sealed)
        for stream, jobs in streams.items():
            for job, memory in jobs.items():
                self._jobs.setdefault(job, {})[stream] = memory

    @property
    def jobs(self) -> Collection[JobTerm]:
        """The remembered jobs that are not known to be over."""
        return self._jobs.keys()

    def awaits(self, job: JobTerm) -> bool:
        """Whether a remembered job is to go on."""
        return job in self._jobs and job not in self._replayers

    def knows(self, message: Enrolled, streams: Iterable[str]) -> bool:
        """Whether a job may go on with all of these streams."""
        remembered = self._jobs.get(_term(message), {})
        return not message.job.bounded and bool(remembered) and all(stream in remembered for stream in streams)

    def next_feed_id(self) -> int:
        """The id of the feeds that the next remembered job shares."""
        if self._has_opened:
            self._feed_id, self._has_opened, self._opens_at = self._feed_id - 1, False, None
        return self._feed_id

    def resumption(self, message: Enrolled, streams: Iterable[str], feed_id: int) -> Resumption:
        """The point from which a known job goes on."""
        memories = [self._jobs[_term(message)][stream] for stream in streams]
        exact = all(memory.exact for memory in memories)
        return Resumption(
            _term(message),
            max(memory.complete_from_ms for memory in memories),
            FIRST_PANE if exact else message.contributed,
            feed_id,
            max(memory.first_pane for memory in memories),
            NO_NUMBER if message.number is None else message.number,
            self._sealed.pop(_term(message), {}),
        )

    def join(self, resumption: Resumption) -> bool:
        """Notes that a job is ready; whether its feeds may be opened by now."""
        if not self._is_open(resumption.feed_id):
            self._joined[resumption.job] = resumption.feed_id
            self._has_opened = self._joined.keys() >= self._jobs.keys()
        return self._is_open(resumption.feed_id)

    def has_joined(self, resumption: Resumption) -> bool:
        """Whether a job was ready before its feeds were opened, so that it gets all that is read of them."""
        return self._joined.get(resumption.job) == resumption.feed_id

    def _is_open(self, feed_id: int) -> bool:
        return feed_id > self._feed_id or self._has_opened

    def tick(self, now: float) -> None:
        """Opens the shared feeds where jobs do not come."""
        if not self._has_opened and self._feed_id in self._joined.values():
            if self._opens_at is None:
                self._opens_at = now + WAIT_S
            self._has_opened = now >= self._opens_at

    # What has to be stored.

    def follow(self, job: JobTerm, replayer: Replayer) -> None:
        """Notes a job whose events are read from now on."""
        self._replayers[job] = replayer

    def forget(self, job: JobTerm) -> None:
        """Forgets a job that is over here."""
        self._replayers.pop(job, None)
        self._jobs.pop(job, None)
        self._joined.pop(job, None)
        self._sealed.pop(job, None)

    def needs(self, key: tuple[str, int | None]) -> FeedNeeds | None:
        """The need of a feed's jobs after a restart; None if there is no such job."""
        readers = {job: one for job, one in self._replayers.items() if key in one.feed_keys}
        if not readers:
            return None
        jobs = {job: one.first_pane for job, one in readers.items()}
        sealed = first_place(one.kept_place(key) for one in readers.values())
        return FeedNeeds(min(one.needed_from_ms for one in readers.values()), jobs, sealed)


def _term(message: Enrolled) -> JobTerm:
    return JobTerm(message.app_id, message.epoch.born_ms)
