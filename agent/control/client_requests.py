"""What clients ask of an agent over the control socket, and who is told what comes of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import msgspec
import trio

import query
from agent.configuration.config import Config
from agent.control import messages as control
from agent.control.audiences import Client, ClientSubscriptions
from agent.control.described import described_job
from agent.control.expectations import ANSWER_TIMEOUT_S, NO_ANSWER, NOT_JOINED, JobEnd, PendingReply
from agent.control.server import Connection
from agent.control.submissions import QueryService
from agent.control.surveying import surveyed
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.fleet.job_names import AmbiguousNameError, no_job
from agent.runtime.model.bundle import Signature
from agent.runtime.requests.commands import UPDATING
from agent.runtime.requests.notices import (
    Accepted,
    Acknowledged,
    Answered,
    AskRefused,
    CoreEvent,
    Ended,
    LogAnswered,
    Published,
    StopAnswered,
    StreamSurveyed,
    SubmitRefused,
    UpdateAnswered,
    UpdateRefused,
)
from overlay import parse_id

_SEAL: msgspec.msgpack.Decoder[Signature] = msgspec.msgpack.Decoder(Signature)


class _Core:
    """The agent's core for `ClientSubscriptions`."""

    def __init__(self, pump: CoreDriver, agent: Agent) -> None:
        self._pump = pump
        self._agent = agent

    def follow(self, app_id: int, after: int | None) -> None:
        self._pump.do(lambda now: self._agent.follow(app_id, after, now))

    def unfollow(self, app_id: int) -> None:
        self._pump.do(lambda now: self._agent.unfollow(app_id, now))


