"""Balances the load of agents by moves and swaps of key groups that gain most for their cost.

Flux (`agent.placement.flux`) lowers the variance, and moves groups from every agent above the mean to one below. A job
is as slow as its busiest agent, and each move costs rows that are merged twice while old windows are open, so:

- Only agents whose load is above a *mark* give. A step is worth the load that it takes off above the mark, over what it
  costs; of equals the one that lowers the variance more. No step raises the variance or the highest load of its agents.
- A step is a move, or a swap of a group for a smaller one where no single move helps.
- *Hysteresis*: nothing moves until the highest load is `start` times the level at which all would be equal, then steps
  go on until it is `stop` times that, and steps that gain little are left out. A group moves at most once in a plan.
- A group that no agent can hold below the mark is *heavy*: it is told, with the number of parts to split it into.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from agent.placement.amounts import Flags, Floats, Ints, check_amount
from agent.placement.loads import NOBODY, GroupMove, PlacementLoads

_PAIRS_MAX = 1 << 18
"""Upper bound on the swaps that are looked at for a step."""
_TAKERS_MAX = 64
"""Upper bound on the agents that are looked at as takers of a group."""
_VARIANCE_WEIGHT = 1e-3
"""Weight of the variance in a step's score: it decides among steps that take off as much above the mark."""
_ROUNDING = 1e-12
"""Share of a load that is taken for rounding."""


@dataclass(frozen=True, slots=True)
class BalanceOptions:
    """Hysteresis of balancing. `start`, `stop`: imbalance at which steps begin, and to which they go. `gain_min`: least
    load that a step takes off above the mark, in the level. `floor`: load up to which nobody is relieved, in the unit
    of loads. `moves_max`: groups that move in one plan at most, beside those of agents that leave."""

    start: float = 1.2
    stop: float = 1.05
    gain_min: float = 0.02
    floor: float = 0.0
    moves_max: int = 64

    def __post_init__(self) -> None:
        check_amount("start", self.start, self.stop)
        check_amount("stop", self.stop, 1.0)
        check_amount("gain_min", self.gain_min)
        check_amount("floor", self.floor)
        check_amount("moves_max", self.moves_max)


@dataclass(frozen=True, slots=True)
class BalanceStep:
    """One move, or the two of a swap; the load that it takes off above the mark, and its cost."""

    moves: tuple[GroupMove, ...]
    gain: float
    cost: float


@dataclass(frozen=True, slots=True)
class HeavyGroup:
    """A group whose work alone is more than the `room` that any agent has below the mark, and into how many parts it is
    to be split: by further bits of the hash, or `by_rows` where one key alone is too heavy. The parts of a key combine
    as those of agents do."""

    group: int
    work: float
    room: float
    parts: int
    by_rows: bool


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """Moves that are due: those away from agents that leave, then steps in order; imbalance before and after all."""

    handed_over: tuple[GroupMove, ...]
    steps: tuple[BalanceStep, ...]
    heavy: tuple[HeavyGroup, ...]
    before: float
    after: float

    @property
    def moves(self) -> list[GroupMove]:
        """All moves. No group is in two of them."""
        return [*self.handed_over, *(move for step in self.steps for move in step.moves)]


def plan_balance(loads: PlacementLoads, options: BalanceOptions | None = None) -> BalancePlan:
    """The moves that balance these loads; none where they are balanced enough.

    O(moves · (groups² + agents · log agents)), at most _PAIRS_MAX swaps a step.

    >>> loads = PlacementLoads.of([0, 0, 1, 1], [6, 6, 4, 4], [0, 0])
    >>> [step.moves for step in plan_balance(loads, BalanceOptions(start=1.1)).steps]
    [(GroupMove(group=0, giver=0, taker=1), GroupMove(group=2, giver=1, taker=0))]
    """
    options = options or BalanceOptions()
    handed_over = _handed_over(loads)
    search = _Search(loads.moved(handed_over), options, {move.group for move in handed_over})
    before = search.loads.imbalance
    steps: list[BalanceStep] = []
    moves = 0
    while before > options.start and moves < options.moves_max:
        step = search.best_step()
        if step is None or moves + len(step.moves) > options.moves_max:
            break
        search.take(step)
        steps.append(step)
        moves += len(step.moves)
    return BalancePlan(tuple(handed_over), tuple(steps), search.heavy(), before, search.loads.imbalance)


def _handed_over(loads: PlacementLoads) -> list[GroupMove]:
    """The moves of groups that have no owner, or one that leaves: the heaviest first, each to the agent that is least
    loaded with it, or has fewest groups where none has any work."""
    homeless = (loads.owners == NOBODY) | ~loads.available[loads.owners]
    waiting = np.flatnonzero(homeless & loads.movable)
    takers = np.flatnonzero(loads.available)
    work, speeds = loads.work[takers], loads.speeds[takers]
    held = np.bincount(loads.owners[~homeless], minlength=len(loads.others))[takers] / speeds
    has_work = loads.groups.any()
    moves = []
    for group in waiting[(-loads.groups[waiting]).argsort(kind="stable")].tolist():
        loaded = (work + loads.groups[group]) / speeds
        place = int(np.lexsort((held, loaded) if has_work else (loaded, held))[0])
        work[place] += loads.groups[group]
        held[place] += 1 / speeds[place]
        moves.append(GroupMove(group, int(loads.owners[group]), int(takers[place])))
    return moves


