"""Statistics of how long the latest results have taken, in each phase and in all."""

from __future__ import annotations

from dataclasses import dataclass, field

from query.latency.phases import Phase
from query.latency.statistics import PhaseStatistics

GENERATION_RESULTS = 300
"""Number of results after which statistics begin anew; those before are kept as long as these grow."""
AGENTS_MAX = 64
"""Upper bound on the agents whose parts have come last that are counted by name."""


@dataclass(frozen=True, slots=True)
class ResultLatency:
    """The time that one result has taken: from the end of its window to its publication, and in each phase, as measured
    where it passed (s). `agent`: whose part was the last; "" where it is not known. `is_met`: whether that is within
    the job's limit; None: it has none."""

    latency_s: float
    phases: dict[Phase, float]
    agent: str
    is_met: bool | None = None

    @property
    def skew_s(self) -> float:
        """The time that no phase accounts for: clocks that differ by more than ways can, and what was sent again."""
        return self.latency_s - sum(self.phases.values())

    def slowest(self, master: str) -> str:
        """The phase that has taken the longest, but for the grace, and the agent on which it has."""
        phase = max((one for one in self.phases if one is not Phase.CLOSE), key=self.phases.__getitem__)
        return f"{phase.label}, {self.agent if phase <= Phase.COMBINE and self.agent else master}"


def with_ways_of(latency_s: float, phases: dict[Phase, float]) -> dict[Phase, float]:
    """Phases (s) with a better `uplink`: half of the time there and back is up to that half off, and what no phase
    accounts for tells by how much, as far as it can be that.

    >>> [with_ways_of(latency_s, {Phase.SEAL: 0.5, Phase.UPLINK: 0.25})[Phase.UPLINK] for latency_s in (0.875, 9.0)]
    [0.375, 0.5]
    """
    uplink_s = phases.get(Phase.UPLINK, 0.0)
    rest_s = latency_s - sum(phases.values())
    return phases | {Phase.UPLINK: uplink_s + min(max(rest_s, -uplink_s), uplink_s)}


@dataclass(slots=True)
class LatencyGeneration:
    """Statistics of some results. `agents`: how often the last part of a result was an agent's, by name."""

    results: int = 0
    met: int = 0
    missed: int = 0
    total: PhaseStatistics = field(default_factory=PhaseStatistics)
    phases: dict[Phase, PhaseStatistics] = field(default_factory=dict)
    skew: PhaseStatistics = field(default_factory=PhaseStatistics)
    agents: dict[str, int] = field(default_factory=dict)

    def note(self, result: ResultLatency) -> None:
        """Counts a result."""
        self.results += 1
        self.met += result.is_met is True
        self.missed += result.is_met is False
        self.total.add(result.latency_s)
        for phase, seconds in result.phases.items():
            self.phases.setdefault(phase, PhaseStatistics()).add(seconds)
        self.skew.add(abs(result.skew_s))
        if result.agent and (result.agent in self.agents or len(self.agents) < AGENTS_MAX):
            self.agents[result.agent] = self.agents.get(result.agent, 0) + 1

    def combine(self, other: LatencyGeneration) -> LatencyGeneration:
        """The statistics of the results of both."""
        agents = dict(self.agents)
        for name, count in other.agents.items():
            agents[name] = agents.get(name, 0) + count
        phases = {
            phase: self.phases.get(phase, PhaseStatistics()).combine(other.phases.get(phase, PhaseStatistics()))
            for phase in sorted({*self.phases, *other.phases})
        }
        return LatencyGeneration(
            self.results + other.results, self.met + other.met, self.missed + other.missed,
            self.total.combine(other.total), phases, self.skew.combine(other.skew), agents,
        )  # fmt: skip


class RecentLatency:
    """Statistics of the last GENERATION_RESULTS to twice as many results."""

    def __init__(self) -> None:
        self._before, self._now = LatencyGeneration(), LatencyGeneration()
        self.last: ResultLatency | None = None
        """The last result."""

    def note(self, result: ResultLatency) -> None:
        """Counts a result."""
        if self._now.results >= GENERATION_RESULTS:
            self._before, self._now = self._now, LatencyGeneration()
        self._now.note(result)
        self.last = result

    def statistics(self) -> LatencyGeneration:
        """The statistics of all that is kept. O(buckets)."""
        return self._before.combine(self._now)
