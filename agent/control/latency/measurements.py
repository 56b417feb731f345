"""Makes what one job has measured into what is known of a query: all that a prediction of its latency is made of.

Of another query's job, the phases that have nothing to do with what is computed are as good as measured; the others are
right in kind, not in their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import query as ql
from agent.control.observation.latency_entries import JobLatency
from agent.feeding.feeds import POLL_S
from query.latency.distribution import Distribution
from query.latency.fits import lognormal
from query.latency.groups import HeapsLaw
from query.latency.parts import FEW
from query.latency.phases import AGENT_PHASES, Phase
from query.latency.planner import Choices
from query.latency.prediction import anchored
from query.latency.setting import AgentClass, Measured, Setting
from query.latency.statistics import PhaseStatistics, phases_from_bytes
from query.plan.within import Within, chosen_grace_ms

T = TypeVar("T")
COMPARED_MAX = 64
"""Upper bound on the jobs that are compared with a query."""
ASKED_MAX = 4
"""Upper bound on the jobs that are asked for what they have measured."""
TREES = (1, 2, 4, 8)
"""Numbers of trees that are tried where a query states none."""
CUTS = (1, 2, 4, 8, 16)
"""Numbers of panes that are tried instead of one."""
LOOKS_S = (POLL_S, 0.5)
"""Intervals of looks that are tried: as a pane's end has a look of its own, longer ones save processor time."""
GRACE_SHARES = (1.0, 0.4, 0.1)
"""Graces that are tried where a query states none, as parts of the one that it has otherwise."""
MEAN_PERCENT = 60.0
"""Percentage of latencies below their mean: those of a lognormal distribution that varies by half of its mean."""
_OF_THE_QUERY = (Phase.PARSE, Phase.INSERT, Phase.SEAL_WAIT, Phase.SEAL, Phase.COMBINE, Phase.FINISH)
"""Phases whose length depends on what is computed."""


def setting_of(plan: ql.Plan) -> Setting:
    """The setting with which agents run a plan."""
    cuts = 1 if plan.windowing is None else plan.windowing.cuts
    grace = plan.grace_ms(ql.GRACE_DEFAULT_MS) / 1000
    return Setting(grace, plan.look_ms / 1000, on_due=True, cuts=cuts, trees=plan.trees)


def with_setting(plan: ql.Plan, setting: Setting) -> ql.Plan:
    """A plan with the grace, the looks, the cuts and the trees that were chosen for it."""
    within, windowing = plan.within, plan.windowing
    assert within is not None
    assert windowing is not None
    if within.grace_ms is not None:
        within = replace(within, grace_ms=round(1000 * setting.grace))
    within = replace(within, look_ms=round(1000 * setting.look))
    if setting.cuts != windowing.cuts:
        windowing = windowing.cut(setting.cuts)
    return replace(plan, within=within, windowing=windowing, trees=setting.trees)


def choices_of(plan: ql.Plan, told: JobLatency | None = None, *, is_mapped: bool = False) -> Choices:
    """The settings with which agents could run a plan that has a limit. Panes are cut where it is told how many groups
    they have: else nothing says what that saves. Looks are those of agents where panes are not due by time alone, and
    where the job's code maps events, so that its agents know later which panes those are for."""
    within, windowing = plan.within, plan.windowing
    assert within is not None
    assert windowing is not None
    longest_ms = None if within.grace_ms is None else chosen_grace_ms(within.limit_ms)
    graces = () if longest_ms is None else tuple(round(longest_ms * one) / 1000 for one in GRACE_SHARES)
    more = TREES if plan.gains_by_trees and not plan.trees_stated else ()
    trees = (plan.trees, *(one for one in more if one > plan.trees))
    is_cut = plan.can_be_cut and told is not None and told.group_points
    cuts = [one for one in CUTS if windowing.common_ms % one == 0] if is_cut else [windowing.cuts]
    is_due = windowing.session is None and not windowing.changes and not is_mapped
    return Choices(LOOKS_S if is_due else (POLL_S,), (True,), cuts, trees, graces)


def percent_of(within: Within) -> float:
    """The percentage of results that a limit is for; where it is for their mean, that of results below it."""
    return MEAN_PERCENT if within.percent is None else within.percent


def likest(jobs: Iterable[T], text_of: Callable[[T], str], wanted: ql.Query) -> list[T]:
    """The jobs that are worth asking what they have measured: those that compute the same as a query first."""
    compared = islice(jobs, COMPARED_MAX)
    return sorted(compared, key=lambda one: not is_same_work(wanted, text_of(one)))[:ASKED_MAX]


