"""What the data of one job raises ends that job, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_fleet import WALL_MS, Fleet, events
from recording_client import client_of

from agent import Agent, Ended, StreamOptions
from agent.runtime.ingest import operator_pool
from agent.runtime.ingest.operator import Operator
from agent.runtime.ingest.operator_pool import SEALED_ROWS
from agent.runtime.job.local_job import LocalJob
from agent.runtime.master.job_master import JobMaster
from agent.runtime.messages.programs import Log
from agent.runtime.model.work_budget import OverBudgetError, WorkBudgets
from agent.runtime.program_host.stages import Stages
from agent.runtime.requests.events import AgentObserver
from agent.runtime.upstream.app_source import UpstreamJobs
from overlay import Id, app_id

GOOD, BAD = app_id("good", b""), app_id("bad", b"")
COUNT = "SELECT COUNT(*) AS n FROM web WINDOWING 1 SECOND"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Id, str]]:
    """Jobs that were contained, with the reason."""
    told: list[tuple[Id, str]] = []
    monkeypatch.setattr(
        AgentObserver,
        "job_contained",
        lambda _observer, key, error: told.append((key, f"{type(error).__name__}: {error}")),
    )
    return told


def live_fleet(bad: str = COUNT) -> Fleet:
    fleet = Fleet(3, streams={"web": StreamOptions("end")})
    for name, text in (("good", COUNT), ("bad", bad)):
        fleet.submit(text, name, bounded=False, grace_ms=0)
    client_of(fleet.agents[0]).follow(BAD, None, fleet.now)
    fleet.catch_up()
    return fleet


def feed(fleet: Fleet) -> None:
    for number in range(3):
        fleet.insert(number, events("a", at_ms=WALL_MS + 1500))
        fleet.insert(number, events("a", at_ms=WALL_MS + 9000))
    fleet.work()
    for _ in range(10):
        fleet.wait(0.5)
        fleet.work()


@pytest.mark.parametrize("method", ["take_snapshot", "skip_stragglers"])
def test_the_other_job_goes_on(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    fleet = live_fleet()
    original: Any = getattr(LocalJob, method)

    def fail(job: LocalJob, *arguments: object) -> object:
        if job.app_id == BAD:
            raise KeyError("no such column")
        return original(job, *arguments)

    monkeypatch.setattr(LocalJob, method, fail)
    feed(fleet)
    assert {key for key, _ in told} == {BAD}
    assert told[0][1] == "KeyError: 'no such column'"
    good = [result for result in fleet.results if result.app == "good"]
    assert [(result.events, result.contributors) for result in good] == [(3, 3)]
    ended = [notice for notice in fleet.notices(0) if isinstance(notice, Ended)]
    assert [one.reason for one in ended] == ["failed"]
    assert "cannot go on: KeyError: 'no such column'" in ended[0].failure
    assert [agent.directory.get(BAD) for agent in fleet.agents] == [None] * 3
    assert all(agent.directory.get(GOOD) is not None for agent in fleet.agents)


# What operators raise.


@pytest.mark.parametrize("method", ["insert", "saw", "caught_up", "seal_next", "start_sealing"])
def test_an_operator_ends_its_job(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    fleet = live_fleet(bad="SELECT MAX(product) AS m FROM web WINDOWING 1 SECOND")
    fail_for(BAD, monkeypatch, method)
    feed(fleet)
    fleet.wait_long(6.0)  # until the next window is over: before that, nobody asks how far its feed is
    fleet.catch_up()
    check_good(fleet, told, windows=2)


def test_nothing_is_left_to_seal_of_a_job_that_takes_too_long(
    told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has more runs to seal when it ends."""
    monkeypatch.setattr(operator_pool, "ROWS_PER_RUN", 1)
    fleet = live_fleet(bad="SELECT product, MAX(product) AS m FROM web GROUP BY product WINDOWING 1 SECOND")
    charge = WorkBudgets.charge

    def charge_seals(budgets: WorkBudgets, app_id: Id, work_s: float, rows: int, now: float) -> None:
        if rows == SEALED_ROWS and app_id == BAD:
            raise OverBudgetError("its expressions take too long")
        charge(budgets, app_id, work_s, rows, now)

    monkeypatch.setattr(WorkBudgets, "charge", charge_seals)
    panes = [events("a", "b", at_ms=WALL_MS + at_ms).frames for at_ms in (1500, 2500, 9000)]
    for number in range(3):
        fleet.insert(number, replace(events(), frames=sum(panes, ())))
    fleet.wait_long(2.0)
    assert {key for key, _ in told} == {BAD}
    assert [len(agent.ingest._work) for agent in fleet.agents] == [0, 0, 0]
    assert all(agent.ingest._work.times._means.keys() == set(agent.ingest) for agent in fleet.agents)


