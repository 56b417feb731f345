"""The client's core without sockets: what it takes for answers, and what it refuses."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_agent import ACCEPTED, acknowledged, lines, window

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
    StopRequest,
)
from elf.client import (
    ClientError,
    ConnectionLostError,
    ControlProtocolError,
    QueryRefusedError,
)
from elf.client.attachment import JobAttachment
from elf.client.protocol import ControlConnection

QUERY = QueryRequest("SELECT 1 FROM web")


def asked(
    request: QueryRequest | FollowRequest | StopRequest | GetJobs | GetStatus = QUERY, **options: int
) -> ControlConnection:
    connection = ControlConnection("control.sock", **options)
    connection.send(request)
    return connection


def answers(connection: ControlConnection) -> list[Answer]:
    found = []
    while (answer := connection.next_answer()) is not None:
        found.append(answer)
    return found


def test_a_request_is_one_line_of_json() -> None:
    line = ControlConnection("control.sock").send(QueryRequest("SELECT a\nFROM web", app="shop", detach=True))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "type": "query", "text": "SELECT a\nFROM web", "app": "shop", "detach": True
    }, "and an agent of the release before knows all of it, where nothing new is asked for"  # fmt: skip


def test_an_agent_that_does_not_know_a_request_may_be_of_another_release() -> None:
    connection = asked()
    connection.receive_data(b'{"type":"refused","kind":"usage","message":"this is no request: unknown field `x`"}\n')
    (answer,) = answers(connection)
    assert isinstance(answer, Refused)
    assert answer.message == (
        "control.sock: this is no request: unknown field `x` (an agent of another release than this elf may not know"
        " all of it; elf top --output json has the agents' versions)"
    )


def test_of_answers_what_is_not_known_is_ignored() -> None:
    connection = asked(GetJobs())
    connection.receive_data(b'{"type":"jobs","jobs":[],"of_a_later_release":true}\n')
    assert answers(connection) == [Jobs([])]


def test_a_request_no_agent_would_read_is_refused_here() -> None:
    with pytest.raises(QueryRefusedError, match="too long"):
        ControlConnection("control.sock").send(QueryRequest("x" * (1 << 20)))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 16])
def test_answers_may_come_in_pieces_of_any_size(size: int) -> None:
    connection = asked()
    sent = [ACCEPTED, acknowledged(1, 2), window(1000), Ended("finished")]
    data = lines(*sent)
    found: list[Answer] = []
    for start in range(0, len(data), size):
        connection.receive_data(data[start : start + size])
        found += answers(connection)
    assert [type(answer) for answer in found] == [type(answer) for answer in sent]
    assert lines(*found) == data


def test_nothing_is_expected_after_the_last_answer() -> None:
    connection = asked(GetJobs())
    connection.receive_data(lines(Jobs([])) + b"whatever")
    assert answers(connection) == [Jobs([])]
    connection.receive_data(b"")
    assert answers(connection) == []


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (QUERY, window(1000)),
        (QUERY, Jobs([])),
        (QUERY, Ended("finished")),
        (StopRequest("shop"), ACCEPTED),
        (GetJobs(), JobStopped("shop")),
        (GetStatus(), Jobs([])),
    ],
    ids=lambda message: type(message).__name__,
)
def test_an_answer_to_another_question_is_no_answer(request_: QueryRequest, answer: Answer) -> None:
    connection = asked(request_)
    connection.receive_data(lines(answer))
    with pytest.raises(ControlProtocolError, match="out of turn"):
        connection.next_answer()


def test_a_job_is_accepted_once() -> None:
    connection = asked()
    connection.receive_data(lines(ACCEPTED, ACCEPTED))
    assert connection.next_answer() == ACCEPTED
    with pytest.raises(ControlProtocolError, match="out of turn"):
        connection.next_answer()


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\n",
        b"{}\n",
        b'{"type":"window"}\n',
        b'{"type":"ended","reason":"bored"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"type":"accepted","app":"\x1b[31m","query":1}\n',
    ],
)
def test_garbage_is_told_in_one_harmless_line(garbage: bytes) -> None:
    connection = asked()
    connection.receive_data(garbage)
    with pytest.raises(ControlProtocolError) as caught:
        connection.next_answer()
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 400
    assert "control.sock" in text
    assert "--socket" in text


@given(st.binary(max_size=200))
@pytest.mark.fuzz
def test_any_bytes_are_an_answer_or_an_error(data: bytes) -> None:
    connection = asked()
    connection.receive_data(data)
    connection.receive_data(b"")
    with pytest.raises((ControlProtocolError, ConnectionLostError)):
        answers(connection)


@given(st.data())
@pytest.mark.fuzz
def test_damaged_answers_are_answers_or_errors(data: st.DataObject) -> None:
    damaged = bytearray(lines(ACCEPTED, acknowledged(1, 2), window(1000), Ended("finished")))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(0.0)
    core.receive_data(bytes(damaged))
    core.receive_data(b"")
    with suppress(ClientError):
        while core.next_update(0.0) not in (None, core.ended):
            pass


def test_a_line_without_end_is_not_gathered_for_ever() -> None:
    connection = asked(line_bytes_max=1000)
    connection.receive_data(b"x" * 1000)
    assert connection.next_answer() is None
    connection.receive_data(b"x")
    with pytest.raises(ControlProtocolError, match="more than 1,000 bytes"):
        connection.next_answer()


def test_a_connection_that_closes_early_is_told_from_one_that_is_done() -> None:
    connection = asked()
    connection.receive_data(lines(ACCEPTED))
    assert connection.next_answer() == ACCEPTED
    connection.receive_data(b'{"type":')
    connection.receive_data(b"")
    with pytest.raises(ConnectionLostError, match="in the middle of an answer"):
        connection.next_answer()
