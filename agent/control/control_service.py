"""Serves the requests of clients over the control socket."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import trio

import query
from agent import log
from agent.access.decision import Access
from agent.access.rules import Principal
from agent.control import messages as control
from agent.control.client_rights import ClientRights
from agent.control.client_subscriptions import Client, ClientSubscriptions
from agent.control.departure import Departure
from agent.control.latency.admission import LatencyAdmission
from agent.control.latency.dry_runs import DryRunQuestions
from agent.control.observation.element_view import asked_elements, described_elements
from agent.control.observation.fleet_tap import FleetTap
from agent.control.observation.fleet_view import described_fleet, described_placement, described_tree
from agent.control.observation.latency_view import described_latency
from agent.control.observation.stream_sampler import surveyed
from agent.control.observation.stream_tap import tap
from agent.control.pending_replies import NO_ANSWER, NOT_JOINED, JobEnd, PendingReply
from agent.control.query_service import QueryService
from agent.control.reload.config_reload import ConfigReload
from agent.control.server import Connection
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.fleet.job_names import AmbiguousNameError, no_job
from agent.runtime.keyed.intake.emissions import Taken, channel_of
from agent.runtime.messages.client_events import JobEvent
from agent.runtime.messages.jobs import Answer, Ask, StopAnswer, Updated
from agent.runtime.messages.programs import Log, LogRequest
from agent.runtime.messages.views.latency import LatencyRequest, LatencyView
from agent.runtime.messages.views.placement import PlacementView, PlaceRequest
from agent.runtime.model.bundle import Signature
from agent.runtime.requests.commands import UPDATING
from agent.runtime.requests.events import (
    AgentsDescribed,
    AskRefused,
    AskReply,
    ElementsDescribed,
    JobQuestion,
    StopReply,
    StreamSurveyed,
    UpdateRefused,
    UpdateReply,
)
from overlay import Id, parse_id

NO_LATENCY = f"{NO_ANSWER} (a master of the release before does not measure its results)"
NO_PLACEMENT = f"{NO_ANSWER} (a master of the release before cannot tell, nor move key groups)"
DRAIN_SHOWN_S = 0.2
"""Interval at which a client hears how far the agent's departure has come."""
_SIGNATURE: msgspec.msgpack.Decoder[Signature] = msgspec.msgpack.Decoder(Signature)


class _CoreFollowing:
    """The agent's core for `ClientSubscriptions`."""

    def __init__(self, driver: CoreDriver, agent: Agent) -> None:
        self._driver = driver
        self._agent = agent

    def follow(self, app_id: int, after: int | None, sink: Callable[[JobEvent], None]) -> None:
        self._driver.do(lambda now: self._agent.following.follow(Id(app_id), after, sink, now))

    def unfollow(self, app_id: int, sink: Callable[[JobEvent], None]) -> None:
        self._driver.do(lambda now: self._agent.following.unfollow(Id(app_id), sink, now))


