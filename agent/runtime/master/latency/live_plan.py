"""Watches the plan of one live job with a limit, and has it changed where what is measured is not what was planned.

    results ──▶ drift? missed? a minute old? ──▶ PlanQuestion ──▶ a thread of the shell ──▶ PlanAnswer ──▶ next version

The setting that is put in force is a version of the job's function with another GRACE, or shorter panes: it begins with
a window, agents that are open beside it go on, and the next master has it with the versions. Knows neither threads nor
the model: questions go to `ask`, and answers come when they are there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

import query
from agent.runtime.master.latency.drift import RESULTS, Drift, drift_of, median_s
from agent.runtime.master.state import JobState
from agent.runtime.messages.plans import PlanAnswer, PlanQuestion
from agent.runtime.messages.views.latency import LatencyView, PlanView
from agent.runtime.model.latency.critical_path import micros_of
from agent.runtime.model.latency.recent_latency import LatencyGeneration, ResultLatency
from query.latency.phases import Phase
from query.latency.planner import KEPT_S
from query.latency.prediction import Prediction

LOOK_S = 10.0
"""Least time between two plans of a job, which take a second of a processor."""
ANSWER_S = 60.0
"""Time after which a question is taken for lost."""
SETTLED_RESULTS = 20
"""Results of a setting from which on it is predicted: the first ones may be slow."""
SURE_RESULTS = 100
"""Results from which on their spread is known, and a setting is changed though none is late."""
MISSES = 3
"""Results of the last few that are late from which on a job needs another plan."""
MET = "the limit is met all the same"


class LivePlan:
    """The plan of one master's job. `master`: its agent. `measured`: what results have measured, and all else that is
    known. `change`: begins another version; `note`: adds a line to the job's log."""

    def __init__(
        self,
        state: JobState,
        master: str,
        measured: Callable[[LatencyGeneration], LatencyView],
        change: Callable[[query.Plan, float], None],
        note: Callable[[str], None],
        now: float,
    ) -> None:
        self.ask: Callable[[PlanQuestion], None] | None = None
        self._state, self._master = state, master
        self._measured, self._change, self._note = measured, change, note
        self._last: deque[ResultLatency] = deque(maxlen=RESULTS)
        self._fresh = LatencyGeneration()
        """Results since the setting has changed, or what is measured of it, or the basis was taken."""
        self._version, self._since = state.version, now
        self._basis: tuple[query.Plan, LatencyView] | None = None
        """The plan that was in force as it was measured, and the measurements."""
        self._longer: dict[Phase, float] = {}
        """Seconds by which phases are longer than in the basis."""
        self._planned: Prediction | None = None
        self._coming: PlanAnswer | None = None
        """The answer whose setting is to be in force, which a rollout may come to nothing over."""
        self._asked: tuple[PlanQuestion, Drift | None] | None = None
        self._asked_at, self._numbers = -ANSWER_S, 0
        self._drifted = ""
        """The last drift in words, as long as it is not in the basis."""
        self._remark = ""
        self._is_out_of_reach = False

    def take(self, result: ResultLatency, version: int, now: float) -> None:
        """Takes a result of a version that is published."""
        if result.is_met is None or version < self._version:
            return  # no limit, or a window that was open when the setting changed
        if version > self._version:
            self._begin(version, now)
        self._last.append(result)
        self._fresh.note(result)

    def _begin(self, version: int, now: float) -> None:
        """Another version is in force. What was measured before is not of it, unless another setting is all it is."""
        coming, self._coming = self._coming, None
        if coming and coming.wanted and coming.wanted[0] == self._state.versions.newest.function.plan:
            self._planned = coming.wanted[1]
            self._say(coming.outcome)
        else:
            self._planned, self._basis, self._longer, self._drifted, self._remark = None, None, {}, "", ""
        self._version, self._since, self._asked, self._is_out_of_reach = version, now, None, False
        self._last.clear()
        self._fresh = LatencyGeneration()

    def tick(self, now: float) -> None:
        """Asks for a plan where one is due. O(phases)."""
        if now < self._asked_at + (ANSWER_S if self._asked else LOOK_S) or self.ask is None or not self._is_plannable:
            return
        drift, missed = self._drift(), sum(one.is_met is False for one in self._last) >= MISSES
        is_urgent = self._planned is None or drift is not None or (missed and not self._is_out_of_reach)
        results = self._fresh.results
        if not (is_urgent or now >= self._asked_at + KEPT_S) or not self._has_basis(drift, results):
            return
        assert self._basis is not None
        self._numbers, self._asked_at = self._numbers + 1, now
        longer, versions = dict(self._longer if drift is None else drift.longer), self._state.versions
        may_turn = (missed or drift is not None or results >= SURE_RESULTS) and len(versions) == 1
        question = PlanQuestion(
            self._state.job.app_id, self._numbers, versions.newest.function.plan, *self._basis, longer,
            now - self._since, may_turn,
        )  # fmt: skip
        self._asked = question, drift
        self.ask(question)

    def _has_basis(self, drift: Drift | None, results: int) -> bool:
        """Whether enough is measured to plan by. While phases are longer than that says, it stays what it is."""
        if self._basis is None or (drift is None and results >= SURE_RESULTS):
            if results < SETTLED_RESULTS:
                return False
            self._basis = self._state.versions.newest.function.plan, self._measured(self._fresh)
            self._longer, self._drifted = {}, ""
            if results >= SURE_RESULTS:
                self._fresh = LatencyGeneration()
        return True

    def answered(self, answer: PlanAnswer, now: float) -> None:
        """Takes an answer: puts another setting in force, or says that the limit is out of reach."""
        if self._asked is None or self._asked[0].number != answer.number:
            return
        (question, drift), self._asked = self._asked, None
        self._longer = dict(question.longer)
        self._planned, self._is_out_of_reach = answer.prediction, answer.is_out_of_reach
        if drift is not None:  # what comes is compared with what is known by now
            self._last.clear()
            self._fresh, self._drifted = LatencyGeneration(), drift.text
        if answer.wanted is None:
            self._say(answer.outcome or (MET if self._drifted else ""))
        else:  # what follows is said once it is so
            self._coming, self._remark = answer, self._drifted
            self._change(answer.wanted[0], now)

    def _say(self, outcome: str) -> None:
        """Remarks what has drifted, and what follows; in the job's log too, unless it says so already."""
        before, self._remark = self._remark, "; ".join(part for part in (self._drifted, outcome) if part)
        if self._remark not in ("", before):
            self._note(self._remark)

    @property
    def _is_plannable(self) -> bool:
        """Whether its results are measured against a limit, and its master may choose how it is computed: what a
        creator has signed runs as it is signed."""
        state, plan = self._state, self._state.versions.newest.function.plan
        if plan.within is None or state.job.bounded or state.creator or plan.app is not None or plan.reads_types:
            return False
        if state.version != self._version:
            return False  # nothing is known of it yet
        return plan.windowing is not None and plan.windowing.session is None and not plan.windowing.changes

    def _drift(self) -> Drift | None:
        """The drift from what is planned by now, if there is one, with that from the basis that is planned for."""
        if self._planned is None:
            return None
        drift = drift_of(self._last, self._planned.on_path(), self._master)
        return None if drift is None else drift.beside(self._longer)

    def view(self) -> PlanView | None:
        """The setting in force, and what was planned of it."""
        plan, planned = self._state.versions.newest.function.plan, self._planned
        if plan.within is None or plan.windowing is None:
            return None
        drift = self._drift()
        remark = self._remark if drift is None else drift.text
        grace_ms = self._state.versions.newest.function.grace.waits_ms
        unplanned = PlanView(grace_ms, plan.windowing.cuts, self._state.trees, 0, 0, [], 0, remark, plan.look_ms)
        if planned is None:
            return unplanned
        means = planned.on_path()
        return msgspec.structs.replace(
            unplanned,
            mean_us=micros_of(planned.mean - means[Phase.DELIVER]),
            quantile_us=micros_of(planned.quantile),
            phases=[micros_of(means[phase]) for phase in Phase],
            now_us=micros_of(median_s(self._last)),
        )
