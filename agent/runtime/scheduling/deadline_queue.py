"""Orders the phases of an agent's work by the time at which each has to begin (Li et al., section 4.1).

The work of a phase is a batch: an event costs about as much as in any other batch, and a part of one is worth its part.
So the earliest deadline first is best. A batch that is read has other phases before it: it is due by its deadline less
what all of them take.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from sortedcontainers import SortedDict, SortedList

WORK_MAX = 1 << 16
"""Upper bound on the work that waits; beyond it the caller keeps its work until there is room."""
SLICES = 10
"""Slices of work in the shortest latency constraint, which is how late anybody's turn may come for a slice."""
SLICE_MAX_S, SLICE_MIN_S = 0.1, 0.001
"""Bounds on the length of a slice of work: below, turns cost more than the work, above, heartbeats come late."""
WEIGHT = 0.2
"""Weight of the last measurement in what a phase is expected to take."""


class WorkPhase(IntEnum):
    """Phases of work, in the order in which events go through them."""

    READ = 0
    INSERT = 1
    SEAL = 2
    COMBINE = 3
    PUBLISH = 4


PRIOR_S: Mapping[WorkPhase, float] = MappingProxyType(
    {
        WorkPhase.READ: 0.01,
        WorkPhase.INSERT: 0.01,
        WorkPhase.SEAL: 0.02,
        WorkPhase.COMBINE: 0.01,
        WorkPhase.PUBLISH: 0.02,
    }
)
"""Time that a phase is expected to take before it was measured."""


class PhaseTimes:
    """Predicts what the phases of jobs take, from their start to the next phase's (s): exponentially weighted means."""

    def __init__(self, prior_s: Mapping[WorkPhase, float] = PRIOR_S) -> None:
        self._prior_s = prior_s
        self._means: dict[Hashable, dict[WorkPhase, float]] = {}

    def measured(self, job: Hashable, phase: WorkPhase, took_s: float) -> None:
        """Notes that a phase of a job took so long."""
        means = self._means.setdefault(job, dict(self._prior_s))
        means[phase] += WEIGHT * (took_s - means[phase])

    def remaining_s(self, job: Hashable, phase: WorkPhase) -> float:
        """The time from the start of a phase until the result is out."""
        means = self._means.get(job, self._prior_s)
        return sum(means[one] for one in WorkPhase if one >= phase)

    def forget(self, job: Hashable) -> None:
        """Forgets a job that is over."""
        self._means.pop(job, None)


J = TypeVar("J", bound=Hashable)
"""The job, or feed, that work is for."""


@dataclass(frozen=True, slots=True)
class PhaseWork(Generic[J]):
    """Work of one phase for one job, or feed, that is to begin by `due`. `deadline`: when its result has to be out."""

    job: J
    phase: WorkPhase
    due: float
    deadline: float | None


class DeadlineQueue(Generic[J]):
    """Work of all phases, the most urgent first. The caller does one slice of it, `slice_s` at most, and adds the rest
    again.

    Work without a deadline is due a pane after it came, and nothing is due before it comes. So whatever is added once a
    work is due comes after it: its wait is bounded by its pane and a slice of each other work, whatever the load.
    """

    def __init__(self, times: PhaseTimes | None = None, work_max: int = WORK_MAX) -> None:
        self.times = PhaseTimes() if times is None else times
        self._work_max = work_max
        self._waiting: SortedDict = SortedDict()
        self._places: dict[tuple[J, WorkPhase], tuple[float, int]] = {}
        self._numbers = itertools.count()
        self._constraints: dict[Hashable, float] = {}
        self._shortest: SortedList = SortedList()

    def __len__(self) -> int:
        """The number of works that wait."""
        return len(self._places)

    # Jobs.

    def constrain(self, job: Hashable, within_s: float | None) -> None:
        """Notes the latency constraint of a job that is present, whether it has work or not; None: it has none.
        O(log jobs)."""
        if within_s is not None and not 0 < within_s < math.inf:
            raise ValueError(f"the latency constraint of {job} is a time, not {within_s} s")
        if (before := self._constraints.pop(job, None)) is not None:
            self._shortest.remove(before)
        if within_s is not None:
            self._constraints[job] = within_s
            self._shortest.add(within_s)

    def drop(self, job: J) -> None:
        """Forgets a job that is over, and its work."""
        self.constrain(job, None)
        self.times.forget(job)
        for phase in WorkPhase:
            self.remove(job, phase)

    @property
    def is_constrained(self) -> bool:
        """Whether results of some job have to be out in time. O(1)."""
        return bool(self._shortest)

    @property
    def slice_s(self) -> float:
        """The most that a slice of any work may take (s): a tenth of the shortest constraint there is. O(1)."""
        if not self._shortest:
            return SLICE_MAX_S
        shortest: float = self._shortest[0]
        return max(SLICE_MIN_S, min(SLICE_MAX_S, shortest / SLICES))

    # Work.

    def add(self, job: J, phase: WorkPhase, now: float, pane_s: float, deadline: float | None = None) -> bool:
        """Adds work, or makes what waits already more urgent; False if there is no room. O(log n)."""
        due = now + pane_s if deadline is None else max(now, deadline - self.times.remaining_s(job, phase))
        place = self._places.get((job, phase))
        if place is not None and place[0] <= due:
            return True
        if place is None and len(self) >= self._work_max:
            return False
        self.remove(job, phase)
        place = self._places[job, phase] = (due, next(self._numbers))
        self._waiting[place] = PhaseWork(job, phase, due, deadline)
        return True

    def next(self) -> PhaseWork[J] | None:
        """Takes out the most urgent work; of equally urgent ones that which came first. O(log n)."""
        if not self._waiting:
            return None
        _, work = self._waiting.popitem(0)
        assert isinstance(work, PhaseWork)
        del self._places[work.job, work.phase]
        return work

    def in_order(self) -> Iterator[PhaseWork[J]]:
        """The work that waits, the most urgent first; nothing may be added or taken meanwhile."""
        return iter(self._waiting.values())

    def remove(self, job: J, phase: WorkPhase) -> None:
        """Takes out work that is done now, or needs not be done any more. O(log n)."""
        if (place := self._places.pop((job, phase), None)) is not None:
            del self._waiting[place]
