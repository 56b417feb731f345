"""Makes what dry runs on some agents have found into what is known of a query on all of them.

Numbers of other agents may be anything: each is clipped to what can be, and counted. Of costs the middle one of all
agents is taken, so that one of them alone moves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from statistics import fmean, median

import query as ql
from agent.control.latency.measurements import known_of
from agent.control.observation.latency_entries import AgentSample, CostParts, JobLatency
from agent.runtime.messages.views.dry_runs import DryRunView
from query.latency.buckets import EDGES_US
from query.latency.distribution import Distribution
from query.latency.groups import HeapsLaw
from query.latency.phases import Phase
from query.latency.resources import COST_MAX, SHARE_MIN, SPREAD_MAX, LinearCost
from query.latency.setting import AgentClass, Measured
from query.latency.statistics import PhaseStatistics

RATE_MAX = 1e8
"""Upper bound on the lines that an agent reads in a second."""
GROUP_BYTES_MAX = 1e6
FACTOR_MAX = 1e9
POINTS_MAX = 1e6
UNLIKE = 2.0
"""Multiple of the middle rate from which on agents are a class of their own."""
_ROWS = (1e3, 1e5)
"""Lines at which laws of growth are compared."""
_STANDSTILL = "standstill"


def clipped(view: DryRunView) -> tuple[AgentSample, int]:
    """An agent's findings with numbers that can be, and how many of its numbers could not."""
    limit = _Limit()
    late = PhaseStatistics.from_bytes(view.late) if view.late else PhaseStatistics()
    costs = {phase: _clipped_cost(parts, limit) for phase, *parts in view.costs}
    factor, exponent, points = view.groups
    sample = AgentSample(
        view.agent, view.lines, limit(view.rate, 0.0, RATE_MAX), view.doubt,
        (limit(factor, 0.0, FACTOR_MAX), limit(exponent, 0.0, 1.0), limit(points, 0.0, POINTS_MAX)),
        limit(view.group_bytes, 0.0, GROUP_BYTES_MAX), late.to_bytes(), costs, limit(view.share, SHARE_MIN, 1.0),
    )  # fmt: skip
    return sample, limit.count + late.clipped + late.refused


class _Limit:
    """Clips numbers, and counts those that it has changed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: float, low: float, high: float) -> float:
        if low <= number <= high:
            return number
        self.count += 1
        return low if math.isnan(number) else min(max(number, low), high)


def _clipped_cost(parts: Sequence[float], limit: _Limit) -> CostParts:
    fixed, row, group, byte = (limit(part, 0.0, COST_MAX) for part in parts[:4])
    return fixed, row, group, byte, limit(parts[4], 0.0, SPREAD_MAX), limit(parts[5], 0.0, POINTS_MAX)


def known_with_samples(
    plan: ql.Plan, told: JobLatency | None, agents: int, samples: Sequence[AgentSample], *, is_same: bool
) -> Measured:
    """Puts together what is known of a live plan: by `known_of`, and, where what is told is not of the same query, by
    dry runs."""
    known = known_of(plan, told, agents, is_same=is_same)
    return known if is_same else with_samples(known, samples)


def with_samples(known: Measured, samples: Sequence[AgentSample]) -> Measured:
    """Adds what dry runs have found to what is known of a query. A rate that a live job has measured is kept. Where no
    rate is known, what the work costs is no more than assumed."""
    if not samples:
        return known
    agents = sum(one.agents for one in known.classes)
    rates = [] if known.rate > 0 else [one.rate for one in samples if one.rate > 0 or one.doubt == _STANDSTILL]
    is_known = known.rate > 0 or any(rates)
    costs = {phase: cost if is_known else cost._replace(pieces=0.0, spread=max(1.0, cost.spread))
             for phase, cost in _costs(samples)}  # fmt: skip
    classes = known.classes if not any(rates) else tuple(_classes(rates, agents, known.classes[0]))
    own = tuple(replace(one, phases=_without(one.phases, costs), share=1.0) for one in classes)
    sized = [one for one in samples if one.group_bytes > 0]
    return replace(
        known,
        classes=own,
        phases=_without(known.phases, costs),
        costs={**known.costs, **costs},
        groups=_law(sized) if sized else known.groups,
        group_bytes=median(one.group_bytes for one in sized) if sized else known.group_bytes,
    )


def lateness(samples: Iterable[AgentSample]) -> PhaseStatistics:
    """Statistics of the time by which lines come after the ends of their panes."""
    told = (PhaseStatistics.from_bytes(one.late) for one in samples)
    return reduce(PhaseStatistics.combine, told, PhaseStatistics())


def late_share(late: PhaseStatistics, grace_s: float) -> float | None:
    """The share of lines that come later than a grace after the ends of their panes, or, by a bucket, a little more;
    None without lines."""
    if not late.count:
        return None
    beyond = (count for bucket, count in late.buckets.items() if bucket and _upper_s(bucket) > grace_s)
    return sum(beyond) / late.count


def _upper_s(bucket: int) -> float:
    return EDGES_US[bucket + 1] / 1e6 if bucket + 1 < len(EDGES_US) else math.inf


def _costs(samples: Sequence[AgentSample]) -> Iterator[tuple[Phase, LinearCost]]:
    """The middle cost of each phase, of agents that have measured it if any has: elapsed time, with the share of a
    processor that each got."""
    for phase in Phase:
        told = [(one.costs[phase], one.share) for one in samples if phase in one.costs]
        measured = [one for one in told if one[0][5] > 0] or told
        if measured:
            parts = [[part / share for part in cost[:4]] for cost, share in measured]
            fixed, row, group, byte = (median(several) for several in zip(*parts, strict=True))
            spread = max(cost[4] for cost, _ in measured)
            yield phase, LinearCost(fixed, row, group, byte, spread, sum(cost[5] for cost, _ in measured))


def _classes(rates: Sequence[float], agents: int, like: AgentClass) -> Iterator[AgentClass]:
    """Agents with these rates, each of which stands for as many: those with unusually many lines by themselves."""
    middle = median(rates)
    busy = [rate for rate in rates if rate > UNLIKE * middle]
    others = [rate for rate in rates if rate <= UNLIKE * middle]
    number = min(max(round(agents * len(busy) / len(rates)), 1), agents - 1) if busy and agents > 1 else 0
    if number:
        yield replace(like, agents=number, rate=fmean(busy))
        yield replace(like, agents=agents - number, rate=fmean(others))
    else:
        yield replace(like, agents=agents, rate=fmean(rates))


def _law(samples: Sequence[AgentSample]) -> HeapsLaw:
    laws = [HeapsLaw(*one.groups) for one in samples]
    return HeapsLaw.fitted((rows, median(law.groups(rows) for law in laws)) for rows in _ROWS)


def _without(phases: Mapping[Phase, Distribution], costs: Mapping[Phase, object]) -> dict[Phase, Distribution]:
    return {phase: one for phase, one in phases.items() if phase not in costs}
