"""A job's query counts each event of a guaranteed type once, also where a host dies, or is taken for dead."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime

import pytest
from keyed_jobs import WORDS, counting, keyed_job, plan, words
from pausing_fleet import PausingFleet
from recording_client import client_of

from agent import StreamOptions, Submit
from overlay import app_id

KEYED = "SELECT COUNT(*) AS n FROM words KEYED BY word OVER 8 WORKERS WINDOWING 1 SECOND GRACE 0 SECONDS"
COUNT = "SELECT COUNT(*) AS n FROM Counted WINDOWING 1 SECOND"
STEP_S = 0.1


class CountedEvents:
    """Four agents that count words of their logs, and how many words were written in each second."""

    def __init__(self, seed: int, job: Submit | None = None) -> None:
        self.chance = random.Random(seed)
        self.fleet = PausingFleet(4, streams={"words": StreamOptions()})
        job = job or keyed_job(counting(), COUNT, bounded=False)
        self.app = job.app_id
        client_of(self.fleet.agents[0]).submit(job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.fleet.wait_long(3.0)
        self.written: Counter[int] = Counter()

    def write(self, seconds: float) -> None:
        """Words come to all agents for a while."""
        fleet = self.fleet
        for _ in range(round(seconds / STEP_S)):
            for agent in fleet.agents:
                for feed in agent.ingest.feeds():
                    found = ["hot", *(f"word-{self.chance.randrange(30)}" for _ in range(2))]
                    fleet.give(agent, feed.key, words(*found, at_ms=fleet.wall_ms))
                    self.written[fleet.wall_ms // 1000] += len(found)
            self.rest(STEP_S * self.chance.uniform(0.8, 1.2))

    def rest(self, seconds: float) -> None:
        self.fleet.catch_up()
        self.fleet.wait(seconds)

    def victim(self):
        """An agent that hosts elements, and is not the master."""
        agents = [agent for agent in self.fleet.agents if agent.masters.state(self.app) is None]
        return self.chance.choice([one for one in agents if one.keyed.get(self.app).statistics()["hosted"]])

    def stand_still(self, seconds: float):
        """An agent that hosts elements stands still for a while, as words go on to come; it is returned."""
        self.write(2.0 + self.chance.random())
        stopped = self.victim()
        self.fleet.pause(stopped)
        self.write(seconds)
        self.fleet.resume(stopped)
        return stopped

    def windows(self) -> dict[int, tuple[int, list[str]]]:
        """The count of each second, as it was told last, with the agents that are said to lack in it."""
        for _ in range(20):
            self.rest(STEP_S)
        found = {}
        for result in self.fleet.results:
            second = int(datetime.fromisoformat(result.window_start.replace("Z", "+00:00")).timestamp())
            found[second] = (result.rows[0]["n"] if result.rows else 0, [*result.missing, *result.partial])
        return found

    def assert_counted_once(self, lacking: str | None) -> None:
        """Every window that names nobody is exact; `lacking` alone may be named."""
        windows = self.windows()
        last = max(self.written) - 2  # those at the end may be under way
        assert windows.keys() >= {second for second in self.written if second <= last}, "windows have stopped"
        for second, (counted, named) in windows.items():
            assert set(named) <= {lacking}
            if not named:
                assert counted == self.written[second], f"second {second} of {sorted(self.written)}"
            else:
                assert counted <= self.written[second]
        assert not windows[last][1] or lacking is not None
        assert sum(1 for _, named in windows.values() if not named) >= 2


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_host_that_stood_still_and_was_taken_for_dead_counts_nothing_twice(seed: int) -> None:
    world = CountedEvents(seed)
    stopped = world.stand_still(3.0)
    world.write(6.0)
    world.assert_counted_once(lacking=stopped.name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 6))
def test_windows_go_on_when_a_host_is_back_that_was_written_off(seed: int) -> None:
    world = CountedEvents(seed)
    stopped = world.stand_still(10.0)
    world.write(12.0)
    world.assert_counted_once(lacking=stopped.name)
    last = max(world.written) - 2
    assert world.windows()[last][1] == [], "it takes part again"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 9))
def test_windows_that_name_nobody_are_exact_when_a_host_is_killed(seed: int) -> None:
    world = CountedEvents(seed)
    world.write(4.0 + world.chance.random())
    dead = world.victim()
    world.fleet.kill(dead)
    world.write(12.0)
    world.assert_counted_once(lacking=dead.name)


def split_query() -> Submit:
    """The count of words that travel by key; one is as hot as half of the others together."""
    found = plan(KEYED, words=WORDS)
    return Submit(app_id("keyed", b""), "keyed", found.stream, found.to_wire(), KEYED, bounded=False)


@pytest.mark.slow  # test_keyed_windows_simulated.py has many such fleets
@pytest.mark.parametrize("seed", range(9, 12))
def test_windows_of_events_that_travel_by_key_are_exact_where_they_name_nobody(seed: int) -> None:
    world = CountedEvents(seed, split_query())
    world.write(4.0 + world.chance.random())
    dead = world.victim()
    world.fleet.kill(dead)
    world.write(12.0)
    world.assert_counted_once(lacking=dead.name)
