"""Adapts a running job to its load once in a period: groups that move, and where windows are merged."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from agent.runtime.master.owners.balancing import Balancer
from agent.runtime.master.owners.deciding import MergingDecider
from agent.runtime.master.owners.key_placement import KeyPlacement
from agent.runtime.master.state import JobState
from agent.runtime.messages.views.placement import PlacementView
from agent.runtime.model.containment import Clock


class Adaptation:
    """The adaptation of one job, in one epoch of its master; `note` adds a line to the job's log."""

    def __init__(
        self, state: JobState, placement: KeyPlacement, note: Callable[[str], None], clock: Clock, now: float
    ) -> None:
        self._state, self._placement = state, placement
        self._clock, self._measured_s = clock, clock()
        self.balancer = Balancer(state, placement, note, now)
        self.decider = MergingDecider(state, placement, note, now)

    def tick(self, now: float) -> None:
        """Tells of moves again and, with new rates, adapts the job."""
        placement, loads = self._placement, self._placement.loads
        placement.tick(now)
        if self._state.trees > 1:
            before_s, self._measured_s = self._measured_s, self._clock()
            loads.add_seconds(self._state.epoch.master, 0.0, self._measured_s - before_s)
        if loads.tick(now) and self._state.trees > 1 and not self._state.job.bounded:
            self.balancer.look(loads, now)
            self.decider.look(loads, now)

    def view(self, now: float, refusal: str | None = None) -> PlacementView:
        """The places of groups, and the decisions, for people."""
        loads = self._placement.loads
        if self._state.trees == 1:  # nothing is decided before somebody asks
            self.decider.measure(now)
        view = self._placement.view(refusal)
        measured = list(self.decider.measured(loads))
        return msgspec.structs.replace(view, decisions=self.decider.view(loads), measured=measured)
