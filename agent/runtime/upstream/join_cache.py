"""Caches the latest results of other jobs that this agent's jobs join with, and asks for newer ones.

A master announces the frontier of its job; each agent that joins with the job then asks for its last window, by the
same request as `elf ask`, after a delay of its own that spreads the requests. So agents may differ by a window. The
last result of a job that is over stays in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named
from agent.runtime.function.join import JoinTable
from agent.runtime.function.upstream_rows import RESULT_BYTES_MAX, ResultError
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.messages.jobs import Answer, Ask
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import END
from agent.runtime.requests.asks import JobQuestions
from agent.runtime.requests.events import AskRefused, AskReply
from agent.runtime.requests.pending import PendingRequests
from agent.runtime.upstream.tables import FileTables
from overlay import Id

SPREAD_S = 0.5
"""Time over which the agents that join with one job spread their questions."""
RETRY_S = 2.0
"""Delay before an unanswered question is repeated."""
TIMEOUT_S = 10.0
"""Time without an answer after which a job goes on without the rows to join with."""
STALE_S = 15.0
"""Age at which a result that may not be the latest makes panes partial."""


_Progress = tuple[JobEpoch | None, int]
"""The pane up to which a job has published, and its epoch; None: it is over."""


@dataclass(eq=False, slots=True)
class _CachedResult:
    """The last result of one job. `asked`: the job's progress when the result was requested; `revision` counts answers.

    `behind_since`: the time since when there may be a newer result; None: this is the newest.
    """

    wanted_since: float
    app_id: Id | None = None
    asked: _Progress | None = None
    ask_at: float | None = None
    behind_since: float | None = None
    is_asking: bool = False
    json: bytes | None = None
    revision: int = 0


class JoinCache:
    """The cached results of one agent, which also has the `tables`. `node_id` determines its delay; `warn` is called
    with the name of a job that can no longer be joined with, and the reason.
    """

    name = "joins"

    def __init__(
        self,
        node_id: int,
        directory: JobDirectory,
        jobs: LocalJobs,
        pending: PendingRequests,
        tables: FileTables,
        warn: Callable[[str, str], None],
        containment: JobContainment,
    ) -> None:
        self._containment = containment
        self._node_id = node_id
        self._directory = directory
        self._jobs = jobs
        self._file_tables = tables
        self._warn = warn
        self._questions = JobQuestions(pending, directory)
        self._cached: dict[str, _CachedResult] = {}
        self._joined: dict[JoinTable, str] = {}
        self._owners: dict[JoinTable, Id] = {}
        """The job that joins with each table."""

    def tick(self, now: float) -> None:
        """Asks for the results that jobs join with, and gives them the results that have arrived."""
        pipelines = {job.app_id: job.pipeline for job in self._jobs if job.reads_rows}
        self._joined, self._owners = {}, {}
        for app_id, pipeline in pipelines.items():
            functions = pipeline.functions() if isinstance(pipeline, Pipeline) else ()
            tables = [function.lookup for function in functions if function.lookup is not None]
            with self._containment.around(app_id, now):
                self._file_tables.update(tables)
                self._joined |= {table: table.app for table in tables if table.app is not None}
                self._owners |= dict.fromkeys(tables, app_id)
        wanted = set(self._joined.values())
        self._cached = {name: cached for name, cached in self._cached.items() if name in wanted}
        for name in wanted:
            self._refresh(name, now)
        self._questions.tick(now)
        self._update_all(now)

    def _refresh(self, name: str, now: float) -> None:
        cached = self._cached.setdefault(name, _CachedResult(now))
        cached.app_id = app_id = app_named(name, self._directory.all()) or cached.app_id
        if app_id is None or cached.is_asking:
            return
        announce = self._directory.get(app_id)
        progress = (None, END) if announce is None else (announce.epoch, announce.frontier)
        if progress == cached.asked:
            return
        if cached.behind_since is None:
            cached.behind_since, cached.ask_at = now, now + self._delay(app_id)
        if cached.ask_at is None:
            cached.ask_at = now + RETRY_S
        if now >= cached.ask_at:
            cached.is_asking = True
            self._questions.ask(Ask(app_id, 1, RESULT_BYTES_MAX), partial(self._answered, name, progress), now)

    def _delay(self, app_id: Id) -> float:
        return SPREAD_S * (hash((self._node_id, app_id)) % 1000) / 1000

    def _answered(self, name: str, progress: _Progress, reply: AskReply) -> None:
        """Keeps an answer, or asks again later if there is none for now."""
        cached = self._cached.get(name)
        if cached is None:
            return
        cached.is_asking = False
        if isinstance(reply, AskRefused) and reply.unavailable:
            cached.ask_at = None
            return
        cached.asked, cached.behind_since = progress, None
        if isinstance(reply, Answer):
            cached.json = reply.results[-1][1] if reply.results else None
            cached.revision += 1
            for table, app in self._joined.items():
                if app == name:
                    self._update(table, app, cached)

    def _update(self, table: JoinTable, app: str, cached: _CachedResult) -> None:
        if table.revision >= cached.revision:
            return
        table.revision = cached.revision
        table.is_settled, was_refused = True, table.is_refused
        try:
            table.hold(cached.json)
        except ResultError as error:
            if not was_refused:
                self._warn(app, str(error))

    def _update_all(self, now: float) -> None:
        for table, app in self._joined.items():
            cached = self._cached[app]
            with self._containment.around(self._owners[table], now):
                self._update(table, app, cached)
            table.is_settled |= now - cached.wanted_since > TIMEOUT_S
            table.lacks |= cached.behind_since is not None and now - cached.behind_since > STALE_S

    def statistics(self) -> Mapping[str, int]:
        return {**self._questions.statistics(), "cached": len(self._cached)}