def is_same_work(wanted: ql.Query, text: str) -> bool:
    """Whether a job with this query computes the same, however late its results may come."""
    try:
        return _untimed(wanted) == _untimed(ql.parse(text))
    except ql.QueryError:
        return False


def _untimed(query: ql.Query) -> ql.Query:
    window = None if query.window is None else replace(query.window, grace=None)
    return replace(query, window=window, within=None, straggler=None, recover=None)


def known_of(plan: ql.Plan, told: JobLatency | None, agents: int, *, is_same: bool) -> Measured:
    """All that is known of a live plan that runs on so many agents. `is_same`: what is told is of the same query, and
    so is the latency as a whole, but for its GRACE; the tail of another one's durations is not believed.
    """
    assert plan.windowing is not None
    phases = {} if told is None else _distributions(told.part_statistics, told.path_statistics)
    if not is_same:
        phases = {phase: one.assumed(min(one.count, FEW - 1)) for phase, one in phases.items()}
    rate = 0.0 if told is None else told.events_s
    own = {phase: one for phase, one in phases.items() if phase in AGENT_PHASES}
    shared = {phase: one for phase, one in phases.items() if phase not in AGENT_PHASES}
    pane_s, size_s = plan.windowing.pane_ms * plan.windowing.cuts / 1000, plan.windowing.size_ms / 1000
    setting = setting_of(plan)
    if told is not None and told.plan is not None:
        setting = replace(setting, cuts=told.plan.cuts, look=told.plan.look_ms / 1000)
    groups = HeapsLaw.fitted(told.group_points if told is not None and is_same else ())
    # Panes end at multiples of their length, and logs are looked at at multiples of the interval, both of the epoch.
    agents_alike = AgentClass(agents, rate / agents, own, look_phase=0.0)
    known = Measured(pane_s, size_s, setting, (agents_alike,), phases=shared, groups=groups)
    if told is None or not is_same:
        return known
    whole = PhaseStatistics.from_bytes(told.total_statistics)
    waited = running_setting(running_plan(told, plan.stream) or plan, told).grace
    return known if whole.mean <= waited else anchored(known, _with_grace(whole, waited, setting.grace))


def _with_grace(whole: PhaseStatistics, waited: float, grace: float) -> Distribution:
    """A latency that was measured with a GRACE (s), with another one. Its buckets are as wide as goes with all of it,
    so what is beyond the first is told by its moments.
    """
    if grace == waited:
        return Distribution.of_statistics(whole)
    return lognormal(whole.mean - waited, max(whole.variance, 0.0), whole.count).shifted(grace)


def running_plan(told: JobLatency, stream: str) -> ql.Plan | None:
    """The plan of a job's query over a stream whose columns are not looked at; None where that does not do."""
    try:
        return ql.analyze(ql.parse(told.query), {stream: ql.Schema({}, open=True)})
    except ql.QueryError:
        return None


def running_setting(plan: ql.Plan, told: JobLatency) -> Setting:
    """The setting that a job of this plan runs with by now."""
    if told.plan is None:
        return setting_of(plan)
    one = told.plan
    return Setting(one.grace_ms / 1000, one.look_ms / 1000, on_due=True, cuts=one.cuts, trees=one.trees)


def least_of(known: Measured) -> Measured:
    """Measurements as if nothing were to be computed: no query over these events is sooner."""
    nothing = dict.fromkeys(_OF_THE_QUERY, Distribution.constant(0.0))
    own = {phase: one for phase, one in nothing.items() if phase in AGENT_PHASES}
    shared = {phase: one for phase, one in nothing.items() if phase not in AGENT_PHASES}
    classes = tuple(replace(one, phases={**one.phases, **own}) for one in known.classes)
    return replace(known, classes=classes, phases={**known.phases, **shared})


def _distributions(parts: bytes, paths: bytes) -> Mapping[Phase, Distribution]:
    """Distributions of what agents have told of their parts, and masters of the rest; those of trees are of a level."""
    of_parts, of_paths = phases_from_bytes(parts), phases_from_bytes(paths)
    every = {phase: (of_parts if phase in AGENT_PHASES else of_paths)[phase] for phase in Phase}
    return {phase: Distribution.of_statistics(one) for phase, one in every.items() if one.count}
