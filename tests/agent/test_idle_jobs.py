"""Jobs to which nothing happens cost an agent next to nothing, and are there at once when something happens."""

from __future__ import annotations

import cProfile
import pstats

from memory_fleet import Fleet, events

from agent.runtime.model.schedule import ANY_TIME, Schedule

JOBS = 100
CALLS_PER_JOB_MAX = 80
"""Upper bound on calls of functions for each job and second, of which announcing it to the fleet takes most. Looking at
every job at every tick took 940."""


def idle(fleet: Fleet, seconds: float) -> None:
    for _ in range(round(4 * seconds)):
        fleet.wait(0.25)
        fleet.catch_up()


def busy_with(fleet: Fleet, jobs: int, seconds: float) -> int:
    for number in range(jobs):
        text = f"SELECT product, COUNT(*) AS n FROM web WHERE status = {number} GROUP BY product WINDOWING 1 HOUR"
        fleet.submit(text, f"job-{number}", bounded=False)
    idle(fleet, 12.0)
    with cProfile.Profile() as profile:
        idle(fleet, seconds)
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls


def test_idle_jobs_are_not_looked_at() -> None:
    few, many = busy_with(Fleet(1), 1, 10.0), busy_with(Fleet(1), JOBS, 10.0)
    assert (many - few) / JOBS / 10.0 < CALLS_PER_JOB_MAX


def test_a_window_that_ends_after_a_long_rest_is_published_in_time() -> None:
    fleet = Fleet(3)
    text = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 1 MINUTE"
    for number in range(5):
        fleet.submit(text, f"job-{number}", bounded=False)
    idle(fleet, 45.0)
    for number in range(3):
        fleet.insert(number, events("a", at_ms=fleet.wall_ms))
    fleet.catch_up()
    seen = len(fleet.results)
    idle(fleet, 70.0)
    counted = [result for result in fleet.results[seen:] if result.events]
    assert [(len(result.missing), result.contributors, result.events) for result in counted] == [(0, 3, 3)] * 5


def test_a_schedule_keeps_its_order_and_its_size() -> None:
    looks = Schedule[int]()
    for round_ in range(1000):
        for key in range(10):
            looks.set(key, float(round_ + key))
    assert looks.due(1004.0) == [0, 1, 2, 3, 4, 5]
    assert len(looks._later) < 200
    looks.set(9, ANY_TIME)
    assert looks.due(0.0) == [0, 1, 2, 3, 4, 5, 9], "what is due stays so"
