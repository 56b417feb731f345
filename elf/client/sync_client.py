"""The blocking client: plain sockets, one thread, time limits where an answer is due."""

from __future__ import annotations

import os
import random
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from agent.control.messages import (
    GROUPS_DEFAULT,
    Analyse,
    Analysed,
    Answer,
    Answered,
    Ask,
    BeyondGroups,
    Describe,
    Described,
    Ended,
    Follow,
    GetJobs,
    GetLog,
    GetStatus,
    Job,
    Jobs,
    Log,
    Query,
    Refused,
    Request,
    Status,
    Stop,
    Submit,
    Survey,
    Surveyed,
    UpdateBundle,
    Updated,
    UpdateJob,
)
from elf.client.attachment import AttachedJob, Backoff, JobAttachment, Update, no_answer
from elf.client.control_socket import BUSY_RETRY_S, control_socket, dial_nowait, too_busy
from elf.client.errors import ClientError, JobEndedError, refusal
from elf.client.protocol import ControlConnection
from elf.client.result import LastWindows, Result, read_answer

RECEIVE_BYTES = 256 * 1024
NEVER = float("inf")


def connect_sync(socket: str | os.PathLike[str] | None = None, *, timeout_s: float = 15.0) -> SyncClient:
    """A client of the agent at a control socket (by default that of ELF_SOCKET, else /run/elf/control.sock).

    Use it in a `with` statement, which raises AgentUnreachableError where no agent listens. `timeout_s` bounds the
    wait for the answer to a request (AnswerTimeoutError); windows are waited for as long as it takes.
    """
    return SyncClient(control_socket(socket), timeout_s)


