"""One backfill on Spark: takes a job, its archives and a time range, and gives lines of results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import query
from elf.batch.backfill.missing_windows import WindowBounds, missing_windows, versions_of
from elf.batch.reconcile.recomputation import SparkArchive
from elf.batch.table.table import ArchiveTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from agent import WindowResult
    from elf.batch.backfill.handover import Handover
    from elf.batch.reconcile.live_results import VersionLine


class Backfill:
    """The windows of `app` from `since_ms` on and before `until_ms` (epoch ms). Raises ElfError where there is no
    archive.
    """

    def __init__(
        self, spark: SparkSession, uris: Sequence[str], app: str, since_ms: int | None, until_ms: int | None
    ) -> None:
        self.app = app
        self._spark = spark
        self._uris = uris
        self._since_ms, self._until_ms = since_ms, until_ms
        self._archive = self._open()
        self._job = self._archive.live_job(app, None, None)
        self._versions: list[VersionLine] = versions_of(self._job, app) if self._job.versions else []

    def _open(self) -> SparkArchive:
        return SparkArchive(ArchiveTable.open(self._spark, self._uris))

    @property
    def is_described(self) -> bool:
        """Whether the archive describes the job's query."""
        return bool(self._versions)

    def describe(self, text: str) -> None:
        """Sets the job's query to `text`, as the fleet knows it. Raises UsageError where the archive lacks what it
        needs.
        """
        self._versions = [self._archive.version_of(self.app, text)]

    def reread(self, text: str) -> None:
        """Reads the archive again; uses `text` as the job's query if the archive does not describe it."""
        self._archive = self._open()
        if not self.is_described and self._archive.has_streams(text):
            self.describe(text)

    @property
    def columns(self) -> list[str]:
        """Columns of the newest version's rows."""
        return query.output_names(query.Plan.from_wire(self._versions[-1].plan))

    @property
    def agents(self) -> int:
        """Number of agents with events for the job in the archive."""
        return len(self._archive.agents(self._versions[-1])) if self._versions else 0

    def missing_lines(self) -> Iterator[bytes]:
        """Lines of the windows that the job has not published."""
        published = {(one.window_start, one.window_end) for one in self._job.results}
        return map(_line, self._computed(published, self._until_ms))

    def agents_behind(self, until_ms: int) -> Sequence[str]:
        """Agents whose events from `until_ms` on are not in the archive yet."""
        if not self._versions:
            return []
        spans = self._archive.spans(query.Plan.from_wire(self._versions[-1].plan).streams_read)
        return sorted(name for name, span in spans.items() if span.to_ms < until_ms)

    def before(self, handover: Handover) -> Iterable[bytes]:
        """Lines of the windows before a handover."""
        return map(_line, handover.before(self._computed((), handover.until_ms)))

    def _computed(self, published: Collection[WindowBounds], until_ms: int | None) -> Iterator[WindowResult]:
        return missing_windows(self._versions, self._archive, published, self._since_ms, until_ms)


def _line(result: WindowResult) -> bytes:
    """A result as a line that names the archive as its source."""
    return result.to_bytes()[:-1] + b',"source":"archive"}'
