"""What clients of any agent get told: of jobs they start, follow and stop."""

from __future__ import annotations

import json
from typing import Any

import pytest
from memory_fleet import COUNT, KEY, WALL_MS, Fleet, events
from recording_client import client_of

from agent import Accepted, Acknowledged, Ended, PublishedWindow, StopAnswer, Submit, SubmitRefused, WindowsLost
from agent.runtime.fleet.job_directory import SILENCE_S
from agent.runtime.master.job_master import LINGER_S, NOBODY_S, UNFOLLOWED_S
from agent.runtime.master.results import result_log
from agent.runtime.model.panes import FIRST_PANE
from agent.runtime.requests.commands import NO_ANSWER

SECOND = 1000


def live(size: int = 4, **options: Any) -> Fleet:
    fleet = Fleet(size)
    fleet.wait(0.5)
    fleet.submit(bounded=False, grace_ms=0, **options)
    fleet.catch_up()
    return fleet


def log(fleet: Fleet, *products: str) -> None:
    """Every agent logs these, a second passes, and their window closes."""
    for number in range(len(fleet.agents)):
        fleet.insert(number, events(*products, at_ms=fleet.wall_ms))
    fleet.wait(1.0)
    fleet.catch_up()


def log_until_shown(fleet: Fleet, windows: int) -> None:
    for _ in range(windows + 2):
        if len(fleet.results) < windows:
            log(fleet, "a")
    assert len(fleet.results) == windows


