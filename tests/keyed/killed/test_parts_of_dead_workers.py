"""Windows over events that travel by key have what a worker was given that is dead, or was started again."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime

import pytest
from keyed_jobs import WORDS, plan
from recording_client import client_of
from restarting_fleet import RestartingFleet
from seeds import seeds

from agent import StreamOptions, Submit
from overlay import app_id

KEYED = "SELECT COUNT(*) AS n FROM words KEYED BY word OVER 32 WORKERS WINDOWING 1 SECOND GRACE 0 SECONDS"
STEP_S = 0.1


def keyed(text: str = KEYED) -> Submit:
    found = plan(text, words=WORDS)
    return Submit(app_id("keyed", b""), "keyed", found.stream, found.to_wire(), text, bounded=False)


class World:
    """Agents that write words into their logs, and count by key those of each second."""

    def __init__(self, seed: int, agents: int = 4, text: str = KEYED) -> None:
        self.chance = random.Random(seed)
        self.fleet = RestartingFleet(agents, streams={"words": StreamOptions()})
        self.job = keyed(text)
        client_of(self.fleet.agents[0]).submit(self.job, self.fleet.now, self.fleet.wall_ms)
        self.fleet.settle()
        self.fleet.wait_long(3.0)
        self.written: Counter[int] = Counter()

    def write(self, seconds: float, silent: str | None = None) -> None:
        """Words come to all agents but one for a while."""
        fleet = self.fleet
        for _ in range(round(seconds / STEP_S)):
            for agent in fleet.agents:
                if agent.name != silent:
                    found = ["hot", *(f"word-{self.chance.randrange(30)}" for _ in range(2))]
                    fleet.write(agent.name, *found)
                    self.written[fleet.wall_ms // 1000] += len(found)
            fleet.read()
            fleet.catch_up()
            fleet.wait(STEP_S * self.chance.uniform(0.8, 1.2))

    def victim(self):
        """A worker that is not the job's master."""
        agents = [agent for agent in self.fleet.agents if agent.masters.state(self.job.app_id) is None]
        return self.chance.choice([one for one in agents if one.keyed.get(self.job.app_id).statistics()["hosted"]])

    def windows(self) -> dict[int, tuple[int, list[str]]]:
        """The count of each second, with the agents that are said to lack in it."""
        found = {}
        for result in self.fleet.results:
            second = int(datetime.fromisoformat(result.window_start.replace("Z", "+00:00")).timestamp())
            found[second] = (result.rows[0]["n"] if result.rows else 0, [*result.missing, *result.partial])
        return found

    def assert_complete(self, named: set[str]) -> None:
        """Every window has all words, whoever is named in it."""
        windows = self.windows()
        last = max(self.written) - 2
        seconds = {second for second in windows if min(self.written) < second <= last}
        assert seconds >= {second for second in self.written if min(self.written) + 1 < second <= last}, "windows lack"
        for second in sorted(seconds):
            counted, lacking = windows[second]
            assert counted == self.written[second], f"second {second} of {sorted(windows)}: {windows[second]}"
            assert set(lacking) <= named, f"second {second} of {sorted(windows)}: {windows[second]}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 40)))
def test_windows_have_what_a_dead_worker_was_given(seed: int) -> None:
    """Its own log has nothing new as it dies, but time cannot know that it has read all: it may be named."""
    world = World(seed)
    world.write(3.0 + world.chance.random())
    dead = world.victim()
    world.write(1.0, silent=dead.name)
    world.fleet.kill(dead)
    world.write(14.0)
    world.assert_complete(named={dead.name})


@pytest.mark.parametrize("seed", seeds(slow=range(1, 40)))
def test_windows_lack_nobody_where_a_worker_is_started_again_in_time(seed: int) -> None:
    world = World(seed)
    world.write(3.0 + world.chance.random())
    dead = world.victim()
    world.fleet.kill(dead)
    world.write(world.chance.uniform(0.2, 2.0), silent=dead.name)
    world.fleet.restart(dead.name)
    world.write(12.0)
    world.assert_complete(named=set())


@pytest.mark.parametrize("seed", seeds(slow=range(1, 40)))
def test_windows_lack_nothing_where_a_worker_joins(seed: int) -> None:
    world = World(seed)
    world.write(3.0 + world.chance.random())
    world.fleet.restart("joined")
    world.write(3.0, silent="joined")  # time waits for its log from then on
    world.write(7.0)
    world.assert_complete(named=set())
    (joined,) = [agent for agent in world.fleet.agents if agent.name == "joined"]
    assert joined.keyed.get(world.job.app_id).statistics()["hosted"], "it is a worker"


@pytest.mark.parametrize("seed", seeds(slow=range(1, 40)))
def test_windows_lack_nothing_where_a_worker_is_drained(seed: int) -> None:
    """It is named in the window in which it leaves."""
    world = World(seed)
    world.write(3.0 + world.chance.random())
    leaving = world.victim()
    leaving.drain.begin(world.fleet.now)
    world.write(5.0, silent=leaving.name)
    assert leaving.drain.is_complete
    leaving.node.leave(world.fleet.now)
    world.fleet.agents.remove(leaving)
    world.write(5.0)
    world.assert_complete(named={leaving.name})
