"""Agents that live and are late: who waits for them, who leaps over them, and what results say of it."""

from __future__ import annotations

import pytest
from memory_fleet import KEY, WALL_MS, Fleet, events

from agent import WindowResult
from agent.runtime.reduce.straggler import SETTLED_S

COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 0 SECONDS"
GROUPED = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 0 SECONDS"
STEP_S = 0.25


class Street:
    """A fleet whose agents log one event every quarter of a second. `read` says how far each has read its log; `came`
    is when each window came, by its first pane in seconds."""

    def __init__(self, text: str, size: int = 4, **options: int) -> None:
        self.fleet = Fleet(size, **options)
        self.fleet.wait(0.5)
        self.fleet.submit(text, bounded=False)
        self.fleet.catch_up()
        self.came: dict[float, tuple[float, WindowResult]] = {}
        self.read = dict.fromkeys(range(size), self.fleet.now)
        self.speed = dict.fromkeys(range(size), 1.0)
        self.go_on(SETTLED_S + 2.0)

    def slow(self) -> int:
        """The number of an agent that is not the master."""
        return next(number for number, agent in enumerate(self.fleet.agents) if agent.masters.get(KEY) is None)

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.fleet.wait(STEP_S)
            for number, speed in self.speed.items():
                self._read(number, speed)
            self.fleet.work()
            for result in self.fleet.results:
                self.came.setdefault(begins(result), (self.fleet.now, result))

    def _read(self, number: int, speed: float) -> None:
        if speed:
            before = self.read[number]
            self.read[number] = min(self.fleet.now, before + speed * STEP_S)
            for tick in range(int(before / STEP_S + 1e-6) + 1, int(self.read[number] / STEP_S + 1e-6) + 1):
                self.fleet.insert(number, events("a", at_ms=WALL_MS + round(tick * STEP_S * 1000) - 1))
            if self.read[number] >= self.fleet.now - 1e-9:
                self.fleet.catch_up(number)

    def results(self) -> list[WindowResult]:
        return [result for _, (_, result) in sorted(self.came.items())]

    def latest(self) -> float:
        """The latest that a window came after its end."""
        return max(at - begin - 1.0 for begin, (at, _) in self.came.items())


def begins(result: WindowResult) -> float:
    assert result.window_start is not None
    minutes, seconds = result.window_start.rstrip("Z").split(":")[1:]
    return 60 * (float(minutes) - 13) + float(seconds) - 20


def name(street: Street, number: int) -> str:
    return street.fleet.agents[number].name


def test_without_stragglers_nobody_leaps() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    street.go_on(10.0)
    assert len(street.results()) >= 15
    assert all((one.contributors, one.leaped, one.leaped_over) == (4, 0, []) for one in street.results()[2:])


@pytest.mark.parametrize("text", [COUNT, f"{GROUPED} "])
def test_a_mute_agent_is_leaped_over_and_comes_back(text: str) -> None:
    street = Street(f"{text} ON STRAGGLER LEAP")
    slow = street.slow()
    before = len(street.results())
    street.speed[slow] = 0.0
    street.go_on(10.0)
    without = street.results()[before + 2 :]
    assert len(without) >= 6
    assert street.latest() <= 2 + 1, "2 panes and a second"
    for one in without:
        assert (one.contributors, one.expected, one.missing) == (3, 4, [])
        assert (one.leaped, one.leaped_over, one.events) == (1, [name(street, slow)], 12)
    street.speed[slow] = 8.0
    street.go_on(12.0)
    last = street.results()[-4:]
    assert [(one.contributors, one.leaped, one.events) for one in last] == [(4, 0, 16)] * 4
    every = street.results()
    written = sum(one.expected * 4 for one in every)
    assert sum(one.events + one.late for one in every) == written, "each event is in its window, or counted late"


def test_a_slow_reader_that_moves_is_a_straggler_too() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP AFTER 2 PANES")
    slow = street.slow()
    street.speed[slow] = 0.2
    street.go_on(60.0)
    assert street.latest() <= 2 + 1
    last = street.results()[-20:]
    assert all(one.leaped_over == [name(street, slow)] for one in last)
    assert 12 <= sum(one.late for one in last) <= 20, "what it reads a fifth as fast is late, and counted at once"
