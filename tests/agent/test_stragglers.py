"""Agents that live and are late: who waits for them, who leaps over them, and what results say of it."""

from __future__ import annotations

import polars as pl
import pytest
from memory_fleet import KEY, WALL_MS, Fleet, events
from seeds import seeds

from agent import StreamOptions, WindowResult
from agent.runtime.messages.jobs import Lagging
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.panes import END, Counts, Run
from agent.runtime.reduce.combiner import Combiner
from agent.runtime.reduce.straggler import (
    HOLDBACK_S,
    LEAP_PATIENCE_S,
    RECOVER_S,
    RUNS_MAX,
    SETTLED_S,
    HoldbackTimer,
    LeapTimer,
    StragglerPolicy,
)

COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND GRACE 0 SECONDS"
GROUPED = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 SECOND GRACE 0 SECONDS"
STEP_S = 0.25
PAST_MS = 30 * 86_400_000


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

    def take_away(self, number: int, *, is_dead: bool) -> str:
        """An agent's core does nothing any more; unless it is dead, its node still answers others."""
        agent = self.fleet.agents.pop(number)
        del self.speed[len(self.fleet.agents)], self.read[len(self.fleet.agents)]
        if is_dead:
            self.fleet.network.remove(agent.node)
        return agent.name

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self._wait()
            for number, speed in self.speed.items():
                self._read(number, speed)
            self.fleet.work()
            for result in self.fleet.results:
                self.came.setdefault(begins(result), (self.fleet.now, result))

    def _wait(self) -> None:
        self.fleet.wait(STEP_S)

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


@pytest.mark.slow
def test_a_slow_reader_that_moves_is_a_straggler_too() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP AFTER 2 PANES")
    slow = street.slow()
    street.speed[slow] = 0.2
    street.go_on(60.0)
    assert street.latest() <= 2 + 1
    last = street.results()[-20:]
    assert all(one.leaped_over == [name(street, slow)] for one in last)
    assert 12 <= sum(one.late for one in last) <= 20, "what it reads a fifth as fast is late, and counted at once"


def test_who_lives_but_does_not_answer_is_missing_and_delays_no_more() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    gone = street.take_away(street.slow(), is_dead=False)
    street.go_on(10.0)
    last = street.results()[-5:]
    assert [(one.contributors, one.missing, one.leaped) for one in last] == [(3, [gone], 0)] * 5
    assert street.latest() <= 2 + 1


@pytest.mark.parametrize(("clause", "longest_s"), seeds(("", 62.0), slow=[("ON STRAGGLER WAIT", 64.0)]))
def test_without_leap_a_straggler_has_a_minute_or_all_the_time_it_needs(clause: str, longest_s: float) -> None:
    street = Street(f"{COUNT} {clause}")
    slow = street.slow()
    street.speed[slow] = 0.0
    street.go_on(66.0)
    assert street.latest() <= longest_s
    street.speed[slow] = 400.0
    street.go_on(3.0)
    every = street.results()
    assert len(every) >= 70
    leaped = [one for one in every if one.leaped]
    assert all(one.contributors + one.leaped == 4 for one in every)
    assert bool(leaped) == (not clause)
    assert len(leaped) <= 8, "only what is a minute behind"


@pytest.mark.slow
def test_who_reads_the_past_more_slowly_has_a_minute_as_well() -> None:
    """Ten minutes of the past go by in each second, but for an agent that takes ten."""
    fleet = Fleet(4, streams={"web": StreamOptions("beginning")})
    fleet.wait(0.5)
    fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 MINUTE GRACE 0 SECONDS", bounded=False)
    slow = next(number for number, agent in enumerate(fleet.agents) if agent.masters.get(KEY) is None)
    in_time = 0
    for second in range(90):
        for number in range(4):
            minutes = [second] if number == slow else range(10 * second, 10 * second + 10)
            for minute in minutes:
                fleet.insert(number, events("a", at_ms=WALL_MS - PAST_MS + minute * 60_000))
        fleet.wait(0.5)
        fleet.wait(0.5)
        in_time = in_time or (len(fleet.results) if second >= 60 else 0)
    assert in_time >= 50
    assert {(one.contributors, one.leaped) for one in fleet.results[:in_time]} == {(4, 0)}
    assert {(one.contributors, one.leaped) for one in fleet.results[-9:]} == {(3, 1)}


