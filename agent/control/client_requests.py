"""What clients ask of an agent over the control socket, and who is told what comes of it."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import trio

import query
from agent.configuration.config import StreamConfig
from agent.control import messages as control
from agent.control.audiences import Audiences, Client
from agent.control.described import described_job
from agent.control.server import Connection
from agent.daemon.pump import Pump
from agent.feeding.stream_schema import stream_schema
from agent.runtime.agent import Agent
from agent.runtime.app_names import NO_JOB
from agent.runtime.messages import Submit, Update
from agent.runtime.notices import (
    Accepted,
    Acknowledged,
    Answered,
    AskRefused,
    Ended,
    Notice,
    Published,
    StopAnswered,
    SubmitRefused,
    UpdateAnswered,
    UpdateRefused,
)
from agent.runtime.requests import UPDATING
from overlay import app_id as id_of_app

CREATOR = b""
"""Jobs have no owners yet: whoever may use the socket may stop any of them."""
ANSWER_TIMEOUT_S = 10.0
NOT_JOINED = "this agent has not joined its fleet yet: try again when its log says ready"
NO_ANSWER = "the fleet did not answer in time: is this agent cut off?"
EVERYTHING = -(2**63)
"""Before every pane: a job's creator gets all of its windows."""


@dataclass(eq=False, slots=True)
class _Expected:
    """An answer of the fleet that somebody waits for. `is_abandoned`: nobody any more."""

    came: trio.Event = field(default_factory=trio.Event)
    notice: Notice | None = None
    is_abandoned: bool = False

    def resolve(self, notice: Notice) -> None:
        self.notice = notice
        self.came.set()


class _End:
    """Why a job ended, once it has."""

    def __init__(self) -> None:
        self.said = trio.Event()
        self.notice: Ended | None = None

    def say(self, notice: Ended) -> None:
        self.notice = notice
        self.said.set()

    def answer(self) -> control.Ended | None:
        """What clients are told; None if there was no such job."""
        if self.notice is None:
            return control.Ended("lost")
        reason = self.notice.reason
        return None if reason == "unknown" else control.Ended(reason, self.notice.failure)


class _Core:
    """The agent's core for `Audiences`."""

    def __init__(self, pump: Pump, agent: Agent) -> None:
        self._pump = pump
        self._agent = agent

    def follow(self, app_id: int, after: int | None) -> None:
        self._pump.do(lambda now: self._agent.follow(app_id, after, now))

    def unfollow(self, app_id: int) -> None:
        self._pump.do(lambda now: self._agent.unfollow(app_id, now))


