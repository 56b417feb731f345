"""The disk of a simulated agent: what it has written outlives the agent, what waits may not."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.runtime.master.kept_jobs import KeptJobs
from agent.runtime.messages.job_records import RECORDS


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
