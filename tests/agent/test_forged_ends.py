"""Jobs that another agent of the fleet says are over."""

from __future__ import annotations

import msgspec
import pytest
from memory_fleet import COUNT, KEY, Fleet
from program_fleet import TEN_LINES, Make, ProgramFleet
from recording_client import client_of

from agent import Agent, SubmitRefused, Update
from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.fleet.ended_mandates import EndedMandates
from agent.runtime.fleet.job_directory import SILENCE_S
from agent.runtime.messages.jobs import CODEC, Stopped
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.model.bundle import Signature
from elf.signing.creator import stop_order
from overlay import Id


def say_over(fleet: Fleet, key: Id, agent: Agent, seal: Signature | None = None) -> None:
    epoch = next(one.epoch for one in agent.directory.all() if one.app_id == key)
    agent.node.multicast(FLEET_GROUP, CODEC.encode(Stopped(key, epoch, "stopped", seal)), fleet.now)
    fleet.settle()


def know(fleet: Fleet, key: Id) -> list[bool]:
    return [agent.directory.get(key) is not None for agent in fleet.agents]


@pytest.mark.parametrize("number", range(4))
def test_no_agent_ends_a_job_whose_master_goes_on(number: int) -> None:
    fleet = Fleet(4)
    fleet.submit(COUNT, bounded=False)
    say_over(fleet, KEY, fleet.agents[number])
    assert know(fleet, KEY) == [True] * 4
    assert sum(agent.endings.statistics()["unconfirmed"] for agent in fleet.agents) >= 3


def test_no_agent_ends_a_creators_job_with_another_signature(fleet_of: Make) -> None:
    fleet = fleet_of(4)
    key = fleet.submit_code(TEN_LINES)
    _, seal = stop_order(fleet.maria, "counts", fleet.wall_ms)  # type: ignore[arg-type]
    forged = Signature(seal.certificate, seal.counter, seal.predecessor, seal.expires_ms + 1, seal.signature)
    for one in (None, forged):
        say_over(fleet, key, fleet.agents[3], one)
        assert know(fleet, key) == [True] * 4


def test_a_stop_that_its_creator_has_signed_needs_no_confirmation(fleet_of: Make) -> None:
    fleet = fleet_of(4)
    key = fleet.submit_code(TEN_LINES)
    _, seal = stop_order(fleet.maria, "counts", fleet.wall_ms)  # type: ignore[arg-type]
    client_of(fleet.agents[0]).stop(key, fleet.now, seal)
    fleet.settle()
    assert know(fleet, key) == [False] * 4
    assert not fleet.turns


def test_a_job_whose_end_nobody_can_confirm_is_dropped_when_its_master_falls_silent() -> None:
    fleet = Fleet(4)
    fleet.submit(COUNT, bounded=False)
    master = next(agent for agent in fleet.agents if agent.masters.get(KEY) is not None)
    others = [agent for agent in fleet.agents if agent is not master]
    for agent in others:
        agent.failover.forget(KEY, fleet.now)
    say_over(fleet, KEY, others[0])
    del master.masters.held[KEY]
    fleet.wait_long(SILENCE_S + 2)
    assert [agent.directory.get(KEY) for agent in fleet.agents] == [None] * 4


def stop(fleet: ProgramFleet, key: Id) -> None:
    _, seal = stop_order(fleet.maria, "counts", fleet.wall_ms)  # type: ignore[arg-type]
    client_of(fleet.agents[0]).stop(key, fleet.now, seal)
    fleet.settle()
    assert know(fleet, key) == [False] * len(fleet.agents)
    fleet.notices(0)


def test_what_was_signed_before_a_stop_starts_nothing(fleet_of: Make) -> None:
    fleet = fleet_of(4)
    app, key, first = fleet.bundle(TEN_LINES)
    fleet.submit_bundle(app, key, first)
    fleet.wait(1.0)
    _, _, second = fleet.bundle(TEN_LINES + "\n", after=(1, first.digest(key)))
    plan = second.contents.functions[0]
    update = Update(key, plan.plan, plan.text, False, 0, second)
    client_of(fleet.agents[0]).update(update, fleet.now, fleet.wall_ms)
    fleet.wait_long(10.0)
    fleet.catch_up()
    assert all(agent.directory.all()[0].counter == 2 for agent in fleet.agents)
    stop(fleet, key)
    for replayed in (first, second):
        fleet.wait(1.0)
        fleet.submit_bundle(app, key, replayed)
        (refused,) = fleet.notices(0)
        assert isinstance(refused, SubmitRefused)
        assert refused.reason == "its creator has stopped the job since this was signed: it has to be signed anew"
    assert know(fleet, key) == [False] * 4
    fleet.submit_code(TEN_LINES)
    assert know(fleet, key) == [True] * 4


def test_marks_of_stopped_jobs_outlive_the_agent(fleet_of: Make) -> None:
    fleet = fleet_of(1)
    saved: list[bytes] = []
    fleet.agents[0].code.ended.save = saved.append
    app, key, first = fleet.bundle(TEN_LINES)
    fleet.submit_bundle(app, key, first)
    stop(fleet, key)
    again = EndedMandates()
    assert again.load(saved[-1])
    with pytest.raises(NotAuthorizedError, match="signed anew"):
        again.check(key, first.seal)
    assert not EndedMandates().load(b"damaged")
    encoded = msgspec.msgpack.encode([("0" * 32, 1, 1)])
    assert EndedMandates().load(encoded)
    assert not EndedMandates().load(encoded.replace(b"\xd9\x20" + b"0" * 32, b"\xd9\x21" + b"0" * 32 + b"\n"))
