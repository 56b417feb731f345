"""Moves key groups from owners that are busy to others, as their load is measured (Enorm, sections 3.2 and 4.4.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from agent.placement import BalanceOptions, BalancePlan, PlacementLoads, plan_balance
from agent.runtime.master.owners.group_loads import GroupLoads
from agent.runtime.master.owners.key_placement import KeyPlacement
from agent.runtime.master.state import JobState
from agent.runtime.model.fields import GROUPS

BALANCE_S = 10.0
"""Least time between two times at which groups are moved: their effect is to be seen in the rates first."""
OPTIONS = BalanceOptions(start=1.25, stop=1.1, gain_min=0.004, floor=0.1)
"""An owner is relieved that takes a tenth of a processor, and a quarter more than all would if they were equal."""
FULL = 0.85
"""Share of a processor from which on an agent counts as full: whatever comes has to wait soon."""
OPTIONS_FULL = replace(OPTIONS, start=1.1, stop=1.05)
"""An agent that is full takes no more than a processor, however much it has to do: less is worth a move."""


def options_of(busy: Iterable[float]) -> BalanceOptions:
    """The hysteresis for agents that are so busy (in processors)."""
    return OPTIONS_FULL if max(busy) >= FULL else OPTIONS


class Balancer:
    """Balances the owners of one job; `note` adds a line to the job's log."""

    def __init__(self, state: JobState, placement: KeyPlacement, note: Callable[[str], None], now: float) -> None:
        self._state, self._placement, self._note = state, placement, note
        self._balanced_at = now

    def look(self, loads: GroupLoads, now: float) -> None:
        """Moves what gains enough, by new rates."""
        if self._state.trees == 1 or self._state.job.bounded or not self._state.moved.owners:
            return
        if now - self._balanced_at < BALANCE_S:
            return
        plan = self.plan(loads, now)
        if plan is None or not plan.moves:
            return
        self._balanced_at = now
        places = self._agents()
        for taker in dict.fromkeys(move.taker for move in plan.moves):
            groups = [move.group for move in plan.moves if move.taker == taker]
            tree = min(self._trees_of(places[taker]))
            refusal = self._placement.move(groups, tree, "instant", now)
            about = f"{len(groups)} key groups move to {self._placement.name_of(tree)}"
            load = f"the busiest owner has {plan.before:.2f} times what all would have, and {plan.after:.2f} afterwards"
            self._note(f"{about}: {load}" if refusal is None else f"{about}? {refusal}")

    def plan(self, loads: GroupLoads, now: float) -> BalancePlan | None:
        """The moves that would balance the owners; None as long as nothing is known of some."""
        agents = self._agents()
        if len(agents) < 2 or not loads.of_groups.any() or not all(agent in loads.busy for agent in agents):
            return None
        placement, roots = self._state.placement, self._placement.roots
        trees = [sorted(placement.trees_of_group(group)) for group in range(GROUPS)]
        if any(tree not in roots for of_group in trees for tree in of_group):
            return None
        owners = [agents.index(roots[of_group[0]].node_id) for of_group in trees]
        movable = [
            len(of_group) == 1 and self._placement.may_be_moved(group, now) for group, of_group in enumerate(trees)
        ]
        function = self._state.versions.newest.function
        panes = max(1, function.window_ms // (function.pane_ms or 1))
        measured = PlacementLoads.measured(
            owners,
            loads.of_groups,
            [loads.busy[agent] for agent in agents],
            costs=np.maximum(1.0, loads.rows * panes),
            movable=movable,
        )
        return plan_balance(measured, options_of(loads.busy[agent] for agent in agents))

    def _agents(self) -> list[int]:
        """The node ids of owners."""
        return list(dict.fromkeys(peer.node_id for _, peer in sorted(self._placement.roots.items())))

    def _trees_of(self, node_id: int) -> list[int]:
        return [tree for tree, peer in self._placement.roots.items() if peer.node_id == node_id]
