"""Two agents with one certificate: what is left when one of them takes leave for both."""

from __future__ import annotations

from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events

from agent import Agent
from agent.runtime.messages.jobs import CODEC, Leave

GRACE_MS = 1000


def live(size: int) -> Fleet:
    fleet = Fleet(size)
    fleet.wait(0.5)
    fleet.submit(COUNT, bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up()
    return fleet


def run(fleet: Fleet, seconds: int) -> int:
    """Each agent reads an event a second; returns how many."""
    for _ in range(seconds):
        fleet.wait(1.0)
        for number in range(len(fleet.agents)):
            fleet.insert(number, events("a", at_ms=WALL_MS + int(fleet.now * 1000)))
        fleet.catch_up()
    return seconds * len(fleet.agents)


def take_leave_as(fleet: Fleet, number: int) -> int:
    """The twin of an agent leaves the fleet in good order; returns the number that it had on the roster."""
    agent = fleet.agents[number]
    job = agent.jobs.get(KEY)
    assert job is not None
    assert job.epoch is not None
    assert job.number is not None
    assert job.master_peer is not None
    assert job.pipeline is not None
    leave = Leave(KEY, job.epoch, job.number, job.pipeline.frontier)
    agent.node.send(job.master_peer, CODEC.encode(leave), fleet.now)
    fleet.settle()
    return job.number


def worker(fleet: Fleet) -> int:
    """An agent that does not have the master."""
    return next(number for number, agent in enumerate(fleet.agents) if agent.masters.get(KEY) is None)


def leave(fleet: Fleet, agent: Agent) -> None:
    """An agent leaves as its process would."""
    agent.drain.begin(fleet.now)
    while not agent.drain.is_complete:
        fleet.wait(0.5)
    agent.node.leave(fleet.now)
    fleet.settle()
    fleet.agents.remove(agent)


def test_an_agent_whose_twin_has_left_enrols_anew_and_is_in_every_window_again() -> None:
    fleet = live(3)
    fed = run(fleet, 5)
    before = take_leave_as(fleet, worker(fleet))
    fed += run(fleet, 12)
    last = fleet.results[-3:]
    assert [(one.contributors, one.expected, one.events, one.missing) for one in last] == [(3, 3, 3, [])] * 3
    job = fleet.agents[worker(fleet)].jobs.get(KEY)
    assert job is not None
    assert job.number not in (None, before)
    assert fed - 3 * 4 <= sum(one.events for one in fleet.results) <= fed, "nothing is lost or counted twice"


def test_its_new_number_is_good_under_the_next_master() -> None:
    fleet = live(4)
    run(fleet, 5)
    take_leave_as(fleet, worker(fleet))
    run(fleet, 8)
    leave(fleet, next(one for one in fleet.agents if one.masters.get(KEY) is not None))
    run(fleet, 12)
    assert {(one.contributors, one.expected, one.events) for one in fleet.results[-3:]} == {(3, 3, 3)}


def test_an_agent_that_leaves_itself_does_not_come_back() -> None:
    fleet = live(3)
    run(fleet, 4)
    leave(fleet, fleet.agents[worker(fleet)])
    run(fleet, 8)
    assert {(one.contributors, one.expected) for one in fleet.results[-2:]} == {(2, 2)}
