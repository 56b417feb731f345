"""Owners of queries, as the fleet knows them: announced, kept by masters, and asked for by them."""

from __future__ import annotations

import msgspec
import pytest
from memory_fleet import COUNT, KEY, Fleet
from recording_client import client_of

import query
from agent import StopAnswer, Submit, Update, Updated, UpdateRefused
from agent.runtime.messages.jobs import CODEC, Announce, Stop

ALICE, EVE = "alice@web-1", "eve@web-1"
FEW = "SELECT product, COUNT(*) AS n FROM web WHERE product = 'a' GROUP BY product WINDOWING 1 SECOND"


def live(owner: str = ALICE) -> Fleet:
    fleet = Fleet(4)
    fleet.submit(bounded=False, owner=owner)
    return fleet


def stop(fleet: Fleet, by: str) -> str | None:
    """The refusal of a stop, if there is one."""
    client = client_of(fleet.agents[3])
    client.notices()
    fleet.agents[3].commands.stop(KEY, client.reply, fleet.now, by=by)
    fleet.settle()
    (answer,) = (one for one in client.notices() if isinstance(one, StopAnswer))
    assert answer.found
    return answer.refusal


def is_running(fleet: Fleet) -> bool:
    return all(agent.directory.get(KEY) is not None for agent in fleet.agents)


def test_every_agent_knows_the_owner() -> None:
    fleet = live()
    for agent in fleet.agents:
        announced = agent.directory.get(KEY)
        assert announced is not None
        assert announced.owner == ALICE


def test_a_master_stops_and_changes_a_query_for_its_owner_only_or_for_operators() -> None:
    fleet = live()
    refusal = "it is alice@web-1's, and eve@web-1 has no right to operate it"
    assert stop(fleet, EVE) == refusal
    plan = query.analyze(query.parse(FEW), {"web": query.Schema({}, open=True)})
    client = client_of(fleet.agents[3])
    for by, kind in ((EVE, UpdateRefused), (ALICE, Updated)):
        client.update(Update(KEY, plan.to_wire(), FEW, False, 0, by=by), fleet.now, fleet.wall_ms)
        fleet.catch_up()
        fleet.wait_long(5.0)
        (answer,) = client.notices()
        assert isinstance(answer, kind)
        assert getattr(answer, "reason", refusal) == refusal
    assert is_running(fleet)
    assert stop(fleet, ALICE) is None
    assert not is_running(fleet)


def test_operators_stop_any_query_and_nobodys() -> None:
    assert stop(live(), "") is None
    nobodys = live(owner="")
    assert stop(nobodys, EVE) == "it is nobody's, and eve@web-1 has no right to operate it"
    assert stop(nobodys, "") is None


def test_the_next_master_knows_the_owner_too() -> None:
    fleet = live()
    (master,) = (agent for agent in fleet.agents if agent.masters.leads(KEY))
    master.drain.begin(fleet.now)
    fleet.wait_long(5.0)
    (successor,) = (agent for agent in fleet.agents if agent.masters.leads(KEY) and agent is not master)
    state = successor.masters.state(KEY)
    assert state is not None
    assert state.job.owner == ALICE
    announced = fleet.agents[0].directory.get(KEY)
    assert announced is not None
    assert (announced.master_name, announced.owner) == (successor.name, ALICE)


@pytest.mark.parametrize(
    "message",
    [
        Submit(KEY, "shop", "web", {}, COUNT, owner=ALICE),
        Stop(KEY, by=ALICE),
        Update(KEY, {}, COUNT, False, 0, by=ALICE),
    ],
    ids=lambda message: type(message).__name__,
)
def test_agents_that_do_not_say_so_yet_are_understood(message: Submit | Stop | Update) -> None:
    """Fields were added at the end of what is sent by name: who does not know them ignores them."""
    assert CODEC.decode(CODEC.encode(message)) == message
    fields = msgspec.msgpack.decode(CODEC.encode(message))
    name = "owner" if isinstance(message, Submit) else "by"
    del fields[name]
    assert CODEC.decode(msgspec.msgpack.encode(fields)) == msgspec.structs.replace(message, **{name: ""})
    unknown = msgspec.msgpack.decode(CODEC.encode(message)) | {"of_a_later_version": 1}
    assert CODEC.decode(msgspec.msgpack.encode(unknown)) == message


def test_an_announcement_of_another_owner_is_not_of_the_master() -> None:
    fleet = live()
    known = fleet.agents[0].directory.get(KEY)
    assert isinstance(known, Announce)
    forged = msgspec.structs.replace(known, owner=EVE)
    assert not fleet.agents[0].directory._announced(forged, fleet.now)
    assert fleet.agents[0].directory.get(KEY) == known
