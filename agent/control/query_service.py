"""Makes jobs of the queries and bundles of clients."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

import query as ql
from agent.access.rules import Principal
from agent.configuration.config import Config
from agent.control import messages as control
from agent.control.client_rights import ClientRights
from agent.control.client_subscriptions import Client, ClientSubscriptions
from agent.control.latency.admission import AdmittedPlan, LatencyAdmission
from agent.control.latency.dry_runs import DryRunQuestions
from agent.control.local_catalog import ANYTHING, schema_of_stream, streams_known, tables_known
from agent.control.needs import needs_of_plan, needs_of_query
from agent.control.pending_replies import NO_ANSWER, NOT_JOINED, JobEnd, PendingReply
from agent.control.server import Connection
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.messages.client_events import Accepted
from agent.runtime.messages.jobs import Submit, Update
from agent.runtime.model.bundle import Bundle
from agent.runtime.requests.events import SubmitRefused, SubmitReply
from overlay import app_id as id_of_app
from overlay import parse_id

NOBODY = b""
"""The key of jobs without a creator, which belong to the client that has submitted them."""
EVERYTHING = -(2**63)
"""Pane before all others, after which a job's submitter gets every window."""
_BUNDLE: msgspec.msgpack.Decoder[Bundle] = msgspec.msgpack.Decoder(Bundle)


@dataclass(eq=False, slots=True)
class _Submission(PendingReply[SubmitReply]):
    """A job that a client has submitted. `is_abandoned`: the client no longer waits."""

    is_abandoned: bool = False


