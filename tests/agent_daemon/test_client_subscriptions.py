"""Clients that share a followed job: each gets every window it asked for once, and is told what it missed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from agent.control.client_subscriptions import Client, ClientSubscriptions
from agent.runtime.messages.client_events import Accepted, Acknowledged, Ended, JobEvent, PublishedWindow, WindowsLost

JOB = 7


class Core:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[int | str | None] = []
        self.tell: Callable[[JobEvent], None] = lambda _event: None

    def follow(self, _app_id: int, after: int | None, sink: Callable[[JobEvent], None]) -> None:
        self.asked.append(after)
        self.tell = sink

    def unfollow(self, _app_id: int, sink: Callable[[JobEvent], None]) -> None:
        assert sink == self.tell
        self.asked.append("unfollow")


class Listener:
    """A client's end."""

    def __init__(self, after: int | None = None) -> None:
        self.lines: list[dict[str, Any]] = []
        self.reasons: list[str] = []
        self.client = Client(self, after, lambda ended: self.reasons.append(ended.reason))

    def send_line(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    @property
    def panes(self) -> list[int]:
        return [line["pane"] for line in self.lines if line["type"] == "window"]

    @property
    def kinds(self) -> list[str]:
        return [line["type"] for line in self.lines]


def begin(after: int | None = None) -> tuple[Core, ClientSubscriptions, Listener]:
    core = Core()
    audiences = ClientSubscriptions(core)
    first = Listener(after)
    audiences.attach(JOB, first.client)
    audiences.accepted(JOB, Accepted("errors", "SELECT ...", ["n"], bounded=False))
    core.tell(Acknowledged(2, 3, 1, 1, "agent-1"))
    return core, audiences, first


def publish(core: Core, *panes: int) -> None:
    for pane in panes:
        core.tell(PublishedWindow(pane, msgspec.Raw(b'{"rows":[]}')))


def test_a_client_is_told_of_the_job_first() -> None:
    core, _, first = begin(after=1000)
    publish(core, 2000, 3000)
    assert core.asked == [1000]
    assert first.kinds == ["accepted", "acknowledged", "window", "window"]
    assert first.lines[0]["app"] == "errors"
    assert first.lines[2] == {"type": "window", "pane": 2000, "result": {"rows": []}}


def test_who_comes_later_is_told_what_is_known_and_asks_nobody() -> None:
    core, audiences, first = begin()
    publish(core, 1000)
    later = Listener()
    audiences.attach(JOB, later.client)
    publish(core, 2000)
    assert core.asked == [None]
    assert later.kinds == ["accepted", "acknowledged", "window"]
    assert (first.panes, later.panes) == ([1000, 2000], [2000])


def test_who_wants_older_windows_gets_them_and_nobody_else_gets_them_twice() -> None:
    core, audiences, first = begin()
    publish(core, 3000)
    newcomer, older = Listener(), Listener(after=1000)
    audiences.attach(JOB, newcomer.client)
    audiences.attach(JOB, older.client)
    assert core.asked == [None, 1000]
    publish(core, 2000, 3000, 4000)
    assert older.panes == [2000, 3000, 4000]
    assert first.panes == [3000, 4000]
    assert newcomer.panes == [4000]


def test_who_wants_what_comes_anyway_asks_nobody() -> None:
    core, audiences, _ = begin()
    publish(core, 3000)
    late = Listener(after=3000)
    audiences.attach(JOB, late.client)
    publish(core, 4000)
    assert core.asked == [None]
    assert late.panes == [4000]


def test_the_job_is_followed_until_the_last_one_goes() -> None:
    core, audiences, first = begin()
    second = Listener()
    audiences.attach(JOB, second.client)
    audiences.detach(JOB, first.client)
    audiences.detach(JOB, first.client)
    publish(core, 1000)
    audiences.detach(JOB, second.client)
    publish(core, 2000)
    assert core.asked == [None, "unfollow"]
    assert (first.panes, second.panes) == ([], [1000])


def test_everyone_is_told_of_the_end_once_and_the_name_is_free_again() -> None:
    core, audiences, first = begin()
    second = Listener()
    audiences.attach(JOB, second.client)
    for _ in range(2):
        core.tell(Ended("stopped"))
    assert (first.reasons, second.reasons) == (["stopped"], ["stopped"])
    again = Listener(after=5)
    audiences.attach(JOB, again.client)
    assert core.asked == [None, 5]
    assert again.lines == []


def test_lost_windows_are_told_to_clients_that_wait_for_them() -> None:
    core, audiences, first = begin(after=1000)
    ahead = Listener(after=5000)
    audiences.attach(JOB, ahead.client)
    core.tell(WindowsLost(1000, 4000))
    assert first.kinds[-1] == "windows_lost"
    assert "windows_lost" not in ahead.kinds
