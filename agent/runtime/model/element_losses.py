"""Sums what the hosts of a job's elements have had to give up: elements, events, and the states of logical nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from agent.runtime.model import contributors

AGENTS_MAX = 65_536
"""Upper bound on the agents that are told apart."""


class Given(NamedTuple):
    """The counts of one agent since it has begun. `lost`: a bitmap of logical nodes that began anew without a state;
    `failed`: calls of code that have raised; `missed`: events that elements have not had, as they were late or lost on
    their way."""

    evicted: int = 0
    shed: int = 0
    lost: int = 0
    failed: int = 0
    missed: int = 0

    @property
    def lost_nodes(self) -> list[int]:
        """The numbers of the logical nodes."""
        return list(contributors.members(self.lost))

    def plus(self, other: Given) -> Given:
        """Both together."""
        return Given(
            self.evicted + other.evicted,
            self.shed + other.shed,
            self.lost | other.lost,
            self.failed + other.failed,
            self.missed + other.missed,
        )


NOTHING = Given()


@dataclass(slots=True)
class _Agent:
    """`before`: what its earlier processes had given up, as far as is known."""

    before: Given
    now: Given


class ElementLosses:
    """The losses of all hosts of a job since it has begun, as they have told its master."""

    def __init__(self) -> None:
        self._agents: dict[int, _Agent] = {}

    def note(self, node_id: int, given: Given) -> None:
        """Takes what an agent has told. Where counts are lower than they were, it has begun anew."""
        known = self._agents.get(node_id)
        if known is None:
            if len(self._agents) < AGENTS_MAX:
                self._agents[node_id] = _Agent(NOTHING, given)
            return
        if any(new < old for new, old in zip(given._replace(lost=0), known.now._replace(lost=0), strict=True)):
            known.before = known.before.plus(known.now)
        known.now = given

    def total(self) -> Given:
        """All of it together. O(agents)."""
        total = NOTHING
        for agent in self._agents.values():
            total = total.plus(agent.before).plus(agent.now)
        return total
