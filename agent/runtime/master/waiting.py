"""Decides which complete panes of a job are published now, and which wait for agents that they lack."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from agent.runtime.job.local_job import LocalJob
from agent.runtime.master.deadlines import ResultDeadlines
from agent.runtime.master.lacking_parts import LackingParts
from agent.runtime.master.state import JobState
from agent.runtime.model.panes import holds_panes
from agent.runtime.reduce.combiner import PaneSpan
from agent.runtime.reduce.straggler import RECOVER_S, HoldbackTimer, MasterLeaps


class PaneWaits:
    """The waits of one master in one epoch: for agents that are away, for copies of their parts, and for nobody after a
    leap or a deadline."""

    def __init__(
        self,
        state: JobState,
        local: LocalJob,
        holdback: HoldbackTimer,
        lacking: LackingParts,
        leaps: MasterLeaps,
        deadlines: ResultDeadlines,
    ) -> None:
        self._state, self._local = state, local
        self._holdback, self._parts, self._leaps, self._deadlines = holdback, lacking, leaps, deadlines

    def publishable(self, spans: Sequence[PaneSpan], now: float) -> Sequence[PaneSpan]:
        """The spans, which every source has reached, that are to be published now, from the first one on."""
        if not spans or not self._hold_back(spans, now):
            return spans
        # A pane that lacks nobody, or has to be out, does not wait for what later ones lack.
        return list(takewhile(lambda span: self._goes_before(span), spans))

    def _goes_before(self, span: PaneSpan) -> bool:
        return span.upto <= self._deadlines.upto or (self._local.is_copied and not self._lacking(span))

    def _hold_back(self, spans: Sequence[PaneSpan], now: float) -> bool:
        state, upto = self._state, max(self._leaps.upto, self._deadlines.upto)
        missing = stragglers = 0
        for span in spans:
            if span.upto > upto:
                missing |= self._lacking(span)
            elif span.upto > self._deadlines.upto and state.versions.newest.function.plan.stragglers.mirrors:
                stragglers |= self._lacking(span)  # their parts come as copies
        dead = missing & self._holdback.dead & ~self._holdback.written_off if self.recover_s else 0
        waits = self._holdback.holds_back(missing, self.recover_s, now)
        state.written_off = self._holdback.written_off
        first = next((span for span in spans if self._lacking(span)), spans[0])
        asked = self._parts.waits(missing, stragglers, stragglers | dead, (first.after, spans[-1].upto), now)
        return asked or waits

    def _lacking(self, span: PaneSpan) -> int:
        """The agents that should be in a span, and are not as a whole."""
        in_force = self._state.versions.at(span.upto)
        if span.upto < in_force.version.starts:
            return 0  # nothing is missing between the last window of one version and the first of the next
        if not holds_panes(span.after, span.upto, in_force.function.pane_ms):
            return 0  # an agent's part begins between two panes
        if not self._state.healing.awaits(span.after, span.upto):
            return 0  # its windows are out, and complete
        return self._state.roster.expected(span.upto) & ~(span.whole | span.leaped)

    @property
    def recover_s(self) -> float:
        """Time for which a pane waits for the part of a dead agent."""
        newest = self._state.versions.newest.function
        if self._state.job.bounded or newest.self_paced:
            return 0.0
        stated = newest.plan.stragglers.recover_ms
        return RECOVER_S if stated is None else stated / 1000
