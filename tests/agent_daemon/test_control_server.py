"""The control socket, as its clients meet it: real Unix sockets, with a stand-in for the agent behind it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from agent.control import server as control_server
from agent.control.messages import (
    Answer,
    Ended,
    FollowRequest,
    GetJobs,
    GetStatus,
    Jobs,
    JobStopped,
    QueryRequest,
    Refused,
    Request,
    StopRequest,
    SubmitRequest,
    UpdateBundle,
)
from agent.control.server import Connection, ControlServer, encode_answer
from agent.errors import StartError

DEADLINE_S = 120
REPLIES: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
Handler = Callable[[Request, Connection], Awaitable[None]]


async def no_jobs(_request: Request, connection: Connection) -> None:
    connection.send(Jobs([]))


@asynccontextmanager
async def serving(path: Path, answer: Handler = no_jobs, **limits: float) -> AsyncIterator[ControlServer]:
    server = ControlServer(path, answer, **limits)  # type: ignore[arg-type]
    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve)
            yield server
            nursery.cancel_scope.cancel()


class Client:
    """Talks to the server as lines of bytes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._read = b""

    async def ask(self, request: Request | bytes) -> None:
        line = request if isinstance(request, bytes) else msgspec.json.encode(request)
        await self.stream.send_all(line + b"\n")

    async def answers(self) -> list[Answer]:
        """Everything until the server closes."""
        while piece := await self.stream.receive_some():
            self._read += piece
        return [REPLIES.decode(line) for line in self._read.splitlines()]

    async def answer(self) -> Answer:
        while b"\n" not in self._read:
            piece = await self.stream.receive_some()
            assert piece, "the server closed"
            self._read += piece
        line, self._read = self._read.split(b"\n", 1)
        return REPLIES.decode(line)


@asynccontextmanager
async def client_of(path: Path) -> AsyncIterator[Client]:
    async with await trio.open_unix_socket(path) as stream:
        yield Client(stream)


async def answers_to(path: Path, request: Request | bytes) -> list[Answer]:
    async with client_of(path) as client:
        await client.ask(request)
        return await client.answers()


