"""Decides at submission whether the results of a query can come within the time that it states, and with which setting.

What decides is what live jobs over the same stream have measured. Where there is none, nothing is known that could
refuse a query or choose for it, and it runs as it would without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import trio

import query as ql
from agent import log
from agent.access.rules import Principal
from agent.control import messages as control
from agent.control.client_rights import ClientRights
from agent.control.latency.measurements import (
    choices_of,
    is_same_work,
    known_of,
    least_of,
    likest,
    percent_of,
    setting_of,
    with_setting,
)
from agent.control.latency.other_jobs import limited, missed_limit
from agent.control.observation.latency_view import described_latency
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import Announce
from agent.runtime.messages.views.latency import LatencyRequest, LatencyView
from agent.runtime.requests.events import AskReply, JobQuestion
from overlay import Id
from query.latency.phases import Phase
from query.latency.planner import LatencyRefusal, plan
from query.latency.prediction import predict
from query.latency.setting import Evidence, Measured

RESULTS_MIN = 10
"""Results from which on what a job has measured can refuse a query: the first ones of a job may be slow."""
ASK_S = 2.0
"""Time that masters have to tell what their jobs have measured."""
UNCHECKED = "whether the limit can be met was not checked: what jobs tell of their results cannot be"
_TEXT: Callable[[Announce], str] = attrgetter("text")


@dataclass(frozen=True, slots=True)
class AdmittedPlan:
    """A plan that may run, as chosen. `warning`: why its limit may be missed, "" if nothing says so."""

    plan: ql.Plan
    warning: str = ""


class LatencyAdmission:
    """Asks the masters of live jobs on behalf of queries with a limit. `asked` has the fleet answer a question."""

    def __init__(
        self,
        asked: Callable[[JobQuestion], Awaitable[AskReply | None]],
        directory: JobDirectory,
        rights: ClientRights,
    ) -> None:
        self._asked, self._directory, self._rights = asked, directory, rights

    async def admit(self, found: ql.Plan, wanted: ql.Query, who: Principal) -> AdmittedPlan | control.Refused:
        """The plan of a live query as it is to run, or why it is not to. Some seconds at most.

        Jobs that the client may not read are not asked: a refusal tells what they have measured.
        """
        if found.windowing is None or found.app is not None or found.reads_types:
            return AdmittedPlan(found)
        answers = await self._measured(found, wanted, who)
        if not answers:
            return AdmittedPlan(found)
        try:
            return await trio.to_thread.run_sync(decided, found, wanted, answers, abandon_on_cancel=True)
        except ValueError as error:  # measurements of peers, which may be anything
            log.warn("a query is not planned", stream=found.stream, why=str(error))
            return AdmittedPlan(found, "" if found.within is None else UNCHECKED)

    async def _measured(self, found: ql.Plan, wanted: ql.Query, who: Principal) -> Sequence[control.JobLatency]:
        """The measurements of the likest live jobs over the stream, and of those with limits, if any."""
        live = [
            one for one in self._directory.all()
            if one.stream == found.stream and not one.bounded and self._rights.may_read(who, one.app_id)
        ]  # fmt: skip

        def worth_asking() -> Iterable[Announce]:
            with_limits = limited(live, _TEXT)
            some = likest(live, _TEXT, wanted) if with_limits or found.within is not None else []
            return {one.app_id: one for one in (*some, *with_limits)}.values()

        asked = await trio.to_thread.run_sync(worth_asking, abandon_on_cancel=True)
        answers: list[control.JobLatency] = []

        async def ask(app_id: Id) -> None:
            match await self._asked(LatencyRequest(app_id)):
                case LatencyView(results=results) as view if results:
                    answers.append(described_latency(view))

        with trio.move_on_after(ASK_S):
            async with trio.open_nursery() as nursery:
                for one in asked:
                    nursery.start_soon(ask, one.app_id)
        return answers


def decided(found: ql.Plan, wanted: ql.Query, answers: Sequence[control.JobLatency]) -> AdmittedPlan | control.Refused:
    """The decision on the plan of a query by what jobs have measured: one that computes the same, if there is one, and
    has most results.
    """
    is_same, told = max(
        ((is_same_work(wanted, one.query), one) for one in answers), key=lambda one: (one[0], one[1].results)
    )
    known = known_of(found, told, max(1, told.contributors), is_same=is_same)
    own = AdmittedPlan(found) if found.within is None else _within_limit(found, told, known, is_same=is_same)
    if isinstance(own, control.Refused):
        return own
    seal_s = predict(setting_of(own.plan), known).phases[Phase.SEAL].mean
    missed = missed_limit(own.plan, wanted, seal_s, answers, RESULTS_MIN)
    if missed is None:
        return own
    if is_same and told.results >= RESULTS_MIN:
        return control.Refused("usage", f"this query {missed.text}")
    may = f"this query perhaps {missed.text}, if its panes take as long as those of {told.app}"
    return replace(own, warning="; ".join(one for one in (own.warning, may) if one))


def _within_limit(
    found: ql.Plan, told: control.JobLatency, known: Measured, *, is_same: bool
) -> AdmittedPlan | control.Refused:
    """The decision by the query's own limit. Where what is told is of something else, only a limit is refused that
    would be out of reach if nothing at all were computed.
    """
    within = found.within
    assert within is not None
    limit, percent, choices = within.limit_ms, percent_of(within), choices_of(found, told if is_same else None)
    least = plan(limit, percent, known if is_same else least_of(known), choices=choices)
    is_known = told.results >= RESULTS_MIN and least.prediction.evidence > Evidence.ASSUMED
    if isinstance(least, LatencyRefusal) and is_known:
        return control.Refused("usage", f"WITHIN {limit:,} ms is out of reach: {least.reason} (as {told.app} measures)")
    chosen = least if is_same else plan(limit, percent, known, choices=choices)
    if isinstance(chosen, LatencyRefusal):
        return AdmittedPlan(found, f"{limit:,} ms may be out of reach: {chosen.reason}")
    is_assumed = chosen.prediction.evidence is Evidence.ASSUMED
    return AdmittedPlan(found if is_assumed else with_setting(found, chosen.setting), chosen.warning)
