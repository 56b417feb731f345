"""Makes what a master tells of the latency of its results readable for clients."""

from __future__ import annotations

import math

from agent.control.observation.latency_entries import DurationEntry, JobLatency, SlowAgentEntry
from agent.runtime.messages.views.latency import LatencyView
from query.latency.distribution import Distribution
from query.latency.phases import Phase
from query.latency.statistics import PhaseStatistics, phases_from_bytes


def described_latency(view: LatencyView) -> JobLatency:
    """A master's answer, which may hold anything, in milliseconds and names. O(buckets)."""
    last_parts, seen = dict(view.last_parts), {one.agent for one in view.slowest}
    slow = [
        SlowAgentEntry(one.agent, one.parts, _ms(one.spent_us / 1e6 / max(1, one.parts)), last_parts.get(one.agent, 0))
        for one in view.slowest
    ]
    others = [SlowAgentEntry(agent, 0, 0.0, last) for agent, last in view.last_parts if agent not in seen]
    return JobLatency(
        view.name, view.master, view.text, view.within_ms, view.percent, view.results, view.met, view.missed,
        _durations("total", PhaseStatistics.from_bytes(view.total)),
        _durations("skew", PhaseStatistics.from_bytes(view.skew)),
        _by_phase(view.phases), _by_phase(view.parts), [*slow, *others[: max(0, 8 - len(slow))]],
        _ms(view.last_us / 1e6),
        {phase.label: _ms(us / 1e6) for phase, us in zip(Phase, view.last_phases, strict=False)},
        view.events_s if math.isfinite(view.events_s) else 0.0, view.agents, view.phases, view.parts,
    )  # fmt: skip


def _by_phase(told: bytes) -> list[DurationEntry]:
    return [_durations(phase.label, one) for phase, one in phases_from_bytes(told).items() if one.count]


def _durations(what: str, statistics: PhaseStatistics) -> DurationEntry:
    if not statistics.count:
        return DurationEntry(what, 0, 0.0, 0.0, 0.0)
    found = Distribution.of_statistics(statistics)
    half, most = found.quantile(0.5), found.quantile(0.99)
    return DurationEntry(what, statistics.count, _ms(statistics.mean), _ms(half), _ms(most))


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
