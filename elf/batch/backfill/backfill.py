"""One backfill on Spark: a job, the archives, the times; lines of results come out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import query
from elf.batch.backfill.missing_windows import missed, versions_of
from elf.batch.reconcile.recomputation import SparkArchive
from elf.batch.table.table import ArchiveTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from agent import Result
    from elf.batch.backfill.handover import Handover
    from elf.batch.reconcile.live_results import VersionLine


class Backfill:
    """The windows of `app` from one time on and before another (epoch ms). Raises ElfError for what is no archive."""

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
        """Whether the archive knows what the job computes."""
        return bool(self._versions)

    def describe(self, text: str) -> None:
        """What the job computes, as the fleet says it. Raises UsageError where the archive has not what that needs."""
        self._versions = [self._archive.version_of(self.app, text)]

    def look(self, text: str) -> None:
        """Looks at the archive again, which may know by now what the job computes; else `text` says it."""
        self._archive = self._open()
        if not self.is_described and self._archive.has_streams(text):
            self.describe(text)

    @property
    def columns(self) -> list[str]:
        """Those of the newest version's rows."""
        return query.output_names(query.Plan.from_wire(self._versions[-1].plan))

    @property
    def agents(self) -> int:
        """How many have events for it in the archive."""
        return len(self._archive.agents(self._versions[-1])) if self._versions else 0

    def missed(self) -> Iterator[bytes]:
        """The lines of windows that are not published."""
        published = {(one.window_start, one.window_end) for one in self._job.results}
        return map(_line, missed(self._versions, self._archive, published, self._since_ms, self._until_ms))

    def lacking(self, until_ms: int) -> Sequence[str]:
        """The agents of whose stream the archive has nothing from that time on yet."""
        if not self._versions:
            return []
        spans = self._archive.spans(query.Plan.from_wire(self._versions[-1].plan).stream)
        return sorted(name for name, span in spans.items() if span.to_ms < until_ms)

    def before(self, handover: Handover) -> Iterable[bytes]:
        """The lines of the windows before a handover."""
        return map(_line, handover.before(missed(self._versions, self._archive, (), self._since_ms, handover.until_ms)))


def _line(result: Result) -> bytes:
    """A result that says where it comes from."""
    return result.to_bytes()[:-1] + b',"source":"archive"}'
