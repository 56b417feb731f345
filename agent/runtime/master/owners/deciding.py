"""Decides where the windows of a running job are merged, as its work is measured (Enorm, sections 5.1.1 and 8).

Theory. Of the ways that `agent.placement` prices a job can take two: states of panes go to owners, or by way of these
to the master. Which one holds goes with the moves of key groups (`KeyMoves.owners`), so it reaches all agents and the
next master as these do. The root of a tree reports a run or hands it on by what it knows when it combines it. So no
pane has to be agreed upon: of a window, owners have the panes that were reported, the master has the others, and it
merges both parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent.placement import Counting, Decisions, Merging, Sending, Way, WindowCounts, WindowJob, WindowWork, decide
from agent.runtime.function.job_function import JobFunction
from agent.runtime.master.owners.group_loads import PERIOD_S, WEIGHT, GroupLoads
from agent.runtime.master.owners.key_placement import KeyPlacement
from agent.runtime.master.owners.measured_work import MeasuredWork
from agent.runtime.master.state import JobState
from agent.runtime.messages.views.placement import DecisionView
from agent.runtime.model.panes import FIRST_PANE
from cbt import WindowSize

MINUTE_S = 60.0
"""Time of which the costs are."""
KEPT_S = 60.0
"""Least time for which a decision is kept, and before the first one in an epoch."""
OPEN_ROWS_MAX = 1 << 22
"""Upper bound on the rows of the panes of a longest window that a master alone takes: its memory for open windows is
bounded, and owners have that much each."""
WAYS = tuple(Way(Counting.PANES, Sending.PANES, merging) for merging in Merging)
"""The ways that a running job can take."""


class MergingDecider:
    """The decisions on one job, in one epoch of its master; `note` adds a line to the job's log."""

    def __init__(self, state: JobState, placement: KeyPlacement, note: Callable[[str], None], now: float) -> None:
        self._state, self._placement, self._note = state, placement, note
        self._decided_at = self._measured_at = now
        self._measured = MeasuredWork()
        self._moves_per_s = 0.0
        self._moved_number = state.moved.number
        self._windows: tuple[JobFunction, WindowCounts] | None = None

    def look(self, loads: GroupLoads, now: float) -> None:
        """Has windows merged elsewhere if that saves enough, by new rates."""
        self.measure(now)
        if self._may_change(now) and (decisions := self.decisions(loads)) is not None:
            self._change_to(decisions, now)

    def measure(self, now: float) -> None:
        """Takes what was done, and told of, since this was called last, unless that is a moment."""
        seconds = now - self._measured_at
        if seconds < PERIOD_S:
            return
        self._measured_at = now
        self._measured.add(self._state.work.take(), seconds)
        moves = self._state.moved.moves
        new = sum(move.number > self._moved_number and move.pane > FIRST_PANE for move in moves)
        self._moved_number = self._state.moved.number
        self._moves_per_s = (1 - WEIGHT) * self._moves_per_s + WEIGHT * new / seconds

    def _may_change(self, now: float) -> bool:
        """Whether the job may take another way now."""
        state = self._state
        if state.job.bounded or state.moved.gave_up or len(list(state.versions)) > 1:
            return False
        return now - self._decided_at >= KEPT_S and self._placement.is_at_rest(now)

    def _change_to(self, decisions: Decisions, now: float) -> None:
        at_owners = decisions.way.merging is Merging.OWNERS
        if at_owners == self._state.moved.owners:
            return
        self._decided_at = now
        self._placement.merge(now, at_owners=at_owners)
        self._note(f"windows are merged {list(decisions.lines())[-1]} of a processor in a minute")

    def decisions(self, loads: GroupLoads) -> Decisions | None:
        """The decisions by what is measured now; None for a job whose windows leave no choice. O(sizes of windows), but
        for the first ones of a version."""
        function = self._state.versions.newest.function
        if not function.is_consolidated:
            return None
        job = self._job(function)
        at_owners = self._state.moved.owners and job.owners > 1
        present = Way(merging=Merging.OWNERS if at_owners else Merging.MASTER)
        ways = WAYS if job.owners > 1 else (present,)
        if job.owners > 1 and float(loads.rows.sum()) * function.window_ms / 1000 > OPEN_ROWS_MAX:
            ways = WAYS[:1]
        return decide(job, self._work(job, function, loads), present, ways)

    def _job(self, function: JobFunction) -> WindowJob:
        if self._windows is None or self._windows[0] is not function:
            windowing = function.plan.windowing
            assert windowing is not None
            sizes = [WindowSize(one.size_ms, one.slide_ms) for one in windowing.sizes]
            subtracts, pane_ms = function.difference is not None, windowing.pane_ms
            counts = WindowCounts.of(sizes, 1000 * MINUTE_S, subtracts=subtracts, pane_ms=pane_ms)
            self._windows = function, counts
        agents = self._state.roster.present().bit_count()
        return WindowJob(self._windows[1], MINUTE_S, agents=max(1, agents), owners=self._state.trees)

    def _work(self, job: WindowJob, function: JobFunction, loads: GroupLoads) -> WindowWork | None:
        try:
            return self._measured.work(
                job,
                pane_rows=float(loads.rows.sum()) * MINUTE_S / job.windows.panes,
                moves_per_s=self._moves_per_s,
                at_owners=self._state.moved.owners and job.owners > 1,
                chooses=function.plan.having is not None or function.plan.limit is not None,
            )
        except ValueError:  # somebody tells of what cannot be
            return None

    def view(self, loads: GroupLoads) -> list[DecisionView]:
        """The decisions, for people."""
        decisions = self.decisions(loads)
        if decisions is None:
            return []
        costed = (decisions.counting, decisions.sending, decisions.merging)
        return [
            DecisionView(
                one.choice.value,
                None if one.cost is None else one.cost.cpu_s,
                None if one.other_cost is None else one.other_cost.cpu_s,
            )
            for one in costed
        ]

    def measured(self, loads: GroupLoads) -> Iterator[tuple[str, float]]:
        """Yields the numbers that decisions are made of, for people: titles with their units, and values."""
        function = self._state.versions.newest.function
        work = self._work(self._job(function), function, loads) if function.is_consolidated else None
        if work is None:
            return
        yield "rows/s", work.rows / MINUTE_S
        yield "rows of an agent's pane", work.keys
        yield "rows of a pane of all, in those", work.spread
        yield "growth of windows", work.growth
        yield "share of rows shown", work.shown
        yield "groups moved/min", work.moves
        for name in ("count", "send", "join", "merge", "show"):
            cost = getattr(work, name)
            yield f"µs to {name} a frame", 1e6 * cost.fixed_s
            yield f"µs to {name} a row", 1e6 * cost.row_s
