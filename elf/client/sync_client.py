"""The blocking client: plain sockets, one thread, time limits where an answer is due."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from agent.control.messages import (
    GROUPS_DEFAULT,
    Analysed,
    AnalyseRequest,
    AskAnswer,
    AskRequest,
    BeyondGroups,
    Described,
    DescribeRequest,
    Drained,
    Draining,
    DrainRequest,
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
    Reloaded,
    ReloadRequest,
    Request,
    Rights,
    RunDry,
    Status,
    StopRequest,
    Surveyed,
    SurveyRequest,
    Tapped,
    TapRequest,
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
from elf.client.remote_agent import RemoteAgent, TlsSocket, dial_remote
from elf.client.result import LastWindows, Result, read_answer

if TYPE_CHECKING:
    import polars as pl

AgentSocket = socket.socket | TlsSocket
RECEIVE_BYTES = 256 * 1024
NEVER = float("inf")


def connect_sync(
    socket: str | os.PathLike[str] | None = None,
    *,
    agent: str | None = None,
    creator: str | os.PathLike[str] | None = None,
    timeout_s: float = 15.0,
) -> SyncClient:
    """A client of the agent at a control socket (by default that of ELF_SOCKET, else /run/elf/control.sock), or of an
    `agent` elsewhere, HOST:PORT, by the certificate in the folder `creator` (by default that of ELF_CREATOR).

    Use it in a `with` statement, which raises AgentUnreachableError where no agent listens. `timeout_s` bounds the
    wait for the answer to a request (AnswerTimeoutError); windows are waited for as long as it takes.
    """
    return SyncClient(named_agent(socket, agent, creator), timeout_s)


class SyncClient(JobOpener["SyncJob"]):
    """Asks one agent. Each request has its own connection, so one client may run many jobs."""

    def __enter__(self) -> SyncClient:
        _dial(self.agent, time.monotonic() + self.timeout_s).close()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close: jobs have their own connections."""

    def analyse(
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
        return self._ask(request, Analysed)

    def log(self, app: str, *, lines: int = 100) -> LogExcerpt:
        """The last lines, at most 1000, that a job's code has logged; UnknownJobError without such a job."""
        return self._ask(GetLog(app, lines), LogExcerpt)

    def stop(self, app: str, *, app_id: str | None = None, seal: bytes | None = None) -> None:
        """Stops a job; raises UnknownJobError where there is none of that name.

        A job with an owner is stopped by its creator's `seal` (`elf.signing.creator.stop_order`) only.
        """
        self._ask(StopRequest(app, app_id, seal), JobStopped)

    def update(
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
        return self._ask(UpdateJob(app, text, reset, max_groups, beyond_groups), JobUpdated)

    def update_bundle(self, app: str, app_id: str, bundle: bytes, *, reset: bool = False) -> JobUpdated:
        """Updates a creator's job to the bundle signed next; `elf.signing.submission` makes it."""
        return self._ask(UpdateBundle(app, app_id, bundle, reset), JobUpdated)

    def ask(self, app: str, *, windows: int = 1) -> LastWindows:
        """The last windows of a running job, at most 64; raises UnknownJobError where there is none of that name."""
        return read_answer(self._ask(AskRequest(app, windows), AskAnswer))

    def describe(self, stream: str) -> Described:
        """The columns of a stream, as the agent's own files show them; QueryRefusedError if it has none of it."""
        return self._ask(DescribeRequest(stream), Described)

    def survey(self, stream: str) -> Surveyed:
        """The columns of a stream as the files of all agents show them; QueryRefusedError if none has it."""
        return self._ask(SurveyRequest(stream), Surveyed)

    def jobs(self) -> list[JobEntry]:
        """The fleet's jobs, as far as the agent knows them."""
        return (self._ask(GetJobs(), Jobs)).jobs

    def status(self) -> Status:
        """The agent, and what it knows of the others."""
        return self._ask(GetStatus(), Status)

    def rights(self) -> Rights:
        """The name by which the agent knows this client, and its rights."""
        return self._ask(GetRights(), Rights)

    def fleet(self) -> Fleet:
        """All agents of the fleet that answer in time, with their rates."""
        return self._ask(GetFleet(), Fleet)

    def tree(self, app: str) -> Tree:
        """The trees of a running job; raises UnknownJobError where there is none of that name."""
        return self._ask(GetTree(app), Tree)

    def elements(self, app: str | None = None, *, key: Sequence[object] | None = None, element: str = "") -> Elements:
        """The processing elements of a keyed job, or of all jobs: how many each agent has, and how they fare.

        With a `key`, one value for each of its fields: the state of the elements of this value, of `element` alone if
        it is named. Raises UnknownJobError, and QueryRefusedError where no element can have such a key.
        """
        texts = None if key is None else [str(value) for value in key]
        return self._ask(GetElements(app, texts, element), Elements)

    def place(self, app: str, *, move: Sequence[int] = (), to: str = "", mode: Mode = "instant") -> JobPlacement:
        """The owners of a running job's key groups, once those to `move` go to the agent of a name or node id.

        Raises UnknownJobError, and QueryRefusedError where they cannot move, with the reason.
        """
        return self._ask(PlaceGroups(app, list(move), to, mode), JobPlacement)

    def latency(self, app: str) -> JobLatency:
        """The time that the latest results of a running job have taken, phase by phase. Raises UnknownJobError."""
        return self._ask(GetLatency(app), JobLatency)

    def run_dry(self, text: str) -> DryRuns:
        """The cost of a live query to agents, by the last lines of their logs. Raises QueryRefusedError."""
        return self._ask(RunDry(text), DryRuns)

    def emit(
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
            while (pause_s := emission.pause_after(self._emitted(request), time.monotonic())) is not None:
                time.sleep(pause_s)
        return emission.rows

    def _emitted(self, request: EmitRequest) -> EventsSent | ClientError:
        try:
            return self._ask(request, EventsSent)
        except ClientError as error:
            return error

    def reload(self) -> Reloaded:
        """Has the agent read its configuration again: what has changed, or the faults for which it has not."""
        return self._ask(ReloadRequest(), Reloaded)

    def drain(self, patience_s: float) -> Iterator[Draining | Drained]:
        """Lets the agent hand over what it has and end, within a time: yields what is left, and last how it went."""
        connection = ControlConnection(self.path, if_closed=self.if_closed)
        data = connection.send(DrainRequest(patience_s))
        deadline = time.monotonic() + self.timeout_s
        with closing(_dial(self.agent, deadline)) as agent:
            _send(agent, data, deadline)
            deadline += patience_s
            answer: Draining | Drained | None = None
            while not isinstance(answer, Drained):
                found = connection.next_answer()
                if found is not None:
                    answer = expected(found, Drained) if isinstance(found, Drained) else expected(found, Draining)
                    yield answer
                    continue
                received = _receive(agent, deadline)
                if received is None:
                    raise no_answer(self.path, self.timeout_s)
                connection.receive_data(received)

    def tap(self, request: TapRequest, deadline: float = NEVER) -> Iterator[Tapped]:
        """New lines of one of the agent's streams as they come, until a deadline (of `time.monotonic`)."""
        connection = ControlConnection(self.path, if_closed=self.if_closed)
        data = connection.send(request)
        first = time.monotonic() + self.timeout_s
        with closing(_dial(self.agent, first)) as agent:
            _send(agent, data, first)
            is_answered = False
            while True:
                found = connection.next_answer()
                if found is not None:
                    is_answered = True
                    yield expected(found, Tapped)
                    continue
                received = _receive(agent, deadline if is_answered else min(deadline, first))
                if received is None and not is_answered and time.monotonic() >= first:
                    raise no_answer(self.path, self.timeout_s)
                if received is None:
                    return
                connection.receive_data(received)

    def _job(self, attachment: JobAttachment) -> SyncJob:
        return SyncJob(self, attachment)

    def _ask(self, request: Request, kind: type[AnswerT]) -> AnswerT:
        connection = ControlConnection(self.path, if_closed=self.if_closed)
        data = connection.send(request)
        deadline = time.monotonic() + self.timeout_s
        with closing(_dial(self.agent, deadline)) as agent:
            _send(agent, data, deadline)
            while (answer := connection.next_answer()) is None:
                received = _receive(agent, deadline)
                if received is None:
                    raise no_answer(self.path, self.timeout_s)
                connection.receive_data(received)
        return expected(answer, kind)


class SyncJob(AttachedJob):
    """A job this client has submitted or follows: iterate over it for its windows as they close.

    Leaving its `with` statement, or `close()`, ends the connection, and with it a job that was not detached.
    """

    def __init__(self, client: SyncClient, attachment: JobAttachment) -> None:
        super().__init__(attachment)
        self._client = client
        self._socket: AgentSocket | None = None

    def __enter__(self) -> SyncJob:
        try:
            while not self._core.is_accepted(time.monotonic()):
                self._advance(NEVER)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, for good."""
        self._closed = True
        self._hang_up()

    def stop(self) -> None:
        """Stops the job, whoever follows it."""
        self._client.stop(self.app)

    def __iter__(self) -> Iterator[Result]:
        return self

    def __next__(self) -> Result:
        """The next window; ends when the job has finished, raises JobEndedError when it was stopped or lost."""
        for update in self.updates():
            if isinstance(update, Result):
                return update
        if self.ended != "finished":
            raise JobEndedError(self.app, self.ended or "lost", self.failure)
        raise StopIteration

    def updates(self) -> Iterator[Update]:
        """All updates of the job as they come; the last is `Ended`."""
        while (update := self.wait()) is not None:
            yield update
            if isinstance(update, Ended):
                return

    def wait(self, timeout_s: float = NEVER) -> Update | None:
        """The next update; None if there is none within `timeout_s`. At the end it is `Ended`, again and again."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        while (update := self._core.next_update(time.monotonic())) is None:
            if time.monotonic() >= deadline:
                return None
            self._advance(deadline)
        return update

    def _advance(self, deadline: float) -> None:
        """One step: waits for data or, without a connection, for the time to dial, but not past the deadline."""
        if self._core.is_connected:
            assert self._socket is not None, "the core knows of no other connections"
            data = _receive(self._socket, min(deadline, self._core.next_timer()))
            if data is None:
                self._core.handle_timer(time.monotonic())
            else:
                self._core.receive_data(data)
            return
        self._hang_up()
        pause_s = min(self._core.dial_at, deadline) - time.monotonic()
        if pause_s > 0:
            time.sleep(pause_s)
        else:
            self._dial()

    def _dial(self) -> None:
        deadline = time.monotonic() + self._client.timeout_s
        try:
            self._socket = _dial(self._client.agent, deadline)
        except ClientError as error:
            self._core.connection_failed(error, time.monotonic())
            return
        _send(self._socket, self._core.connected(time.monotonic()), deadline)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _dial(agent: RemoteAgent | str, deadline: float) -> AgentSocket:
    if isinstance(agent, RemoteAgent):
        return dial_remote(agent, deadline)
    while (dialled := dial_nowait(agent)) is None:
        if time.monotonic() >= deadline:
            raise too_busy(agent)
        time.sleep(BUSY_RETRY_S)
    return dialled


def _send(agent: AgentSocket, data: bytes, deadline: float) -> None:
    """Sends a request; if the agent stops reading, its answer may say why, so the error is ignored."""
    agent.settimeout(max(deadline - time.monotonic(), 0.001))
    with suppress(OSError):
        agent.sendall(data)


def _receive(agent: AgentSocket, deadline: float) -> bytes | None:
    """The next bytes, b"" at the end; None if none come before the deadline."""
    timeout_s = deadline - time.monotonic()
    agent.settimeout(None if timeout_s == NEVER else max(timeout_s, 0.0))
    try:
        return agent.recv(RECEIVE_BYTES)
    except (TimeoutError, BlockingIOError):
        return None
    except ConnectionError:
        return b""
