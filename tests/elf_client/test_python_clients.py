"""The Python clients, blocking and for trio, over real sockets: the same calls, the same outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from scripted_agent import (
    ACCEPTED,
    PATIENCE_S,
    ClientGoneError,
    Conversation,
    ScriptedAgent,
    acknowledged,
    stops_and_shows,
    window,
)

import elf
from agent.control.messages import Answered, Ended, Follow, GetJobs, Jobs, Query, Refused, Stop, Updated, UpdateJob
from agent.control.messages import Ask as AskRequest
from elf.client import (
    Acknowledged,
    AgentUnreachableError,
    AnswerTimeoutError,
    AsyncClient,
    ClientError,
    ConnectionLostError,
    Disconnected,
    JobEndedError,
    QueryRefusedError,
    Reconnected,
    Result,
    UnknownJobError,
)

TEXT = "SELECT product, SUM(clicks) AS clicks FROM web GROUP BY product WINDOWING 10 SECONDS"
Ask = Callable[[AsyncClient], Awaitable[None]]


def in_trio(path: Path, ask: Ask, timeout_s: float = 10.0) -> None:
    """Runs `ask` with a client of the agent at that path, within the time a test has."""

    async def main() -> None:
        with trio.fail_after(PATIENCE_S):
            async with elf.connect(path, timeout_s=timeout_s) as client:
                await ask(client)

    trio.run(main)


def silent(conversation: Conversation) -> None:
    conversation.wait_for_close()
    raise ClientGoneError


def refusing(conversation: Conversation) -> None:
    usage = isinstance(conversation.request, Query)
    conversation.send(Refused("usage" if usage else "unknown", "no such thing"))


def test_windows_of_a_query_one_after_the_other(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(acknowledged(2, 2), window(1000), window(2000), Ended("finished"))):
        with elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
            assert (job.app, job.query, job.columns, job.bounded) == ("shop", ACCEPTED.query, ACCEPTED.columns, False)
            blocking = list(job)
            assert list(job) == []
            assert (job.ended, job.last_pane, job.acknowledged) == ("finished", 2000, acknowledged(2, 2))

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT) as job:
                assert [result async for result in job] == blocking
                assert [result async for result in job] == []
                assert (job.app, job.ended, job.last_pane) == ("shop", "finished", 2000)

        in_trio(socket_path, ask)
    assert [result.rows for result in blocking] == [
        [{"product": "Chess", "clicks": 1000}], [{"product": "Chess", "clicks": 2000}]
    ]  # fmt: skip


def test_updates_tell_everything(socket_path: Path) -> None:
    expected = [Acknowledged, Result, Acknowledged, Ended]
    script = stops_and_shows(acknowledged(1, 2), window(1000), acknowledged(2, 2), Ended("finished"))
    with ScriptedAgent(socket_path, script):
        with elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
            assert [type(update) for update in job.updates()] == expected

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT) as job:
                assert [type(update) async for update in job.updates()] == expected

        in_trio(socket_path, ask)


def test_requests_say_what_was_asked_for(socket_path: Path) -> None:
    with (
        ScriptedAgent(socket_path, stops_and_shows(Ended("finished"))) as server,
        elf.connect_sync(socket_path) as client,
    ):
        for job in (client.query(TEXT, app="a", once=True, detach=True), client.follow("a", after=5)):
            with job:
                assert list(job) == []

        async def ask(client: AsyncClient) -> None:
            for job in (client.query(TEXT, app="a", once=True, detach=True), client.follow("a", after=5)):
                async with job:
                    assert [result async for result in job] == []

        in_trio(socket_path, ask)
    assert server.requests == [Query(TEXT, "a", once=True, detach=True), Follow("a", 5)] * 2


def test_a_job_is_asked_by_its_name(socket_path: Path) -> None:
    answer = Answered("shop", ACCEPTED.query, ACCEPTED.columns, [window(1000), window(2000)])
    with ScriptedAgent(socket_path, lambda conversation: conversation.send(answer)) as server:
        with elf.connect_sync(socket_path) as client:
            blocking = client.ask("shop", windows=2)

        async def ask(client: AsyncClient) -> None:
            assert await client.ask("shop") == blocking

        in_trio(socket_path, ask)
    assert (blocking.app, blocking.query, blocking.columns) == ("shop", ACCEPTED.query, ACCEPTED.columns)
    assert [one.pane for one in blocking.windows] == [1000, 2000]
    assert server.requests == [AskRequest("shop", 2), AskRequest("shop", 1)]


def test_leaving_early_closes_the_connection(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(window(1000), window(2000))) as server:
        with elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
            for result in job:
                assert result.pane == 1000
                break
        assert server.closed.get(timeout=PATIENCE_S) == Query(TEXT)
        with pytest.raises(ClientError, match="closed"):
            next(job)

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT) as job:
                async for result in job:
                    assert result.pane == 1000
                    break
            assert await trio.to_thread.run_sync(server.closed.get) == Query(TEXT)
            with pytest.raises(ClientError, match="closed"):
                await anext(job)

        in_trio(socket_path, ask)


def test_cancelling_closes_the_connection_and_loses_nothing(socket_path: Path) -> None:
    go_on = threading.Event()

    def script(conversation: Conversation) -> None:
        conversation.send(ACCEPTED)
        assert go_on.wait(PATIENCE_S)
        conversation.send(window(1000))
        silent(conversation)

    async def ask(client: AsyncClient) -> None:
        with trio.move_on_after(PATIENCE_S) as scope:
            async with client.query(TEXT) as job:
                with trio.move_on_after(0.05) as short:
                    await anext(job)
                assert short.cancelled_caught
                go_on.set()
                assert (await anext(job)).pane == 1000
                scope.cancel()
                await anext(job)
        assert scope.cancelled_caught
        assert await trio.to_thread.run_sync(server.closed.get) == Query(TEXT)

    with ScriptedAgent(socket_path, script) as server:
        in_trio(socket_path, ask)


def test_cancelling_a_request_that_gets_no_answer(socket_path: Path) -> None:
    async def ask(client: AsyncClient) -> None:
        with trio.move_on_after(0.05):
            async with client.query(TEXT):
                raise AssertionError("nobody has accepted it")
        with trio.move_on_after(0.05):
            await client.jobs()
        closed = [await trio.to_thread.run_sync(server.closed.get) for _ in range(2)]
        assert closed == [Query(TEXT), GetJobs()]

    with ScriptedAgent(socket_path, silent) as server:
        in_trio(socket_path, ask)


def test_waiting_has_a_limit(socket_path: Path) -> None:
    server = ScriptedAgent(socket_path, stops_and_shows())
    with server, elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
        started = time.monotonic()
        assert job.wait(timeout_s=0.1) is None
        assert job.wait(timeout_s=0) is None
        assert time.monotonic() - started >= 0.1


def test_an_agent_that_does_not_answer_is_given_up(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, silent):
        with elf.connect_sync(socket_path, timeout_s=0.1) as client:
            with pytest.raises(AnswerTimeoutError), client.query(TEXT):
                pass
            with pytest.raises(TimeoutError):
                client.status()

        async def ask(client: AsyncClient) -> None:
            with pytest.raises(AnswerTimeoutError):
                async with client.query(TEXT):
                    pass
            with pytest.raises(TimeoutError):
                await client.status()

        in_trio(socket_path, ask, timeout_s=0.1)


@pytest.mark.parametrize(("reason", "failure"), [("stopped", ""), ("lost", ""), ("failed", "too many groups")])
def test_a_job_that_ends_early_is_an_error(socket_path: Path, reason: str, failure: str) -> None:
    ended = Ended(reason, failure)  # type: ignore[arg-type]
    with ScriptedAgent(socket_path, stops_and_shows(window(1000), ended)):
        with elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
            assert next(job).pane == 1000
            with pytest.raises(JobEndedError) as caught:
                next(job)

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT) as job:
                assert (await anext(job)).pane == 1000
                with pytest.raises(JobEndedError, match=failure or reason):
                    await anext(job)

        in_trio(socket_path, ask)
    assert (caught.value.reason, caught.value.failure, caught.value.app) == (reason, failure, "shop")


def test_an_agent_that_ends_in_the_middle_is_an_error(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, lambda conversation: conversation.send(ACCEPTED, window(1000))):
        with elf.connect_sync(socket_path) as client, client.query(TEXT) as job:
            assert next(job).pane == 1000
            with pytest.raises(ConnectionLostError):
                next(job)

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT) as job:
                assert (await anext(job)).pane == 1000
                with pytest.raises(ConnectionLostError):
                    await anext(job)

        in_trio(socket_path, ask)


def test_refusals_say_what_kind_they_are(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, refusing):
        with elf.connect_sync(socket_path) as client:
            with pytest.raises(QueryRefusedError, match="no such thing"), client.query(TEXT):
                pass
            with pytest.raises(elf.UsageError), client.query(TEXT):
                pass
            with pytest.raises(UnknownJobError), client.follow("shop"):
                pass
            with pytest.raises(UnknownJobError):
                client.stop("shop")

        async def ask(client: AsyncClient) -> None:
            with pytest.raises(QueryRefusedError, match="no such thing"):
                async with client.query(TEXT):
                    pass
            with pytest.raises(UnknownJobError):
                await client.stop("shop")

        in_trio(socket_path, ask)


def test_nobody_there_is_told_before_anything_is_asked(socket_path: Path) -> None:
    with pytest.raises(AgentUnreachableError, match="no such socket"), elf.connect_sync(socket_path):
        pass
    with pytest.raises(AgentUnreachableError, match="no such socket"):
        in_trio(socket_path, lambda client: client.stop("shop"))


def test_the_socket_is_that_of_the_environment(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELF_SOCKET", str(socket_path))
    with ScriptedAgent(socket_path, lambda conversation: conversation.send(Jobs([]))), elf.connect_sync() as client:
        assert client.jobs() == []
    monkeypatch.setenv("ELF_SOCKET", "")
    assert elf.connect_sync().path == "/run/elf/control.sock"


def test_many_jobs_at_once(socket_path: Path) -> None:
    async def ask(client: AsyncClient) -> None:
        seen: list[int] = []

        async def follow(after: int) -> None:
            async with client.follow("shop", after=after) as job:
                seen.extend([result.pane async for result in job])

        async with trio.open_nursery() as nursery:
            for after in (0, 1000, 2000):
                nursery.start_soon(follow, after)
        assert sorted(seen) == [1000, 2000, 2000, 3000, 3000, 3000]

    with ScriptedAgent(socket_path, stops_and_shows(window(1000), window(2000), window(3000), Ended("finished"))):
        in_trio(socket_path, ask)


def test_following_through_a_restart(socket_path: Path) -> None:
    expected = [Result, Disconnected, Reconnected, Result, Ended]

    def once_more(conversation: Conversation) -> None:
        request = conversation.request
        assert isinstance(request, Follow)
        if request.after is None:
            conversation.send(ACCEPTED, window(1000))
        else:
            conversation.send(ACCEPTED, window(1000), window(2000), Ended("finished"))

    with ScriptedAgent(socket_path, once_more) as server:
        with elf.connect_sync(socket_path) as client, client.follow("shop", reconnect=True) as job:
            assert [type(update) for update in job.updates()] == expected

        async def ask(client: AsyncClient) -> None:
            async with client.follow("shop", reconnect=True) as job:
                assert [type(update) async for update in job.updates()] == expected

        in_trio(socket_path, ask)
    assert server.requests == [Follow("shop"), Follow("shop", 1000)] * 2


def test_a_following_that_has_no_agent_waits_no_longer_than_told(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(window(1000))):
        with elf.connect_sync(socket_path) as client:
            job = client.follow("shop", reconnect=True).__enter__()
        assert isinstance(job.wait(PATIENCE_S), Result)
    assert isinstance(job.wait(PATIENCE_S), Disconnected)
    deadline = time.monotonic() + 1.0
    while (left_s := deadline - time.monotonic()) > 0:
        assert isinstance(job.wait(left_s), Disconnected | None)
    job.close()


def test_a_job_tells_nothing_before_it_is_submitted(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows()) as server, elf.connect_sync(socket_path) as client:
        job = client.query(TEXT)
        with pytest.raises(ClientError, match="not submitted"):
            assert job.app
        with pytest.raises(ClientError, match="not submitted"):
            next(job)
    assert server.requests == []


def test_stopping_one_s_own_job(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows()) as server:
        with elf.connect_sync(socket_path) as client, client.query(TEXT, detach=True) as job:
            job.stop()

        async def ask(client: AsyncClient) -> None:
            async with client.query(TEXT, detach=True) as job:
                await job.stop()

        in_trio(socket_path, ask)
    assert server.requests == [Query(TEXT, detach=True), Stop("shop")] * 2


def test_a_job_is_updated_by_its_name(socket_path: Path) -> None:
    answer = Updated("shop", TEXT, 2, "2026-01-02T03:05:00Z", 8, 8, [])
    with ScriptedAgent(socket_path, lambda conversation: conversation.send(answer)) as server:
        with elf.connect_sync(socket_path) as client:
            assert client.update("shop", TEXT, reset=True) == answer

        async def update(client: AsyncClient) -> None:
            assert await client.update("shop", TEXT, max_groups=5, beyond_groups="error") == answer

        in_trio(socket_path, update)
    assert server.requests == [
        UpdateJob("shop", TEXT, reset=True),
        UpdateJob("shop", TEXT, max_groups=5, beyond_groups="error"),
    ]
