"""Windows that a job has not published, computed from the archive."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol, TypeAlias

from elf.batch.reconcile.live_results import LiveJob, VersionLine, moment_ms
from elf.batch.reconcile.reconciliation import why_not_computable
from elf.errors import ElfError

if TYPE_CHECKING:
    from agent import WindowResult

WindowBounds: TypeAlias = tuple[str | None, str | None]


class BackfillArchive(Protocol):
    """An archive, as a backfill needs it."""

    def agents(self, version: VersionLine) -> frozenset[str]:
        """Agents with events for a version."""

    def results(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Iterator[WindowResult]:
        """The results of a version over the events of these agents, from `since_ms` on and before `until_ms`."""


def versions_of(job: LiveJob, app: str) -> list[VersionLine]:
    """The versions of a job's last life, in their order. ElfError where none can be computed from an archive."""
    lives = {version.life: version for version in job.versions.values()}
    if len({life[0] for life in lives}) > 1:
        owners = ", ".join(sorted(f"{one.app}@{one.creator}" if one.creator else one.app for one in lives.values()))
        raise ElfError(f"several jobs are called {app}: say which of {owners}")
    last = max(lives, key=lambda life: life[1])
    found = sorted((one for one in job.versions.values() if one.life == last), key=lambda one: one.version)
    for one in found:
        if reason := why_not_computable(one):
            raise ElfError(f"{app}: its windows cannot be computed from the archive: {reason}")
    return found


def missing_windows(
    versions: Sequence[VersionLine],
    archive: BackfillArchive,
    published: Collection[WindowBounds],
    since_ms: int | None,
    until_ms: int | None,
) -> Iterator[WindowResult]:
    """The windows between two times that the job has not published, in order.

    Each is computed by the version in force at its start; windows from before the job by its first version.
    """
    ends = [*(after.after for _, after in pairwise(versions)), None]
    starts = [None, *(one.starts for one in versions[1:])]
    for version, first_ms, last_ms in zip(versions, starts, ends, strict=True):
        since = since_ms if first_ms is None else max(first_ms, first_ms if since_ms is None else since_ms)
        for result in archive.results(version, archive.agents(version), since, until_ms):
            if (result.window_start, result.window_end) in published or not result.final:
                continue
            if last_ms is None or (moment_ms(result.window_start) or 0) <= last_ms:
                yield result
