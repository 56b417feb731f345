"""Makes what a master tells of the latency of its results readable for clients."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from agent.control.observation.latency_entries import DurationEntry, JobLatency, PlanEntry, SlowAgentEntry
from agent.runtime.master.roster import MEMBERS_MAX
from agent.runtime.messages.views.latency import LatencyView, PlanView
from query.latency.buckets import LONGEST_US
from query.latency.distribution import Distribution
from query.latency.phases import AGENT_PHASES, Phase
from query.latency.statistics import PhaseStatistics, phases_from_bytes

REMARK_CHARACTERS_MAX = 400
"""Upper bound on the characters that are shown of what a master remarks on its plan."""
EVENTS_S_MAX = 1e12
"""Upper bound on the events a second of a job that can be."""
AGENTS_SHOWN = 8
"""Upper bound on the slowest agents that are told of."""


def described_latency(view: LatencyView) -> JobLatency:
    """A master's answer, which may hold anything, in milliseconds and names. O(buckets)."""
    total, skew = PhaseStatistics.from_bytes(view.total), PhaseStatistics.from_bytes(view.skew)
    phases, parts = phases_from_bytes(view.phases), phases_from_bytes(view.parts)
    agents = min(view.agents, MEMBERS_MAX)
    events_s = min(EVENTS_S_MAX, max(0.0, view.events_s)) if math.isfinite(view.events_s) else 0.0
    percent = None if view.percent is None else min(100.0, max(0.0, view.percent))
    return JobLatency(
        view.name, view.master, view.text, view.within_ms, percent, view.results, view.met, view.missed,
        _durations("total", total), _durations("skew", skew),
        _by_phase(phases, tuple(Phase)), _by_phase(parts, AGENT_PHASES), _agents(view), _ms(view.last_us / 1e6),
        {phase.label: _ms(us / 1e6) for phase, us in zip(Phase, view.last_phases, strict=False)},
        events_s, agents, view.phases, view.parts,
        _slowest(phases), (agents != view.agents) + (events_s != view.events_s)
        + sum(one.clipped + one.refused for one in (total, skew, *phases.values(), *parts.values())),
        view.total, None if view.plan is None else _plan(view.plan), view.group_points,
    )  # fmt: skip


def _plan(told: PlanView) -> PlanEntry:
    mean_ms, now_ms = _ms(told.mean_us / 1e6), _ms(told.now_us / 1e6)
    drift_ms = now_ms - mean_ms if told.mean_us and told.now_us else 0.0
    phases = {phase.label: _ms(micros / 1e6) for phase, micros in zip(Phase, told.phases, strict=False)}
    return PlanEntry(
        told.grace_ms, told.cuts, told.trees, mean_ms, _ms(told.quantile_us / 1e6), phases, now_ms,
        round(drift_ms, 3), told.remark[:REMARK_CHARACTERS_MAX], told.look_ms,
    )  # fmt: skip


def _agents(view: LatencyView) -> list[SlowAgentEntry]:
    """The slowest agents by their own parts, then others whose parts have come last."""
    last_parts, seen = dict(view.last_parts), {one.agent for one in view.slowest}
    slow = [
        SlowAgentEntry(one.agent, one.parts, _ms(one.spent_us / 1e6 / max(1, one.parts)), last_parts.get(one.agent, 0))
        for one in view.slowest
    ]
    others = [SlowAgentEntry(agent, 0, 0.0, last) for agent, last in view.last_parts if agent not in seen]
    return [*slow, *others][:AGENTS_SHOWN]


def _slowest(phases: Mapping[Phase, PhaseStatistics]) -> str:
    known = [phase for phase in Phase if phase not in (Phase.CLOSE, Phase.DELIVER) and phases[phase].sum_us]
    return max(known, key=lambda phase: phases[phase].mean).label if known else ""


def _by_phase(told: Mapping[Phase, PhaseStatistics], phases: Iterable[Phase]) -> list[DurationEntry]:
    return [_durations(phase.label, told[phase]) for phase in phases]


def _durations(what: str, statistics: PhaseStatistics) -> DurationEntry:
    if not statistics.count:
        return DurationEntry(what, 0, 0.0, 0.0, 0.0)
    found = Distribution.of_statistics(statistics)
    half, most = (min(found.quantile(share), LONGEST_US / 1e6) for share in (0.5, 0.99))
    return DurationEntry(what, statistics.count, _ms(statistics.mean), _ms(half), _ms(most))


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
