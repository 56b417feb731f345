"""The numbers that an agent's metrics are made of, as they are at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.archive.format.status import ArchiveStatus
from agent.feeding.statistics import StreamStatistics
from agent.runtime.model.meters import JobMeter
from agent.runtime.requests.status import JobFigures
from overlay import TransportStatistics


@dataclass(frozen=True, slots=True)
class AgentFigures:
    """All numbers of one agent. `parts`: the counters of its parts, by part and name.

    `cbt_bytes`: memory of the stores of open panes. `masters`, `fleet_jobs`, `peers`: the jobs whose masters are here,
    the jobs and the agents that it knows.
    """

    agent: str
    fleet: str
    version: str
    is_active: bool
    is_leaving: bool
    peers: int
    leaf_set: int
    masters: int
    fleet_jobs: int
    followed_jobs: int
    cbt_bytes: int
    operators: int
    parts: Mapping[str, Mapping[str, float]]
    streams: Mapping[str, StreamStatistics]
    jobs: JobFigures
    meter: JobMeter
    transport: TransportStatistics
    archive: ArchiveStatus | None
    certificate_expires: datetime


class AgentHealth(Protocol):
    """The agent, as it is asked how it does."""

    def figures(self) -> AgentFigures: ...
    def unready(self) -> str | None:
        """The reason why the agent is not to be counted on; None if it is ready."""
        ...
