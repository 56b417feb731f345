"""Simulated agents that remember where they were in their logs, and what they have sealed."""

from __future__ import annotations

import random
from dataclasses import replace

from recording_client import client_of
from simulated_disk import SealedDisk, SimulatedDisk
from simulated_fleet import Reader, Server, SimulatedFleet

from agent import Agent, StreamOptions
from agent.feeding.reading_ledger import FeedPosition, ReadingLedger, ReadTo, merged
from agent.runtime.durable.records import Chain, Place
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.model.panes import FIRST_PANE
from agent.sources.file.followed_file import ReadUpTo
from overlay import Node


def _place(offset: int) -> tuple[ReadUpTo, ...]:
    return (ReadUpTo("web.log", (1, 1), 0, "", offset),)


class RememberingFleet(SimulatedFleet):
    """Agents whose disks take their positions now and then, and what they seal before it leaves. `positions`: those
    that the processes at work have found, by agent and stream.
    """

    def __init__(self, seed: int, *, disks: bool = False) -> None:
        self.sealed: dict[str, SealedDisk] = {}
        super().__init__(seed, disks=disks)
        self.positions: dict[str, dict[str, FeedPosition]] = {}
        self.ends: dict[str, dict[Chain, int]] = {}
        """Agent → where in its log the last runs were sealed that its process has found."""
        self.ledgers: dict[tuple[str, FeedKey], ReadingLedger] = {}
        self.gone_upto: dict[str, int] = {}
        """Agent → what lies before this event in its log cannot be read any more."""
        self.leads_ms: dict[str, float] = {}
        """The lead of its clock that the disk of an agent which is not up has."""
        self._disk_luck = random.Random(seed)

    def _agent(
        self, name: str, node: Node, streams: dict[str, StreamOptions], disk: SimulatedDisk | None = None
    ) -> Agent:
        agent = super()._agent(name, node, streams, disk)
        self.sealed.setdefault(name, SealedDisk())
        client_of(agent).keep_sealed()
        return agent

    # Reading.

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
                if reader.position < self.gone_upto.get(server.name, 0):
                    reader.position = self.gone_upto[server.name]
                    server.agent.ingest.lost(key, self.wall_of(server))
            elif reader.feed.start == "end":
                reader.position = len(server.log)
            ledger.note(_place(max(reader.position, 0)), begins_ms)
        super()._read_on(server, reader)
        newest = max((time for time, _ in server.log[: reader.position]), default=FIRST_PANE)
        self.ledgers[server.name, key].note(_place(reader.position), newest + 1)
        if self.random.random() < 0.3:
            self.sealed[server.name].wants_positions = True

    def _ends(self, server: Server, reader: Reader) -> dict[Chain, int]:
        return self.ends.get(server.name, {}) if reader.feed.start == "remembered" else {}

    def _block_end(self, server: Server, reader: Reader, upto: int) -> int:
        return min([upto, *(end for end in self._ends(server, reader).values() if end > reader.position)])

    def _place_after(self, server: Server, reader: Reader) -> Place:
        replayed = frozenset(chain for chain, end in self._ends(server, reader).items() if reader.position <= end)
        return self.ledgers[server.name, reader.feed.key].place(ReadTo(_place(reader.position)), replayed)

    # The disk.

    def _drive(self, server: Server) -> None:
        super()._drive(server)
        if server.is_up and self.now >= server.stalled_until:
            self._use_sealed_disk(server)

    def _use_sealed_disk(self, server: Server) -> None:
        disk = self.sealed[server.name]
        if disk.waiting is None:
            self._give(server)
        elif (takes := self._takes(server)) is not None:
            self._answer(server, are_kept=takes)

    def _takes(self, _server: Server) -> bool | None:
        """Whether the disk of an agent has taken what waits for it; None: not yet."""
        return True if self._disk_luck.random() < 0.7 else None

    def _give(self, server: Server) -> None:
        disk = self.sealed[server.name]
        positions = self._positions(server) if disk.wants_positions else None
        records = server.agent.ingest.journal.take()
        if positions or records:
            disk.give(positions or None, records)
            disk.wants_positions = False

    def _answer(self, server: Server, *, are_kept: bool) -> None:
        disk = self.sealed[server.name]
        count = disk.write() if are_kept else disk.count
        disk.waiting = None
        server.agent.sealed_stored(count, self.now, self.wall_of(server), are_kept=are_kept)

    def store(self, server: Server) -> None:
        """The disk takes an agent's positions, and all that it has sealed."""
        disk = self.sealed[server.name]
        if disk.waiting is not None:
            self._answer(server, are_kept=True)
        disk.wants_positions = True
        self._give(server)
        if disk.waiting is not None:
            self._answer(server, are_kept=True)

    def _positions(self, server: Server) -> list[FeedPosition]:
        found = []
        for key in server.readers:
            ledger, needs = self.ledgers.get((server.name, key)), server.agent.ingest.needs(key)
            if ledger is not None and needs is not None and (position := ledger.needed(needs)) is not None:
                found.append(position)
        read = {job for position in found for job in position.jobs}
        before = self.positions.get(server.name, {}).get("web")
        if before is not None:
            awaited = server.agent.ingest.memory.jobs
            jobs = {job: at for job, at in before.jobs.items() if job in awaited and job not in read}
            found += [replace(before, jobs=jobs)] if jobs else []
        return found

    # Agents.

    def crash(self, server: Server) -> None:
        super().crash(server)
        self.sealed[server.name].lose_power(survives=self._disk_luck.random() < 0.5)
        if (lead_ms := server.agent.ingest.clock.lead_ms) is not None:
            self.leads_ms[server.name] = lead_ms

    def restart(self, server: Server) -> None:
        super().restart(server)
        if server.name in self.leads_ms:
            server.agent.ingest.clock.resume(self.leads_ms[server.name])
        positions, chains, self.ends[server.name] = self.sealed[server.name].kept()
        stored = {"web": merged(positions)} if positions else {}
        self.positions[server.name] = stored
        server.agent.ingest.memory.remember({stream: one.memories() for stream, one in stored.items()}, chains)

    def lose_log(self, server: Server) -> None:
        """What a server has logged so far can be read no more."""
        self.gone_upto[server.name] = len(server.log)

    def lose_disk(self, server: Server) -> None:
        """All that an agent, which is not up, has ever stored."""
        self.sealed[server.name] = SealedDisk()
        self.leads_ms.pop(server.name, None)