class ControlService:
    """Answers requests, as far as their clients have the right to them. `status` describes the agent."""

    def __init__(
        self,
        config: ConfigReload,
        driver: CoreDriver,
        agent: Agent,
        access: Access,
        *,
        wall_ms: Callable[[], int],
        status: Callable[[], control.Status],
        departure: Departure,
    ) -> None:
        self._config = config
        self._driver = driver
        self._agent = agent
        self._wall_ms = wall_ms
        self._status = status
        self._departure = departure
        self._subscriptions = ClientSubscriptions(_CoreFollowing(driver, agent))
        self._rights = ClientRights(access, agent.directory)
        dry_runs = DryRunQuestions(driver, agent)
        admission = LatencyAdmission(self._asked, agent.directory, self._rights, dry_runs)
        self._submissions = QueryService(
            lambda: config.config, driver, agent, self._subscriptions, self._rights, admission, dry_runs, wall_ms,
        )  # fmt: skip
        self._updates: set[int] = set()

    async def answer(self, request: control.Request, connection: Connection) -> None:
        """Answers one request, with as many answers as it has. Raises MissingRightError."""
        try:
            self._rights.check_request(connection.principal, request)
            await self._answer(request, connection)
        except AmbiguousNameError as error:
            connection.send(control.Refused("usage", str(error)))

    async def _answer(self, request: control.Request, connection: Connection) -> None:
        match request:
            case control.QueryRequest():
                await self._submissions.query(request, connection)
            case control.SubmitRequest():
                await self._submissions.bundle(request, connection)
            case control.AnalyseRequest():
                connection.send(await self._submissions.analyse(request, connection.principal))
            case control.RunDry():
                connection.send(await self._submissions.run_dry(request, connection.principal))
            case control.FollowRequest():
                await self._follow(request, connection)
            case control.UpdateJob() | control.UpdateBundle():
                connection.send(await self._update(request, connection.principal))
            case control.StopRequest():
                connection.send(await self._stop(request, connection.principal))
            case control.AskRequest():
                connection.send(await self._ask(request))
            case control.GetLog():
                connection.send(await self._log(request))
            case control.DescribeRequest():
                connection.send(await self._submissions.describe(request.stream))
            case control.SurveyRequest():
                connection.send(await self._survey(request))
            case control.GetJobs():
                connection.send(control.Jobs(self._rights.described_jobs(connection.principal)))
            case control.DrainRequest():
                await self._drain(request, connection)
            case control.ReloadRequest():
                connection.send(await self._config.reload("a client"))
            case control.GetStatus():
                connection.send(self._status())
            case control.GetRights():
                connection.send(self._rights.described(connection.principal))
            case control.GetFleet():
                connection.send(await self._fleet())
            case control.GetTree():
                connection.send(await self._tree(request))
            case control.GetElements():
                connection.send(await self._elements(request, connection.principal))
            case control.PlaceGroups():
                connection.send(await self._place(request, connection.principal))
            case control.GetLatency():
                connection.send(await self._latency(request))
            case control.EmitRequest():
                connection.send(await self._emit(request, connection.principal))
            case control.TapRequest(everywhere=True):
                connection.send(await FleetTap(self._driver, self._agent, request).run(connection))
            case control.TapRequest():
                connection.send(await tap(self._config.config.streams, request, connection, self._wall_ms))

    async def _drain(self, request: control.DrainRequest, connection: Connection) -> None:
        """Lets the agent leave, says how far that has come, and then how it went."""
        departure = self._departure
        log.info("leaving", asked_by=connection.principal.name, patience_s=request.patience_s)
        departure.begin(request.patience_s)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._show_departure, connection)
            is_whole = await departure.over()
            nursery.cancel_scope.cancel()
        connection.send(control.Drained(is_whole))
        await connection.written()
        departure.told()

    async def _show_departure(self, connection: Connection) -> None:
        shown: control.Draining | None = None
        while True:
            left = self._departure.remainder
            if (now := control.Draining(left.masters, left.jobs)) != shown:
                connection.send(now)
                shown = now
            await trio.sleep(DRAIN_SHOWN_S)

    async def _follow(self, request: control.FollowRequest, connection: Connection) -> None:
        app_id = self._agent.directory.app_of(request.app)
        end = JobEnd()
        client = Client(connection, request.after, end.set)
        self._subscriptions.attach(app_id, client)
        try:
            await end.has_come.wait()
        finally:
            self._subscriptions.detach(app_id, client)
        connection.send(end.answer() or control.Refused("unknown", no_job(request.app)))

    async def _update(
        self, request: control.UpdateJob | control.UpdateBundle, who: Principal
    ) -> control.JobUpdated | control.Refused:
        asked = await self._submissions.update(request, who)
        if isinstance(asked, control.Refused):
            return asked
        update, warning = asked
        app_id = update.app_id
        if app_id in self._updates:
            return control.Refused("unavailable", UPDATING)
        pending: PendingReply[UpdateReply] = PendingReply()
        self._updates.add(app_id)
        try:
            driver, commands = self._driver, self._agent.commands
            driver.do(lambda now: commands.update(update, pending.resolve, now, driver.wall_at(now)))
            reply = await pending.wait()
        finally:
            self._updates.remove(app_id)
        match reply:
            case Updated() as updated:
                starts = query.format_timestamp(updated.starts) or str(updated.starts)
                counts = (updated.agents, updated.expected, updated.laggards, updated.leaves_out)
                return control.JobUpdated(request.app, update.text, updated.version, starts, *counts, warning)
            case UpdateRefused(kind="unknown"):
                return control.Refused("unknown", no_job(request.app))
            case UpdateRefused(reason=reason, kind=kind):
                return control.Refused(kind, reason)
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _stop(self, request: control.StopRequest, who: Principal) -> control.JobStopped | control.Refused:
        name = request.app
        app_id = self._agent.directory.app_of(name) if request.app_id is None else parse_id(request.app_id)
        try:
            signature = None if request.seal is None else _SIGNATURE.decode(request.seal)
        except (msgspec.DecodeError, RecursionError) as error:
            return control.Refused("usage", f"this is no creator's signature: {error}")
        pending: PendingReply[StopReply] = PendingReply()
        by = self._rights.acting_owner(who, app_id, "stop")
        self._driver.do(lambda now: self._agent.commands.stop(app_id, pending.resolve, now, signature, by=by))
        match await pending.wait():
            case StopAnswer(found=True, refusal=None):
                return control.JobStopped(name)
            case StopAnswer(found=True, refusal=refusal):
                return control.Refused("owned", f"{name} is not stopped: {refusal}")
            case StopAnswer():
                return control.Refused("unknown", no_job(name))
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _log(self, request: control.GetLog) -> control.LogExcerpt | control.Refused:
        app_id = self._agent.directory.app_of(request.app)
        match await self._asked(LogRequest(app_id, request.lines)):
            case Log(name=name, lines=lines, dropped=dropped):
                shown = [
                    control.LogLine(query.format_timestamp(line.at_ms) or str(line.at_ms), line.agent, line.text)
                    for line in lines
                ]
                return control.LogExcerpt(name, shown, dropped)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_ANSWER)

    async def _asked(self, message: JobQuestion) -> AskReply | None:
        """The fleet's answer to a question; None if there is none in time."""
        pending: PendingReply[AskReply] = PendingReply()
        self._driver.do(partial(self._agent.questions.ask, message, pending.resolve))
        return await pending.wait()

    async def _survey(self, request: control.SurveyRequest) -> control.Surveyed | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        pending: PendingReply[StreamSurveyed] = PendingReply()
        self._driver.do(partial(self._agent.discovery.ask, request.stream, pending.resolve))
        found = await pending.wait()
        return control.Refused("unavailable", NO_ANSWER) if found is None else surveyed(request.stream, found)

    async def _fleet(self) -> control.Fleet | control.Refused:
        found = await self._described(None)
        return found if isinstance(found, control.Refused) else described_fleet(found)

    async def _tree(self, request: control.GetTree) -> control.Tree | control.Refused:
        app_id = self._agent.directory.app_of(request.app)
        known = self._agent.directory.get(app_id)
        if known is None:
            return control.Refused("unknown", no_job(request.app))
        found = await self._described(app_id)
        return found if isinstance(found, control.Refused) else described_tree(known, found)

    async def _elements(self, request: control.GetElements, who: Principal) -> control.Elements | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        known = None if request.app is None else self._agent.directory.get(self._agent.directory.app_of(request.app))
        if request.app is not None and known is None:
            return control.Refused("unknown", no_job(request.app))
        pending: PendingReply[ElementsDescribed] = PendingReply()
        self._driver.do(
            partial(self._agent.discovery.ask_elements, partial(asked_elements, request, known), pending.resolve)
        )
        found = await pending.wait()
        if found is None:
            return control.Refused("unavailable", NO_ANSWER)
        names = {one.app_id: one.name for one in self._agent.directory.all() if self._rights.may_read(who, one.app_id)}
        return described_elements(request, found, names)

    async def _place(self, request: control.PlaceGroups, who: Principal) -> control.JobPlacement | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        app_id = self._agent.directory.app_of(request.app)
        by = self._rights.acting_owner(who, app_id, "place") if request.groups else ""
        match await self._asked(PlaceRequest(app_id, tuple(request.groups), request.to, request.mode, by)):
            case PlacementView(refusal=None) as found:
                return described_placement(found)
            case PlacementView(refusal=str(refusal)):
                return control.Refused("usage", f"{request.app}: {refusal}")
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_PLACEMENT)

    async def _latency(self, request: control.GetLatency) -> control.JobLatency | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        match await self._asked(LatencyRequest(self._agent.directory.app_of(request.app))):
            case LatencyView() as found:
                return described_latency(found)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_LATENCY)

    async def _emit(self, request: control.EmitRequest, who: Principal) -> control.EventsSent | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        app_id = self._agent.directory.app_of(request.app)
        if (announced := self._agent.directory.get(app_id)) is None:
            return control.Refused("unknown", no_job(request.app))
        if announced.part_of or not announced.keyed:
            into = (
                f"it is a stage of {announced.part_of}, which has" if announced.part_of else "elf jobs lists the jobs"
            )
            return control.Refused("usage", f"{request.app} has no elements that take events: {into}")
        pending: PendingReply[Taken] = PendingReply()
        channel = channel_of(who.owner, request.emission)
        self._driver.do(
            lambda now: self._agent.emissions.emit(
                app_id, channel, request.batch, lambda taken, _now: pending.resolve(taken), now
            )
        )
        match await pending.wait():
            case None:
                return control.EventsSent(0, NO_ANSWER)
            case Taken(taken="refused", reason=reason):
                return control.Refused("usage", f"{request.app}: {reason}")
            case taken:
                return control.EventsSent(taken.rows, taken.reason)

    async def _described(self, job: Id | None) -> AgentsDescribed | control.Refused:
        """The descriptions of all agents, with their places in the trees of a job."""
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        pending: PendingReply[AgentsDescribed] = PendingReply()
        self._driver.do(partial(self._agent.discovery.ask_agents, job, pending.resolve))
        return await pending.wait() or control.Refused("unavailable", NO_ANSWER)

    async def _ask(self, request: control.AskRequest) -> control.AskAnswer | control.Refused:
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        app_id = self._agent.directory.app_of(request.app)
        match await self._asked(Ask(app_id, request.windows)):
            case Answer(name=name, text=text, columns=columns, results=results):
                windows = [control.PublishedWindow(pane, msgspec.Raw(json)) for pane, json in results]
                return control.AskAnswer(name, text, columns, windows)
            case AskRefused(unavailable=False):
                return control.Refused("unknown", no_job(request.app))
            case _:
                return control.Refused("unavailable", NO_ANSWER)