class ControlService:
    """Answers requests; `notice` takes what the core tells. `status` describes the agent."""

    def __init__(
        self,
        config: Config,
        pump: CoreDriver,
        agent: Agent,
        *,
        wall_ms: Callable[[], int],
        status: Callable[[], control.Status],
    ) -> None:
        self._pump = pump
        self._agent = agent
        self._wall_ms = wall_ms
        self._status = status
        self._audiences = ClientSubscriptions(_Core(pump, agent))
        self._submissions = QueryService(config.streams, config.tables, pump, agent, self._audiences, wall_ms)
        self._updates: dict[int, PendingReply] = {}
        self._stops: dict[int, list[PendingReply]] = {}
        self._numbers = itertools.count()
        self._questions: dict[int, PendingReply] = {}

    async def answer(self, request: control.Request, connection: Connection) -> None:
        """Answers one request until there is no more to say."""
        try:
            await self._answer(request, connection)
        except AmbiguousNameError as error:
            connection.send(control.Refused("usage", str(error)))

    async def _answer(self, request: control.Request, connection: Connection) -> None:
        match request:
            case control.Query():
                await self._submissions.query(request, connection)
            case control.Submit():
                await self._submissions.bundle(request, connection)
            case control.Analyse():
                connection.send(await self._submissions.analyse(request))
            case control.Follow():
                await self._follow(request, connection)
            case control.UpdateJob() | control.UpdateBundle():
                connection.send(await self._update(request))
            case control.Stop():
                connection.send(await self._stop(request))
            case control.Ask():
                connection.send(await self._ask(request))
            case control.GetLog():
                connection.send(await self._log(request))
            case control.Describe():
                connection.send(await self._submissions.describe(request.stream))
            case control.Survey():
                connection.send(await self._survey(request))
            case control.GetJobs():
                connection.send(control.Jobs([described_job(listing) for listing in self._agent.jobs()]))
            case control.GetStatus():
                connection.send(self._status())

    def notice(self, notice: CoreEvent) -> None:
        """What the core has to say, for whoever waits for it."""
        match notice:
            case Accepted():
                self._submissions.submitted(notice.app_id, notice)
                self._audiences.accepted(notice)
            case SubmitRefused():
                self._submissions.submitted(notice.app_id, notice)
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
            case Answered() | AskRefused() | LogAnswered() | StreamSurveyed():
                if (asked := self._questions.get(notice.question)) is not None:
                    asked.resolve(notice)

    # Jobs that are there.

    async def _follow(self, request: control.Follow, connection: Connection) -> None:
        app_id = self._agent.app_of(request.app)
        end = JobEnd()
        client = Client(connection, request.after, end.say)
        self._audiences.attach(app_id, client)
        try:
            await end.said.wait()
        finally:
            self._audiences.detach(app_id, client)
        connection.send(end.answer() or control.Refused("unknown", no_job(request.app)))

    async def _update(self, request: control.UpdateJob | control.UpdateBundle) -> control.Updated | control.Refused:
        update = await self._submissions.update(request)
        if isinstance(update, control.Refused):
            return update
        app_id = update.app_id
        if app_id in self._updates:
            return control.Refused("unavailable", UPDATING)
        expected = self._updates[app_id] = PendingReply()
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
                    request.app, update.text, told.version, starts, told.agents, told.expected, list(told.laggards)
                )
            case UpdateRefused(kind="unknown"):
                return control.Refused("unknown", no_job(request.app))
            case UpdateRefused(reason=reason, kind=kind):
                return control.Refused(kind, reason)
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _stop(self, request: control.Stop) -> control.Stopped | control.Refused:
        name = request.app
        app_id = self._agent.app_of(name) if request.app_id is None else parse_id(request.app_id)
        try:
            seal = None if request.seal is None else _SEAL.decode(request.seal)
        except (msgspec.DecodeError, RecursionError) as error:
            return control.Refused("usage", f"this is no creator's word: {error}")
        expected = PendingReply()
        waiting = self._stops.setdefault(app_id, [])
        waiting.append(expected)
        self._pump.do(lambda now: self._agent.stop(app_id, now, seal))
        with trio.move_on_after(ANSWER_TIMEOUT_S):
            await expected.came.wait()
        waiting.remove(expected)
        if not waiting:
            self._stops.pop(app_id, None)
        match expected.notice:
            case StopAnswered(found=True, refusal=None):
                return control.Stopped(name)
            case StopAnswered(found=True, refusal=refusal):
                return control.Refused("owned", f"{name} is not stopped: {refusal}")
            case StopAnswered():
                return control.Refused("unknown", no_job(name))
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _log(self, request: control.GetLog) -> control.Log | control.Refused:
        app_id = self._agent.app_of(request.app)
        match await self._asked(lambda number, now: self._agent.ask_log(number, app_id, request.lines, now)):
            case LogAnswered(name=name, lines=lines, dropped=dropped):
                told = [
                    control.LogLine(query.format_timestamp(line.at_ms) or str(line.at_ms), line.agent, line.text)
                    for line in lines
                ]
                return control.Log(name, told, dropped)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _asked(self, ask: Callable[[int, float], None]) -> CoreEvent | None:
        """What the fleet answers to a question that is asked under a number of its own; None if it does not."""
        question = next(self._numbers)
        expected = self._questions[question] = PendingReply()
        try:
            self._pump.do(lambda now: ask(question, now))
            with trio.move_on_after(ANSWER_TIMEOUT_S):
                await expected.came.wait()
        finally:
            del self._questions[question]
        return expected.notice

    async def _survey(self, request: control.Survey) -> control.Surveyed | control.Refused:
        if not self._pump.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        match await self._asked(lambda number, now: self._agent.surveys.ask(number, request.stream, now)):
            case StreamSurveyed() as found:
                return surveyed(request.stream, found)
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _ask(self, request: control.Ask) -> control.Answered | control.Refused:
        if not self._pump.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        app_id = self._agent.app_of(request.app)
        match await self._asked(lambda number, now: self._agent.ask(number, app_id, request.windows, now)):
            case Answered(name=name, text=text, columns=columns, results=results):
                windows = [control.Window(pane, msgspec.Raw(json)) for pane, json in results]
                return control.Answered(name, text, list(columns), windows)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_ANSWER)