class QueryService:
    """Runs the queries of one agent's clients. `config` gives the one in force; `subscriptions` has the clients that
    follow jobs."""

    def __init__(
        self,
        config: Callable[[], Config],
        driver: CoreDriver,
        agent: Agent,
        subscriptions: ClientSubscriptions,
        rights: ClientRights,
        admission: LatencyAdmission,
        dry_runs: DryRunQuestions,
        wall_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._driver = driver
        self._agent = agent
        self._subscriptions = subscriptions
        self._rights = rights
        self._admission = admission
        self._dry_runs = dry_runs
        self._wall_ms = wall_ms
        self._submissions: set[int] = set()

    async def query(self, request: control.QueryRequest, connection: Connection) -> None:
        """Runs a query, and sends its client all answers."""
        analysed = await self._analysed(request, connection.principal)
        if isinstance(analysed, control.Refused):
            connection.send(analysed)
            return
        parsed, plan = analysed
        admitted: AdmittedPlan | control.Refused = AdmittedPlan(plan)
        if not request.once:
            admitted = await self._admission.admit(plan, parsed, connection.principal)
        if isinstance(admitted, control.Refused):
            connection.send(admitted)
            return
        job = self._job(request, admitted.plan, ql.format_query(parsed), connection.principal)
        await self._run(job, connection, detach=request.detach, warning=admitted.warning)

    async def bundle(self, request: control.SubmitRequest, connection: Connection) -> None:
        """Runs a bundle that a creator has signed; the job goes on when its client has gone."""
        bundle = self._readable_bundle(request.bundle, connection.principal)
        if isinstance(bundle, control.Refused):
            connection.send(bundle)
            return
        first = bundle.contents.functions[0]
        job = Submit(
            parse_id(request.app_id),
            request.app,
            str(first.plan.get("stream") or "*"),
            first.plan,
            text=first.text,
            bounded=first.plan.get("window_ms") is None and not bundle.contents.drives,
            submitted_ms=self._wall_ms(),
            bundle=bundle,
            owner=connection.principal.owner,
        )
        await self._run(job, connection, detach=True)

    async def _run(self, job: Submit, connection: Connection, *, detach: bool, warning: str = "") -> None:
        end = JobEnd()
        client = Client(connection, None, end.set, warning)
        try:
            refusal = await self._submit(job, client)
            if refusal is not None:
                connection.send(refusal)
                return
            await self._until_ended(job, end, connection, detach=detach)
        finally:
            self._subscriptions.detach(job.app_id, client)
        connection.send(end.answer() or control.Ended("lost"))

    async def _until_ended(self, job: Submit, end: JobEnd, connection: Connection, *, detach: bool) -> None:
        """Waits for the job's end; stops the job if its client has gone, unless it is detached."""
        try:
            await end.has_come.wait()
        except trio.Cancelled:
            if connection.client_gone and not detach:
                self._driver.do(lambda now: self._agent.commands.stop(job.app_id, _nobody_waits, now))
            raise

    def _job(self, request: control.QueryRequest, plan: ql.Plan, text: str, who: Principal) -> Submit:
        """Makes the job that a query requests."""
        name = request.app or f"query-{secrets.token_hex(4)}"
        return Submit(
            id_of_app(name, NOBODY),
            name,
            plan.stream,
            plan.to_wire(),
            text=text,
            bounded=request.once or plan.window_ms is None,
            attached=not request.detach,
            submitted_ms=self._wall_ms(),
            owner=who.owner,
        )

    async def analyse(self, request: control.AnalyseRequest, who: Principal) -> control.Analysed | control.Refused:
        """A query's plan as it is to run, for its creator to sign."""
        analysed = await self._analysed(request, who)
        if isinstance(analysed, control.Refused):
            return analysed
        parsed, plan = analysed
        admitted = await self._admission.admit(plan, parsed, who, is_mapped=request.mapped)
        if isinstance(admitted, control.Refused):
            return admitted
        text, wire = ql.format_query(parsed), msgspec.msgpack.encode(admitted.plan.to_wire())
        return control.Analysed(text, wire, admitted.warning)

    async def run_dry(self, request: control.RunDry, who: Principal) -> control.DryRuns | control.Refused:
        """The findings of agents that run a query dry."""
        analysed = await self._analysed(control.QueryRequest(request.text), who)
        if isinstance(analysed, control.Refused):
            return analysed
        _, plan = analysed
        return await self._dry_runs.ask(plan, who.owner)

    async def describe(self, name: str) -> control.Described | control.Refused:
        """The columns of one of this agent's streams."""
        stream = next((one for one in self._config().streams if one.name == name), None)
        if stream is None:
            has = ", ".join(one.name for one in self._config().streams) or "none"
            return control.Refused("usage", f"this agent has no stream {name}; its streams: {has}")
        schema = await trio.to_thread.run_sync(schema_of_stream, stream, abandon_on_cancel=True)
        return control.Described(name, dict(schema.columns), schema.open)

    async def update(
        self, request: control.UpdateJob | control.UpdateBundle, who: Principal
    ) -> tuple[Update, str] | control.Refused:
        """Makes the update that a client requests, with a warning if its results may come too late."""
        if isinstance(request, control.UpdateBundle):
            bundle = self._readable_bundle(request.bundle, who)
            if isinstance(bundle, control.Refused):
                return bundle
            first = bundle.contents.functions[0]
            return Update(parse_id(request.app_id), first.plan, first.text, request.reset, 0, bundle), ""
        analysed = await self._analysed(request, who)
        if isinstance(analysed, control.Refused):
            return analysed
        parsed, plan = analysed
        app_id = self._agent.directory.app_of(request.app)
        by = self._rights.acting_owner(who, app_id, "update")
        admitted = await self._admission.admit(plan, parsed, who, replaced=app_id)
        if isinstance(admitted, control.Refused):
            return admitted
        text, wire = ql.format_query(parsed), admitted.plan.to_wire()
        return Update(app_id, wire, text, request.reset, 0, by=by), admitted.warning

    async def _analysed(
        self, request: control.QueryRequest | control.UpdateJob | control.AnalyseRequest, who: Principal
    ) -> tuple[ql.Query, ql.Plan] | control.Refused:
        """The query and its plan. Raises MissingRightError where its client may not read them, AmbiguousNameError."""
        if not self._driver.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        try:
            parsed = await trio.to_thread.run_sync(ql.parse, request.text, abandon_on_cancel=True)
            if isinstance(request, control.AnalyseRequest):
                parsed = ql.with_aggregates(ql.with_apps(parsed, request.apps), request.aggregates)
            # Of other jobs an analysis reads nothing, and stages of a job do not run yet.
            over = slice(1) if isinstance(request, control.AnalyseRequest) else slice(None)
            if isinstance(request, control.AnalyseRequest) and _reads_types_alone(parsed, request.types):
                over = slice(0)  # nothing but events that the job itself makes
            self._rights.check(who, needs_of_query(parsed, self._rights.jobs_named)[over])
            plan = await trio.to_thread.run_sync(self._plan, request, parsed, abandon_on_cancel=True)
            if isinstance(request, control.QueryRequest) and request.once:
                ql.check_live(parsed)
            self._rights.check(who, needs_of_plan(plan, self._rights.jobs_named)[over])
        except ql.QueryError as error:
            return control.Refused("usage", str(error))
        return parsed, plan

    def _plan(
        self, request: control.QueryRequest | control.UpdateJob | control.AnalyseRequest, parsed: ql.Query
    ) -> ql.Plan:
        """Plans a query, in a thread since it looks into files. Other agents may have a stream that is not here."""
        config = self._config()
        types = request.types if isinstance(request, control.AnalyseRequest) else {}
        if _reads_types_alone(parsed, types):
            catalog = {name: ql.Schema(dict(fields), open=False) for name, fields in types.items()}
            return ql.analyze(parsed, catalog, max_groups=request.max_groups, beyond_groups=request.beyond_groups)
        catalog = streams_known(parsed, config.streams)
        if isinstance(request, control.AnalyseRequest) and request.mapped:
            catalog = dict.fromkeys(catalog, ANYTHING)
        tables = tables_known(parsed, config.tables, {stream.name: catalog[stream.name] for stream in config.streams})
        return ql.analyze(parsed, catalog, tables, max_groups=request.max_groups, beyond_groups=request.beyond_groups)

    def _readable_bundle(self, data: bytes, who: Principal) -> Bundle | control.Refused:
        """A bundle whose functions read what its client may read. Raises MissingRightError, AmbiguousNameError."""
        try:
            bundle = _BUNDLE.decode(data)
            plans = [ql.Plan.from_wire(function.plan) for function in bundle.contents.functions]
            needs = [needs_of_plan(plan, self._rights.jobs_named) for plan in plans]
        except (msgspec.DecodeError, RecursionError, ql.PlanError) as error:
            return control.Refused("usage", f"this is no bundle that a creator has signed: {error}")
        for needed in needs:
            self._rights.check(who, needed)
        return bundle

    async def _submit(self, job: Submit, client: Client) -> control.Refused | None:
        """Starts the job and lets the client follow it; returns the refusal, if there is one."""
        app_id = job.app_id
        if app_id in self._submissions:
            return control.Refused("unavailable", f"a job {job.name} is being started at this moment")
        self._submissions.add(app_id)
        submission = _Submission()
        self._driver.do(
            lambda now: self._agent.commands.submit(
                job, partial(self._submitted, job, submission), now, self._driver.wall_at(now)
            )
        )
        # Following at once saves a round trip, but if others follow a job of this name already, it is not this job. A
        # master on this agent has replied by now, before anybody follows.
        follows = app_id not in self._subscriptions and submission.reply is None
        if follows:
            self._subscriptions.attach(app_id, client)
        try:
            reply = await submission.wait()
        finally:
            submission.is_abandoned = submission.reply is None
        match reply:
            case SubmitRefused(reason=reason, unavailable=unavailable):
                return control.Refused("unavailable" if unavailable else "usage", reason)
            case None:
                return control.Refused("unavailable", NO_ANSWER)
        if not follows:
            client.after = EVERYTHING
            self._subscriptions.attach(app_id, client)
        return None

    def _submitted(self, job: Submit, submission: _Submission, reply: SubmitReply) -> None:
        app_id = job.app_id
        self._submissions.discard(app_id)
        submission.resolve(reply)
        if isinstance(reply, Accepted):
            self._rights.submitted(job)
            self._subscriptions.accepted(app_id, reply)
            if submission.is_abandoned:  # no client is left to end it
                self._driver.do(lambda now: self._agent.commands.stop(app_id, _nobody_waits, now))


def _nobody_waits(_reply: object) -> None:
    """Ignores a reply whose client has gone."""


def _reads_types_alone(parsed: ql.Query, types: Mapping[str, object]) -> bool:
    """Whether a query reads types of events that a job's own elements bring, and no streams. One named as a stream of
    logs is the job's."""
    named = [pattern for text in ql.streams_read(parsed) for pattern in ql.patterns(text)]
    return bool(types) and bool(named) and all(any(ql.selects(name, known) for known in types) for name in named)
