"""Agents that remember where they were in their logs, through crashes at any instant: windows have all of what their
contributors logged, and nothing is counted twice."""

from __future__ import annotations

import random

import pytest
from recording_client import client_of
from seeds import seeds
from simulated_fleet import SQL, Reader, Server, SimulatedFleet, key_of, sql
from window_checks import check_windows

from agent.feeding.reading_ledger import FeedPosition, ReadingLedger, merged
from agent.runtime.ingest.feed import FeedKey
from agent.runtime.model.panes import FIRST_PANE
from agent.sources.file.followed_file import ReadUpTo

JOB = "one"


def place(offset: int) -> tuple[ReadUpTo, ...]:
    return (ReadUpTo("web.log", (1, 1), 0, "", offset),)


class RememberingFleet(SimulatedFleet):
    """Agents whose disks take their positions, now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.disks: dict[str, dict[str, FeedPosition]] = {}
        self.ledgers: dict[tuple[str, FeedKey], ReadingLedger] = {}

    def _read_on(self, server: Server, reader: Reader) -> None:
        if self.now < reader.opens_at:
            return
        key, stream = reader.feed.key, reader.feed.stream
        if reader.position < 0:
            ledger = self.ledgers[server.name, key] = ReadingLedger(stream)
            begins_ms = self.wall_ms
            if reader.feed.start == "remembered":
                position = self.disks[server.name][stream]
                (file,) = position.files
                reader.position, begins_ms = file.offset, position.complete_from_ms
            elif reader.feed.start == "end":
                reader.position = len(server.log)
            ledger.note(place(max(reader.position, 0)), begins_ms)
        super()._read_on(server, reader)
        newest = max((time for time, _ in server.log[: reader.position]), default=FIRST_PANE)
        self.ledgers[server.name, key].note(place(reader.position), newest + 1)
        if self.random.random() < 0.3:
            self.store(server)

    def store(self, server: Server) -> None:
        found = []
        for key in server.readers:
            ledger, needs = self.ledgers.get((server.name, key)), server.agent.ingest.needs(key)
            if ledger is not None and needs is not None and (position := ledger.needed(needs)) is not None:
                found.append(position)
        read = {job for position in found for job in position.jobs}
        before = self.disks.get(server.name, {}).get("web")
        if before is not None and any(
            job in server.agent.ingest.memory.jobs and job not in read for job in before.jobs
        ):
            found.append(before)
        if found:
            self.disks[server.name] = {"web": merged(found)}

    def restart(self, server: Server) -> None:
        super().restart(server)
        disk = self.disks.get(server.name, {})
        server.agent.ingest.memory.remember({stream: one.memories() for stream, one in disk.items()})


def begin(seed: int, size: int, text: str = SQL) -> tuple[RememberingFleet, Server]:
    fleet = RememberingFleet(seed)
    for _ in range(size):
        fleet.add("web")
        fleet.run(fleet.now + 0.3)
    fleet.run(fleet.now + 10.0)
    fleet.keep_writing(fleet.now + 300.0)
    follower = fleet.random.choice(fleet.workers())
    fleet.submit(JOB, follower, text)
    client_of(follower.agent).follow(key_of(JOB), None, fleet.now)
    fleet.run(fleet.now + fleet.random.uniform(5, 8))
    return fleet, follower


def check_conservation(fleet: RememberingFleet) -> None:
    """What each window has of its contributors, and that no event counts twice."""
    check_windows(fleet)
    logged = sum(len(server.log) for server in fleet.servers.values())
    last = {window.pane: window.result for window in fleet.of(JOB)}
    counted = sum(result.events + result.late for result in last.values())
    assert counted <= logged, f"seed {fleet.seed}: {counted} of {logged}"


@pytest.mark.parametrize("seed", seeds(1, 2, 3, 4, slow=range(5, 40)))
def test_crashes_at_any_instant(seed: int) -> None:
    source = random.Random(seed)
    fleet, follower = begin(seed, source.choice((2, 3, 4, 6)))
    away: list[str] = []
    for _ in range(3):
        one = source.choice([server for server in fleet.servers.values() if server.is_up and server is not follower])
        fleet.crash(one)
        away.append(one.name)
        fleet.at(fleet.now + source.choice((0.1, 0.6, 2.0, 6.0)), lambda one=one: fleet.restart(one))  # type: ignore[misc]
        fleet.run(fleet.now + source.uniform(8.0, 14.0))
    fleet.run(fleet.now + 15.0)
    check_conservation(fleet)
    last = fleet.of(JOB)[-1]
    assert last.result.missing == [], f"seed {seed}: {away}"


@pytest.mark.parametrize("seed", seeds(1, 2, slow=range(3, 20)))
def test_an_agent_that_is_back_is_in_every_window_that_was_not_published_before(seed: int) -> None:
    """It has what it read of them before it was killed, and what was written meanwhile."""
    fleet, follower = begin(seed, 3, sql("abcde", 20))
    master = fleet.masters(JOB)[0][0]
    one = next(server for server in fleet.servers.values() if server not in (follower, master))
    fleet.run(fleet.now + 20.0 + (8_000 - fleet.wall_ms) % 20_000 / 1000)
    fleet.store(one)
    fleet.crash(one)
    fleet.run(fleet.now + 0.5)
    killed_ms = fleet.wall_ms
    fleet.restart(one)
    fleet.run(fleet.now + 60.0)
    check_conservation(fleet)
    window = next(window for window in fleet.of(JOB) if window.pane <= killed_ms < window.pane + 20_000)
    assert one.name in window.contributors - window.partial, "its first window is the one in which it was killed"
    assert all(one.name in later.contributors for later in fleet.of(JOB) if later.pane > window.pane)
