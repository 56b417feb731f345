"""Simulated agents that read real files by the product's own readers, and keep their places in files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from log_writer import LogWriter
from recording_client import client_of
from simulated_fleet import STEP_S, Server, SimulatedFleet

from agent.configuration.config import StreamConfig
from agent.daemon.position_keeper import remembered
from agent.daemon.sealed_files import SealedFiles
from agent.feeding.reading import FeedReader, ReadBatch, slices
from agent.feeding.reading_ledger import FeedPosition, ReadingLedger
from agent.feeding.replay import NOTHING_SEALED
from agent.runtime.ingest.feed import Feed, FeedKey
from agent.runtime.model.panes import FIRST_PANE
from agent.sources.file.source import FileSource

STORE_S = 0.5
ROOM = 1 << 30
PAUSED_S = 0.2


@dataclass
class FiledReading:
    """One reading of a log for one feed, as `agent.feeding.Feeds` has it."""

    feed: Feed
    reader: FeedReader
    ledger: ReadingLedger
    losses: int = 0


@dataclass
class FiledAgent:
    """What there is of an agent beside its core: readings while it is up, and a folder that outlives it."""

    log: LogWriter
    folder: Path
    starts: int = 0
    sealed: SealedFiles | None = None
    remembered: dict[str, FeedPosition] = field(default_factory=dict)
    readings: dict[FeedKey, FiledReading] = field(default_factory=dict)
    stores_at: float = 0.0
    is_paused: bool = False


class FiledFleet(SimulatedFleet):
    """A fleet whose workers' logs are files in a folder."""

    def __init__(self, seed: int, folder: Path) -> None:
        super().__init__(seed)
        self.folder = folder
        self.filed: dict[str, FiledAgent] = {}
        self.warnings: list[str] = []

    def add_filed(self, node_id: int | None = None) -> Server:
        """A worker beside a server whose log is a file."""
        server = self.add("web", node_id=node_id)
        folder = self.folder / server.name
        folder.mkdir()
        log = LogWriter(folder / "logs" / "web.log", lambda: self.wall_of(server))
        self.filed[server.name] = FiledAgent(log, folder)
        self._begin(server)
        return server

    def close(self) -> None:
        for filed in self.filed.values():
            self._let_go(filed)
            filed.log.close()

    def _begin(self, server: Server) -> None:
        """What an agent knows when it starts."""
        filed = self.filed[server.name]
        filed.starts += 1
        filed.is_paused, filed.log.is_watched = False, True
        client_of(server.agent).keep_sealed()
        filed.sealed = SealedFiles(
            filed.folder / "sealed", filed.starts, ROOM, lambda what, why: self.warnings.append(f"{what}: {why}")
        )
        filed.remembered = remembered(filed.sealed)
        memories = {name: one.memories() for name, one in filed.remembered.items()}
        server.agent.ingest.memory.remember(memories, filed.sealed.chains)

    def _let_go(self, filed: FiledAgent) -> None:
        for reading in filed.readings.values():
            reading.reader.close()
        filed.readings.clear()

    # Reading.

    def _read(self, server: Server) -> None:
        filed = self.filed.get(server.name)
        if filed is None or filed.is_paused:
            return
        wanted = {feed.key: feed for feed in server.agent.ingest.feeds()}
        for key in [key for key in filed.readings if key not in wanted]:
            filed.readings.pop(key).reader.close()
        for key, feed in wanted.items():
            if key not in filed.readings:
                filed.readings[key] = self._reading(filed, feed)
            filed.readings[key].feed = feed
            self._read_batch(server, filed.readings[key])
        if self.now >= filed.stores_at:
            filed.stores_at = self.now + STORE_S
            self._store(server, filed)

    def _reading(self, filed: FiledAgent, feed: Feed) -> FiledReading:
        stream = StreamConfig("web", FileSource((filed.log.pattern,)), "json", "time", "end")
        position = filed.remembered.get(feed.stream) if feed.start == "remembered" else None
        known, sealed = (position.known_files, position.sealed) if position else (None, NOTHING_SEALED)
        return FiledReading(feed, FeedReader(feed, stream, known, sealed=sealed), ReadingLedger("web"))

    def _read_batch(self, server: Server, reading: FiledReading) -> None:
        wall_ms = server.agent.ingest.observe(self.now, self.wall_of(server))
        found = reading.reader.quiet_batch(self.now, wall_ms)
        if found is None:
            found = reading.reader.read(reading.feed.columns, self.now, wall_ms)
        self._insert(server, reading, found)

    def _insert(self, server: Server, reading: FiledReading, found: ReadBatch) -> None:
        ingest, key, wall_ms = server.agent.ingest, reading.feed.key, self.wall_of(server)
        if found.began is not None and not reading.ledger.is_begun:
            remembered = self.filed[server.name].remembered.get("web")
            is_remembered = reading.feed.start == "remembered" and remembered is not None
            from_ms = wall_ms if reading.feed.start == "end" else FIRST_PANE
            reading.ledger.note(found.began, remembered.complete_from_ms if is_remembered and remembered else from_ms)
        if found.statistics.losses > reading.losses:
            ingest.lost(key, wall_ms)
        reading.losses = found.statistics.losses
        ingest.lacks(key, found.statistics.unreadable > 0)
        self.warnings += found.faults
        for block in found.blocks:
            place = None if block.read_to is None else reading.ledger.place(block.read_to, block.replayed)
            *parts, last = slices(block.parsed)
            for part in parts:
                ingest.insert(key, part, self.now, wall_ms, place and replace(place, is_inside=True))
            ingest.insert(key, last, self.now, wall_ms, place)
        if found.files is not None:
            reading.ledger.note(found.files, found.newest_ms + 1)
        if found.at_end:
            ingest.caught_up(key, self.now, found.wall_ms)

    def _store(self, server: Server, filed: FiledAgent, positions: list[FeedPosition] | None = None) -> None:
        assert filed.sealed is not None
        if positions is None:
            memory = server.agent.ingest
            needs = ((reading, memory.needs(key)) for key, reading in filed.readings.items())
            found = [reading.ledger.needed(need) for reading, need in needs if need is not None]
            positions = self._with_unread(server, filed, [one for one in found if one is not None])
        self._write(server, positions)

    def _write(self, server: Server, positions: list[FeedPosition] | None) -> None:
        """The disk takes what an agent has sealed, and perhaps positions."""
        sealed, records = self.filed[server.name].sealed, server.agent.ingest.journal.take()
        assert sealed is not None
        if records or positions:
            sealed.write(positions, records)
        server.agent.sealed_stored(len(records), self.now, self.wall_of(server), are_kept=True)

    def _drive(self, server: Server) -> None:
        super()._drive(server)
        if server.is_up and server.name in self.filed and self.now >= server.stalled_until:
            self._write(server, None)

    def _with_unread(self, server: Server, filed: FiledAgent, positions: list[FeedPosition]) -> list[FeedPosition]:
        read = {job for position in positions for job in position.jobs}
        before, awaited = filed.remembered.get("web"), server.agent.ingest.memory.jobs
        if before is not None and any(job in awaited and job not in read for job in before.jobs):
            return [*positions, before]
        return positions

    # Ends and starts.

    def crash(self, server: Server) -> None:
        super().crash(server)
        if (filed := self.filed.get(server.name)) is not None:
            filed.log.is_watched = False
            self._let_go(filed)

    def restart(self, server: Server) -> None:
        super().restart(server)
        if server.name in self.filed:
            self._begin(server)

    def terminate(self, server: Server, *, patience: float = 5.0) -> None:
        """SIGTERM: all that was read is counted and handed over, the places are stored, and the process ends."""
        filed = self.filed[server.name]
        filed.is_paused = True
        needs = ((reading, server.agent.ingest.needs(key)) for key, reading in filed.readings.items())
        found = [reading.ledger.reached(need, self.wall_of(server)) for reading, need in needs if need is not None]
        last = self._with_unread(server, filed, [one for one in found if one is not None])
        server.agent.drain.begin(self.now)
        server.agent.process_events(self.now, self.wall_of(server))
        deadline = self.now + patience

        def look() -> None:
            if not server.is_up:
                return
            if server.agent.drain.is_complete:
                self._store(server, filed, last)
            elif self.now < deadline:
                self.at(self.now + STEP_S, look)
                return
            server.node.leave(self.now)
            self.at(self.now + PAUSED_S, lambda: self.crash(server))

        look()