def test_who_reads_the_past_still_has_a_minute_when_others_have_come_to_the_present() -> None:
    """Their idle logs close panes by the clock: the one behind them is months late by panes, by the clock a moment."""
    fleet = Fleet(4, streams={"web": StreamOptions("beginning")})
    fleet.wait(0.5)
    fleet.submit("SELECT COUNT(*) AS n FROM web WINDOWING 1 MINUTE GRACE 0 SECONDS", bounded=False)
    slow = next(number for number, agent in enumerate(fleet.agents) if agent.masters.get(KEY) is None)
    for minute in range(150):
        for number in range(4):
            if minute < 30 or number != slow:
                fleet.insert(number, events("a", at_ms=WALL_MS - PAST_MS + minute * 60_000))
    for second in range(50):
        for number in set(range(4)) - {slow}:
            fleet.catch_up(number)
        for minute in range(30 + 2 * second, 32 + 2 * second):
            fleet.insert(slow, events("a", at_ms=WALL_MS - PAST_MS + minute * 60_000))
        fleet.wait(1.0)
    assert len(fleet.results) >= 120
    assert {(one.contributors, one.leaped) for one in fleet.results} == {(4, 0)}
    fleet.wait_long(70.0)
    assert fleet.results[-1].leaped == 1, "it stands still"


@pytest.mark.parametrize(("clause", "at_least_s"), [("RECOVER FOR 0 SECONDS", 0.0), ("RECOVER FOR 20 SECONDS", 20.0)])
def test_a_window_waits_for_the_part_of_a_dead_agent_as_long_as_the_query_says(clause: str, at_least_s: float) -> None:
    street = Street(f"{COUNT} {clause}")
    gone = street.take_away(street.slow(), is_dead=True)
    street.go_on(35.0)
    without = {begin: at - begin - 1.0 for begin, (at, one) in street.came.items() if one.missing == [gone]}
    first = min(without)
    assert at_least_s <= without[first] <= max(at_least_s, 8.0) + 1.0
    assert all(delay <= 0.5 for begin, delay in without.items() if begin > first + at_least_s + 8.0), "once"


def test_by_default_a_dead_agent_has_four_seconds_from_the_first_part_of_its_pane() -> None:
    timer = HoldbackTimer(0.0, 0, took_over=False)
    timer.died(0b10, 12.0)
    timer.begun(has_parts=True, now=10.0)
    assert timer.holds_back(0b10, RECOVER_S, 13.0), "its death was noticed after three"
    assert timer.holds_back(0b10, RECOVER_S, 13.9)
    assert not timer.holds_back(0b10, RECOVER_S, 14.0)
    assert not timer.holds_back(0b10, RECOVER_S, 14.1), "once"
    timer.contributed(0b10)
    assert timer.holds_back(0b10, RECOVER_S, 30.0)
    assert not timer.holds_back(0b10, RECOVER_S, 30.0 + HOLDBACK_S), "it is back, and away again: it may live"


