"""The live answer against the offline one (reconcile): each published window is computed again from the archive.

A window says which agents are in it, so it is computed of the events of just these: what is missing is no difference.
Late events are not in the window they belong to, but counted in a later one: what is more offline has to be there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

import query
from elf.batch.reconcile.live_results import JobLife, LiveJob, LiveResult, VersionLine
from elf.batch.reconcile.verdicts import ArchivedSpan, Circumstances, Judged, approximate_columns, judge

Windows: TypeAlias = Mapping[tuple[str, str], LiveResult]
"""By start and end."""
_Group: TypeAlias = tuple[JobLife, int, frozenset[str]]
"""Windows of one version with the same agents."""


class ReconcileArchive(Protocol):
    """What has to be known of an archive, and what is computed of it."""

    def spans(self, stream: str) -> Mapping[str, ArchivedSpan]:
        """The agents that archive such a stream, and of which time there are events."""

    def windows(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Windows:
        """What a version computes of the events of these agents, from one time on and before another."""


def reconcile(job: LiveJob, archive: ReconcileArchive) -> list[Judged]:
    """Every window of a job in order, and windows that it should have published."""
    return _Reconciliation(job, archive).judged()


def why_not(version: VersionLine | None) -> str | None:
    """Why a version cannot be computed from an archive, if it cannot."""
    if version is None:
        return "what computed it is not described in the archive"
    if version.maps:
        return "the job's code maps events: nothing but itself can compute it"
    if version.drives:
        return "the job's code cuts its batches itself"
    plan = query.Plan.from_wire(version.plan)
    if plan.apps:
        return "it is computed of other jobs' results"
    return "it joins events with a table, which may have changed" if plan.join is not None else None


class _Reconciliation:
    def __init__(self, job: LiveJob, archive: ReconcileArchive) -> None:
        self._job = job
        self._archive = archive
        self._computed: dict[_Group, Windows] = {}
        self._spans: dict[str, Mapping[str, ArchivedSpan]] = {}
        self._why_not = {key: why_not(version) for key, version in job.versions.items()}

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
        return self._why_not.get((result.life, result.version), why_not(None))

    def _agents(self, result: LiveResult) -> frozenset[str]:
        """Who is in it; of a result that does not say so, all that it does not call missing."""
        known = self._job.agents(result)
        return frozenset(self._archived(result)) - result.absent if known is None else known

    def _archived(self, result: LiveResult) -> Mapping[str, ArchivedSpan]:
        version = self._version(result.life, result.version)
        plan = query.Plan.from_wire(version.plan)
        if plan.stream not in self._spans:
            self._spans[plan.stream] = self._archive.spans(plan.stream)
        return self._spans[plan.stream]

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
            # A session is shown when it is over: it may have begun long before.
            since_ms = max(version.starts, since_ms - windowing.session.max_ms - windowing.session.gap_ms)
        return self._archive.windows(version, agents, since_ms, until_ms)

    def _unpublished(self, groups: Mapping[_Group, list[LiveResult]]) -> Iterator[Judged]:
        """Windows that were computed beside those that had been published, and have events."""
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
                if any(self._agents(other) != agents for other in beside):
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
        """Whether windows were published before and after it."""
        return self._starts[0] < (window.start_ms or 0) < self._starts[-1]

    def beside(self, window: LiveResult) -> Sequence[LiveResult]:
        """The nearest before and after it."""
        index = bisect_left(self._starts, window.start_ms or 0)
        return self._windows[index - 1 : index + 1]


def _explained_by_lateness(judged: Sequence[Judged]) -> list[Judged]:
    """What is more offline is explained as far as it was counted late, in the same window or a later one."""
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