async def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        await trio.sleep(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "control.sock"


@pytest.mark.trio
async def test_a_request_is_answered_and_the_connection_closed(path: Path) -> None:
    async with serving(path) as server:
        assert await answers_to(path, GetJobs()) == [Jobs([])]
        assert server.counters["GetJobs"] == 1


@pytest.mark.trio
async def test_the_socket_is_for_owner_and_group_and_goes_with_its_agent(path: Path) -> None:
    async with serving(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()


@pytest.mark.trio
@pytest.mark.parametrize(
    "line",
    [b"garbage", b"{}", b'{"type":"dance"}', b'{"type":"stop"}', b'{"type":"stop","app":""}', b'{"type":"jobs","x":1}',
     b"\x00\xff\xfe", b"[" * 100_000, b"", b'{"type":"query","text":"' + b"x" * (1 << 20) + b'"}'],
    ids=range(10),
)  # fmt: skip
async def test_what_is_no_request_is_refused_and_the_next_client_served(path: Path, line: bytes) -> None:
    async with serving(path):
        if line:
            (answer,) = await answers_to(path, line)
            assert isinstance(answer, Refused)
            assert answer.kind == "usage"
        else:
            assert await answers_to(path, line) == []
        assert await answers_to(path, GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_a_client_of_a_later_release_is_told_which_versions_are_read(path: Path) -> None:
    async with serving(path):
        (answer,) = await answers_to(path, b'{"type":"jobs","protocol":2,"of_this_host":true}')
        assert isinstance(answer, Refused)
        assert answer.message == (
            "this is no request for this agent: it is of version 2 of the control protocol, and the agent reads up to 1"
            ": upgrade the agent, or ask it with the elf of its own release"
        )
        (answer,) = await answers_to(path, b'{"type":"jobs","of_this_host":true}')
        assert isinstance(answer, Refused)
        assert "of version 1 of the control protocol, which this agent reads: Object contains" in answer.message
        assert await answers_to(path, GetJobs()) == [Jobs([])]


@pytest.mark.trio
@pytest.mark.parametrize("more", ["\n", "\r\n", "0", " "])
async def test_a_job_id_with_more_behind_it_is_none(path: Path, more: str, caplog: pytest.LogCaptureFixture) -> None:
    """A pattern whose end also matches before a last newline let such an id through, to fail inside the agent."""
    app_id = "0" * 32
    requests = (StopRequest("shop", app_id), SubmitRequest("shop", app_id, b"x"), UpdateBundle("shop", app_id, b"x"))
    async with serving(path) as server:
        for request in requests:
            assert await answers_to(path, request) == [Jobs([])], "an id is taken"
            (answer,) = await answers_to(path, msgspec.structs.replace(request, app_id=app_id + more))
            assert isinstance(answer, Refused)
            assert (answer.kind, "app_id" in answer.message) == ("usage", True)
        assert server.counters["StopRequest"] == 1
    assert not caplog.records


@pytest.mark.trio
async def test_clients_that_say_nothing_or_leave_are_no_burden(path: Path) -> None:
    async with serving(path, request_timeout_s=0.05):
        async with client_of(path) as silent:
            (answer,) = await silent.answers()
        assert isinstance(answer, Refused)
        assert "no request came within 0.05 seconds" in answer.message
        for beginning in (b"", b'{"type":'):
            async with client_of(path) as hasty:
                await hasty.stream.send_all(beginning)
        assert await answers_to(path, GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_only_so_many_clients_are_served_at_once(path: Path) -> None:
    async def wait(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped("seen"))
        await trio.sleep_forever()

    async with serving(path, wait, clients_max=2), contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            client = await stack.enter_async_context(client_of(path))
            await client.ask(FollowRequest("a"))
            assert await client.answer() == JobStopped("seen")
        (answer,) = await answers_to(path, FollowRequest("a"))
        assert isinstance(answer, Refused)
        assert (answer.kind, answer.message) == ("unavailable", "the agent serves 2 clients already")


@pytest.mark.trio
async def test_a_client_that_goes_ends_what_was_done_for_it(path: Path) -> None:
    gone = trio.Event()

    async def follow(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped("seen"))
        try:
            await trio.sleep_forever()
        finally:
            assert connection.client_gone
            gone.set()

    async with serving(path, follow):
        async with client_of(path) as client:
            await client.ask(QueryRequest("SELECT 1"))
            await client.answer()
        await gone.wait()
        async with client_of(path) as client:
            await client.ask(QueryRequest("SELECT 1"))
            await client.answer()


@pytest.mark.trio
async def test_an_agent_that_ends_is_no_client_that_goes(path: Path) -> None:
    seen: list[bool] = []

    async def follow(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped("seen"))
        try:
            await trio.sleep_forever()
        finally:
            seen.append(connection.client_gone)

    async with contextlib.AsyncExitStack() as stack:
        async with serving(path, follow):
            client = await stack.enter_async_context(client_of(path))
            await client.ask(FollowRequest("a"))
            await client.answer()
        assert seen == [False]
        assert await client.answers() == []


@pytest.mark.trio
async def test_an_error_in_the_agent_is_logged_and_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request, _connection: Connection) -> None:
        raise ValueError(f"cannot do {request}")

    async with serving(path, fail) as server:
        for request in (GetStatus(), FollowRequest("a")):
            (answer,) = await answers_to(path, request)
            assert isinstance(answer, Refused)
            assert answer.kind == "unavailable"
        assert server.counters["failed"] == 2
    assert [record.getMessage() for record in caplog.records] == ["a request failed"] * 2
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.trio
async def test_a_client_that_does_not_read_is_dropped(path: Path) -> None:
    ended = trio.Event()

    async def flood(_request: Request, connection: Connection) -> None:
        try:
            while True:
                connection.send(JobStopped("x" * 100_000))
                await trio.lowlevel.checkpoint()
        finally:
            ended.set()

    async with serving(path, flood) as server, client_of(path) as deaf:
        await deaf.ask(FollowRequest("a"))
        await ended.wait()
        with contextlib.suppress(trio.BrokenResourceError):
            while await deaf.stream.receive_some():  # what had been on its way
                pass
        assert server.counters["dropped"] == 1
        async with client_of(path) as other:
            await other.stream.send_all(b"hello\n")
            assert isinstance(await other.answer(), Refused)


@pytest.mark.trio
async def test_answers_longer_than_the_backlog_reach_a_client_that_reads(path: Path) -> None:
    long = "x" * (20 << 20)

    async def tell(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped(long))
        await wait_until(lambda: connection.waiting_bytes == 0)
        connection.send(Ended("finished"))

    async with serving(path, tell):
        assert await answers_to(path, FollowRequest("a")) == [JobStopped(long), Ended("finished")]


@pytest.mark.trio
@pytest.mark.parametrize("more", [0, 1, 9_000])
async def test_one_answer_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr(control_server, "LINE_BYTES_MAX", 1_000)
    room = 1_000 - len(encode_answer(JobStopped("")))

    async def tell(_request: Request, connection: Connection) -> None:
        connection.send(JobStopped("x" * (room + more)))
        connection.send(Ended("finished"))

    async with serving(path, tell) as server:
        answers = await answers_to(path, FollowRequest("a"))
        assert answers == ([] if more else [JobStopped("x" * room), Ended("finished")])
        assert server.counters["dropped"] == (more > 0)


@pytest.mark.trio
async def test_a_socket_left_behind_is_replaced(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with serving(path):
        assert await answers_to(path, GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_a_socket_somebody_answers_at_is_left_alone(path: Path) -> None:
    async with serving(path):
        with pytest.raises(StartError, match=r"control\.sock: another agent answers there"):
            await ControlServer(path, no_jobs).serve()
        assert await answers_to(path, GetJobs()) == [Jobs([])]


@pytest.mark.trio
async def test_what_is_no_socket_is_left_alone(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(StartError, match="something is there already that is no socket"):
        await ControlServer(path, no_jobs).serve()
    assert path.read_text() == "precious"


@pytest.mark.trio
async def test_where_no_socket_can_be(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="there is no folder"):
        await ControlServer(tmp_path / "missing" / "control.sock", no_jobs).serve()
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="not a directory"):
        await ControlServer(tmp_path / "file" / "control.sock", no_jobs).serve()
    if os.getuid():
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(StartError, match="permission denied"):
            await ControlServer(locked / "control.sock", no_jobs).serve()


@pytest.mark.trio
async def test_another_agents_new_socket_is_not_removed(path: Path) -> None:
    async with serving(path):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as newer:
            newer.bind(str(path))
    assert path.exists()
