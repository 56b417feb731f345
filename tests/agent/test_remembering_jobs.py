"""Agents that were started again: which events of remembered feeds count where."""

from __future__ import annotations

import random

from memory_fleet import COUNT, WALL_MS, WEB, Fleet, events

from agent import Agent
from agent.feeding.reading_ledger import FeedPosition
from agent.runtime.durable.feed_memory import REMEMBERED, WAIT_S
from agent.runtime.ingest.feed import Feed
from agent.runtime.messages.jobs import CODEC, Enrolled
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.panes import FIRST_PANE
from overlay import Node, app_id

COUNT_10 = COUNT.replace("1 SECOND", "10 SECONDS")
GRACE_MS = 1000


def live(size: int = 3, *texts: str) -> Fleet:
    """Agents that run live jobs; the clock stands half a second before their first panes of a second."""
    fleet = Fleet(size)
    fleet.wait(0.5)
    for number, text in enumerate(texts or (COUNT_10,)):
        fleet.submit(text, f"job-{number}", bounded=False, grace_ms=GRACE_MS)
    fleet.catch_up()
    return fleet


def worker(fleet: Fleet) -> int:
    """The number of an agent that no master is on."""
    return next(number for number, agent in enumerate(fleet.agents) if not agent.masters.held)


def stored(agent: Agent, complete_from_ms: int, *, exact: bool = False) -> FeedPosition:
    """What the disk of an agent has, all of whose jobs share a feed."""
    (key,) = {feed.key for feed in agent.ingest.feeds()}
    needs = agent.ingest.needs(key)
    assert needs is not None
    return FeedPosition("web", (), complete_from_ms, needs.jobs, exact)


def kill(fleet: Fleet, number: int) -> Agent:
    """Ends an agent; the others notice."""
    agent = fleet.agents.pop(number)
    fleet.network.remove(agent.node)
    fleet.wait_long(10.0)
    return agent


def restart(fleet: Fleet, number: int, before: Agent, position: FeedPosition) -> Agent:
    """The same agent as another process."""
    node = Node(before.node.peer, random=random.Random(7), start_number=2)
    fleet.network.add(node)
    agent = fleet.new_agent(before.name, node, WEB)
    agent.ingest.memory.remember({position.stream: position.memories()})
    fleet.agents.insert(number, agent)
    node.join(fleet.agents[number - 1].node.peer, fleet.now)
    fleet.settle()
    agent.start(fleet.now)
    return agent


def feeds(agent: Agent) -> list[tuple[str, int | None]]:
    def start(feed: Feed) -> tuple[str, int | None]:
        return feed.start, feed.app_id

    return [start(feed) for feed in agent.ingest.feeds()]


def test_the_window_in_which_an_agent_was_killed_has_all_of_its_events() -> None:
    fleet = live()
    number = worker(fleet)
    fleet.wait(9.5)
    fleet.catch_up()
    fleet.insert(number, events("a", at_ms=WALL_MS + 10_500))
    position = stored(fleet.agents[number], WALL_MS + 500)
    agent = restart(fleet, number, kill(fleet, number), position)
    fleet.wait_long(4.0)
    assert feeds(agent) == [("remembered", REMEMBERED)]
    fleet.insert(number, events("a", "b", at_ms=WALL_MS + 10_500))  # the one that was read before, and one more
    fleet.wait_long(5.0)
    for _ in range(3):
        fleet.catch_up()
        fleet.wait_long(1.0)
    (window,) = [result for result in fleet.results if result.events]
    assert (window.events, window.contributors, window.missing, window.late) == (2, 3, [], 0)


def test_what_is_read_again_of_published_windows_is_late_unless_it_was_in_them() -> None:
    fleet = live(3, COUNT)
    number = worker(fleet)
    fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(3.0)
    fleet.catch_up()
    fleet.wait(1.0)
    assert [(result.events, result.contributors) for result in fleet.results] == [(1, 3)]
    position = stored(fleet.agents[number], WALL_MS + 500)
    before = kill(fleet, number)
    fleet.insert(0, events("c", at_ms=WALL_MS + 8000))
    for _ in range(9):  # the window waits for the dead agent's part
        fleet.catch_up()
        fleet.wait_long(1.0)
    assert [(result.events, result.contributors) for result in fleet.results[1:]] == [(1, 2)], "without it"
    agent = restart(fleet, number, before, position)
    fleet.wait_long(4.0)
    assert feeds(agent) == [("remembered", REMEMBERED)]
    fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
    fleet.insert(number, events("b", "b", at_ms=WALL_MS + 8000))
    for _ in range(6):
        fleet.catch_up()
        fleet.wait_long(1.0)
    assert sum(result.late for result in fleet.results) == 2, "and not the one that its window has"


def test_jobs_that_are_new_do_not_get_what_was_written_before_them() -> None:
    fleet = live()
    number = worker(fleet)
    position = stored(fleet.agents[number], WALL_MS + 500)
    agent = restart(fleet, number, kill(fleet, number), position)
    fleet.submit(COUNT, "new", bounded=False, grace_ms=GRACE_MS)
    fleet.wait_long(4.0)
    assert sorted(feeds(agent), key=str) == [("end", None), ("remembered", REMEMBERED)]


def test_jobs_wait_for_each_other_but_not_for_those_that_are_over() -> None:
    fleet = live(3, COUNT_10, COUNT.replace("web", "web WHERE product = 'a'"))
    number = worker(fleet)
    position = stored(fleet.agents[number], WALL_MS + 500)
    over = {**position.jobs, JobTerm(5, 5): FIRST_PANE}
    both = restart(fleet, number, kill(fleet, number), FeedPosition("web", (), WALL_MS + 500, over))
    fleet.wait_long(3.0 + WAIT_S + 1.0)
    assert {start for start, _ in feeds(both)} == {"remembered"}
    assert set(both.ingest.memory.jobs) == set(over)
    needed = [both.ingest.needs((feed.stream, feed.app_id)) for feed in both.ingest.feeds()]
    assert {job for needs in needed if needs for job in needs.jobs} == set(position.jobs)


def test_a_job_that_was_started_anew_under_its_name_is_not_remembered() -> None:
    fleet = live()
    number = worker(fleet)
    position = stored(fleet.agents[number], WALL_MS + 500)
    jobs = {JobTerm(job.app_id, job.born_ms - 1): begins for job, begins in position.jobs.items()}
    agent = restart(fleet, number, kill(fleet, number), FeedPosition("web", (), WALL_MS + 500, jobs))
    fleet.wait_long(6.0)
    assert feeds(agent) == [("end", None)]


def test_the_answer_to_a_worker_says_up_to_where_it_has_contributed() -> None:
    fleet = live(3, COUNT)
    number = worker(fleet)
    fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
    fleet.wait(3.0)
    fleet.catch_up()
    fleet.wait(1.0)
    master = next(state for agent in fleet.agents if (state := agent.masters.state(app_id("job-0", b""))) is not None)
    peer = fleet.agents[number].node.peer
    answer = master.enrol(peer.node_id, peer.address, works=True)
    assert isinstance(answer, Enrolled)
    assert answer.contributed == master.frontier
    assert CODEC.decode(CODEC.encode(answer)) == answer
    unknown = master.enrol(12345, "unknown", works=True)
    assert unknown is not None
    assert unknown.contributed == master.frontier, "it may have left, and be forgotten"
    assert answer.begins == master.frontier + 1
