"""Simulated agents that remember where they were in their logs."""

from __future__ import annotations

from simulated_fleet import Reader, Server, SimulatedFleet

from agent.feeding.reading_ledger import FeedPosition, ReadingLedger, merged
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.model.panes import FIRST_PANE
from agent.sources.file.followed_file import ReadUpTo


def _place(offset: int) -> tuple[ReadUpTo, ...]:
    return (ReadUpTo("web.log", (1, 1), 0, "", offset),)


class RememberingFleet(SimulatedFleet):
    """Agents whose disks take their positions now and then. `positions`: those stored, by agent and stream."""

    def __init__(self, seed: int, *, disks: bool = False) -> None:
        super().__init__(seed, disks=disks)
        self.positions: dict[str, dict[str, FeedPosition]] = {}
        self.ledgers: dict[tuple[str, FeedKey], ReadingLedger] = {}
        self.leads_ms: dict[str, float] = {}
        """The lead of its clock that the disk of an agent which is not up has."""

    def _read_on(self, server: Server, reader: Reader) -> None:
        if self.now < reader.opens_at:
            return
        key, stream = reader.feed.key, reader.feed.stream
        if reader.position < 0:
            ledger = self.ledgers[server.name, key] = ReadingLedger(stream)
            begins_ms = self.wall_of(server)
            if reader.feed.start == "remembered":
                position = self.positions[server.name][stream]
                (file,) = position.files
                reader.position, begins_ms = file.offset, position.complete_from_ms
            elif reader.feed.start == "end":
                reader.position = len(server.log)
            ledger.note(_place(max(reader.position, 0)), begins_ms)
        super()._read_on(server, reader)
        newest = max((time for time, _ in server.log[: reader.position]), default=FIRST_PANE)
        self.ledgers[server.name, key].note(_place(reader.position), newest + 1)
        if self.random.random() < 0.3:
            self.store(server)

    def store(self, server: Server) -> None:
        """The disk takes an agent's positions."""
        found = []
        for key in server.readers:
            ledger, needs = self.ledgers.get((server.name, key)), server.agent.ingest.needs(key)
            if ledger is not None and needs is not None and (position := ledger.needed(needs)) is not None:
                found.append(position)
        read = {job for position in found for job in position.jobs}
        before = self.positions.get(server.name, {}).get("web")
        if before is not None and any(
            job in server.agent.ingest.memory.jobs and job not in read for job in before.jobs
        ):
            found.append(before)
        if found:
            self.positions[server.name] = {"web": merged(found)}

    def crash(self, server: Server) -> None:
        super().crash(server)
        if (lead_ms := server.agent.ingest.clock.lead_ms) is not None:
            self.leads_ms[server.name] = lead_ms

    def restart(self, server: Server) -> None:
        super().restart(server)
        if server.name in self.leads_ms:
            server.agent.ingest.clock.resume(self.leads_ms[server.name])
        stored = self.positions.get(server.name, {})
        server.agent.ingest.memory.remember({stream: one.memories() for stream, one in stored.items()})
