"""Keeps an agent's places in its logs across restarts: what was stored goes to its core and feeds, what they have
reached is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Protocol

import trio

from agent.configuration.config import StreamConfig
from agent.daemon.positions_file import PositionsFile
from agent.feeding.reading_ledger import FeedPosition, merged
from agent.runtime.ingest.feed_memory import FeedMemory
from agent.sources.file.source import FileSource

STORE_S = 0.5
"""Interval at which positions are stored, if they have changed."""
UNREAD_S = 3600.0
"""Time for which positions are kept of jobs that this agent has not taken part in again."""


class PositionedFeeds(Protocol):
    """The feeds whose positions are kept: see `agent.feeding.Feeds`."""

    async def pause(self) -> None: ...
    def positions(self) -> list[FeedPosition]: ...
    def last_positions(self) -> list[FeedPosition]: ...


class PositionKeeper:
    """Stores positions in a file, beside the event loop. `warn` gets what the disk does not take, and why."""

    def __init__(
        self, file: PositionsFile, memory: FeedMemory, streams: Iterable[StreamConfig], warn: Callable[[str, str], None]
    ) -> None:
        self._file = file
        self._memory = memory
        self._warn = warn
        self._stored: list[FeedPosition] | None = None if file.found else []
        self._leaves = False
        self._last: list[FeedPosition] | None = None
        self._began = trio.current_time()
        self._writing = trio.Lock()
        replayable = {stream.name for stream in streams if isinstance(stream.source, FileSource)}
        found = [position for position in file.found if position.stream in replayable]
        self.remembered: Mapping[str, FeedPosition] = {
            stream: merged([position for position in found if position.stream == stream])
            for stream in {position.stream for position in found}
        }
        memory.remember({stream: position.memories() for stream, position in self.remembered.items()})

    async def run(self, feeds: PositionedFeeds) -> None:
        """Stores what changes, until it is cancelled or the agent leaves."""
        while not self._leaves:
            await self._store(self._with_unread(feeds.positions()))
            await trio.sleep(STORE_S)

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
            return positions
        read = {(position.stream, job) for position in positions for job in position.jobs}
        awaited, unread = self._memory.jobs, []
        for stream, position in self.remembered.items():
            jobs = {job: at for job, at in position.jobs.items() if job in awaited and (stream, job) not in read}
            if jobs:
                unread.append(replace(position, jobs=jobs, exact=False))
        return [*positions, *unread]

    async def _store(self, positions: list[FeedPosition]) -> None:
        async with self._writing:
            if positions == self._stored:
                return
            try:
                await trio.to_thread.run_sync(self._file.store, positions)
            except OSError as error:
                self._warn("positions in logs are not kept", error.strerror or str(error))
            else:
                self._stored = positions