class _Search:
    """Looks for steps over loads that change with each step taken."""

    def __init__(self, loads: PlacementLoads, options: BalanceOptions, moved: set[int]) -> None:
        self.loads = loads
        self._mark = max(options.stop * loads.level, options.floor)
        self._gain_min = max(options.gain_min, _ROUNDING) * loads.level
        settled = (loads.owners != NOBODY) & loads.available[loads.owners]
        self._free = loads.movable & settled
        self._free[list(moved)] = False

    def take(self, step: BalanceStep) -> None:
        """Takes a step; its groups move no more."""
        self.loads = self.loads.moved(step.moves)
        self._free[[move.group for move in step.moves]] = False

    def best_step(self) -> BalanceStep | None:
        """The step that gains most for its cost; None where none gains enough."""
        loads = self.loads
        above = self._free & (loads.groups > 0) & (loads.loads[loads.owners] > self._mark)
        groups = np.flatnonzero(above)
        groups = groups[(-loads.loads[loads.owners[groups]]).argsort(kind="stable")]
        if not len(groups):
            return None
        found = [self._best_move(groups), self._best_swap(groups)]
        score, step = max(found, key=lambda one: one[0])
        return step if score > 0 else None

    def _best_move(self, groups: Ints) -> tuple[float, BalanceStep]:
        loads = self.loads
        takers = self._takers()
        givers = loads.owners[groups]
        gains, scores = self._judged(givers[:, None], takers[None, :], loads.groups[groups][:, None])
        scores = scores / loads.costs[groups][:, None]
        row, column = np.unravel_index(scores.argmax(), scores.shape)
        move = GroupMove(int(groups[row]), int(givers[row]), int(takers[column]))
        cost = float(loads.costs[move.group])
        return float(scores[row, column]), BalanceStep((move,), float(gains[row, column]), cost)

    def _best_swap(self, groups: Ints) -> tuple[float, BalanceStep]:
        loads = self.loads
        others = np.flatnonzero(self._free & (loads.groups > 0))
        groups = groups[: max(1, _PAIRS_MAX // len(others))]
        givers, takers = loads.owners[groups][:, None], loads.owners[others][None, :]
        more = loads.groups[groups][:, None] - loads.groups[others][None, :]
        costs = loads.costs[groups][:, None] + loads.costs[others][None, :]
        gains, scores = self._judged(givers, takers, more)
        scores = scores / costs
        row, column = np.unravel_index(scores.argmax(), scores.shape)
        group, other = int(groups[row]), int(others[column])
        giver, taker = int(loads.owners[group]), int(loads.owners[other])
        moves = (GroupMove(group, giver, taker), GroupMove(other, taker, giver))
        return float(scores[row, column]), BalanceStep(moves, float(gains[row, column]), float(costs[row, column]))

    def _takers(self) -> Ints:
        """The least loaded available agent of each speed, _TAKERS_MAX at most: no other of that speed takes more off
        anybody."""
        loads = self.loads
        agents = np.flatnonzero(loads.available)
        agents = agents[loads.loads[agents].argsort(kind="stable")]
        _, first = np.unique(loads.speeds[agents], return_index=True)
        return agents[np.sort(first)[:_TAKERS_MAX]]

    def _judged(self, givers: Ints, takers: Ints, amounts: Floats) -> tuple[Floats, Floats]:
        """The load above the mark that goes where givers pass these amounts of work to takers, and scores; 0 for what
        must not be."""
        loads = self.loads
        give_speed, take_speed = loads.speeds[givers], loads.speeds[takers]
        give, take = loads.work[givers], loads.work[takers]
        given, taken = give - amounts, take + amounts
        gains = self._above(give, give_speed) + self._above(take, take_speed)
        gains = gains - self._above(given, give_speed) - self._above(taken, take_speed)
        squares = give**2 / give_speed + take**2 / take_speed
        falls = squares - given**2 / give_speed - taken**2 / take_speed
        allowed: Flags = (amounts > 0) & (gains >= self._gain_min) & (falls > _ROUNDING * squares)
        allowed &= (givers != takers) & (taken / take_speed < give / give_speed)
        scores = gains + _VARIANCE_WEIGHT * falls / max(self._mark, np.finfo(np.float64).tiny)
        return gains, np.where(allowed, scores, 0.0)

    def _above(self, work: Floats, speeds: Floats) -> Floats:
        """Work above the mark."""
        return np.maximum(work - self._mark * speeds, 0.0)

    def heavy(self) -> tuple[HeavyGroup, ...]:
        """The groups that no agent can hold below the mark."""
        loads = self.loads
        rooms = (self._mark * loads.speeds - loads.others)[loads.available]
        room = float(rooms.max())
        if room <= 0:
            return ()
        return tuple(
            HeavyGroup(
                group, float(work := loads.groups[group]), room, ceil(work / room), bool(loads.hottest[group] > room)
            )
            for group in np.flatnonzero(loads.groups > room * (1 + _ROUNDING)).tolist()
        )
