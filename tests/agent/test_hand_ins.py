"""Agents that cannot keep up with their logs: under WITHIN ... ELSE PARTIAL they hand in what they have in time."""

from __future__ import annotations

import pytest
from memory_fleet import WALL_MS, events
from test_stragglers import STEP_S, Street, begins, name

from agent import WindowResult
from agent.parsing import Abandoned, Parsed

LIMIT_S = 2.0
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 250 MILLISECONDS WITHIN 2 SECONDS"
PER_S = round(1 / STEP_S)


class Overloaded(Street):
    """A street whose agents decode as many events as their speed lets them, but pass over those that are too late."""

    passed_over = 0

    def __init__(self, text: str) -> None:
        self.room = dict.fromkeys(range(4), 0.0)
        super().__init__(text)

    def _wait(self) -> None:
        for _ in range(5):  # timers are on time
            self.fleet.wait(STEP_S / 5)

    def _read(self, number: int, speed: float) -> None:
        ingest, (feed,) = self.fleet.agents[number].ingest, self.fleet.agents[number].ingest.feeds()
        self.room[number] = min(self.room[number], 1.0) + speed
        while (tick := int(self.read[number] / STEP_S + 1e-6) + 1) <= int(self.fleet.now / STEP_S + 1e-6):
            at_ms = WALL_MS + round(tick * STEP_S * 1000) - 1
            abandoned_ms = ingest.abandoned_ms(feed.key)
            if abandoned_ms is not None and at_ms <= abandoned_ms:
                self.fleet.give(self.fleet.agents[number], feed.key, Parsed((), 0, abandoned=Abandoned(1, at_ms)))
                self.passed_over += 1
            elif self.room[number] >= 1.0:
                self.room[number] -= 1.0
                self.fleet.insert(number, events("a", at_ms=at_ms))
            else:
                return
            self.read[number] = tick * STEP_S
        self.fleet.catch_up(number)


def lived(text: str, speed: float) -> tuple[Overloaded, list[WindowResult], str]:
    """Windows of half a minute in which an agent reads so many times as fast as its log is written, and its name."""
    street = Overloaded(text)
    street.go_on(8.0)
    slow, begun = street.slow(), street.fleet.now
    street.speed[slow] = speed
    street.passed_over = 0
    street.go_on(30.0)
    windows = [one for one in street.results() if begins(one) >= begun + 5.0]
    return street, windows, name(street, slow)


@pytest.mark.parametrize("load", [1.3, 1.8])
def test_an_agent_that_cannot_keep_up_has_in_each_window_what_it_can_read(load: float) -> None:
    street, windows, slow = lived(f"{COUNT} ELSE PARTIAL", 1 / load)
    assert street.passed_over
    assert len(windows) >= 20
    for one in windows:
        assert (one.contributors, one.missing, one.leaped) == (4, [], 0), "it is there each time"
        assert one.partial in ([], [slow])
    assert max(at - begin - 1.0 for begin, (at, _) in street.came.items()) <= LIMIT_S + STEP_S
    own = sum(one.events - 3 * PER_S for one in windows)
    assert own >= 0.85 * len(windows) * PER_S / load, "as much as it can read"
    every = street.results()
    assert sum(one.events + one.late for one in every) >= sum(4 * PER_S for one in every[1:-3]), "others are late"


def test_agents_that_keep_up_hand_in_nothing_early() -> None:
    street, windows, _ = lived(f"{COUNT} ELSE PARTIAL", 1.0)
    assert len(windows) >= 20
    assert {(one.contributors, one.events, one.late) for one in windows} == {(4, 4 * PER_S, 0)}
    assert all(one.partial == [] for one in windows)
    assert not street.passed_over


def test_others_wait_for_what_an_agent_has_not_read() -> None:
    street, _, slow = lived(COUNT, 1 / 1.3)
    assert not street.passed_over
    street.speed[next(number for number in range(4) if name(street, number) == slow)] = 40.0
    street.go_on(10.0)
    every = street.results()[2:]
    assert {(one.contributors, one.events, one.late) for one in every} == {(4, 4 * PER_S, 0)}, "nothing is lost"


def test_jobs_share_an_operator_if_they_wait_equally_long() -> None:
    street = Street(f"{COUNT} ELSE PARTIAL")
    street.fleet.submit(COUNT, "patient", bounded=False)
    street.go_on(3.0)
    operators = list(street.fleet.agents[0].ingest)
    assert len(operators) == 2
    assert {operator.key.limit_ms for operator in operators} == {None, 2_000}
