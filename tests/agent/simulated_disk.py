"""The disk of a simulated agent: what it has written outlives the agent, what waits may not."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from agent.daemon.sealed_groups import KeptRuns, Loaded, SealedGroup, group_of
from agent.feeding.reading_ledger import FeedPosition
from agent.runtime.durable.records import Chain, SealedRecord, StoredChains
from agent.runtime.master.kept_jobs import KeptJobs
from agent.runtime.messages.job_records import RECORDS
from agent.runtime.model.epoch import JobTerm


@dataclass
class SimulatedDisk:
    """Records of jobs in order, as bytes."""

    durable: list[bytes] = field(default_factory=list)
    waiting: list[bytes] = field(default_factory=list)
    is_stuck: bool = False

    def write(self) -> int:
        """Makes durable what waits; returns how much that is."""
        if self.is_stuck:
            return 0
        count = len(self.waiting)
        self.durable += self.waiting
        self.waiting.clear()
        return count

    def lose_power(self, survive: int) -> None:
        """All but the first of what waits is lost."""
        self.durable += self.waiting[:survive]
        self.waiting.clear()

    def kept(self) -> KeptJobs:
        return KeptJobs(map(RECORDS.decode, self.durable))


@dataclass
class SealedDisk:
    """What agents have sealed, and their positions in logs, in groups as bytes. One group is written at a time."""

    durable: list[bytes] = field(default_factory=list)
    waiting: bytes | None = None
    count: int = 0
    """Records in the waiting group."""
    wants_positions: bool = False
    done_at: float | None = None

    def give(self, positions: list[FeedPosition] | None, records: list[SealedRecord]) -> None:
        """The next group."""
        assert self.waiting is None
        self.waiting, self.count = msgspec.msgpack.encode(group_of(positions, records, 1)), len(records)

    def write(self) -> int:
        """Makes the waiting group durable; returns the number of its records."""
        assert self.waiting is not None
        self.durable.append(self.waiting)
        self.waiting = None
        return self.count

    def lose_power(self, *, survives: bool) -> None:
        """What waits may be there, or not."""
        if survives and self.waiting is not None:
            self.write()
        self.waiting, self.wants_positions, self.done_at = None, False, None

    def kept(self) -> tuple[list[FeedPosition], dict[JobTerm, StoredChains], dict[Chain, int]]:
        """Positions, chains, and the places in the only file of a log at which the chains end."""
        kept, loaded = KeptRuns(), Loaded()
        for data in self.durable:
            kept.take(msgspec.msgpack.decode(data, type=SealedGroup), 1, loaded)
        ends = {chain: places["web"][0].offset for chain, places in kept.places().items() if "web" in places}
        return kept.positions(exact=False), kept.chains(loaded), ends
