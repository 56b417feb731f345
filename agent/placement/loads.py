"""Loads of key groups and of the agents that own them, as measured, and moves of groups between agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agent.placement.amounts import Flags, Floats, Ints, checked_amounts

NOBODY = -1
"""Owner of a group that has none."""
_COST_MIN, _SPEED_MIN = 1e-9, 1e-6


class GroupMove(NamedTuple):
    """A key group that goes from one agent (NOBODY: from none) to another; places in the list of agents."""

    group: int
    giver: int
    taker: int


@dataclass(frozen=True, eq=False)
class PlacementLoads:
    """Key groups, of one job or of many, and agents; made by `of` or `measured`, which check.

    `owners`: the place of each group's agent. `groups`: work of each group in a period, in any unit. `others`: work of
    each agent that is not of these groups. `costs`: the price of moving each group, in any unit: rows that become extra
    while windows are open, those of a pane times `WindowCounts.extra_copies`. `speeds`: work that each agent does while
    one of speed 1 does one. `movable`: groups that may move now; those that are under way may not. `available`: agents
    that may own groups; one that leaves may not. `hottest`: work of each group's heaviest key, 0 where it is not known.
    """

    owners: Ints
    groups: Floats
    others: Floats
    costs: Floats
    speeds: Floats
    movable: Flags
    available: Flags
    hottest: Floats

    @classmethod
    def of(
        cls,
        owners: Sequence[int] | Ints,
        groups: Sequence[float] | Floats,
        others: Sequence[float] | Floats,
        *,
        costs: Sequence[float] | Floats | None = None,
        speeds: Sequence[float] | Floats | None = None,
        movable: Sequence[bool] | Flags | None = None,
        available: Sequence[bool] | Flags | None = None,
        hottest: Sequence[float] | Floats | None = None,
    ) -> PlacementLoads:
        """The loads, with costs and speeds of 1, and everything movable and available, unless given.

        Raises ValueError, which names the field, for another length, a number out of bounds, an owner that is no agent,
        or where no agent is available. O(groups + agents).
        """
        number, agents = len(owners), len(others)
        places = np.array(owners, np.int64).reshape(number)
        if not ((places >= NOBODY) & (places < agents)).all():
            raise ValueError(f"owners: each is a place among {agents:,} agents, or {NOBODY} for none")
        usable = _flags("available", available, agents)
        if not usable.any():
            raise ValueError("available: there is no agent that may own groups")
        return cls(
            places,
            checked_amounts("groups", groups, number),
            checked_amounts("others", others, agents),
            np.ones(number) if costs is None else checked_amounts("costs", costs, number, _COST_MIN),
            np.ones(agents) if speeds is None else checked_amounts("speeds", speeds, agents, _SPEED_MIN),
            _flags("movable", movable, number),
            usable,
            np.zeros(number) if hottest is None else checked_amounts("hottest", hottest, number),
        )

    @classmethod
    def measured(
        cls,
        owners: Sequence[int] | Ints,
        groups: Sequence[float] | Floats,
        agents: Sequence[float] | Floats,
        **options: Sequence[float] | npt.NDArray[np.generic],
    ) -> PlacementLoads:
        """The loads where all work of each agent is measured, that of these groups included; options as in `of`.

        A part may be measured as more than the whole: then nothing else is there.
        """
        alone = cls.of(owners, groups, np.zeros(len(agents)), **options)  # type: ignore[arg-type]
        total = checked_amounts("agents", agents, len(agents))
        return replace(alone, others=np.maximum(total - alone.work, 0.0))

    @cached_property
    def work(self) -> Floats:
        """Work of each agent in a period."""
        owned = self.owners >= 0
        return self.others + np.bincount(self.owners[owned], self.groups[owned], len(self.others))

    @cached_property
    def loads(self) -> Floats:
        """Work of each agent over its speed."""
        return self.work / self.speeds

    @cached_property
    def level(self) -> float:
        """The load that agents have where the groups' work fills them up evenly; those that are above it with the work
        of others have no groups. O(agents · log agents)."""
        speeds, others = self.speeds[self.available], self.others[self.available]
        order = (others / speeds).argsort()
        speeds, others = speeds[order], others[order]
        levels = (self.groups.sum() + others.cumsum()) / speeds.cumsum()
        filled = np.append(others[1:] / speeds[1:], np.inf) >= levels
        return float(levels[filled.argmax()]) if self.groups.any() else 0.0

    @property
    def imbalance(self) -> float:
        """The highest load of an agent that has groups with work, over the level; at least 1."""
        heavy = (self.owners >= 0) & (self.groups > 0)
        if not heavy.any() or not self.level:
            return 1.0
        return max(1.0, float(self.loads[self.owners[heavy]].max()) / self.level)

    @property
    def variance(self) -> float:
        """The variance of loads over available agents, each as often as it is fast."""
        speeds, loads = self.speeds[self.available], self.loads[self.available]
        mean = float((speeds * loads).sum() / speeds.sum())
        return float((speeds * (loads - mean) ** 2).sum() / speeds.sum())

    def moved(self, moves: Iterable[GroupMove]) -> PlacementLoads:
        """The loads after these moves."""
        owners = self.owners.copy()
        for move in moves:
            owners[move.group] = move.taker
        return replace(self, owners=owners)


def _flags(field: str, flags: Sequence[bool] | Flags | None, length: int) -> Flags:
    values = np.ones(length, np.bool_) if flags is None else np.array(flags, np.bool_)
    if values.shape != (length,):
        raise ValueError(f"{field} has the shape {values.shape}: it is a list of {length:,}")
    return values