class ClientRequests:
    """Answers requests; `notice` takes what the core tells. `status` describes the agent."""

    def __init__(
        self,
        streams: tuple[StreamConfig, ...],
        pump: Pump,
        agent: Agent,
        *,
        wall_ms: Callable[[], int],
        status: Callable[[], control.Status],
    ) -> None:
        self._streams = streams
        self._pump = pump
        self._agent = agent
        self._wall_ms = wall_ms
        self._status = status
        self._audiences = Audiences(_Core(pump, agent))
        self._submissions: dict[int, _Expected] = {}
        self._updates: dict[int, _Expected] = {}
        self._stops: dict[int, list[_Expected]] = {}
        self._numbers = itertools.count()
        self._questions: dict[int, _Expected] = {}

    async def answer(self, request: control.Request, connection: Connection) -> None:
        """Answers one request until there is no more to say."""
        match request:
            case control.Query():
                await self._query(request, connection)
            case control.Follow():
                await self._follow(request, connection)
            case control.UpdateJob():
                connection.send(await self._update(request))
            case control.Stop():
                await self._stop(request.app, connection)
            case control.Ask():
                connection.send(await self._ask(request))
            case control.GetJobs():
                connection.send(control.Jobs([described_job(listing) for listing in self._agent.jobs()]))
            case control.GetStatus():
                connection.send(self._status())

    def notice(self, notice: Notice) -> None:
        """What the core has to say, for whoever waits for it."""
        match notice:
            case Accepted():
                self._submitted(notice.app_id, notice)
                self._audiences.accepted(notice)
            case SubmitRefused():
                self._submitted(notice.app_id, notice)
            case Acknowledged():
                self._audiences.acknowledged(notice)
            case Published():
                self._audiences.published(notice)
            case Ended():
                self._audiences.ended(notice)
            case UpdateAnswered() | UpdateRefused():
                if (updated := self._updates.get(notice.app_id)) is not None:
                    updated.resolve(notice)
            case StopAnswered():
                for expected in self._stops.get(notice.app_id, ()):
                    expected.resolve(notice)
            case Answered() | AskRefused():
                if (asked := self._questions.get(notice.question)) is not None:
                    asked.resolve(notice)

    # A new job.

    async def _query(self, request: control.Query, connection: Connection) -> None:
        job = await self._job(request, connection)
        if job is None:
            return
        end = _End()
        client = Client(connection, None, end.say)
        try:
            refusal = await self._submit(job, client)
            if refusal is not None:
                connection.send(refusal)
                return
            await self._until_ended(job, end, connection, detach=request.detach)
        finally:
            self._audiences.detach(job.app_id, client)
        connection.send(end.answer() or control.Ended("lost"))

    async def _until_ended(self, job: Submit, end: _End, connection: Connection, *, detach: bool) -> None:
        """Waits for the job's end, or brings it about when the client it belongs to has gone."""
        try:
            await end.said.wait()
        except trio.Cancelled:
            if connection.client_gone and not detach:
                self._pump.do(lambda now: self._agent.stop(job.app_id, now))
            raise

    async def _job(self, request: control.Query, connection: Connection) -> Submit | None:
        """The job a query asks for; None, and the client told why, if there can be none."""
        name = request.app or f"query-{secrets.token_hex(4)}"
        analysed = await self._analysed(request)
        if isinstance(analysed, control.Refused):
            connection.send(analysed)
            return None
        parsed, plan = analysed
        return Submit(
            id_of_app(name, CREATOR),
            name,
            plan.stream,
            plan.to_wire(),
            text=query.format_query(parsed),
            bounded=request.once or plan.window_ms is None,
            attached=not request.detach,
            submitted_ms=self._wall_ms(),
        )

    async def _analysed(
        self, request: control.Query | control.UpdateJob
    ) -> tuple[query.Query, query.Plan] | control.Refused:
        if not self._pump.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        try:
            return await trio.to_thread.run_sync(self._analyse, request, abandon_on_cancel=True)
        except query.QueryError as error:
            return control.Refused("usage", str(error))

    def _analyse(self, request: control.Query | control.UpdateJob) -> tuple[query.Query, query.Plan]:
        """In a thread, since it looks into files. A stream that this agent does not have may be elsewhere."""
        parsed = query.parse(request.text)
        catalog = {
            stream.name: stream_schema(stream.paths, stream.format, stream.time_field) for stream in self._streams
        }
        named = parsed.source.name if isinstance(parsed.source, query.Stream) else None
        if named is not None and named not in catalog and (named != "*" or not catalog):
            catalog[named] = query.Schema({}, open=True)
        plan = query.analyze(parsed, catalog, max_groups=request.max_groups, beyond_groups=request.beyond_groups)
        return parsed, plan

    async def _submit(self, job: Submit, client: Client) -> control.Refused | None:
        """Starts the job and lets the client follow it; why that failed, if it did."""
        app_id = job.app_id
        if app_id in self._submissions:
            return control.Refused("unavailable", f"a job {job.name} is being started at this moment")
        expected = self._submissions[app_id] = _Expected()
        self._pump.do(lambda now: self._agent.submit(job, now, self._wall_ms()))
        # Following at once saves a round; but where others follow a job of that name, this one is not it. A master
        # that lives here has answered by now, to nobody yet.
        follows = app_id not in self._audiences and expected.notice is None
        if follows:
            self._audiences.attach(app_id, client)
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await expected.came.wait()
        finally:
            # Should it be accepted after all, nobody would end it.
            expected.is_abandoned = expected.notice is None
        match expected.notice:
            case SubmitRefused(reason=reason, unavailable=unavailable):
                return control.Refused("unavailable" if unavailable else "usage", reason)
            case None:
                return control.Refused("unavailable", NO_ANSWER)
        if not follows:
            client.after = EVERYTHING
            self._audiences.attach(app_id, client)
        return None

    def _submitted(self, app_id: int, notice: Accepted | SubmitRefused) -> None:
        expected = self._submissions.pop(app_id, None)
        if expected is None:
            return
        expected.resolve(notice)
        if expected.is_abandoned and isinstance(notice, Accepted):
            self._pump.do(lambda now: self._agent.stop(app_id, now))

    # Jobs that are there.

    async def _follow(self, request: control.Follow, connection: Connection) -> None:
        app_id = id_of_app(request.app, CREATOR)
        end = _End()
        client = Client(connection, request.after, end.say)
        self._audiences.attach(app_id, client)
        try:
            await end.said.wait()
        finally:
            self._audiences.detach(app_id, client)
        connection.send(end.answer() or control.Refused("unknown", _no_job(request.app)))

    async def _update(self, request: control.UpdateJob) -> control.Updated | control.Refused:
        analysed = await self._analysed(request)
        if isinstance(analysed, control.Refused):
            return analysed
        parsed, plan = analysed
        app_id, text = id_of_app(request.app, CREATOR), query.format_query(parsed)
        if app_id in self._updates:
            return control.Refused("unavailable", UPDATING)
        expected = self._updates[app_id] = _Expected()
        update = Update(app_id, plan.to_wire(), text, request.reset, 0)
        try:
            self._pump.do(lambda now: self._agent.update(update, now, self._wall_ms()))
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await expected.came.wait()
        finally:
            del self._updates[app_id]
        match expected.notice:
            case UpdateAnswered() as told:
                starts = query.format_timestamp(told.starts) or str(told.starts)
                return control.Updated(
                    request.app, text, told.version, starts, told.agents, told.expected, list(told.laggards)
                )
            case UpdateRefused(kind="unknown"):
                return control.Refused("unknown", _no_job(request.app))
            case UpdateRefused(reason=reason, kind=kind):
                return control.Refused(kind, reason)
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _stop(self, name: str, connection: Connection) -> None:
        app_id = id_of_app(name, CREATOR)
        expected = _Expected()
        waiting = self._stops.setdefault(app_id, [])
        waiting.append(expected)
        self._pump.do(lambda now: self._agent.stop(app_id, now))
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            await expected.came.wait()
        waiting.remove(expected)
        if not waiting:
            self._stops.pop(app_id, None)
        match expected.notice:
            case StopAnswered(found=True):
                connection.send(control.Stopped(name))
            case StopAnswered():
                connection.send(control.Refused("unknown", _no_job(name)))
            case _:
                connection.send(control.Refused("unavailable", NO_ANSWER))

    async def _ask(self, request: control.Ask) -> control.Answered | control.Refused:
        if not self._pump.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        app_id, question = id_of_app(request.app, CREATOR), next(self._numbers)
        expected = self._questions[question] = _Expected()
        try:
            self._pump.do(lambda now: self._agent.ask(question, app_id, request.windows, now))
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await expected.came.wait()
        finally:
            del self._questions[question]
        match expected.notice:
            case Answered(name=name, text=text, columns=columns, results=results):
                windows = [control.Window(pane, msgspec.Raw(json)) for pane, json in results]
                return control.Answered(name, text, list(columns), windows)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", _no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_ANSWER)


def _no_job(name: str) -> str:
    return NO_JOB.format(name=name)
