"""Measures what events cost, by operator and cost class, which predicts what the next ones cost (Li et al., 4)."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agent.runtime.scheduling.lots import CostClass

PRIOR_S: Mapping[CostClass, float] = MappingProxyType(
    {CostClass.CHEAP: 1e-6, CostClass.SPILLED: 1e-5, CostClass.MAPPED: 2e-5}
)
"""Cost of an event before any was measured. Rather too low: nothing is abandoned for what is not known."""
TRIAL_EVENTS = 256
"""Number of events that are done first where it is not known what they cost."""
PRIOR_EVENTS = 32
"""Number of events for which the prior counts."""
MEMORY_EVENTS = 5_000
"""Number of events after which a measurement has lost two thirds of its weight."""
COST_MIN_S = 1e-9
"""Lower bound on the cost of an event: a clock may stand still meanwhile."""
OUTLIER = 3.0
"""Factor above a known mean to which a measurement is cut: somebody else may have had the processor meanwhile."""
REVISED_AT = 1.25
"""Factor by which a mean has to change before events that wait get it as their cost."""


@dataclass(slots=True)
class _Mean:
    cost_s: float
    events: int = PRIOR_EVENTS
    told_s: float = 0.0
    """The mean that events that wait have got last."""

    def add(self, events: int, took_s: float) -> None:
        """Adds a measurement: its weight is that of its events, but not less than what the memory gives it."""
        measured_s = took_s / events if self.events <= PRIOR_EVENTS else min(took_s / events, OUTLIER * self.cost_s)
        self.events += events
        weight = max(events / self.events, -math.expm1(-events / MEMORY_EVENTS))
        self.cost_s = max(COST_MIN_S, self.cost_s + weight * (measured_s - self.cost_s))


class EventCosts:
    """Exponentially weighted means of what an event takes (s), for each operator and class of cost.

    >>> costs = EventCosts()
    >>> costs.cost_s("clicks", CostClass.CHEAP)
    1e-06
    >>> costs.measured("clicks", CostClass.CHEAP, events=1_000_000, took_s=2.0)
    >>> round(1e6 * costs.cost_s("clicks", CostClass.CHEAP), 2)
    2.0
    """

    def __init__(self, prior_s: Mapping[CostClass, float] = PRIOR_S) -> None:
        self._prior_s = prior_s
        self._means: dict[Hashable, dict[CostClass, _Mean]] = {}

    def cost_s(self, operator: Hashable, cost_class: CostClass) -> float:
        """The expected cost of an event."""
        mean = self._means.get(operator, {}).get(cost_class)
        return self._prior_s[cost_class] if mean is None else mean.cost_s

    def is_known(self, operator: Hashable, cost_class: CostClass) -> bool:
        """Whether events of the class have been measured."""
        mean = self._means.get(operator, {}).get(cost_class)
        return mean is not None and mean.events > PRIOR_EVENTS

    def measured(self, operator: Hashable, cost_class: CostClass, events: int, took_s: float) -> None:
        """Notes that so many events took so long."""
        if events > 0:
            self._mean(operator, cost_class).add(events, took_s)

    def revision(self, operator: Hashable, cost_class: CostClass) -> float | None:
        """The cost that waiting events should get, if theirs is far from the mean by now; each is told once."""
        mean = self._mean(operator, cost_class)
        if 1 / REVISED_AT <= mean.cost_s / mean.told_s <= REVISED_AT:
            return None
        mean.told_s = mean.cost_s
        return mean.cost_s

    def forget(self, operator: Hashable) -> None:
        """Forgets an operator that is gone."""
        self._means.pop(operator, None)

    def _mean(self, operator: Hashable, cost_class: CostClass) -> _Mean:
        means = self._means.setdefault(operator, {})
        mean = means.get(cost_class)
        if mean is None:
            prior_s = self._prior_s[cost_class]
            mean = means[cost_class] = _Mean(prior_s, told_s=prior_s)
        return mean
