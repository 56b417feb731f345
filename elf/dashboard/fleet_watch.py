"""Looks at the fleet for all pages together: one look at a time, and none while no page asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.access.owners import is_same_owner
from agent.control.messages import AgentEntry, JobEntry, Rights
from elf.client.sync_client import SyncClient
from elf.dashboard.job_rates import JobRates
from elf.errors import ElfError

FRESH_S = 4.5
"""Age up to which a look serves the next page that asks."""
INTRODUCTION_S = 30.0
"""Time between questions about the agent itself, and the rights that it grants: both change seldom."""
AGENTS_MAX = 1000
"""Upper bound on agents that are shown, and on those remembered."""
JOBS_MAX = 500
FORGOTTEN_AFTER_S = 3600.0
"""Time after which an agent that does not answer is no longer shown."""


@dataclass(frozen=True, slots=True)
class SeenAgent:
    """An agent as it last answered; `health` is ok, leaving or silent."""

    entry: AgentEntry
    health: str


@dataclass(frozen=True, slots=True)
class FleetLook:
    """The fleet at one moment. `fault`: why there is no newer one. `agents_left`, `jobs_left`: more than are here.

    `rates`: events a second of jobs, by their ids. `unknown`: the number of agents that do not answer and have not done
    so before.
    """

    agents: Sequence[SeenAgent] = ()
    jobs: Sequence[JobEntry] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    rights: Rights = field(default_factory=lambda: Rights("", "", []))
    asked: str = ""
    fleet: str = ""
    unknown: int = 0
    agents_left: int = 0
    jobs_left: int = 0
    fault: str = ""

    @property
    def may_query(self) -> bool:
        return any(granted.role in ("query", "operate") for granted in self.rights.roles)

    def may_stop(self, job: JobEntry) -> bool:
        """Whether to offer it; the agent decides."""
        if job.creator:
            return False  # its creator's signature is needed
        operates = any(granted.role == "operate" for granted in self.rights.roles)
        return operates or (self.may_query and is_same_owner(self.rights.owner, job.owner))


class FleetWatch:
    """Looks at the fleet through one agent when a page asks, unless the last look is fresh."""

    def __init__(self, client: SyncClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = asyncio.Lock()
        self._look = FleetLook()
        self._looked_at = -FRESH_S
        self._introduced_at = -INTRODUCTION_S
        self._answered: dict[str, tuple[float, AgentEntry]] = {}
        self._rates = JobRates()

    async def look(self) -> FleetLook:
        """The fleet now, or a moment ago; where the agent cannot be asked, what was last known, and why."""
        async with self._lock:
            if self._clock() - self._looked_at >= FRESH_S:
                self._look = await asyncio.to_thread(self._ask)
                self._looked_at = self._clock()
            return self._look

    def _ask(self) -> FleetLook:
        try:
            known = self._introduced()
            fleet = self._client.fleet()
            jobs = sorted(self._client.jobs(), key=lambda job: job.app)
        except ElfError as error:
            self._introduced_at = -INTRODUCTION_S
            return replace(self._look, fault=str(error))
        silent = self._remember(fleet.agents)
        seen = [SeenAgent(entry, "leaving" if entry.leaving else "ok") for entry in fleet.agents]
        agents = sorted([*seen, *silent], key=lambda one: one.entry.node_id)
        return replace(
            known,
            agents=agents[:AGENTS_MAX],
            jobs=jobs[:JOBS_MAX],
            rates=self._rates.of(jobs[:JOBS_MAX]),
            unknown=max(0, fleet.silent - len(silent)),
            agents_left=max(0, len(agents) - AGENTS_MAX),
            jobs_left=max(0, len(jobs) - JOBS_MAX),
        )

    def _introduced(self) -> FleetLook:
        """The agent's name, its fleet, and the rights that it grants."""
        if self._clock() - self._introduced_at < INTRODUCTION_S:
            return replace(self._look, fault="")
        status, rights = self._client.status(), self._client.rights()
        self._introduced_at = self._clock()
        return FleetLook(rights=rights, asked=status.name, fleet=status.fleet)

    def _remember(self, answered: Sequence[AgentEntry]) -> list[SeenAgent]:
        """Keeps those that have answered; returns others that have done so in the last hour."""
        now = self._clock()
        for entry in answered[:AGENTS_MAX]:
            self._answered.pop(entry.node_id, None)
            self._answered[entry.node_id] = (now, entry)
        for node_id, (at, _) in list(self._answered.items()):
            if now - at > FORGOTTEN_AFTER_S or len(self._answered) > AGENTS_MAX:
                del self._answered[node_id]
        present = {entry.node_id for entry in answered}
        return [SeenAgent(entry, "silent") for key, (_, entry) in self._answered.items() if key not in present]