def panes(notices: list[Any]) -> list[int]:
    return [(notice.pane - WALL_MS) // SECOND for notice in notices if isinstance(notice, PublishedWindow)]


def without_acknowledgements(notices: list[Any]) -> list[Any]:
    return [notice for notice in notices if not isinstance(notice, Acknowledged)]


@pytest.mark.parametrize("by", range(4))
def test_who_starts_a_job_follows_it_from_the_start(by: int) -> None:
    fleet = Fleet(4)
    fleet.wait(0.5)
    agent = fleet.agents[by]
    fleet.submit(bounded=False, grace_ms=0, by=by)
    client_of(agent).follow(KEY, None, fleet.now)
    fleet.settle()
    fleet.catch_up()
    log_until_shown(fleet, 3)
    notices = client_of(agent).notices()
    first, *others = without_acknowledgements(notices)
    assert first == Accepted("shop", COUNT, ["product", "n"], False)
    told = [notice for notice in notices if isinstance(notice, Acknowledged)]
    assert (told[-1].agents, told[-1].expected, told[-1].epoch) == (4, 4, 1)
    shown = [notice for notice in others if isinstance(notice, PublishedWindow)]
    assert [json.loads(bytes(notice.result))["rows"][0]["n"] for notice in shown] == [4, 4, 4]
    assert panes(shown) == sorted(set(panes(shown)))


def test_submit_and_follow_in_one_breath_are_accepted_once() -> None:
    fleet = Fleet(3)
    agent = fleet.agents[1]
    settle, fleet.settle = fleet.settle, lambda: None  # type: ignore[method-assign]
    fleet.submit(by=1)
    client_of(agent).follow(KEY, None, fleet.now)
    fleet.settle = settle  # type: ignore[method-assign]
    fleet.settle()
    fleet.wait(1.0)
    fleet.insert(0, events("a"))
    fleet.finish()
    accepted, published, ended = without_acknowledgements(client_of(agent).notices())
    assert (type(accepted), type(published), ended) == (Accepted, PublishedWindow, Ended("finished"))
    assert (published.pane, json.loads(bytes(published.result))["rows"]) == (0, [{"product": "a", "n": 1}])


@pytest.mark.parametrize(("after", "expected"), [(None, [4]), (FIRST_PANE, [1, 2, 3, 4]), (WALL_MS + 2000, [3, 4])])
def test_a_follower_gets_what_comes_after_the_pane_it_names(after: int | None, expected: list[int]) -> None:
    fleet = live()
    log_until_shown(fleet, 3)
    client_of(fleet.agents[2]).follow(KEY, after, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 4)
    assert panes(fleet.notices(2)) == expected


def test_following_again_starts_again() -> None:
    """Another client of the same agent may have seen less."""
    fleet = live()
    client_of(fleet.agents[2]).follow(KEY, None, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 3)
    assert panes(fleet.notices(2)) == [1, 2, 3]
    client_of(fleet.agents[2]).follow(KEY, WALL_MS + 1000, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 4)
    assert panes(fleet.notices(2)) == [2, 3, 4]


def test_a_job_is_lost_to_its_followers_only_when_their_agent_has_forgotten_it() -> None:
    fleet = live(12)
    follower = next(agent for agent in fleet.agents if KEY not in agent.failover.jobs and not agent.masters.leads(KEY))
    client = client_of(follower)
    client.follow(KEY, None, fleet.now)
    fleet.settle()
    for agent in [agent for agent in fleet.agents if agent is not follower]:
        fleet.network.remove(agent.node)
    fleet.agents = [follower]
    fleet.wait_long(60.0)
    assert follower.directory.get(KEY) is not None
    assert not any(isinstance(notice, Ended) for notice in client.notices())
    fleet.wait_long(60.0)
    assert follower.directory.get(KEY) is None
    assert client.notices()[-1] == Ended("lost")


@pytest.mark.parametrize(("after", "lost"), [(0, (None, 2)), (1, (1, 2)), (2, None), (3, None)])
def test_only_the_last_results_are_kept_and_followers_are_told(
    monkeypatch: pytest.MonkeyPatch, after: int, lost: tuple[int | None, int] | None
) -> None:
    monkeypatch.setattr(result_log, "RESULTS_MAX", 2)
    fleet = live()
    log_until_shown(fleet, 4)
    client_of(fleet.agents[0]).follow(KEY, WALL_MS + after * SECOND if after else FIRST_PANE, fleet.now)
    fleet.settle()
    notices = fleet.notices(0)
    assert panes(notices) == [pane for pane in (3, 4) if pane > after]
    fleet.wait(10.0)
    told = [one for one in notices + fleet.notices(0) if isinstance(one, WindowsLost)]
    ends = [None if pane is None else WALL_MS + pane * SECOND for pane in lost or ()]
    assert told == ([WindowsLost(*ends)] if lost else []), "once"


def test_who_no_longer_follows_is_told_nothing() -> None:
    fleet = live()
    for number in (1, 2):
        client_of(fleet.agents[number]).follow(KEY, None, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 1)
    client_of(fleet.agents[1]).unfollow(KEY, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 2)
    assert (panes(fleet.notices(1)), panes(fleet.notices(2))) == ([1], [1, 2])


def test_a_job_that_nobody_knows() -> None:
    fleet = live()
    for number in range(4):
        client_of(fleet.agents[number]).follow(12345, None, fleet.now)
        client_of(fleet.agents[number]).stop(12345, fleet.now)
        fleet.settle()
        assert set(fleet.notices(number)[-2:]) == {Ended("unknown"), StopAnswer(12345, found=False)}


@pytest.mark.parametrize("by", range(4))
def test_stopping_ends_a_job_everywhere(by: int) -> None:
    fleet = live()
    client_of(fleet.agents[2]).follow(KEY, None, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 1)
    client_of(fleet.agents[by]).stop(KEY, fleet.now)
    fleet.settle()
    assert StopAnswer(KEY, found=True) in fleet.notices(by) + fleet.notices(2)
    assert [agent.directory.all() for agent in fleet.agents] == [[]] * 4
    assert [agent.ingest.feeds() for agent in fleet.agents] == [()] * 4
    client_of(fleet.agents[3]).follow(KEY, WALL_MS, fleet.now)
    fleet.settle()
    assert panes(fleet.notices(3)) == [1], "its last results can still be had"
    fleet.wait_long(LINGER_S + 2)
    client_of(fleet.agents[3]).follow(KEY, None, fleet.now)
    fleet.settle()
    assert fleet.notices(3)[-1] == Ended("unknown")


def test_a_job_that_is_stopped_is_over_for_its_followers() -> None:
    fleet = live()
    for number in range(4):
        client_of(fleet.agents[number]).follow(KEY, None, fleet.now)
    fleet.settle()
    log_until_shown(fleet, 1)
    client_of(fleet.agents[0]).stop(KEY, fleet.now)
    fleet.settle()
    assert [Ended("stopped") in fleet.notices(number) for number in range(4)] == [True] * 4


def test_a_name_can_be_used_again_when_its_job_is_over() -> None:
    fleet = live()
    log_until_shown(fleet, 1)
    client_of(fleet.agents[0]).stop(KEY, fleet.now)
    fleet.settle()
    fleet.submit("SELECT COUNT(*) AS m FROM web WINDOWING 1 SECOND", bounded=False, grace_ms=0, by=3)
    fleet.catch_up()
    log_until_shown(fleet, 3)
    assert [list(result.rows[0]) for result in fleet.results] == [["product", "n"], ["m"], ["m"]]
    assert client_of(fleet.agents[3]).notices()[0] == Accepted(
        "shop", "SELECT COUNT(*) AS m FROM web WINDOWING 1 SECOND", ["m"], False
    )


def test_a_second_job_of_a_name_is_refused() -> None:
    fleet = live()
    fleet.submit(by=2)
    (refused,) = fleet.notices(2)
    assert isinstance(refused, SubmitRefused)
    assert "shop is running already" in refused.reason
    assert not refused.unavailable


def test_a_job_that_makes_no_sense_is_refused() -> None:
    fleet = Fleet(2)
    client_of(fleet.agents[0]).submit(Submit(KEY, "shop", "web", {"kind": "nonsense"}), fleet.now, fleet.wall_ms)
    (refused,) = fleet.notices(0)
    assert isinstance(refused, SubmitRefused)
    assert "not a plan" in refused.reason


def test_a_query_without_windows_is_bounded_in_any_case() -> None:
    fleet = Fleet(2)
    fleet.submit("SELECT COUNT(*) FROM web", bounded=False)
    (accepted,) = fleet.notices(0)
    assert isinstance(accepted, Accepted)
    assert accepted.bounded


def test_an_agent_that_is_alone_in_a_changing_fleet_says_so() -> None:
    """Its node has not joined yet: nothing is routed."""
    fleet = Fleet(1)
    agent = fleet.agents[0]
    agent.node.leave(fleet.now)
    fleet.submit()
    client_of(agent).follow(KEY, None, fleet.now)
    fleet.wait_long(12.0)
    assert client_of(agent).notices() == [SubmitRefused(KEY, NO_ANSWER, unavailable=True)]


def test_an_attached_job_ends_when_nobody_has_followed_it_for_long() -> None:
    fleet = live(attached=True)
    follower = client_of(fleet.agents[1])
    follower.follow(KEY, None, fleet.now)
    fleet.wait_long(2 * UNFOLLOWED_S)
    assert len(fleet.agents[0].directory.all()) == 1
    follower.unfollow(KEY, fleet.now)
    fleet.wait_long(UNFOLLOWED_S - 2)
    assert len(fleet.agents[0].directory.all()) == 1
    fleet.wait_long(4.0)
    assert [agent.directory.all() for agent in fleet.agents] == [[]] * 4


def test_an_attached_job_outlives_a_standstill_of_its_masters_agent() -> None:
    """It takes that long over a large result; who follows on another agent has asked on meanwhile."""
    fleet = live(attached=True)
    (master,) = [agent for agent in fleet.agents if agent.masters.state(KEY)]
    follower = next(agent for agent in fleet.agents if agent is not master)
    client_of(follower).follow(KEY, None, fleet.now)
    fleet.wait_long(2.0)
    still_until = fleet.now + UNFOLLOWED_S + 5.0
    fleet.agents.remove(master)
    while fleet.now < still_until:
        fleet.wait(0.5)
    fleet.agents.append(master)
    fleet.wait(0.5)
    assert master.masters.state(KEY) is not None
    assert len(master.directory.all()) == 1


def test_a_detached_job_goes_on_without_followers() -> None:
    fleet = live()
    fleet.wait_long(UNFOLLOWED_S + 5)
    assert [len(agent.directory.all()) for agent in fleet.agents] == [1] * 4


def test_a_job_that_nobody_announces_is_dropped() -> None:
    fleet = live()
    (master,) = [agent for agent in fleet.agents if agent.masters.state(KEY)]
    fleet.agents.remove(master)
    for _ in range(round(SILENCE_S) + 2):
        fleet.wait(1.0)
    # Whoever was to succeed still sees the old root in its tables: the overlay's timers stand still here.
    assert [agent.directory.all() for agent in fleet.agents] == [[]] * 3
    assert [agent.ingest.feeds() for agent in fleet.agents] == [()] * 3


def test_jobs_are_listed_everywhere() -> None:
    fleet = live()
    log_until_shown(fleet, 2)
    fleet.wait_long(4.0)
    listings = [agent.directory.all() for agent in fleet.agents]
    assert all(listing == listings[0] for listing in listings)
    (job,) = listings[0]
    assert (job.name, job.text, job.stream, job.bounded) == ("shop", COUNT, "web", False)
    assert (job.agents, job.expected, job.epoch.counter, job.version) == (4, 4, 1, 1)
    assert job.frontier > FIRST_PANE
    assert [job.installed for agent in fleet.agents for job in agent.status().jobs] == [True] * 4


def test_a_bounded_job_that_nobody_has_the_stream_of_ends_and_says_so() -> None:
    fleet = Fleet(3, bystanders=3)
    fleet.wait(0.5)
    fleet.submit(bounded=True)
    client_of(fleet.agents[0]).follow(KEY, None, fleet.now)
    fleet.wait_long(NOBODY_S + 1.0)
    assert Ended("nobody") in fleet.notices(0)
    assert fleet.agents[0].directory.all() == []
