"""One job as its client sees it, without sockets and with a clock that tests move: windows, losses, returns."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import msgspec
import pytest
from scripted_agent import ACCEPTED, lines, result_line, window

from agent.control.messages import (
    Accepted,
    Answer,
    Ended,
    FollowRequest,
    QueryRequest,
    Refused,
)
from elf.client import (
    AnswerTimeoutError,
    ClientError,
    ConnectionLostError,
    ControlProtocolError,
    Disconnected,
    QueryRefusedError,
    Reconnected,
    RefusedError,
    Result,
    UnknownJobError,
    WindowsLost,
)
from elf.client.attachment import UNKNOWN_TIMEOUT_S, Backoff, JobAttachment

QUERY = QueryRequest("SELECT 1 FROM web")


class Following:
    """A follower with a backoff, and a clock that the test moves."""

    def __init__(self, after: int | None = None) -> None:
        self.now = 100.0
        self.core = JobAttachment(FollowRequest("shop", after), "control.sock", 10, Backoff(lambda: 0.5))
        self.connect(ACCEPTED)

    def connect(self, *received: Answer) -> dict[str, object]:
        """A new connection and what the agent says over it; returns the request."""
        assert not self.core.is_connected
        assert self.core.dial_at <= self.now
        request: dict[str, object] = json.loads(self.core.connected(self.now))
        self.receive(*received)
        return request

    def receive(self, *received: Answer) -> None:
        self.core.receive_data(lines(*received))

    def lose(self) -> None:
        self.core.receive_data(b"")

    def updates(self) -> list[object]:
        found: list[object] = []
        while (update := self.core.next_update(self.now)) is not None and not (
            isinstance(update, Ended) and update in found
        ):
            found.append(update)
        return found

    def panes(self) -> list[int]:
        return [update.pane for update in self.updates() if isinstance(update, Result)]

    def wait(self) -> None:
        self.now = max(self.now, self.core.dial_at)


def test_a_follower_goes_on_after_the_last_window_and_shows_none_twice() -> None:
    following = Following()
    following.receive(window(1000), window(2000))
    assert following.panes() == [1000, 2000]
    following.lose()
    (lost,) = following.updates()
    assert isinstance(lost, Disconnected)
    assert "closed the connection" in lost.reason
    following.wait()
    assert following.connect(ACCEPTED) == {"type": "follow", "app": "shop", "after": 2000}
    following.receive(window(1000), window(2000), window(3000))
    first, *rest = following.updates()
    assert isinstance(first, Reconnected)
    assert [update.pane for update in rest if isinstance(update, Result)] == [3000]


def test_windows_that_cannot_be_had_any_more_are_told_of() -> None:
    following = Following()
    following.receive(window(1000))
    assert not following.core.has_lost_windows
    lost = WindowsLost(1000, 3000)
    following.receive(lost, window(4000))
    found = following.updates()
    assert found[1] == lost
    assert [update.pane for update in found if isinstance(update, Result)] == [1000, 4000]
    assert following.core.has_lost_windows


def test_windows_that_came_before_the_loss_are_shown_before_it_is_told() -> None:
    following = Following()
    following.receive(window(1000), window(2000))
    following.lose()
    assert [type(update) for update in following.updates()] == [Result, Result, Disconnected]


def test_a_follower_tries_for_ever_at_growing_intervals_with_jitter() -> None:
    following = Following()
    following.lose()
    moments = []
    for _ in range(200):
        assert [type(update) for update in following.updates()] == [Disconnected]
        following.wait()
        moments.append(following.now)
        following.core.connection_failed(ClientError("nobody listens"), following.now)
    delays = [later - earlier for earlier, later in pairwise(moments)]
    assert delays[0] < 1
    assert max(delays) <= Backoff.MOST_S
    assert delays == sorted(delays)
    draws = random.Random(0)
    jittered = Backoff(draws.random)
    drawn = [jittered.next_delay_s() for _ in range(100)][-50:]
    assert all(Backoff.MOST_S / 2 <= delay <= Backoff.MOST_S for delay in drawn)
    assert len(set(drawn)) == 50


def test_an_agent_that_closes_again_and_again_is_asked_less_and_less_often() -> None:
    following = Following()
    delays = []
    for _ in range(8):
        following.lose()
        delays.append(next(u.retry_in_s for u in following.updates() if isinstance(u, Disconnected)))
        following.wait()
        following.connect(ACCEPTED)
        following.updates()
    assert delays[-1] > 20 * delays[0]
    following.now += 60  # this connection is a good one
    following.lose()
    assert [u.retry_in_s for u in following.updates() if isinstance(u, Disconnected)] == delays[:1]


def test_a_restarted_agent_has_time_to_hear_of_the_job_again() -> None:
    following = Following()
    following.lose()
    following.updates()
    began = following.now
    with pytest.raises(UnknownJobError, match="no such job"):  # noqa: PT012 - it is raised by one of many
        for _ in range(100):
            following.wait()
            following.connect(Refused("unknown", "no such job"))
            following.updates()
    assert UNKNOWN_TIMEOUT_S <= following.now - began < 2 * UNKNOWN_TIMEOUT_S


def test_an_agent_that_has_not_joined_yet_is_asked_again() -> None:
    following = Following()
    following.lose()
    following.updates()
    for _ in range(20):
        following.wait()
        following.connect(Refused("unavailable", "still joining"))
        assert [u.reason for u in following.updates() if isinstance(u, Disconnected)] == ["still joining"]


def test_an_agent_that_hangs_when_asked_again_counts_as_lost() -> None:
    following = Following()
    following.lose()
    following.updates()
    following.wait()
    following.connect()
    following.now = following.core.next_timer()
    following.core.handle_timer(following.now)
    (lost,) = following.updates()
    assert isinstance(lost, Disconnected)
    assert "did not answer within 10 s" in lost.reason


def test_another_job_of_the_same_name_is_not_gone_on_with() -> None:
    following = Following()
    following.lose()
    following.updates()
    following.wait()
    following.connect(Accepted("shop", "SELECT b FROM web", ["b"], False))
    with pytest.raises(ClientError, match="another job now: SELECT b FROM web"):
        following.updates()


def test_a_job_that_was_updated_meanwhile_is_gone_on_with() -> None:
    following = Following()
    following.lose()
    following.updates()
    following.wait()
    following.connect(Accepted("shop", "SELECT b FROM web", ["b"], False, version=2))
    assert following.updates() == [Reconnected()]
    assert following.core.accepted is not None
    assert following.core.accepted.columns == ["b"]


def test_the_first_answer_decides_also_for_a_follower() -> None:
    refusals: list[tuple[Answer, type[ClientError]]] = [
        (Refused("unknown", "no such job"), UnknownJobError),
        (Refused("unavailable", "joining"), RefusedError),
        (Refused("usage", "no name"), QueryRefusedError),
    ]
    for refused, expected in refusals:
        core = JobAttachment(FollowRequest("shop"), "control.sock", 10, Backoff(lambda: 0.5))
        core.connected(0.0)
        core.receive_data(lines(refused))
        with pytest.raises(expected):
            core.is_accepted(0.0)


def test_a_query_is_not_resumed() -> None:
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(0.0)
    core.receive_data(lines(ACCEPTED, window(1000)))
    core.receive_data(b"")
    assert isinstance(core.next_update(0.0), Result)
    with pytest.raises(ConnectionLostError):
        core.next_update(0.0)


def test_an_agent_that_does_not_answer_is_given_up() -> None:
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(100.0)
    core.handle_timer(109.9)
    with pytest.raises(AnswerTimeoutError, match="within 10 s"):
        core.handle_timer(core.next_timer())


@pytest.mark.parametrize(
    "result",
    [
        b"{}",
        b"[]",
        b'"text"',
        result_line(1000).replace(b'"rows":[{', b'"rows":[3,{'),
        result_line(1000, [{"product": "Chess"}]),
        result_line(1000, [{"product": "Chess", "clicks": 1, "more": 1}]),
        result_line(1000, events="many"),
    ],
)
def test_a_window_that_is_none_is_an_error(result: bytes) -> None:
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(0.0)
    core.receive_data(lines(ACCEPTED) + b'{"type":"window","pane":1000,"result":' + result + b"}\n")
    with pytest.raises(ControlProtocolError, match="window"):
        core.next_update(0.0)


def test_a_result_keeps_its_line_and_exact_numbers() -> None:
    rows = [{"product": "Zoë \x1b[31m", "clicks": 2**100}, {"product": None, "clicks": 0.1}]
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(0.0)
    core.receive_data(lines(ACCEPTED, window(1000, rows)))
    result = core.next_update(0.0)
    assert isinstance(result, Result)
    assert result.rows == rows
    assert result.json == result_line(1000, rows)
    assert result.to_json().encode() == result.json
    assert result.pane == 1000


def test_fields_of_later_versions_are_no_error() -> None:
    core = JobAttachment(QUERY, "control.sock", 10)
    core.connected(0.0)
    later = msgspec.json.encode(ACCEPTED)[:-1] + b',"colour":"red"}\n'
    core.receive_data(later + lines(window(1000, colour="red")))
    assert isinstance(core.next_update(0.0), Result)
