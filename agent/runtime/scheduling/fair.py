"""Shares the processor among jobs, max-min fairly, where all of them together want more than there is.

Events of all jobs are processed by deadline, as those of one: while all can be done in time, nobody needs a share.
Where it cannot, the job loses events that has had most beyond its share, the dearest first. Shares are those of water
that fills the jobs' demands: what a job does not want is the others'. A job within its share loses nothing, unless the
bursts of all such jobs together are too much.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from agent.runtime.scheduling.cost_aware import LOTS_MAX, CostAwareScheduler
from agent.runtime.scheduling.lots import Lot
from agent.runtime.scheduling.schedule_tree import ScheduleTree

RATE_S = 2.0
"""Time over which demands are measured: long beside the batches in which events come, short beside a change of load."""
FIRST_S = 0.05
"""Time for which the first events of a job count as its demand."""
Job = TypeVar("Job", bound=Hashable)


def max_min_shares(demands: Mapping[Job, float], capacity: float) -> dict[Job, float]:
    """Shares of `capacity`: each job gets all it demands, or as much as each of the others that want more. O(n log n).

    >>> max_min_shares({"a": 0.2, "b": 0.9, "c": 0.6}, 1.0)
    {'a': 0.2, 'c': 0.4, 'b': 0.4}
    """
    shares = {}
    left = capacity
    for served, (job, demand) in enumerate(sorted(demands.items(), key=lambda one: one[1])):
        shares[job] = min(demand, left / (len(demands) - served))
        left -= shares[job]
    return shares


@dataclass(slots=True)
class _Rates:
    """Work that comes, and that is not abandoned: seconds a second, weighted exponentially, from the first on."""

    at: float
    weight: float = FIRST_S / RATE_S
    """Weight of the time that has been measured; that before would have 1 less it."""
    demand: float = 0.0
    grant: float = 0.0

    def pass_time(self, now: float) -> None:
        """Ages what has been measured."""
        if now > self.at:
            kept = math.exp((self.at - now) / RATE_S)
            self.weight = 1 - (1 - self.weight) * kept
            self.demand *= kept
            self.grant *= kept
            self.at = now

    @property
    def demanded(self) -> float:
        return self.demand / self.weight

    @property
    def granted(self) -> float:
        return self.grant / self.weight


class FairScheduler(CostAwareScheduler):
    """Schedules the events of several jobs, each by Algorithm 2. `capacity`: the share of the processor for events."""

    def __init__(self, lots_max: int = LOTS_MAX, capacity: float = 1.0) -> None:
        super().__init__(lots_max)
        self._capacity = capacity
        self._trees: dict[Hashable, ScheduleTree] = {}
        self._rates: dict[Hashable, _Rates] = {}
        self._abandoned_of: dict[Hashable, int] = {}
        self._shares: tuple[float, dict[Hashable, float]] | None = None
        """The shares by what had been demanded until a time, if nothing has come since."""

    def abandoned_of(self, job: Hashable) -> int:
        """The number of events of a job that have been abandoned."""
        return self._abandoned_of.get(job, 0)

    def shares(self, now: float) -> dict[Hashable, float]:
        """The share of the processor for each job, by what all have demanded of late. O(jobs · log jobs)."""
        if self._shares is None or self._shares[0] != now:
            for rates in self._rates.values():
                rates.pass_time(now)
            demands = {job: rates.demanded for job, rates in self._rates.items()}
            self._shares = now, max_min_shares(demands, self._capacity)
        return self._shares[1]

    def drop(self, job: Hashable) -> None:
        super().drop(job)
        self._shares = None
        self._rates.pop(job, None)
        self._abandoned_of.pop(job, None)

    def _victim(self, deadline: float, now: float) -> Lot:
        """The dearest of the job that is furthest beyond its share, of those with events due by then. In a burst nobody
        may be, by what all have demanded of late: then that of the job with most work due by then."""
        due = [job for job, tree in self._trees.items() if tree.is_due(deadline)]
        if len(due) > 1:
            shares = self.shares(now)
            beyond = {
                job: rates.granted - shares[job] for job in due if (rates := self._rates[job]).demanded > shares[job]
            }
            if beyond:
                due = [max(beyond, key=beyond.__getitem__)]
        if len(due) > 1:
            due = [max(due, key=lambda one: self._trees[one].cost_in_groups(deadline))]
        lot = self._trees[due[0]].max_cost_in_groups(deadline)
        assert lot is not None, "something of the job is due by then"
        return lot

    def _insert(self, lot: Lot) -> None:
        super()._insert(lot)
        self._trees.setdefault(lot.job, ScheduleTree()).insert(lot)

    def _delete(self, lot: Lot) -> None:
        super()._delete(lot)
        tree = self._trees[lot.job]
        tree.delete(lot)
        if not len(tree):
            del self._trees[lot.job]

    def _shrunk(self, lot: Lot, events: int) -> None:
        super()._shrunk(lot, events)
        self._trees[lot.job].shrunk(lot, events)

    def _note_released(self, lot: Lot, now: float) -> None:
        self._shares = None
        rates = self._rates.get(lot.job)
        if rates is None:
            rates = self._rates[lot.job] = _Rates(now)
        rates.pass_time(now)
        rates.demand += lot.cost / RATE_S
        rates.grant += lot.cost / RATE_S

    def _note_abandoned(self, taken: Lot, now: float) -> None:
        rates = self._rates[taken.job]
        rates.pass_time(now)
        rates.grant -= taken.cost / RATE_S
        self._abandoned_of[taken.job] = self._abandoned_of.get(taken.job, 0) + taken.events
