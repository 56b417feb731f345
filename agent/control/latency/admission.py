"""Decides at submission whether the results of a query can come within the time that it states, and with which setting.

What decides is what live jobs over the same stream have measured and, where none of them computes the same, what the
query's work costs some agents over the last lines of their logs. What is assumed refuses no query, nor chooses for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter

import trio

import query as ql
from agent import log
from agent.access.rules import Principal
from agent.control import messages as control
from agent.control.client_rights import ClientRights
from agent.control.latency.dry_runs import DryRunQuestions
from agent.control.latency.measurements import (
    choices_of,
    is_same_work,
    least_of,
    likest,
    percent_of,
    setting_of,
    with_setting,
)
from agent.control.latency.other_jobs import limited, missed_limit
from agent.control.latency.samples import known_with_samples
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
RUN_DRY_S = 7.0
"""Time for finding the agents that have the stream, and for dry runs on some of them."""
NO_DRY_RUNS = control.DryRuns(0, 0, 0)
NOTHING_KNOWN = "nothing tells yet how soon results come: no live job reads the stream, and no log could be sampled"
UNCHECKED = "whether the limit can be met was not checked: what jobs tell of their results cannot be"
_TEXT: Callable[[Announce], str] = attrgetter("text")


@dataclass(frozen=True, slots=True)
class AdmittedPlan:
    """A plan that may run, as chosen. `warning`: why its limit may be missed, "" if nothing says so."""

    plan: ql.Plan
    warning: str = ""


class LatencyAdmission:
    """Asks the masters of live jobs, and agents for dry runs, on behalf of queries with a limit. `asked` has the fleet
    answer a question."""

    def __init__(
        self,
        asked: Callable[[JobQuestion], Awaitable[AskReply | None]],
        directory: JobDirectory,
        rights: ClientRights,
        dry_runs: DryRunQuestions,
    ) -> None:
        self._asked, self._directory, self._rights, self._dry_runs = asked, directory, rights, dry_runs

    async def admit(
        self,
        found: ql.Plan,
        wanted: ql.Query,
        who: Principal,
        *,
        is_mapped: bool = False,
        replaced: Id | None = None,
    ) -> AdmittedPlan | control.Refused:
        """The plan of a live query as it is to run, or why it is not to. Some seconds at most. `is_mapped`: its columns
        are made by the job's code. `replaced`: the job that is to compute it in place of what it does now.

        Jobs that the client may not read are not asked: a refusal tells what they have measured.
        """
        if found.windowing is None or found.app is not None or found.reads_types:
            return AdmittedPlan(found)
        measured = await self._measured(found, wanted, who)
        answers = [*measured.values()]
        others = [one for app_id, one in measured.items() if app_id != replaced]

        def is_measured() -> bool:
            return any(is_same_work(wanted, one.query) for one in answers)

        dry = NO_DRY_RUNS
        may_run_dry = found.within is not None and not is_mapped
        if may_run_dry and not await trio.to_thread.run_sync(is_measured, abandon_on_cancel=True):
            dry = await self._run_dry(found, who)
        if not answers and not dry.samples:
            return AdmittedPlan(found, "" if found.within is None else NOTHING_KNOWN)
        decide = partial(decided, others=others, is_mapped=is_mapped)
        try:
            return await trio.to_thread.run_sync(decide, found, wanted, answers, dry, abandon_on_cancel=True)
        except ValueError as error:  # measurements of peers, which may be anything
            log.warn("a query is not planned", stream=found.stream, why=str(error))
            return AdmittedPlan(found, "" if found.within is None else UNCHECKED)

    async def _measured(self, found: ql.Plan, wanted: ql.Query, who: Principal) -> Mapping[Id, control.JobLatency]:
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
        answers: dict[Id, control.JobLatency] = {}

        async def ask(app_id: Id) -> None:
            match await self._asked(LatencyRequest(app_id)):
                case LatencyView(results=results) as view if results:
                    answers[app_id] = described_latency(view)

        with trio.move_on_after(ASK_S):
            async with trio.open_nursery() as nursery:
                for one in asked:
                    nursery.start_soon(ask, one.app_id)
        return answers

    async def _run_dry(self, found: ql.Plan, who: Principal) -> control.DryRuns:
        """The dry runs of a plan; none where it cannot be run dry, or nobody answers in time."""
        dry: control.DryRuns | control.Refused = NO_DRY_RUNS
        with trio.move_on_after(RUN_DRY_S):
            dry = await self._dry_runs.ask(found, who.owner)
        return NO_DRY_RUNS if isinstance(dry, control.Refused) else dry


@dataclass(frozen=True, slots=True)
class _Basis:
    """Ground of a decision: the job that is `told` of, if there is one, whether that computes the same, and the number
    of agents that have run the query dry."""

    told: control.JobLatency | None
    is_same: bool
    sampled: int

    @property
    def has_results(self) -> bool:
        """Whether the job has as many results as it takes to refuse a query."""
        return self.told is not None and self.told.results >= RESULTS_MIN

    @property
    def is_of_the_query(self) -> bool:
        """Whether what the query's own work costs is known."""
        return self.is_same or self.sampled > 0

    @property
    def text(self) -> str:
        """The sources, in words."""
        measured = [] if self.told is None else [f"as {self.told.app} measures"]
        return ", and ".join((*measured, *([f"as {self.sampled:,} agents run it dry"] if self.sampled else [])))