def test_jobs_that_share_an_operator_end_together(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = live_fleet()
    fleet.submit(COUNT.replace("COUNT(*)", "MIN(product)"), "other", bounded=False, grace_ms=0)
    fleet.catch_up()
    assert len(list(fleet.agents[0].ingest)) == 2
    fail_for(BAD, monkeypatch, "insert")
    feed(fleet)
    assert {key for key, _ in told} == {BAD, GOOD}
    other = [result for result in fleet.results if result.app == "other"]
    assert [(result.events, result.contributors) for result in other] == [(3, 3)]


def test_a_master_ends_its_job(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = live_fleet(bad="SELECT MAX(product) AS m FROM web WINDOWING 1 SECOND")
    tick = JobMaster.tick

    def fail(master: JobMaster, now: float) -> None:
        if master.state.job.app_id == BAD and master.ended is None:
            raise KeyError("no such column")
        tick(master, now)

    monkeypatch.setattr(JobMaster, "tick", fail)
    feed(fleet)
    check_good(fleet, told)


def test_a_job_that_reads_another_ends_alone(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_upstream: UpstreamJobs, *_arguments: object) -> None:
        raise KeyError("no such column")

    fleet = live_fleet(bad="SELECT SUM(n) AS n FROM app('good') WINDOWING 1 SECOND")
    monkeypatch.setattr(UpstreamJobs, "_take_all", fail)
    feed(fleet)
    check_good(fleet, told)


def test_a_job_with_stages_ends_alone(told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_stages: Stages, master: JobMaster, *_arguments: object) -> None:
        if master.state.job.app_id == BAD:
            raise KeyError("no such stage")

    fleet = live_fleet()
    for agent in fleet.agents:
        if (master := agent.masters.get(BAD)) is not None:
            master.state.creator = "ann"  # only a creator's jobs have stages
    monkeypatch.setattr(Stages, "_follow_stages", fail)
    feed(fleet)
    check_good(fleet, told)


def test_the_master_hears_why_an_agent_works_no_more(
    told: list[tuple[Id, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = live_fleet(bad="SELECT MAX(product) AS m FROM web WINDOWING 1 SECOND")
    broken = next(agent for agent in fleet.agents if agent.masters.get(BAD) is None)
    fail_for(BAD, monkeypatch, "insert", only=broken)
    feed(fleet)
    assert len(told) == 1
    assert all(agent.directory.get(BAD) is not None for agent in fleet.agents), "the job goes on elsewhere"
    client_of(fleet.agents[0]).ask_log(BAD, 100, fleet.now)
    fleet.settle()
    log = next(one for one in fleet.notices(0) if isinstance(one, Log))
    assert [(line.agent, line.text) for line in log.lines] == [
        (broken.name, "this agent works for the job no more: KeyError: 'no such column'")
    ]


def fail_for(job: Id, monkeypatch: pytest.MonkeyPatch, method: str, only: Agent | None = None) -> None:
    """Makes the operators of a job raise, on all agents or only on one."""
    original: Any = getattr(Operator, method)

    def fail(operator: Operator, *arguments: object) -> object:
        is_here = only is None or operator in list(only.ingest)
        if is_here and any(consumer.app_id == job for consumer in operator.consumers):
            raise KeyError("no such column")
        return original(operator, *arguments)

    monkeypatch.setattr(Operator, method, fail)


def check_good(fleet: Fleet, told: list[tuple[Id, str]], windows: int = 1) -> None:
    """Only the bad job has ended, and everywhere, since its master has failed too."""
    assert {key for key, _ in told} == {BAD}
    good = [result for result in fleet.results if result.app == "good"]
    assert [(result.events, result.contributors) for result in good] == [(3, 3)] * windows
    assert [agent.directory.get(BAD) for agent in fleet.agents] == [None] * 3
    assert all(agent.directory.get(GOOD) is not None for agent in fleet.agents)
