"""Real agents that host guaranteed elements are killed, or stand still: each line of their logs counts once.

Kills are at moments spread over a commit's cycle; the killed agent starts again at once, and its own log counts, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from counted_logs import CountedLogs
from process_tree import descendants, is_alive

from agent.programs.confinement import refusal

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(refusal() is not None, reason=f"programs cannot be contained here: {refusal()}"),
]
BUSY = "import time\nend = time.monotonic() + 170\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_processors(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute, beside the agents."""
    found = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for one in found:
            one.kill()
            one.wait()


def kill_one_by_one(world: CountedLogs, kills: int) -> None:
    """Kills agents, and waits each time until all that had been written by then counts."""
    for number in range(kills):
        name = world.chance.choice(world.fleet.names)
        world.kill(name)
        try:
            world.until_caught_up()
        except AssertionError as error:
            raise AssertionError(f"kill {number + 1}, of {name}: {error}") from error


@pytest.mark.slow
def test_each_line_counts_once_when_hosts_are_killed(tmp_path: Path) -> None:
    with CountedLogs(tmp_path, seed=2).running() as world:
        kill_one_by_one(world, 2)
        world.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [0, 2])
def test_each_line_counts_once_when_hosts_are_killed_at_twenty_instants(tmp_path: Path, busy: int) -> None:
    with busy_processors(busy), CountedLogs(tmp_path, seed=20 + busy).running() as world:
        kill_one_by_one(world, 20)
        world.assert_exact()


@pytest.mark.slow
def test_two_of_the_three_that_have_an_element_may_die_at_once(tmp_path: Path) -> None:
    with CountedLogs(tmp_path, seed=40).running() as world:
        for pair in (("agent-1", "agent-2"), ("agent-3", "agent-4"), ("agent-2", "agent-3")):
            world.kill(*pair)
            world.until_caught_up()
        world.assert_exact()


@pytest.mark.slow
def test_an_agent_that_stood_still_counts_nothing_twice(tmp_path: Path) -> None:
    with CountedLogs(tmp_path, seed=60).running() as world:
        for seconds in (3, 10):
            world.stand_still(world.chance.choice(world.fleet.names), seconds)
            world.until_caught_up()
        world.assert_exact()


@pytest.mark.slow
def test_the_master_may_die_and_a_job_that_is_stopped_leaves_nothing(tmp_path: Path) -> None:
    with CountedLogs(tmp_path, seed=80).running() as world:
        for _ in range(2):
            job = json.loads(world.elf("jobs", "--output", "json").out)
            world.kill(job["master"])
            world.until_caught_up()
        world.assert_exact()
        agents = [world.fleet.process(name).pid for name in world.fleet.names]
        programs = {program for agent in agents for program in descendants(agent)}
        assert len(programs) >= len(agents), "each agent has a program of the job"
        assert world.elf("stop", world.app).code == 0
        world.until(lambda: not any(map(is_alive, programs)), lambda: [one for one in programs if is_alive(one)])
        kept = [world.folder / "agents" / name / "data" / "kept-places" for name in world.fleet.names]
        world.until(
            lambda: all(json.loads(path.read_text())["places"] == [] for path in kept),
            lambda: [path.read_text() for path in kept],
        )


@pytest.mark.slow
def test_a_program_in_a_long_call_ends_with_its_agent_and_its_events_count_once(tmp_path: Path) -> None:
    with CountedLogs(tmp_path, seed=100).running() as world:
        world.logs.write("slow")  # its element sleeps for two seconds
        world.until(lambda: bool(world.states("Count", "slow")), lambda: "the slow word is not counted")
        for _ in range(2):
            host = world.states("Count", "slow")[0].agent
            programs = descendants(world.fleet.process(host).pid)
            assert programs
            world.logs.write("slow")
            time.sleep(0.5)
            world.kill(host)
            world.until(lambda: not any(map(is_alive, programs)), lambda: programs)  # noqa: B023
            world.until_caught_up()
        world.assert_exact()
