"""Decides at submission whether the results of a query can come within the time that it states, and with which setting.

What decides is what live jobs over the same stream have measured. Where there is none, nothing is known that could
refuse a query or choose for it, and it runs as it would without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import trio

import query as ql
from agent.access.rules import Principal
from agent.control import messages as control
from agent.control.client_rights import ClientRights
from agent.control.latency.measurements import choices_of, is_same_work, known_of, least_of, percent_of
from agent.control.observation.latency_view import described_latency
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.messages.jobs import Announce
from agent.runtime.messages.views.latency import LatencyRequest, LatencyView
from agent.runtime.requests.events import AskReply, JobQuestion
from overlay import Id
from query.latency.planner import LatencyPlan, LatencyRefusal, plan
from query.latency.setting import Evidence, Setting

COMPARED_MAX = 64
"""Upper bound on the jobs that are compared with a query."""
RESULTS_MIN = 10
"""Results from which on what a job has measured can refuse a query: the first ones of a job may be slow."""
ASKED_MAX = 4
"""Upper bound on the jobs that are asked for what they have measured."""
ASK_S = 2.0
"""Time that their masters have to answer."""


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

    async def admit(self, found: ql.Plan, text: str, who: Principal) -> AdmittedPlan | control.Refused:
        """The plan as it is to run, or why it is not to. `text`: its query, as it is formatted. Some seconds at most.

        Jobs that the client may not read are not asked: a refusal tells what they have measured.
        """
        if found.within is None or found.windowing is None or found.app is not None or found.reads_types:
            return AdmittedPlan(found)
        told = await self._measured(found, text, who)
        if told is None:
            return AdmittedPlan(found)
        return await trio.to_thread.run_sync(decided, found, text, told, abandon_on_cancel=True)

    async def _measured(self, found: ql.Plan, text: str, who: Principal) -> control.JobLatency | None:
        """The measurements of the likest live job over the stream: one that computes the same, if there is one."""
        live = (
            one for one in self._directory.all()
            if one.stream == found.stream and not one.bounded and self._rights.may_read(who, one.app_id)
        )  # fmt: skip
        likest = await trio.to_thread.run_sync(_likest, [*islice(live, COMPARED_MAX)], text, abandon_on_cancel=True)
        answers: list[control.JobLatency] = []

        async def ask(app_id: Id) -> None:
            match await self._asked(LatencyRequest(app_id)):
                case LatencyView(results=results) as view if results:
                    answers.append(described_latency(view))

        with trio.move_on_after(ASK_S):
            async with trio.open_nursery() as nursery:
                for one in likest:
                    nursery.start_soon(ask, one.app_id)
        return min(answers, key=lambda one: (not is_same_work(one.query, text), -one.results), default=None)


def _likest(live: Sequence[Announce], text: str) -> Sequence[Announce]:
    """The jobs that are asked: those that compute the same first."""
    return sorted(live, key=lambda one: not is_same_work(one.text, text))[:ASKED_MAX]


def decided(found: ql.Plan, text: str, told: control.JobLatency) -> AdmittedPlan | control.Refused:
    """The decision on a plan, and the text of its query, by what one job has measured. Where that computes something
    else, only a limit is refused that would be out of reach if nothing at all were computed.
    """
    within = found.within
    assert within is not None
    is_same = is_same_work(told.query, text)
    known = known_of(found, told, max(1, told.contributors), is_same=is_same)
    limit, percent, choices = within.limit_ms, percent_of(within), choices_of(found)
    least = plan(limit, percent, known if is_same else least_of(known), choices=choices)
    is_known = told.results >= RESULTS_MIN and least.prediction.evidence > Evidence.ASSUMED
    if isinstance(least, LatencyRefusal) and is_known:
        return control.Refused("usage", f"WITHIN {limit:,} ms is out of reach: {least.reason} (as {told.app} measures)")
    chosen = least if is_same else plan(limit, percent, known, choices=choices)
    if isinstance(chosen, LatencyRefusal):
        return AdmittedPlan(found, f"{limit:,} ms may be out of reach: {chosen.reason}")
    return AdmittedPlan(_with_setting(found, chosen), chosen.warning)


def _with_setting(found: ql.Plan, chosen: LatencyPlan) -> ql.Plan:
    """A plan with the grace and the trees that were chosen for it, unless that stands on assumptions."""
    within, setting = found.within, chosen.setting
    assert within is not None
    if chosen.prediction.evidence is Evidence.ASSUMED:
        return found
    if within.grace_ms is not None:
        within = replace(within, grace_ms=_grace_ms(setting))
    return replace(found, within=within, trees=setting.trees)


def _grace_ms(setting: Setting) -> int:
    return round(1000 * setting.grace)
