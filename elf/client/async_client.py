"""The client for trio: the calls of the blocking one, cancelled as trio cancels."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from agent.control.messages import (
    GROUPS_DEFAULT,
    Analysed,
    AnalyseRequest,
    Answer,
    AskAnswer,
    AskRequest,
    BeyondGroups,
    Described,
    DescribeRequest,
    DryRuns,
    Elements,
    EmitRequest,
    Ended,
    EventsSent,
    Fleet,
    GetElements,
    GetFleet,
    GetJobs,
    GetLatency,
    GetLog,
    GetRights,
    GetStatus,
    GetTree,
    JobEntry,
    JobLatency,
    JobPlacement,
    Jobs,
    JobStopped,
    JobUpdated,
    LogExcerpt,
    PlaceGroups,
    Request,
    Rights,
    RunDry,
    Status,
    StopRequest,
    Surveyed,
    SurveyRequest,
    Tree,
    UpdateBundle,
    UpdateJob,
)
from agent.programs.element_graph import FieldType
from agent.runtime.model.fields import Mode
from elf.client.attachment import AnswerT, AttachedJob, JobAttachment, Update, expected, no_answer
from elf.client.control_socket import BUSY_RETRY_S, dial_nowait, named_agent, too_busy
from elf.client.emission import PATIENCE_S, EventSender, Rows
from elf.client.errors import ClientError, JobEndedError
from elf.client.job_opener import JobOpener
from elf.client.protocol import ControlConnection
from elf.client.remote_agent import RemoteAgent, dial_remote_async
from elf.client.result import LastWindows, Result, read_answer

if TYPE_CHECKING:
    import polars as pl

AgentStream = trio.SocketStream | trio.SSLStream[trio.SocketStream]
RECEIVE_BYTES = 256 * 1024


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    creator: str | os.PathLike[str] | None = None,
    timeout_s: float = 15.0,
) -> AsyncClient:
    """A client of the agent at a control socket (by default that of ELF_SOCKET, else /run/elf/control.sock), or of an
    `agent` elsewhere, HOST:PORT, by the certificate in the folder `creator` (by default that of ELF_CREATOR).

    Use it in an `async with` statement, which raises AgentUnreachableError where no agent listens. `timeout_s` bounds
    the wait for the answer to a request (AnswerTimeoutError); windows are waited for as long as it takes.
    """
    return AsyncClient(named_agent(socket, agent, creator), timeout_s)


class AsyncClient(JobOpener["AsyncJob"]):
    """Asks one agent. Each request has its own connection, so one client may run many jobs, also at once."""

    async def __aenter__(self) -> AsyncClient:
        await (await _dial(self.agent, self.timeout_s)).aclose()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing to close: jobs have their own connections."""

    async def analyse(
        self,
        text: str,
        *,
        mapped: bool = False,
        apps: Mapping[str, str] | None = None,
        types: Mapping[str, list[tuple[str, FieldType]]] | None = None,
        aggregates: Mapping[str, str] | None = None,
    ) -> Analysed:
        """A query as ELF reads it and its plan, for a creator to sign; raises QueryRefusedError.

        `mapped`: it reads what the job's `map` returns. `apps`: the fleet's names of jobs that it names otherwise.
        `types`: the fields of the types of events that the job's elements bring, which it reads as streams.
        `aggregates`: the types of the results of aggregates that the job's code computes, by their names in capitals.
        """
        request = AnalyseRequest(
            text, mapped, dict(apps or {}), types=dict(types or {}), aggregates=dict(aggregates or {})
        )
        return await self._ask(request, Analysed)

    async def log(self, app: str, *, lines: int = 100) -> LogExcerpt:
        """The last lines, at most 1000, that a job's code has logged; UnknownJobError without such a job."""
        return await self._ask(GetLog(app, lines), LogExcerpt)

    async def stop(self, app: str, *, app_id: str | None = None, seal: bytes | None = None) -> None:
        """Stops a job; raises UnknownJobError where there is none of that name.

        A job with an owner is stopped by its creator's `seal` (`elf.signing.creator.stop_order`) only.
        """
        await self._ask(StopRequest(app, app_id, seal), JobStopped)

    async def update(
        self,
        app: str,
        text: str,
        *,
        reset: bool = False,
        max_groups: int = GROUPS_DEFAULT,
        beyond_groups: BeyondGroups = "other",
    ) -> JobUpdated:
        """Lets a running job compute another query; the answer comes when its agents have acknowledged it.

        Windows under way end on the query they began with; with `reset` they are dropped. Raises QueryRefusedError
        where an agent cannot run it, UnknownJobError where there is no job of that name.
        """
        return await self._ask(UpdateJob(app, text, reset, max_groups, beyond_groups), JobUpdated)

    async def update_bundle(self, app: str, app_id: str, bundle: bytes, *, reset: bool = False) -> JobUpdated:
        """Updates a creator's job to the bundle signed next; `elf.signing.submission` makes it."""
        return await self._ask(UpdateBundle(app, app_id, bundle, reset), JobUpdated)

    async def ask(self, app: str, *, windows: int = 1) -> LastWindows:
        """The last windows of a running job, at most 64; raises UnknownJobError where there is none of that name."""
        return read_answer(await self._ask(AskRequest(app, windows), AskAnswer))

    async def describe(self, stream: str) -> Described:
        """The columns of a stream, as the agent's own files show them; QueryRefusedError if it has none of it."""
        return await self._ask(DescribeRequest(stream), Described)

    async def survey(self, stream: str) -> Surveyed:
        """The columns of a stream as the files of all agents show them; QueryRefusedError if none has it."""
        return await self._ask(SurveyRequest(stream), Surveyed)

    async def jobs(self) -> list[JobEntry]:
        """The fleet's jobs, as far as the agent knows them."""
        return (await self._ask(GetJobs(), Jobs)).jobs

    async def status(self) -> Status:
        """The agent, and what it knows of the others."""
        return await self._ask(GetStatus(), Status)

    async def rights(self) -> Rights:
        """The name by which the agent knows this client, and its rights."""
        return await self._ask(GetRights(), Rights)

    async def fleet(self) -> Fleet:
        """All agents of the fleet that answer in time, with their rates."""
        return await self._ask(GetFleet(), Fleet)

    async def tree(self, app: str) -> Tree:
        """The trees of a running job; raises UnknownJobError where there is none of that name."""
        return await self._ask(GetTree(app), Tree)

    async def elements(
        self, app: str | None = None, *, key: Sequence[object] | None = None, element: str = ""
    ) -> Elements:
        """The processing elements of a keyed job, or of all jobs: how many each agent has, and how they fare.

        With a `key`, one value for each of its fields: the state of the elements of this value, of `element` alone if
        it is named. Raises UnknownJobError, and QueryRefusedError where no element can have such a key.
        """
        texts = None if key is None else [str(value) for value in key]
        return await self._ask(GetElements(app, texts, element), Elements)

    async def place(self, app: str, *, move: Sequence[int] = (), to: str = "", mode: Mode = "instant") -> JobPlacement:
        """The owners of a running job's key groups, once those to `move` go to the agent of a name or node id.

        Raises UnknownJobError, and QueryRefusedError where they cannot move, with the reason.
        """
        return await self._ask(PlaceGroups(app, list(move), to, mode), JobPlacement)

    async def latency(self, app: str) -> JobLatency:
        """The time that the latest results of a running job have taken, phase by phase. Raises UnknownJobError."""
        return await self._ask(GetLatency(app), JobLatency)

    async def run_dry(self, text: str) -> DryRuns:
        """The cost of a live query to agents, by the last lines of their logs. Raises QueryRefusedError."""
        return await self._ask(RunDry(text), DryRuns)

    async def emit(
        self, app: str, type_: str, rows: Rows | pl.DataFrame, *, at: str = "", patience_s: float = PATIENCE_S
    ) -> int:
        """Sends events of a declared type into a keyed job; returns their number once all are safe.

        `rows`: mappings of fields to values, lines of JSON, or a table of Polars. `at`: the field with an event's time,
        else it is that of its arrival. A job without room is waited for, and so is an agent that does not answer, for
        `patience_s`; nothing that is sent again counts twice. Raises QueryRefusedError for an event that is none of the
        type, with its line and field, and ForbiddenError.
        """
        emission = EventSender(app, type_, at, secrets.token_hex(16), patience_s)
        for request in emission.requests(rows):
            while (pause_s := emission.pause_after(await self._emitted(request), trio.current_time())) is not None:
                await trio.sleep(pause_s)
        return emission.rows

    async def _emitted(self, request: EmitRequest) -> EventsSent | ClientError:
        try:
            return await self._ask(request, EventsSent)
        except ClientError as error:
            return error

    def _job(self, attachment: JobAttachment) -> AsyncJob:
        return AsyncJob(self, attachment)

    async def _ask(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        connection = ControlConnection(self.path, if_closed=self.if_closed)
        data = connection.send(request)
        answer: Answer | None = None
        with trio.move_on_after(self.timeout_s):
            async with await _dial(self.agent, self.timeout_s) as agent:
                await _send(agent, data)
                while (answer := connection.next_answer()) is None:
                    connection.receive_data(await _receive(agent))
        if answer is None:
            raise no_answer(self.path, self.timeout_s)
        return expected(answer, kind)


class AsyncJob(AttachedJob):
    """A job this client has submitted or follows: iterate over it for its windows as they close.

    Leaving its `async with` statement ends the connection, and with it a job that was not detached.
    """

    def __init__(self, client: AsyncClient, attachment: JobAttachment) -> None:
        super().__init__(attachment)
        self._client = client
        self._stream: AgentStream | None = None

    async def __aenter__(self) -> AsyncJob:
        try:
            while not self._core.is_accepted(trio.current_time()):
                await self._advance()
        except BaseException:
            self._hang_up()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._hang_up()

    async def stop(self) -> None:
        """Stops the job, whoever follows it."""
        await self._client.stop(self.app)

    def __aiter__(self) -> AsyncJob:
        return self

    async def __anext__(self) -> Result:
        """The next window; ends when the job has finished, raises JobEndedError when it was stopped or lost."""
        while not isinstance(update := await self.wait(), Ended):
            if isinstance(update, Result):
                return update
        if update.reason != "finished":
            raise JobEndedError(self.app, update.reason, update.failure)
        raise StopAsyncIteration

    def updates(self) -> Updates:
        """All updates of the job as they come; the last is `Ended`."""
        return Updates(self)

    async def wait(self) -> Update:
        """The next update; nothing is lost if it is cancelled. At the end it is `Ended`, again and again."""
        await trio.lowlevel.checkpoint()
        self._check_open()
        while (update := self._core.next_update(trio.current_time())) is None:
            await self._advance()
        return update

    async def _advance(self) -> None:
        """One step: waits for data or, without a connection, for the time to dial."""
        if self._core.is_connected:
            assert self._stream is not None, "the core knows of no other connections"
            with trio.CancelScope(deadline=self._core.next_timer()) as scope:
                self._core.receive_data(await _receive(self._stream))
            if scope.cancelled_caught:
                self._core.handle_timer(trio.current_time())
            return
        self._hang_up()
        await trio.sleep_until(max(self._core.dial_at, trio.current_time()))
        try:
            self._stream = await _dial(self._client.agent, self._client.timeout_s)
        except ClientError as error:
            self._core.connection_failed(error, trio.current_time())
            return
        data = self._core.connected(trio.current_time())
        with trio.move_on_at(self._core.next_timer()):
            await _send(self._stream, data)

    def _hang_up(self) -> None:
        """Closes the connection without waiting, so that it is closed also where all waiting is cancelled."""
        if self._stream is not None:
            plain = self._stream if isinstance(self._stream, trio.SocketStream) else self._stream.transport_stream
            plain.socket.close()
            self._stream = None


class Updates:
    """The updates of one job, up to and with its `Ended`."""

    def __init__(self, job: AsyncJob) -> None:
        self._job = job
        self._ended = False

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> Update:
        if self._ended:
            raise StopAsyncIteration
        update = await self._job.wait()
        self._ended = isinstance(update, Ended)
        return update


async def _dial(agent: RemoteAgent | str, timeout_s: float) -> AgentStream:
    if isinstance(agent, RemoteAgent):
        return await dial_remote_async(agent, timeout_s)
    deadline = trio.current_time() + timeout_s
    await trio.lowlevel.checkpoint()
    while (dialled := dial_nowait(agent)) is None:
        if trio.current_time() >= deadline:
            raise too_busy(agent)
        await trio.sleep(BUSY_RETRY_S)
    return trio.SocketStream(trio.socket.from_stdlib_socket(dialled))


async def _send(agent: AgentStream, data: bytes) -> None:
    """Sends a request; if the agent stops reading, its answer may say why, so the error is ignored."""
    try:
        await agent.send_all(data)
    except trio.BrokenResourceError:
        await trio.lowlevel.checkpoint()


async def _receive(agent: AgentStream) -> bytes:
    """The next bytes, b"" at the end."""
    try:
        return bytes(await agent.receive_some(RECEIVE_BYTES))
    except trio.BrokenResourceError:
        return b""