def decided(
    found: ql.Plan,
    wanted: ql.Query,
    answers: Sequence[control.JobLatency],
    dry: control.DryRuns = NO_DRY_RUNS,
    *,
    others: Sequence[control.JobLatency] | None = None,
    is_mapped: bool = False,
) -> AdmittedPlan | control.Refused:
    """The decision on the plan of a query by what jobs have measured: one that computes the same, if there is one, and
    has most results. Of another one's, and without any, by what dry runs have found as well. `others`: the jobs beside
    which it is to run, if not all of them.
    """
    is_same, told = max(
        ((is_same_work(wanted, one.query), one) for one in answers),
        key=lambda one: (one[0], one[1].results), default=(False, None),
    )  # fmt: skip
    basis = _Basis(told, is_same, 0 if is_same else len(dry.samples))
    agents = dry.agents if told is None else told.contributors
    known = known_with_samples(found, told, max(1, agents), dry.samples, is_same=is_same)
    own = AdmittedPlan(found) if found.within is None else _within_limit(found, basis, known, is_mapped=is_mapped)
    if isinstance(own, control.Refused) or told is None:
        return own
    seal_s = predict(setting_of(own.plan), known).phases[Phase.SEAL].mean
    missed = missed_limit(own.plan, wanted, seal_s, answers if others is None else others, RESULTS_MIN)
    if missed is None:
        return own
    if is_same and basis.has_results:
        return control.Refused("usage", f"this query {missed.text}")
    unlike = "" if basis.sampled else f", if its panes take as long as those of {told.app}"
    may = f"this query perhaps {missed.text}{unlike}"
    return replace(own, warning="; ".join(one for one in (own.warning, may) if one))


def _within_limit(found: ql.Plan, basis: _Basis, known: Measured, *, is_mapped: bool) -> AdmittedPlan | control.Refused:
    """The decision by the query's own limit. Where nobody knows what its own work costs, only a limit is refused that
    would be out of reach if nothing at all were computed.
    """
    within = found.within
    assert within is not None
    limit, percent = within.limit_ms, percent_of(within)
    choices = choices_of(found, basis.told if basis.is_same else None, is_mapped=is_mapped)
    least = plan(limit, percent, known if basis.is_of_the_query else least_of(known), choices=choices)
    is_known = basis.has_results and least.prediction.evidence > Evidence.ASSUMED
    if isinstance(least, LatencyRefusal) and is_known:
        return control.Refused("usage", f"WITHIN {limit:,} ms is out of reach: {least.reason} ({basis.text})")
    chosen = least if basis.is_of_the_query else plan(limit, percent, known, choices=choices)
    if isinstance(chosen, LatencyRefusal):
        return AdmittedPlan(found, f"{limit:,} ms may be out of reach: {chosen.reason}")
    is_assumed = chosen.prediction.evidence is Evidence.ASSUMED
    return AdmittedPlan(found if is_assumed else with_setting(found, chosen.setting), chosen.warning)
