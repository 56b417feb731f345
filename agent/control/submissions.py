"""What clients want to have computed: queries and bundles, made jobs of."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
import trio

import query as ql
from agent.configuration.config import StreamConfig, TableConfig
from agent.control import messages as control
from agent.control.audiences import Client, ClientSubscriptions
from agent.control.expectations import ANSWER_TIMEOUT_S, NO_ANSWER, NOT_JOINED, JobEnd, PendingReply
from agent.control.known_here import ANYTHING, schema_of_stream, streams_known, tables_known
from agent.control.server import Connection
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.messages.jobs import Submit, Update
from agent.runtime.model.bundle import Bundle
from agent.runtime.requests.notices import Accepted, SubmitRefused
from overlay import app_id as id_of_app
from overlay import parse_id

NOBODY = b""
"""The creator of jobs that are nobody's: whoever may use the socket may change or stop them."""
EVERYTHING = -(2**63)
"""Before every pane: a job's creator gets all of its windows."""
_BUNDLE: msgspec.msgpack.Decoder[Bundle] = msgspec.msgpack.Decoder(Bundle)


class QueryService:
    """Of the clients of one agent. `audiences` are those who follow jobs."""

    def __init__(
        self,
        streams: tuple[StreamConfig, ...],
        tables: tuple[TableConfig, ...],
        pump: CoreDriver,
        agent: Agent,
        audiences: ClientSubscriptions,
        wall_ms: Callable[[], int],
    ) -> None:
        self._streams = streams
        self._tables = tables
        self._pump = pump
        self._agent = agent
        self._audiences = audiences
        self._wall_ms = wall_ms
        self._submissions: dict[int, PendingReply] = {}

    async def query(self, request: control.Query, connection: Connection) -> None:
        """Runs a query, and tells its client all that comes of it."""
        job = await self._job(request, connection)
        if job is not None:
            await self._run(job, connection, detach=request.detach)

    async def bundle(self, request: control.Submit, connection: Connection) -> None:
        """The same for what a creator has signed; such a job goes on when its client has gone."""
        bundle = _bundle(request.bundle)
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
        )
        await self._run(job, connection, detach=True)

    async def _run(self, job: Submit, connection: Connection, *, detach: bool) -> None:
        end = JobEnd()
        client = Client(connection, None, end.say)
        try:
            refusal = await self._submit(job, client)
            if refusal is not None:
                connection.send(refusal)
                return
            await self._until_ended(job, end, connection, detach=detach)
        finally:
            self._audiences.detach(job.app_id, client)
        connection.send(end.answer() or control.Ended("lost"))

    async def _until_ended(self, job: Submit, end: JobEnd, connection: Connection, *, detach: bool) -> None:
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
            id_of_app(name, NOBODY),
            name,
            plan.stream,
            plan.to_wire(),
            text=ql.format_query(parsed),
            bounded=request.once or plan.window_ms is None,
            attached=not request.detach,
            submitted_ms=self._wall_ms(),
        )

    async def analyse(self, request: control.Analyse) -> control.Analysed | control.Refused:
        """A query's plan, for its creator to sign."""
        analysed = await self._analysed(request)
        if isinstance(analysed, control.Refused):
            return analysed
        parsed, plan = analysed
        return control.Analysed(ql.format_query(parsed), msgspec.msgpack.encode(plan.to_wire()))

    async def describe(self, name: str) -> control.Described | control.Refused:
        """The columns of one of this agent's streams."""
        stream = next((one for one in self._streams if one.name == name), None)
        if stream is None:
            has = ", ".join(one.name for one in self._streams) or "none"
            return control.Refused("usage", f"this agent has no stream {name}; its streams: {has}")
        schema = await trio.to_thread.run_sync(schema_of_stream, stream, abandon_on_cancel=True)
        return control.Described(name, dict(schema.columns), schema.open)

    async def update(self, request: control.UpdateJob | control.UpdateBundle) -> Update | control.Refused:
        """What a job is to compute instead."""
        if isinstance(request, control.UpdateBundle):
            bundle = _bundle(request.bundle)
            if isinstance(bundle, control.Refused):
                return bundle
            first = bundle.contents.functions[0]
            return Update(parse_id(request.app_id), first.plan, first.text, request.reset, 0, bundle)
        analysed = await self._analysed(request)
        if isinstance(analysed, control.Refused):
            return analysed
        parsed, plan = analysed
        app_id = self._agent.app_of(request.app)
        return Update(app_id, plan.to_wire(), ql.format_query(parsed), request.reset, 0)

    async def _analysed(
        self, request: control.Query | control.UpdateJob | control.Analyse
    ) -> tuple[ql.Query, ql.Plan] | control.Refused:
        if not self._pump.node.is_active:
            return control.Refused("unavailable", NOT_JOINED)
        try:
            return await trio.to_thread.run_sync(self._analyse, request, abandon_on_cancel=True)
        except ql.QueryError as error:
            return control.Refused("usage", str(error))

    def _analyse(self, request: control.Query | control.UpdateJob | control.Analyse) -> tuple[ql.Query, ql.Plan]:
        """In a thread, since it looks into files. A stream that this agent does not have may be elsewhere."""
        parsed = ql.parse(request.text)
        catalog = streams_known(parsed, self._streams)
        if isinstance(request, control.Analyse) and request.mapped:
            catalog = dict.fromkeys(catalog, ANYTHING)
        tables = tables_known(parsed, self._tables, {stream.name: catalog[stream.name] for stream in self._streams})
        if isinstance(request, control.Analyse):
            parsed = ql.with_apps(parsed, request.apps)
        plan = ql.analyze(parsed, catalog, tables, max_groups=request.max_groups, beyond_groups=request.beyond_groups)
        return parsed, plan

    async def _submit(self, job: Submit, client: Client) -> control.Refused | None:
        """Starts the job and lets the client follow it; why that failed, if it did."""
        app_id = job.app_id
        if app_id in self._submissions:
            return control.Refused("unavailable", f"a job {job.name} is being started at this moment")
        expected = self._submissions[app_id] = PendingReply()
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

    def submitted(self, app_id: int, notice: Accepted | SubmitRefused) -> None:
        expected = self._submissions.pop(app_id, None)
        if expected is None:
            return
        expected.resolve(notice)
        if expected.is_abandoned and isinstance(notice, Accepted):
            self._pump.do(lambda now: self._agent.stop(app_id, now))


def _bundle(data: bytes) -> Bundle | control.Refused:
    try:
        return _BUNDLE.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return control.Refused("usage", f"this is no bundle that a creator has signed: {error}")
