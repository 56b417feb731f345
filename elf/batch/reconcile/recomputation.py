"""Computes windows of a job again from the archive, and reads the job's published results from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

import query
from agent.archive.format.segments import LINE, PARSED
from agent.archive.format.streams import RESULTS
from agent.daemon.result_files import FILE_AGE_MS
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.reconcile.live_results import LiveJob, LiveResult, VersionLine, read_log
from elf.batch.reconcile.reconciliation import Windows
from elf.batch.reconcile.verdicts import NOTHING, ArchivedSpan
from elf.batch.table.layout import column
from elf.batch.table.table import Range
from elf.errors import UsageError

if TYPE_CHECKING:
    from agent import WindowResult
    from elf.batch.table.table import ArchiveTable

SKEW_MS = 10 * 60 * 1000
"""Upper bound on the difference between agents' clocks and event times."""
_DECODER = msgspec.json.Decoder(LiveResult)


class SparkArchive:
    """An archive table as `reconcile` and `backfill` use it."""

    def __init__(self, table: ArchiveTable) -> None:
        self._table = table

    def live_job(self, app: str, since_ms: int | None, until_ms: int | None) -> LiveJob:
        """A job's published windows between two times. A line that describes a result is at most a day older than the
        result.
        """
        earliest = None if since_ms is None else since_ms - FILE_AGE_MS - SKEW_MS
        wanted = Range(frozenset([RESULTS]), earliest)
        if not self._table.segments(wanted):
            return LiveJob(())
        columns = self._table.columns([RESULTS])
        name = f"{PARSED}app" if "app" in columns else LINE
        rows = self._table.scan(wanted, list(dict.fromkeys([LINE, name])))
        if name != LINE:  # rosters belong to no single job
            names = [app, app.rpartition("@")[0] or app]
            rows = rows.where(column(name).isNull() | column(name).isin(names))
        lines = rows.select(column(LINE)).toArrow().column(0)
        return read_log((bytes(line.as_py()) for line in lines), app).between(since_ms, until_ms)

    def agents(self, version: VersionLine) -> frozenset[str]:
        """Agents with events for a version."""
        return frozenset(self.spans(query.Plan.from_wire(version.plan).streams_read))

    def spans(self, stream: str) -> Mapping[str, ArchivedSpan]:
        """The agents that archive a stream, and the time range of their archived events, which may be empty."""
        found: dict[str, ArchivedSpan] = {}
        for store in self._table.stores:
            chosen = [one for name, one in store.state.positions.items() if query.selects(stream, name)]
            if chosen:
                found[store.info.agent] = NOTHING._replace(lost=sum(one.dropped_rows for one in chosen))
        for one in self._table.segments():
            segment = one.segment
            if query.selects(stream, segment.stream):
                known = found.get(segment.agent, NOTHING)
                from_ms, to_ms = min(known.from_ms, segment.from_ms), max(known.to_ms, segment.to_ms)
                found[segment.agent] = ArchivedSpan(from_ms, to_ms, known.lost)
        return found

    def windows(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Windows:
        """The final windows of a version over the events of these agents, from `since_ms` on and before `until_ms`."""
        found = (_DECODER.decode(one.to_bytes()) for one in self.results(version, agents, since_ms, until_ms))
        return {one.window: one for one in found if one.final}

    def results(
        self, version: VersionLine, agents: frozenset[str], since_ms: int | None, until_ms: int | None
    ) -> Iterator[WindowResult]:
        """The results of a version, whose contributors are the agents that have an archive."""
        stores = [store for store in self._table.stores if store.info.agent in agents]
        if stores:
            plan = query.Plan.from_wire(version.plan)
            run = BatchRun(plan, replace(self._table, stores=stores), BatchOptions(since_ms, until_ms))
            for result in run.results():
                yield msgspec.structs.replace(result, app=version.app, version=version.version)

    def has_streams(self, text: str) -> bool:
        """Whether the archive has any stream that a query reads. Raises UsageError for a text that is no query."""
        wanted = query.streams_read(_parsed(text))
        return any(query.selects(one, stream) for one in wanted for stream in self._table.streams())

    def version_of(self, app: str, text: str) -> VersionLine:
        """A query as the only version of a job. Raises UsageError for a query that is invalid or cannot run on an
        archive.
        """
        try:
            plan = BatchRun(text, self._table, BatchOptions()).plan
        except query.QueryError as error:
            raise UsageError(str(error)) from error
        return VersionLine(
            app=app, app_id="", born_ms=0, creator="", version=1, after=-(2**63), starts=-(2**63), text=text,
            plan=plan.to_wire(), grace_ms=0,
        )  # fmt: skip


def _parsed(text: str) -> query.Query:
    try:
        return query.parse(text)
    except query.QueryError as error:
        raise UsageError(str(error)) from error
