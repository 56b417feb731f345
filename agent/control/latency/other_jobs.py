"""Finds the job whose results would come too late if another query ran beside it.

Panes of several jobs that end together are sealed one after the other, and a seal that has begun is not put off. So a
pane waits for that of a query which is closed before it, or together with it and has less time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

import query as ql
from agent.control.latency.measurements import (
    COMPARED_MAX,
    is_same_work,
    known_of,
    percent_of,
    running_plan,
    running_setting,
    setting_of,
)
from agent.control.observation.latency_entries import JobLatency
from query.latency.phases import Phase
from query.latency.prediction import predict

T = TypeVar("T")
LIMITED_MAX = 8
"""Upper bound on the jobs with limits that are asked for what they have measured."""


@dataclass(frozen=True, slots=True)
class MissedLimit:
    """A job that would miss its limit (ms) as its panes wait for so long (s); `least` (s) is what it would meet."""

    app: str
    limit_ms: int
    wait: float
    least: float

    @property
    def text(self) -> str:
        """The reason, in words."""
        wait_ms, least_ms = math.ceil(1000 * self.wait), math.ceil(1000 * self.least)
        waits = f"its panes would wait {wait_ms:,} ms for the seal of this one's, and {least_ms:,} ms could be met"
        return f"would make {self.app} miss WITHIN {self.limit_ms:,} ms: {waits}"


def limited(jobs: Iterable[T], text_of: Callable[[T], str]) -> list[T]:
    """The jobs that have a limit, as far as they are looked at."""
    return [one for one in islice(jobs, COMPARED_MAX) if _has_limit(text_of(one))][:LIMITED_MAX]


def _has_limit(text: str) -> bool:
    try:
        return ql.parse(text).within is not None
    except ql.QueryError:
        return False


def missed_limit(
    found: ql.Plan, wanted: ql.Query, seal_s: float, others: Sequence[JobLatency], results_min: int
) -> MissedLimit | None:
    """The first job that would miss the limit which it meets now, if a plan ran whose panes take so long to be sealed.
    Jobs that share its work do not wait for it; what has few results says nothing."""
    for one in others:
        if one.within_ms and one.results >= results_min and (missed := _missed(found, wanted, seal_s, one)):
            return missed
    return None


def _missed(found: ql.Plan, wanted: ql.Query, seal_s: float, told: JobLatency) -> MissedLimit | None:
    plan = running_plan(told, found.stream)
    if plan is None or plan.within is None or plan.windowing is None or found.windowing is None:
        return None
    own, other = setting_of(found), running_setting(plan, told)
    is_same_pane = found.pane_ms == plan.windowing.pane_ms and own.grace == other.grace
    if plan.windowing.slide_ms % (found.pane_ms or 1) or (is_same_pane and is_same_work(wanted, told.query)):
        return None
    ahead_s = (other.grace - own.grace) % (plan.windowing.slide_ms / 1000)
    goes_first = found.within is not None and found.within.limit_ms < plan.within.limit_ms
    wait_s = seal_s - ahead_s if ahead_s > 0 or goes_first else 0.0
    if not 0 < wait_s < math.inf:
        return None
    known = known_of(plan, told, max(1, told.contributors), is_same=True)
    limit_s, share = plan.within.limit_ms / 1000, percent_of(plan.within) / 100
    with_it = predict(other, replace(known, longer={Phase.SEAL_WAIT: wait_s}), share)
    if with_it.quantile <= limit_s or predict(other, known, share).quantile > limit_s:
        return None
    return MissedLimit(told.app, plan.within.limit_ms, wait_s, with_it.quantile)
