"""Latency of windows as owners become busy, one after the other, and groups move away from them (figure 13).

Minutes pass in virtual time. What owners and the master need for panes and moves was measured on owners that do this
work; the load of groups is smoothed, and moves are planned, by the objects of a job's master.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agent.placement import PlacementLoads, plan_balance
from agent.runtime.master.owners.balancing import BALANCE_S, options_of
from agent.runtime.master.owners.group_loads import GroupLoads
from agent.runtime.model.fields import GROUPS, Mode

from .move_costs import PANES, MoveCosts
from .virtual_time import LOAD

OWNERS = 4
GROWTH = 0.5
"""Load that is added to one owner, as a share of what it has."""
CALM_S, RISE_S, REST_S = 300.0, 180.0, 120.0
"""Time before, of one rise, and after it (section 7.5)."""
LENGTH_S = CALM_S + 2 * (RISE_S + REST_S)
BY_KEYS, BY_SHARE = 0, 1
"""The owner whose groups get more keys, and the one whose agent other work takes a share of."""
AHEAD_S = 1.0
"""Time between a plan and the first pane after it that holds."""
Loads = npt.NDArray[np.float64]


class Rule(NamedTuple):
    """How groups move, and how often; None: as often as masters look."""

    mode: Mode
    every_s: float | None


class _Move(NamedTuple):
    pane: int
    group: int
    giver: int
    taker: int


def risen(now_s: float, began_s: float) -> float:
    """The share of a rise that has come by a time."""
    return min(1.0, max(0.0, (now_s - began_s) / RISE_S))


@dataclass
class BusyOwners:
    """Owners in virtual time, and what has been found: the ends of panes, and the latency of the windows with each."""

    costs: MoveCosts
    keys_of_group: int
    rule: Rule
    ends_s: list[float] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    moved: int = 0

    def __post_init__(self) -> None:
        self.period_s = self.costs.answer.of(1, GROUPS // OWNERS * self.keys_of_group) / LOAD
        self._owners = np.arange(GROUPS) % OWNERS
        self._grow = self._owners == BY_KEYS
        self._moves: list[_Move] = []
        self._loads = GroupLoads(0.0)
        self._free = [0.0] * (OWNERS + 1)
        self._done: list[tuple[float, int, float]] = []
        self._balanced_at = 0.0

    def run(self) -> BusyOwners:
        """Lets all time pass."""
        for pane in range(int(LENGTH_S / self.period_s)):
            self._pass(pane, (pane + 1) * self.period_s)
        return self

    def _pass(self, pane: int, now_s: float) -> None:
        rows = self.keys_of_group * (1 + GROWTH * risen(now_s, CALM_S) * self._grow)
        others = [0.0] * OWNERS
        others[BY_SHARE] = LOAD * GROWTH * risen(now_s, CALM_S + RISE_S + REST_S)
        for move in self._moves:
            if move.pane == pane:
                self._owners[move.group] = move.taker
        merge_s = self._work(pane, now_s, rows, others)
        self._free[OWNERS] = max(self._free) + self.costs.shown_s + merge_s
        self.ends_s.append(now_s)
        self.latency_s.append(self._free[OWNERS] - now_s)
        self._note(now_s, rows, others)
        if self._is_due(now_s):
            self._balance(pane, now_s)

    def _work(self, pane: int, now_s: float, rows: Loads, others: list[float]) -> float:
        """Lets owners answer; the seconds by which the master merges longer."""
        costs, merge_s = self.costs, 0.0
        owned: list[float] = np.bincount(self._owners, rows, OWNERS).tolist()
        work = [costs.answer.of(1, one) for one in owned]
        for (giver, taker, is_first), moving in self._under_way(pane, rows).items():
            work[giver] += costs.old[self.rule.mode].of(1, moving)
            if self.rule.mode == "instant":
                work[taker] += costs.new.of(1, moving)
                merge_s += costs.merge.of(1, moving)
                continue
            work[taker] += costs.joined.of(owned[taker], moving)
            if is_first:
                self._spend(giver, now_s, costs.give.of(owned[giver], moving), others)
                self._spend(taker, self._free[giver], costs.take.of(1, moving), others)
        for owner, seconds in enumerate(work):
            self._spend(owner, now_s, seconds, others)
        return merge_s

    def _under_way(self, pane: int, rows: Loads) -> dict[tuple[int, int, bool], float]:
        """The rows of groups of which windows with a pane have panes of two owners."""
        found: dict[tuple[int, int, bool], float] = defaultdict(float)
        for move in self._moves:
            if 0 <= pane - move.pane < PANES - 1:
                found[move.giver, move.taker, pane == move.pane] += float(rows[move.group])
        return found

    def _spend(self, owner: int, since_s: float, seconds: float, others: list[float]) -> None:
        """Lets an owner work, once it is free, with the share of a processor that other work leaves it."""
        self._free[owner] = max(since_s, self._free[owner]) + seconds / (1 - others[owner])
        heappush(self._done, (self._free[owner], owner, seconds))

    def _note(self, now_s: float, rows: Loads, others: list[float]) -> None:
        self._loads.add_rows(rows)
        for owner, share in enumerate(others):
            self._loads.add_seconds(owner, 0.0, share * self.period_s)
        while self._done and self._done[0][0] <= now_s:
            _, owner, seconds = heappop(self._done)
            self._loads.add_seconds(owner, seconds, seconds)

    def _is_due(self, now_s: float) -> bool:
        is_new, every_s = self._loads.tick(now_s), self.rule.every_s
        if every_s is None:
            return is_new and now_s - self._balanced_at >= BALANCE_S
        return now_s // every_s > self._balanced_at // every_s

    def _balance(self, pane: int, now_s: float) -> None:
        if self.rule.every_s is not None:
            self._balanced_at = now_s
        settled = {move.group for move in self._moves if pane < move.pane + PANES}
        busy = [self._loads.busy.get(owner, 0.0) for owner in range(OWNERS)]
        measured = PlacementLoads.measured(
            self._owners,
            self._loads.of_groups,
            busy,
            costs=np.maximum(1.0, self._loads.rows * PANES),
            movable=[group not in settled for group in range(GROUPS)],
        )
        planned = plan_balance(measured, options_of(busy)).moves
        if not planned:
            return
        self._balanced_at = now_s
        first = pane + 1 + ceil(AHEAD_S / self.period_s)
        takers = list(dict.fromkeys(move.taker for move in planned))
        for move in planned:
            later = takers.index(move.taker) if self.rule.mode == "disruptive" else 0
            self._moves.append(_Move(first + later, move.group, move.giver, move.taker))
        self.moved += len(planned)
