"""Keeps an agent's places in its logs, and what it has sealed, across restarts: what was stored goes to its core and
feeds, what they have reached is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import trio

from agent.configuration.config import StreamConfig
from agent.daemon.sealed_files import SealedFiles
from agent.daemon.sealed_groups import says_anything
from agent.feeding.reading_ledger import FeedPosition, merged
from agent.runtime.durable.feed_memory import FeedMemory
from agent.runtime.durable.records import SealedRecord
from agent.runtime.model.epoch import JobTerm
from agent.sources.file.source import FileSource

STORE_S = 0.5
"""Interval at which positions are stored, at most, if they have changed; sealed runs are stored at once."""
UNCHANGED_S = 5.0
"""Interval at which they are looked at although nothing was read, and nothing has happened to a job."""
UNREAD_S = 3600.0
"""Time for which positions are kept of jobs that this agent has not taken part in again."""


class PositionedFeeds(Protocol):
    """The feeds whose positions are kept: see `agent.feeding.Feeds`."""

    async def pause(self) -> None: ...
    def take_news(self) -> bool: ...
    def positions(self) -> list[FeedPosition]: ...
    def last_positions(self) -> list[FeedPosition]: ...


class RecordSource(Protocol):
    """The core's side: see `agent.runtime.durable.journal`."""

    @property
    def is_urgent(self) -> bool: ...
    def take(self) -> list[SealedRecord]: ...
    def end(self, term: JobTerm) -> None: ...


Stored = Callable[[int, bool], None]
"""Is told that the oldest so many records are on disk, or will not be."""


class PositionKeeper:
    """Stores in files, beside the event loop. `warn` gets what the disk does not take, and why."""

    def __init__(
        self,
        files: SealedFiles,
        memory: FeedMemory,
        journal: RecordSource,
        streams: Iterable[StreamConfig],
        stored: Stored,
        warn: Callable[[str, str], None],
    ) -> None:
        self._files = files
        self._memory = memory
        self._journal = journal
        self._tell_stored = stored
        self._warn = warn
        self._stored: list[FeedPosition] | None = None if files.positions else []
        self._leaves = False
        self._last: list[FeedPosition] | None = None
        self._began = trio.current_time()
        self._writing = trio.Lock()
        self._is_urgent = trio.Event()
        self._is_changed, self._looked_at = True, -math.inf
        """Whether the core or a feed has done anything since the last look, and the time of that look."""
        replayable = {stream.name for stream in streams if isinstance(stream.source, FileSource)}
        self.remembered: Mapping[str, FeedPosition] = {
            stream: position for stream, position in remembered(files).items() if stream in replayable
        }
        sealed, files.chains = files.chains, {}
        memory.remember({stream: position.memories() for stream, position in self.remembered.items()}, sealed)
        self._end(sealed.keys() - set(memory.jobs))

    def settled(self, *, is_idle: bool = False) -> None:
        """A step of the core is over: what it has sealed is stored. `is_idle`: nothing happens to any job."""
        self._is_changed |= not is_idle
        if self._journal.is_urgent:
            self._is_urgent.set()

    async def run(self, feeds: PositionedFeeds) -> None:
        """Stores what changes, until it is cancelled. When the agent leaves, only what it seals."""
        while True:
            self._is_urgent = trio.Event()
            await self._store(self._with_unread(feeds.positions()) if self._is_due(feeds) else None)
            self.settled(is_idle=True)
            with trio.move_on_after(STORE_S):
                await self._is_urgent.wait()

    def _is_due(self, feeds: PositionedFeeds) -> bool:
        """Whether to look at the positions of feeds, which is O(jobs)."""
        now = trio.current_time()
        self._is_changed |= feeds.take_news()
        if self._leaves or now < self._looked_at + (STORE_S if self._is_changed else UNCHANGED_S):
            return False
        self._is_changed, self._looked_at = False, now
        return True

    async def pause(self, feeds: PositionedFeeds, patience_s: float) -> None:
        """Has the feeds stop before the agent leaves, and notes what they have reached, if they stop in time."""
        self._leaves = True
        with trio.move_on_after(patience_s):
            await feeds.pause()
            self._last = self._with_unread(feeds.last_positions())

    async def left(self) -> None:
        """Stores what the feeds had reached: all that was read is counted, and handed over."""
        if self._last is not None:
            await self._store(self._last)

    def _with_unread(self, positions: list[FeedPosition]) -> list[FeedPosition]:
        """The positions, and those of remembered jobs whose feeds have not been read so far."""
        if trio.current_time() > self._began + UNREAD_S:
            self._end({job for job in self._memory.jobs if self._memory.awaits(job)})
            return positions
        read = {(position.stream, job) for position in positions for job in position.jobs}
        awaited, unread = self._memory.jobs, []
        for stream, position in self.remembered.items():
            jobs = {job: at for job, at in position.jobs.items() if job in awaited and (stream, job) not in read}
            if jobs:
                unread.append(replace(position, jobs=jobs, exact=False, sealed={}))
        return [*positions, *unread]

    def _end(self, jobs: Collection[JobTerm]) -> None:
        """Forgets jobs that are over, or never come back."""
        for job in jobs:
            self._memory.forget(job)
            self._journal.end(job)

    async def _store(self, positions: list[FeedPosition] | None) -> None:
        """Stores what was sealed, and positions from which everything else is read again: they were taken before."""
        async with self._writing:
            records = self._journal.take()
            changed = None if positions == self._stored else positions
            if changed is None and not records:
                return
            is_told = changed is not None or any(map(says_anything, records))
            fault = await trio.to_thread.run_sync(self._write, changed, records) if is_told else None
            if fault is not None:
                self._warn("places in logs and sealed panes are not kept", fault.strerror or str(fault))
            elif changed is not None:
                self._stored = changed
            if records:
                self._tell_stored(len(records), fault is None)
            if fault is None and self._files.has_garbage:
                await trio.to_thread.run_sync(self._clean)

    def _write(self, positions: Sequence[FeedPosition] | None, records: Sequence[SealedRecord]) -> OSError | None:
        try:
            self._files.write(positions, records)
        except OSError as error:
            return error
        return None

    def _clean(self) -> None:
        try:
            self._files.clean()
        except OSError as error:
            self._warn("sealed panes cannot be moved", error.strerror or str(error))


def remembered(files: SealedFiles) -> dict[str, FeedPosition]:
    """The position in each stream from which reading goes on, with the places at which the last runs were sealed."""
    found = {}
    for stream in {position.stream for position in files.positions}:
        position = merged([position for position in files.positions if position.stream == stream])
        sealed = {chain: places[stream] for chain, places in files.places.items() if stream in places}
        found[stream] = replace(position, sealed=sealed)
    return found
