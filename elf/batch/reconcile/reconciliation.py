"""Compares live results with offline ones (reconcile): each published window is computed again from the archive.

A window names the agents that contributed, so it is computed from the events of just these agents: a missing agent is
no difference. A late event is missing in its own window and counted as late in a later one: an excess of offline events
must be matched by such counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import query
from elf.batch.reconcile.live_results import JobLife, LiveJob, LiveResult, VersionLine
from elf.batch.reconcile.verdicts import ArchivedSpan, Circumstances, Judged, approximate_columns, first_names, judge

Windows: TypeAlias = Mapping[tuple[str, str], LiveResult]
"""Window (start and end) → its result."""
_Group: TypeAlias = tuple[JobLife, int, frozenset[str]]
"""Key of windows of one version with the same agents."""


class ReconcileArchive(Protocol):
    """An archive, as reconciliation needs it."""

    def spans(self, stream: str) -> Mapping[str, ArchivedSpan]:
        """The agents that archive a stream, and the time range of their archived events."""

    def windows(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Windows:
        """The final windows of a version over the events of these agents, from `since_ms` on and before `until_ms`."""


def reconcile(job: LiveJob, archive: ReconcileArchive) -> list[Judged]:
    """Verdicts of all windows of a job in order, and of windows it should have published."""
    return _Reconciliation(job, archive).judged()


def why_not_computable(version: VersionLine | None) -> str | None:
    """Reason why a version cannot be computed from an archive, None if it can."""
    if version is None:
        return "what computed it is not described in the archive"
    if version.maps:
        return "the job's code maps events: nothing but itself can compute it"
    if version.drives:
        return "the job's code cuts its batches itself"
    plan = query.Plan.from_wire(version.plan)
    if plan.aggregates_of_job:
        return f"the job's code computes {plan.aggregates_of_job[0]}: nothing but itself can"
    if plan.apps:
        return "it is computed of other jobs' results"
    if plan.elements is not None and query.stream_join(plan) is None and query.keyed_stream(plan) is None:
        return "its elements can be computed by the fleet alone"
    return "it joins events with a table, which may have changed" if plan.join is not None else None


class _Reconciliation:
    def __init__(self, job: LiveJob, archive: ReconcileArchive) -> None:
        self._job = job
        self._archive = archive
        self._computed: dict[_Group, Windows] = {}
        self._spans: dict[str, Mapping[str, ArchivedSpan]] = {}
        self._why_not = {key: why_not_computable(version) for key, version in job.versions.items()}
        self._joins = {key for key, version in job.versions.items() if version.plan.get("elements") is not None}

    def judged(self) -> list[Judged]:
        judged = [
            Judged(one.window, "unchecked", (why,), live=one)
            for one in self._job.results
            if (why := self._why_unchecked(one)) is not None
        ]
        groups: dict[_Group, list[LiveResult]] = defaultdict(list)
        for one in self._job.results:
            if self._why_unchecked(one) is None:
                groups[one.life, one.version, self._agents(one)].append(one)
        for group, windows in groups.items():
            judged += self._judge(group, windows)
        judged += self._unpublished(groups)
        return _explained_by_lateness(sorted(judged, key=lambda one: one.window))

    def _why_unchecked(self, result: LiveResult) -> str | None:
        key = (result.life, result.version)
        if key in self._joins and result.absent | result.incomplete:
            return "it lacks agents, and which events, or pairs, were at them is not known"
        return self._why_not.get(key, why_not_computable(None))

    def _agents(self, result: LiveResult) -> frozenset[str]:
        """Agents that contributed; for a result that does not tell, all archived agents it does not call missing.
        Where events travel by key, all contribute."""
        known = None if (result.life, result.version) in self._joins else self._job.agents(result)
        return frozenset(self._archived(result)) - result.absent if known is None else known

    def _archived(self, result: LiveResult) -> Mapping[str, ArchivedSpan]:
        version = self._version(result.life, result.version)
        plan = query.Plan.from_wire(version.plan)
        if plan.streams_read not in self._spans:
            self._spans[plan.streams_read] = self._archive.spans(plan.streams_read)
        return self._spans[plan.streams_read]

    def _version(self, life: JobLife, number: int) -> VersionLine:
        return self._job.versions[life, number]

    def _judge(self, group: _Group, windows: Sequence[LiveResult]) -> Iterator[Judged]:
        life, number, agents = group
        version = self._version(life, number)
        offline = self._computed[group] = self._compute(version, agents, windows)
        approximate = approximate_columns(query.Plan.from_wire(version.plan))
        for one in windows:
            least = self._least(version, agents, one) if one.incomplete else None
            roster_is_known = self._job.agents(one) is not None
            about = Circumstances(agents, self._archived(one), least, roster_is_known, approximate)
            yield judge(one, offline.get(one.window), about)

    def _least(self, version: VersionLine, agents: frozenset[str], window: LiveResult) -> LiveResult | None:
        return self._compute(version, agents - window.incomplete, [window]).get(window.window)

    def _compute(self, version: VersionLine, agents: frozenset[str], windows: Sequence[LiveResult]) -> Windows:
        starts = [one.start_ms for one in windows if one.start_ms is not None]
        ends = [one.end_ms for one in windows if one.end_ms is not None]
        since_ms, until_ms = min(starts, default=None), max(ends, default=None)
        windowing = query.Plan.from_wire(version.plan).windowing
        if windowing is not None and windowing.session is not None and since_ms is not None:
            # A session is published when it ends: it may have begun long before.
            since_ms = max(version.starts, since_ms - windowing.session.max_ms - windowing.session.gap_ms)
        return self._archive.windows(version, agents, since_ms, until_ms)

    def _unpublished(self, groups: Mapping[_Group, list[LiveResult]]) -> Iterator[Judged]:
        """Windows with events that were computed between published ones but not published."""
        found: dict[tuple[JobLife, tuple[str, str]], Judged] = {}
        for group in groups:
            life, number, agents = group
            around = _Around([one for one in self._job.results if one.life == life and one.version == number])
            published = {one.window for one in self._job.results if one.life == life}
            for window, offline in self._computed[group].items():
                if window in published or not offline.events or not around.holds(offline):
                    continue
                beside = around.beside(offline)
                one = Judged(window, "unexplained", (), "it was not published", None, offline)
                if lacking := _lacking(offline, [one for one in self._job.results if one.life == life]):
                    one = replace(one, verdict="explained", reasons=(f"not shown, missing: {first_names(lacking)}",))
                elif any(self._agents(other) != agents for other in beside):
                    one = replace(
                        one, verdict="explained", reasons=("who saw its events was not in the windows beside it",)
                    )
                known = found.get((life, window))
                if known is None or known.verdict == "explained":
                    found[life, window] = one
        return iter(found.values())


class _Around:
    """Published windows of one version, in order."""

    def __init__(self, windows: Sequence[LiveResult]) -> None:
        self._windows = sorted(windows, key=lambda one: one.start_ms or 0)
        self._starts = [one.start_ms or 0 for one in self._windows]

    def holds(self, window: LiveResult) -> bool:
        """Whether windows were published both before and after a window."""
        return self._starts[0] < (window.start_ms or 0) < self._starts[-1]

    def beside(self, window: LiveResult) -> Sequence[LiveResult]:
        """The nearest published windows before and after a window."""
        index = bisect_left(self._starts, window.start_ms or 0)
        return self._windows[index - 1 : index + 1]


def _lacking(window: LiveResult, results: Sequence[LiveResult]) -> list[str]:
    """The agents that lack in a window that was not shown, as the next result of the job says."""
    start, end = window.window
    spans = (span for result in results for span in result.unshown)
    around = (span for span in spans if (span.window_start or "") <= start and end <= (span.window_end or ""))
    return [name for span in around for name in span.missing]


def _explained_by_lateness(judged: Sequence[Judged]) -> list[Judged]:
    """Explains an excess of offline events by events counted as late in the same window or a later one."""
    left: dict[JobLife, int] = defaultdict(int)
    explained = []
    for one in reversed(judged):
        if one.live is not None:
            left[one.live.life] += one.live.late
            if 0 < one.excess <= left[one.live.life]:
                left[one.live.life] -= one.excess
                explained.append(replace(one, verdict="explained", reasons=(f"late events: {one.excess:,}",)))
                continue
        explained.append(one)
    return explained[::-1]
