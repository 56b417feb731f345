"""The latest results of other jobs that this agent's jobs join with: asked for again whenever there may be a newer one.

A master announces how far its job is out; each agent that looks things up in it then asks for the last window, by the
same request as `elf ask`, after a moment of its own, so that not all ask at once. So agents may differ by a window. The
last result of a job that is over stays in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.fleet.job_names import app_named
from agent.runtime.function.join import JoinTable
from agent.runtime.function.upstream_rows import RESULT_BYTES_MAX, ResultError
from agent.runtime.ingest.pipeline import Pipeline
from agent.runtime.job.local_job import LocalJob
from agent.runtime.messages.jobs import Ask
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.panes import END
from agent.runtime.requests.asks import PendingRequests
from agent.runtime.requests.notices import Answered, AskRefused, CoreEvent
from agent.runtime.upstream.tables import FileTables
from overlay import Id, Responded

SPREAD_S = 0.5
"""The agents that look up in one job ask within so much time."""
AGAIN_S = 2.0
"""After a question without an answer."""
PATIENCE_S = 10.0
"""A job whose look-ups have no answer for so long goes on without."""
STALE_S = 15.0
"""What is older than the latest result by so much is not the latest any more."""


_Progress = tuple[JobEpoch | None, int]
"""How far a job is out; without an epoch, it is over."""


@dataclass(slots=True)
class _CachedResult:
    """Of one job. `asked` is how far it was out when it was asked last; `revision` counts the answers.

    `behind_since`: since when there may be a newer result than this one; None: it is the newest.
    """

    wanted_since: float
    app_id: Id | None = None
    asked: _Progress | None = None
    asking: _Progress | None = None
    ask_at: float = 0.0
    behind_since: float | None = None
    question: int | None = None
    json: bytes | None = None
    revision: int = 0


class JoinCache:
    """Of one agent, which has these `tables`. `node_id` gives it its moment; `warn` is told when a job cannot be joined
    any more, and why.
    """

    def __init__(
        self,
        node_id: int,
        post: MessageSender,
        announcements: JobDirectory,
        tables: FileTables,
        warn: Callable[[str, str], None],
    ) -> None:
        self._node_id = node_id
        self._announcements = announcements
        self._tables_here = tables
        self._warn = warn
        self._notices: list[CoreEvent] = []
        self._questions = PendingRequests(post, announcements, self._notices)
        self._tables: dict[str, _CachedResult] = {}
        self._lookups: dict[JoinTable, str] = {}
        self._numbers = 0

    @property
    def refused(self) -> int:
        return self._questions.refused

    def tick(self, parts: Iterable[LocalJob], now: float) -> None:
        """Asks what is to be asked for the workers of these, and gives them what has come."""
        pipelines = [part.pipeline for part in parts if part.reads_rows and isinstance(part.pipeline, Pipeline)]
        functions = [function for pipeline in pipelines for function in pipeline.functions()]
        every = [function.lookup for function in functions if function.lookup is not None]
        self._tables_here.give(every)
        self._lookups = {lookup: lookup.app for lookup in every if lookup.app is not None}
        wanted = set(self._lookups.values())
        self._tables = {name: table for name, table in self._tables.items() if name in wanted}
        for name in wanted:
            self._look_after(name, now)
        self._questions.tick(now)
        self._take(now)

    def responded(self, event: Responded, now: float) -> None:
        """An answer may be to a question of this."""
        self._questions.responded(event, now)
        self._take(now)

    def failed(self, ticket: int, now: float) -> None:
        """So may be a question that nobody has answered."""
        self._questions.failed(ticket)
        self._take(now)

    def _look_after(self, name: str, now: float) -> None:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _CachedResult(now)
        table.app_id = app_named(name, self._announcements.all()) or table.app_id
        if table.app_id is None or table.question is not None:
            return
        announce = self._announcements.get(table.app_id)
        news = (None, END) if announce is None else (announce.epoch, announce.frontier)
        if news == table.asked:
            return
        if table.behind_since is None:
            table.behind_since, table.ask_at = now, now + self._moment(table.app_id)
        if now >= table.ask_at:
            self._numbers += 1
            table.question, table.asking = self._numbers, news
            self._questions.ask(table.question, Ask(table.app_id, 1, RESULT_BYTES_MAX), now)

    def _moment(self, app_id: Id) -> float:
        return SPREAD_S * (hash((self._node_id, app_id)) % 1000) / 1000

    def _take(self, now: float) -> None:
        notices = list(self._notices)
        self._notices.clear()
        for notice in notices:
            if not isinstance(notice, Answered | AskRefused):
                continue
            table = next((one for one in self._tables.values() if one.question == notice.question), None)
            if table is None:
                continue
            table.question = None
            if isinstance(notice, AskRefused) and notice.unavailable:
                table.ask_at = now + AGAIN_S
                continue
            table.asked, table.behind_since = table.asking, None
            if isinstance(notice, Answered):
                table.json = notice.results[-1][1] if notice.results else None
                table.revision += 1
        for lookup, app in self._lookups.items():
            if app in self._tables:
                self._give(lookup, app, self._tables[app], now)

    def _give(self, lookup: JoinTable, app: str, table: _CachedResult, now: float) -> None:
        if lookup.revision < table.revision:
            lookup.revision = table.revision
            lookup.is_settled, was_refused = True, lookup.is_refused
            try:
                lookup.hold(table.json)
            except ResultError as error:
                if not was_refused:
                    self._warn(app, str(error))
        lookup.is_settled |= now - table.wanted_since > PATIENCE_S
        lookup.lacks |= table.behind_since is not None and now - table.behind_since > STALE_S
