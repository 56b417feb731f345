"""Finds in which phase, and on which agent, the last results of a job take longer than was planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from agent.runtime.model.latency.recent_latency import ResultLatency
from query.latency.phases import Phase

RESULTS = 5
"""Number of the last results whose medians are compared with a plan: a burst that makes two of them late is none."""
LEAST_S = 0.03
"""Time by which results are later than planned from which on that is a drift."""
LEAST_SHARE = 0.25
"""Part of what is planned after GRACE by which results are later from which on that is a drift."""
NOISE_S = 0.005
"""Time by which a phase may be longer without a word."""


@dataclass(frozen=True, slots=True)
class Drift:
    """The phase that is longer than planned by most, the agent on which that is, and by how much each such phase is
    longer (s)."""

    phase: Phase
    agent: str
    longer: Mapping[Phase, float]

    @property
    def text(self) -> str:
        """The drift in words.

        >>> Drift(Phase.UPLINK, "web-3", {Phase.UPLINK: 0.2104}).text
        'uplink of web-3 takes 210 ms more than planned'
        """
        return f"{self.phase.label} of {self.agent} takes {1000 * self.longer[self.phase]:,.0f} ms more than planned"

    def beside(self, longer: Mapping[Phase, float]) -> Drift:
        """This drift, with what phases were longer before."""
        both = {phase: self.longer.get(phase, 0.0) + longer.get(phase, 0.0) for phase in (*longer, *self.longer)}
        return replace(self, longer=both)


def median_s(results: Sequence[ResultLatency]) -> float:
    """The median of results' latencies (s); 0 of none."""
    return median(one.latency_s for one in results) if results else 0.0


def drift_of(results: Sequence[ResultLatency], planned: Mapping[Phase, float], master: str) -> Drift | None:
    """The drift of the last results from the means of phases that were planned (s); None if there is none.

    There is one where their median is beyond the plan. The phases of those from the median on then say where; of what
    these take longer, as much counts as the median does. What no phase accounts for is a way that takes longer than
    acknowledgements have told so far. Up to `combine` a phase is that of the agent whose part came last, mostly; then
    that of the master.
    """
    planned_s = sum(seconds for phase, seconds in planned.items() if phase is not Phase.DELIVER)
    beyond_s = median_s(results) - planned_s
    if len(results) < RESULTS or beyond_s < max(LEAST_S, LEAST_SHARE * (planned_s - planned.get(Phase.CLOSE, 0.0))):
        return None
    late = sorted(results, key=lambda one: one.latency_s)[RESULTS // 2 :]
    longer: dict[Phase, float] = {
        phase: fmean(one.phases.get(phase, 0.0) for one in late) - planned.get(phase, 0.0)
        for phase in Phase if phase is not Phase.DELIVER
    }  # fmt: skip
    longer[Phase.UPLINK] += max(0.0, fmean(one.skew_s for one in late))
    longer = {phase: seconds for phase, seconds in longer.items() if seconds > NOISE_S}
    if not longer:
        return None
    counts = min(1.0, beyond_s / sum(longer.values()))
    phase = max(longer, key=longer.__getitem__)
    last, _ = Counter(one.agent or master for one in late).most_common(1)[0]
    agent = last if phase <= Phase.COMBINE else master
    return Drift(phase, agent, {phase: seconds * counts for phase, seconds in longer.items()})
