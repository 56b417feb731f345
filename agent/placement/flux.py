"""Flux, as it is published (Enorm, section 3.2): the rival of ELF's own balance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from agent.placement.loads import GroupMove, PlacementLoads


def flux_moves(loads: PlacementLoads) -> list[GroupMove]:
    """The moves of one period: the busiest agent gives the biggest suitable group to the idlest, the second to the
    second idlest, and so on. A group is suitable if its move decreases the variance. O(agents · groups).

    >>> flux_moves(PlacementLoads.of([0, 0, 0, 1], [5, 3, 2, 1], [0, 0]))
    [GroupMove(group=0, giver=0, taker=1)]
    """
    agents = np.flatnonzero(loads.available)
    order = agents[(-loads.loads[agents]).argsort(kind="stable")]
    pairs = [(int(order[place]), int(order[-1 - place])) for place in range(len(order) // 2)]
    moves = (_move(loads, giver, taker) for giver, taker in pairs)
    return [move for move in moves if move is not None]


def flux_periods(loads: PlacementLoads) -> Iterator[list[GroupMove]]:
    """Yields the moves of one period after the other while loads stay as they are, until there are none: the variance
    falls with each.

    >>> [len(moves) for moves in flux_periods(PlacementLoads.of([0] * 4, [4, 3, 2, 1], [0, 0]))]
    [1, 1]
    """
    while moves := flux_moves(loads):
        yield moves
        loads = loads.moved(moves)


def _move(loads: PlacementLoads, giver: int, taker: int) -> GroupMove | None:
    """The move of the biggest suitable group between two agents."""
    groups = np.flatnonzero((loads.owners == giver) & loads.movable & (loads.groups > 0))
    amounts = loads.groups[groups]
    before = loads.work[giver] ** 2 / loads.speeds[giver] + loads.work[taker] ** 2 / loads.speeds[taker]
    after_giver = (loads.work[giver] - amounts) ** 2 / loads.speeds[giver]
    after_taker = (loads.work[taker] + amounts) ** 2 / loads.speeds[taker]
    suitable = after_giver + after_taker < before * (1 - 1e-12)
    if not suitable.any():
        return None
    return GroupMove(int(groups[np.where(suitable, amounts, -1.0).argmax()]), giver, taker)