class SyncClient:
    """Asks one agent. Each request has a connection of its own, so one client may run many jobs."""

    def __init__(self, path: str, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s

    def __enter__(self) -> SyncClient:
        _dial(self.path, time.monotonic() + self.timeout_s).close()
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close: jobs have their own connections."""

    def query(
        self,
        text: str,
        *,
        app: str | None = None,
        once: bool = False,
        detach: bool = False,
        max_groups: int = GROUPS_DEFAULT,
        beyond_groups: BeyondGroups = "other",
    ) -> SyncJob:
        """A query over the fleet, submitted by entering the job's `with` statement and stopped by leaving it.

        `once`: over what the logs hold now; `detach`: the job goes on when it is left. `app` names the job. A window
        has rows for `max_groups` groups (by default a million); what is `beyond_groups` is in its result's `other`, or
        an "error" that ends the job.
        """
        return self._job(Query(text, app, once, detach, max_groups, beyond_groups), None)

    def follow(self, app: str, *, after: int | None = None, reconnect: bool = False) -> SyncJob:
        """A job of the fleet, attached to; `after` is the `pane` of the last window seen.

        `reconnect`: when the agent is gone, try again for ever, and go on after the last window.
        """
        return self._job(Follow(app, after), Backoff(random.random) if reconnect else None)

    def submit(self, app: str, app_id: str, bundle: bytes) -> SyncJob:
        """A job of a creator, submitted by entering its `with` statement; it goes on when that is left.

        `elf.signing.submission` makes what is submitted.
        """
        return self._job(Submit(app, app_id, bundle), None)

    def analyse(self, text: str, *, mapped: bool = False, apps: Mapping[str, str] | None = None) -> Analysed:
        """A query as ELF reads it and its plan, for a creator to sign; raises QueryRefusedError.

        `mapped`: it reads what the job's `map` makes. `apps`: what the fleet calls jobs that it has other names for.
        """
        answer = self._ask(Analyse(text, mapped, dict(apps or {})))
        assert isinstance(answer, Analysed), "the protocol lets nothing else pass"
        return answer

    def log(self, app: str, *, lines: int = 100) -> Log:
        """The last lines, at most 1000, of what a job's code has said; UnknownJobError without such a job."""
        answer = self._ask(GetLog(app, lines))
        assert isinstance(answer, Log), "the protocol lets nothing else pass"
        return answer

    def stop(self, app: str, *, app_id: str | None = None, seal: bytes | None = None) -> None:
        """Stops a job; raises UnknownJobError where there is none of that name.

        One that is somebody's is stopped by its creator's `seal` (`elf.signing.creator.stopping`) alone.
        """
        self._ask(Stop(app, app_id, seal))

    def update(
        self,
        app: str,
        text: str,
        *,
        reset: bool = False,
        max_groups: int = GROUPS_DEFAULT,
        beyond_groups: BeyondGroups = "other",
    ) -> Updated:
        """Lets a running job compute another query; the answer comes when its agents have acknowledged it.

        Windows under way end on the query they began with, unless `reset` gives them up. Raises QueryRefusedError
        where an agent cannot run it, UnknownJobError where there is no job of that name.
        """
        answer = self._ask(UpdateJob(app, text, reset, max_groups, beyond_groups))
        assert isinstance(answer, Updated), "the protocol lets nothing else pass"
        return answer

    def update_bundle(self, app: str, app_id: str, bundle: bytes, *, reset: bool = False) -> Updated:
        """The same for a job of a creator, and what they have signed next; `elf.signing.submission` makes it."""
        answer = self._ask(UpdateBundle(app, app_id, bundle, reset))
        assert isinstance(answer, Updated), "the protocol lets nothing else pass"
        return answer

    def ask(self, app: str, *, windows: int = 1) -> LastWindows:
        """The last windows of a running job, at most 64; raises UnknownJobError where there is none of that name."""
        answer = self._ask(Ask(app, windows))
        assert isinstance(answer, Answered), "the protocol lets nothing else pass"
        return read_answer(answer)

    def describe(self, stream: str) -> Described:
        """The columns of a stream, as the agent's own files show them; QueryRefusedError if it has none of it."""
        answer = self._ask(Describe(stream))
        assert isinstance(answer, Described), "the protocol lets nothing else pass"
        return answer

    def survey(self, stream: str) -> Surveyed:
        """The columns of a stream as the files of all agents show them; QueryRefusedError if none has it."""
        answer = self._ask(Survey(stream))
        assert isinstance(answer, Surveyed), "the protocol lets nothing else pass"
        return answer

    def jobs(self) -> list[Job]:
        """The fleet's jobs, as far as the agent has heard."""
        answer = self._ask(GetJobs())
        assert isinstance(answer, Jobs), "the protocol lets nothing else pass"
        return answer.jobs

    def status(self) -> Status:
        """The agent, and what it knows of the others."""
        answer = self._ask(GetStatus())
        assert isinstance(answer, Status), "the protocol lets nothing else pass"
        return answer

    def _job(self, request: Query | Submit | Follow, backoff: Backoff | None) -> SyncJob:
        return SyncJob(self, JobAttachment(request, self.path, self.timeout_s, backoff))

    def _ask(self, request: Request) -> Answer:
        connection = ControlConnection(self.path)
        data = connection.send(request)
        deadline = time.monotonic() + self.timeout_s
        with _dial(self.path, deadline) as agent:
            _send(agent, data, deadline)
            while (answer := connection.next_answer()) is None:
                received = _receive(agent, deadline)
                if received is None:
                    raise no_answer(self.path, self.timeout_s)
                connection.receive_data(received)
        if isinstance(answer, Refused):
            raise refusal(answer)
        return answer


class SyncJob(AttachedJob):
    """A job this client has submitted or follows: iterate over it for its windows as they close.

    Leaving its `with` statement, or `close()`, ends the connection, and with it a job that was not detached.
    """

    def __init__(self, client: SyncClient, attachment: JobAttachment) -> None:
        super().__init__(attachment)
        self._client = client
        self._socket: socket.socket | None = None

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
        """Everything there is to tell of it, as it comes; the last is `Ended`."""
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
            self._socket = _dial(self._client.path, deadline)
        except ClientError as error:
            self._core.connection_failed(error, time.monotonic())
            return
        _send(self._socket, self._core.connected(time.monotonic()), deadline)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _dial(path: str, deadline: float) -> socket.socket:
    while (agent := dial_nowait(path)) is None:
        if time.monotonic() >= deadline:
            raise too_busy(path)
        time.sleep(BUSY_RETRY_S)
    return agent


def _send(agent: socket.socket, data: bytes, deadline: float) -> None:
    """Sends it; an agent that takes no more of it may have said why, so reading goes on."""
    agent.settimeout(max(deadline - time.monotonic(), 0.001))
    with suppress(OSError):
        agent.sendall(data)


def _receive(agent: socket.socket, deadline: float) -> bytes | None:
    """What comes next, b"" at the end; None if nothing comes before the deadline."""
    timeout_s = deadline - time.monotonic()
    agent.settimeout(None if timeout_s == NEVER else max(timeout_s, 0.0))
    try:
        return agent.recv(RECEIVE_BYTES)
    except (TimeoutError, BlockingIOError):
        return None
    except ConnectionError:
        return b""
