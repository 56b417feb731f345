"""`elf follow` against scripted agents that go away and come back."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

from asking_process import Asking, ask, asking
from scripted_agent import (
    ACCEPTED,
    Conversation,
    ScriptedAgent,
    acknowledged,
    result_line,
    stops_and_shows,
    window,
)

from agent.control.messages import Accepted, Ended, FollowRequest, Refused

FOLLOW = ("follow", "shop", "--output", "json")


def test_a_running_job_is_followed_to_its_end(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(acknowledged(2, 2), window(1000), Ended("finished"))) as server:
        finished = ask(*FOLLOW, socket=socket_path)
    assert (finished.code, finished.out.encode()) == (0, result_line(1000) + b"\n")
    assert finished.err == "shop: 2 of 2 agents run it\n"
    assert server.requests == [FollowRequest("shop")]


def test_a_restarted_agent_is_found_again_and_no_window_comes_twice(socket_path: Path) -> None:
    with ExitStack() as stack:
        process = _with_two_windows(stack, socket_path)
        assert "closed the connection" in (said := process.err.next())
        assert said.startswith("shop: ")
        assert said.endswith("trying again until it answers")
        again = stops_and_shows(window(1000), window(2000), window(3000), Ended("finished"))
        socket_path.unlink()
        with ScriptedAgent(socket_path, again) as server:
            assert process.out.next().encode() == result_line(3000)
            assert (process.out.rest(), process.code()) == ("", 0)
        assert server.requests == [FollowRequest("shop", after=2000)]
        assert process.err.rest().splitlines()[-1] == "shop: connected again"


def _with_two_windows(stack: ExitStack, path: Path, *arguments: str) -> Asking:
    """A follower that has seen two windows of an agent that is gone now; its socket's file stays."""
    with ScriptedAgent(path, stops_and_shows(window(1000), window(2000))):
        process = stack.enter_context(asking(*FOLLOW, *arguments, socket=path))
        assert process.out.next().encode() == result_line(1000)
        assert process.out.next().encode() == result_line(2000)
    return process


def test_an_agent_that_knows_the_job_no_more_at_first_is_asked_again(socket_path: Path) -> None:
    asked = 0

    def has_just_started(conversation: Conversation) -> None:
        nonlocal asked
        asked += 1
        if asked < 3:
            kinds: tuple[Refused, ...] = (Refused("unavailable", "joining"), Refused("unknown", "no such job"))
            conversation.send(kinds[asked - 1])
        else:
            conversation.send(ACCEPTED, window(3000), Ended("finished"))

    with ExitStack() as stack:
        process = _with_two_windows(stack, socket_path)
        socket_path.unlink()
        with ScriptedAgent(socket_path, has_just_started):
            assert process.out.next().encode() == result_line(3000)
            assert process.code() == 0


def test_a_follower_waits_for_an_agent_as_long_as_it_is_told_to(socket_path: Path) -> None:
    with ExitStack() as stack:
        process = _with_two_windows(stack, socket_path, "--timeout", "6")
        assert process.code() == 124
        said = process.err.rest()
    assert "nobody listens" in said
    assert "shop: time is up, runs on: elf stop shop stops it" in said


def test_another_job_of_the_same_name_ends_it(socket_path: Path) -> None:
    with ExitStack() as stack:
        process = _with_two_windows(stack, socket_path)
        socket_path.unlink()
        other = Accepted("shop", "SELECT COUNT(*) FROM web", ["COUNT(*)"], False)
        with ScriptedAgent(socket_path, lambda conversation: conversation.send(other)):
            assert process.code() == 1
        assert "another job now: SELECT COUNT(*) FROM web" in process.err.rest()


def test_ctrl_c_leaves_the_job_alone(socket_path: Path) -> None:
    with (
        ScriptedAgent(socket_path, stops_and_shows(window(1000))) as server,
        asking(*FOLLOW, "--socket", str(socket_path)) as process,
    ):
        assert process.out.next()
        process.signal(signal.SIGINT)
        assert process.code() == 130
        assert process.err.rest() == f"shop: interrupted, runs on: elf stop shop --socket {socket_path} stops it\n"
    assert server.requests == [FollowRequest("shop")]


def test_so_many_windows_are_enough(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(window(1000), window(2000))) as server:
        finished = ask(*FOLLOW, "--windows", "1", socket=socket_path)
    assert (finished.code, finished.out.encode(), finished.err) == (0, result_line(1000) + b"\n", "")
    assert server.requests == [FollowRequest("shop")]


def test_a_job_nobody_has_heard_of_is_told_at_once(socket_path: Path) -> None:
    refused = Refused("unknown", "there is no job shop: elf jobs lists those there are")
    with ScriptedAgent(socket_path, lambda conversation: conversation.send(refused)) as server:
        for command in (FOLLOW, ("stop", "shop")):
            finished = ask(*command, socket=socket_path)
            assert (finished.code, finished.out, finished.err) == (1, "", f"elf: {refused.message}\n")
    assert len(server.requests) == 2


def test_a_job_that_somebody_stops_is_told(socket_path: Path) -> None:
    with ScriptedAgent(socket_path, stops_and_shows(window(1000), Ended("stopped"))):
        finished = ask(*FOLLOW, socket=socket_path)
    assert (finished.code, finished.out.encode()) == (1, result_line(1000) + b"\n")
    assert "shop was stopped" in finished.err