def test_the_policy_leaps_over_who_lags_or_holds_up_too_much() -> None:
    leaping, waiting = StragglerPolicy(0.0, 3000, 1000), StragglerPolicy(0.0, END, 1000)
    assert [leaping.leap_to(1000, most) for most in (3000, 4000, 9000)] == [None, 2000, 7000]
    assert [waiting.leap_to(1000, most) for most in (3000, 4000, 9_000_000)] == [None] * 3
    assert waiting.leap_to(1000, 9_000_000, RUNS_MAX // 2) == 8_999_000
    assert waiting.leap_to(1000, 2000, RUNS_MAX) is None, "nobody is behind"


def test_who_is_slow_itself_judges_nobody() -> None:
    timer = LeapTimer()
    looks = [0.25 * number for number in range(1, 41)]
    assert [timer.look(now) for now in looks] == [now >= looks[0] + SETTLED_S for now in looks]
    timer.leap(7, 10.0)
    assert (timer.gives_up(10.25), timer.gives_up(10.0 + LEAP_PATIENCE_S)) == (None, 7)
    assert not timer.look(13.0, is_slow=True), "it has stood still"
    assert timer.gives_up(13.0) is None, "what others have sent waits here"
    assert [timer.look(13.0 + 0.25 * step) for step in range(1, 6)] == [False, False, False, True, True]


def test_a_combiner_holds_so_many_runs_of_a_source_and_no_more() -> None:
    combiner = Combiner(lambda states, _upto: states[0])
    for source in "ab":
        combiner.add_source(source)
    for pane in range(RUNS_MAX + 10):
        assert combiner.is_full("a") == (pane >= RUNS_MAX)
        combiner.add("a", Run(pane - 1, pane, 1, pl.DataFrame(), {pane: Counts(1)}))
    assert (combiner.waiting_runs, combiner.refused) == (RUNS_MAX, 10)
    assert combiner.lag(StragglerPolicy(0.0, END, 1)) == (RUNS_MAX + 9, True), "its straggler is leaped over"


def test_a_forged_report_makes_nobody_leap_who_is_on_time() -> None:
    street = Street(f"{COUNT} ON STRAGGLER LEAP")
    master = next(agent for agent in street.fleet.agents if agent.masters.get(KEY) is not None)
    other = street.fleet.agents[street.slow()]
    state = master.masters.get(KEY).state  # type: ignore[union-attr]
    for ahead_s in (0, 10, 2**40):
        message = Lagging(KEY, state.epoch, WALL_MS + round(street.fleet.now + ahead_s) * 1000, True)
        MessageSender(other.node).send(master.node.peer, message, street.fleet.now)
        street.go_on(1.0)
    street.go_on(5.0)
    assert all((one.contributors, one.leaped) == (4, 0) for one in street.results()[2:])


def test_a_window_of_several_panes_names_who_was_leaped_over_in_some() -> None:
    street = Street(
        "SELECT COUNT(*) AS n FROM web WINDOWING 4 SECONDS EVERY 1 SECOND GRACE 0 SECONDS ON STRAGGLER LEAP"
    )
    slow = street.slow()
    street.speed[slow] = 0.0
    street.go_on(3.0)
    street.speed[slow] = 8.0
    street.go_on(10.0)
    some = [one for one in street.results() if one.leaped]
    assert some
    for one in some:
        assert (one.leaped_over, one.missing) == ([name(street, slow)], [])
        assert (one.contributors, one.partial) == (4, [name(street, slow)])
    last = street.results()[-1]
    assert (last.leaped, last.partial, last.events) == (0, [], 64)


def test_event_time_waits_for_who_died_lately_until_it_is_heard() -> None:
    timer = HoldbackTimer(0.0, 0, took_over=False)
    timer.died(0b10, 10.0)
    timer.died(0b10, 12.0)  # another agent's word for the same
    assert (timer.died_within(RECOVER_S, 12.9), timer.died_within(RECOVER_S, 13.0)) == (0b10, 0)
    assert timer.unheard == 0b10
    timer.died(0b10, 20.0, again=True)
    assert timer.died_within(RECOVER_S, 22.9) == 0b10
    timer.heard(0b10)
    assert timer.unheard == timer.died_within(RECOVER_S, 21.0) == 0


def test_who_is_back_is_waited_for_as_long_as_if_it_were_still_away() -> None:
    timer = HoldbackTimer(0.0, 0, took_over=False)
    timer.begun(has_parts=True, now=10.0)
    assert timer.holds_back(0b110, 30.0, 10.0)
    timer.died(0b10, 11.0)
    timer.returned(0b10, 20.0)
    timer.contributed(0b100)
    timer.begun(has_parts=True, now=21.0)
    assert timer.holds_back(0b10, 30.0, 50.9), "it has not handed in what it has"
    timer.returned(0b10, 50.0)
    assert not timer.holds_back(0b10, 30.0, 51.0), "however often it is started again"
    timer.returned(0b10, 52.0)
    assert timer.holds_back(0b10, 30.0, 52.0)
    assert not timer.holds_back(0b10, 30.0, 52.0 + HOLDBACK_S), "it was written off"
