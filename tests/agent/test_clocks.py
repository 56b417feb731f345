"""Wall clocks that are wrong, and events that are ahead of them, in live jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_fleet import COUNT, WALL_MS, Fleet, events
from seeds import seeds

from agent.parsing import Parsed
from agent.runtime.ingest.event_clock import LASTING_S, EventClock

GRACE_MS = 2000
HOUR_MS = 3_600_000


class WrongClock(EventClock):
    """The clock of a machine whose wall clock differs from the fleet's."""

    wrong_ms = 0

    def observe(self, now: float, wall_ms: int) -> int:
        return super().observe(now, wall_ms + self.wrong_ms)

    def not_later(self, now: float, wall_ms: int) -> int:
        return min(wall_ms + self.wrong_ms, self.observe(now, wall_ms))


class Servers:
    """A fleet whose agents read what is written each second, each by a wall clock that may be wrong."""

    def __init__(self, size: int = 3) -> None:
        self.fleet = Fleet(size)
        self.fleet.wait(0.5)
        self.fleet.submit(COUNT, bounded=False, grace_ms=GRACE_MS)
        self.clocks = [WrongClock() for _ in range(size)]
        for agent, clock in zip(self.fleet.agents, self.clocks, strict=True):
            agent.ingest.clock = clock
        self.written = 0
        self._read(None)

    def _read(self, product: str | None, *, ahead_ms: int = 0, only: int | None = None) -> None:
        for number, agent in enumerate(self.fleet.agents):
            now, wall_ms = self.fleet.now, WALL_MS + int(self.fleet.now * 1000)
            wrong_ms = self.clocks[number].wrong_ms
            for feed in agent.ingest.feeds():
                if product is not None and only in (None, number):
                    self.written += 1
                    agent.ingest.insert(feed.key, events(product, at_ms=wall_ms + wrong_ms + ahead_ms), now, wall_ms)
                else:
                    agent.ingest.insert(feed.key, Parsed((), 0), now, wall_ms)
                agent.ingest.caught_up(feed.key, now, wall_ms)
        self.fleet.work()

    def live_for(self, seconds: int) -> None:
        for _ in range(seconds * 2):
            self.fleet.wait(0.5)
            self._read("a")

    def write_ahead(self, number: int, ahead_ms: int) -> None:
        self._read("ahead", ahead_ms=ahead_ms, only=number)

    def counted(self) -> int:
        return sum(result.events for result in self.fleet.results)


def test_an_event_ahead_of_the_wall_clock_silences_nobody_and_counts_when_its_time_comes() -> None:
    servers = Servers()
    servers.live_for(5)
    servers.write_ahead(0, 55_000)
    servers.live_for(20)
    windows = servers.fleet.results[2:]
    assert len(windows) > 15
    assert {(one.contributors, one.events, one.late) for one in windows} == {(3, 6, 0)}
    servers.live_for(50)
    assert servers.written - servers.counted() <= 6 * 4, "all but the windows that are open"
    assert [row["n"] for one in servers.fleet.results for row in one.rows if row["product"] == "ahead"] == [1]
    assert servers.fleet.agents[0].ingest.statistics()["ahead"] == 1


@pytest.mark.parametrize("wrong_ms", seeds(HOUR_MS, -HOUR_MS, slow=[5_000, -5_000]))
def test_a_clock_that_is_wrong_for_two_seconds_loses_no_event_but_those_it_has_stamped(wrong_ms: int) -> None:
    servers = Servers()
    servers.live_for(5)
    servers.clocks[0].wrong_ms = wrong_ms
    servers.live_for(2)
    servers.clocks[0].wrong_ms = 0
    servers.live_for(20)
    windows = servers.fleet.results
    assert {one.contributors for one in windows} == {3}
    assert len(windows) > 20
    assert not any(one.missing or one.partial for one in windows)
    stamped_wrong = 4
    complete = [one for one in windows if one.events >= 6]
    assert len(windows) - len(complete) <= stamped_wrong
    assert {one.events for one in windows[-10:]} == {6}, "it contributes as before"
    assert servers.fleet.agents[0].ingest.statistics()["clock_steps"] == 1, "and no second one where it came back"
    if wrong_ms < 0:
        assert sum(one.late for one in windows) in (0, stamped_wrong), "what is too late is counted as such"


@pytest.mark.parametrize("minutes", seeds(60, slow=[1]))
def test_an_agent_whose_clock_is_set_forward_for_good_is_partial_where_it_has_read_nothing(minutes: int) -> None:
    servers = Servers()
    servers.live_for(5)
    for clock in servers.clocks:
        clock.wrong_ms = 60_000 * minutes
    servers.live_for(int(LASTING_S) + 15)
    whole = [one for one in servers.fleet.results if not one.partial]
    assert {one.contributors for one in servers.fleet.results} == {3}
    assert any(one.partial for one in servers.fleet.results)
    assert {one.events for one in whole[-4:]} == {6}
    assert servers.written - servers.counted() <= 6 * 4, "what was stamped by the new time while it was in doubt counts"


@given(st.lists(st.tuples(st.integers(0, 20_000), st.integers(-HOUR_MS, HOUR_MS)), max_size=30))
def test_time_never_passes_what_the_wall_clock_showed_lastingly(readings: list[tuple[int, int]]) -> None:
    clock, elapsed_ms, last = EventClock(), 0, 0
    for passed_ms, wrong_ms in readings:
        elapsed_ms += passed_ms
        wall_ms = WALL_MS + elapsed_ms + wrong_ms
        steady_ms = clock.observe(elapsed_ms / 1000, wall_ms)
        assert clock.limit_ms == steady_ms + clock.max_skew_ms
        assert clock.latest_ms >= wall_ms, "what a server writes by its own clock is believed"
        last = steady_ms
    for _ in range(3):
        elapsed_ms += int(LASTING_S * 1000)
        last = clock.observe(elapsed_ms / 1000, WALL_MS + elapsed_ms)
    assert not readings or last == WALL_MS + elapsed_ms, "a clock that is right for a while is believed again"


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_an_agent_that_starts_again_while_its_clock_is_wrong_goes_by_what_it_knew(wrong_ms: int) -> None:
    before, after = EventClock(), EventClock()
    before.observe(5.0, WALL_MS + 5_000)
    assert before.lead_ms == WALL_MS
    after.resume(before.lead_ms)
    assert after.observe(6.0, WALL_MS + 6_000 + wrong_ms) == WALL_MS + 6_000
    assert after.observe(9.0, WALL_MS + 9_000) == WALL_MS + 9_000
    assert after.steps == 1
    assert after.take_step() is None, "nothing was skipped, nothing is lived through twice"


def test_a_job_that_is_begun_while_all_clocks_are_wrong_is_not_an_hour_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step in doubt: the agents take up the job at the time that they still believe."""
    fleet = Fleet(2)
    for agent in fleet.agents:
        agent.ingest.clock = EventClock()
    fleet.wait(2.0)
    wrong = property(lambda fleet: WALL_MS + int(fleet.now * 1000) + HOUR_MS)
    with monkeypatch.context() as stepped:
        stepped.setattr(Fleet, "wall_ms", wrong)
        fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND", bounded=False, grace_ms=0)
        fleet.wait(1.0)
        fleet.catch_up()
    for _ in range(6):
        fleet.wait(1.0)
        fleet.insert(0, events("a", at_ms=fleet.wall_ms))
        fleet.catch_up()
    assert [one.contributors for one in fleet.results][-2:] == [2, 2]
