"""Adds up how long the agents of a job take for their own parts of panes, and tells of it up the job's tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from agent.runtime.model.fields import AMOUNT_MAX, Amount, Number
from agent.runtime.model.latency.critical_path import AT_SOURCE, CriticalPath
from agent.runtime.model.step_clock import StepClock
from query.latency.phases import Phase
from query.latency.statistics import PHASES_BYTES_MAX, PhaseStatistics, phases_from_bytes, phases_to_bytes

TOLD_S = 5.0
"""Time between two tellings of an agent's parts, and of those below it."""
GENERATION_S = 60.0
"""Time after which a master counts anew; what was before is kept for as long again."""
SLOWEST_MAX = 8
"""Upper bound on the agents whose parts have taken longest that are told of by themselves."""

PartBytes = Annotated[bytes, msgspec.Meta(max_length=PHASES_BYTES_MAX)]
"""Statistics of phases, encoded."""
SlowParts = Annotated[list[tuple[Number, Amount, Amount]], msgspec.Meta(max_length=SLOWEST_MAX)]
"""Agents by their numbers, the parts that they had, and the microseconds of all of these after their panes' graces."""


@dataclass(slots=True)
class PartStatistics:
    """Statistics of agents' parts by phase, and the parts and microseconds of those that took longest, by number."""

    phases: dict[Phase, PhaseStatistics] = field(default_factory=dict)
    slowest: dict[int, tuple[int, int]] = field(default_factory=dict)

    def note(self, path: CriticalPath) -> None:
        """Counts an agent's own part."""
        for phase, micros in zip(AT_SOURCE, path.source, strict=True):
            self.phases.setdefault(phase, PhaseStatistics()).add(micros / 1e6)
        spent = sum(path.source) - path.source[AT_SOURCE.index(Phase.CLOSE)]
        self._count(path.agent, 1, spent)

    def add(self, phases: dict[Phase, PhaseStatistics], slowest: Iterable[tuple[int, int, int]]) -> None:
        """Adds what others have counted."""
        for phase, statistics in phases.items():
            self.phases[phase] = self.phases.get(phase, PhaseStatistics()).combine(statistics)
        for number, parts, micros in slowest:
            self._count(number, parts, micros)

    def _count(self, number: int, parts: int, micros: int) -> None:
        known = self.slowest.get(number, (0, 0))
        self.slowest[number] = min(AMOUNT_MAX, known[0] + parts), min(AMOUNT_MAX, known[1] + micros)
        if len(self.slowest) > 2 * SLOWEST_MAX:
            self.slowest = {agent: (parts, micros) for agent, parts, micros in self.longest()}

    def longest(self) -> list[tuple[int, int, int]]:
        """The agents whose parts have taken longest on average, the slowest first."""
        every = sorted(self.slowest.items(), key=lambda one: -one[1][1] / max(1, one[1][0]))
        return [(number, parts, micros) for number, (parts, micros) in every[:SLOWEST_MAX]]


class PartMeter:
    """The parts of one job's agents, as far as they are told of on this one. `clock` tells the time."""

    def __init__(self, clock: StepClock) -> None:
        self._clock = clock
        self._before, self._now = PartStatistics(), PartStatistics()
        self._since = self._told_at = 0.0

    def note(self, path: CriticalPath) -> None:
        """Counts this agent's own part of some panes."""
        self._turn()
        self._now.note(path)

    def add(self, told: bytes, slowest: Iterable[tuple[int, int, int]]) -> None:
        """Adds what another agent has told, which may be anything: statistics are clipped to what can be."""
        if told:
            self._turn()
            self._now.add(phases_from_bytes(told), slowest)

    def take(self) -> tuple[bytes, list[tuple[int, int, int]]]:
        """All that was counted since it was told last, after TOLD_S; nothing before."""
        now = self._clock.now
        if not self._now.phases or now < self._told_at + TOLD_S:
            return b"", []
        taken, self._now, self._told_at = self._now, PartStatistics(), now
        return phases_to_bytes(taken.phases), taken.longest()

    def statistics(self) -> PartStatistics:
        """Everything counted in the last minute or two, at a master, which tells nobody. O(buckets)."""
        self._turn()
        both = PartStatistics()
        for one in (self._before, self._now):
            both.add(one.phases, one.longest())
        return both

    def _turn(self) -> None:
        if self._clock.now >= self._since + GENERATION_S:
            self._before, self._now, self._since = self._now, PartStatistics(), self._clock.now
