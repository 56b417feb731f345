"""Requests for the places of key groups, as any agent asks the job's master: what holds, or one line why not."""

from __future__ import annotations

import pytest
from memory_fleet import KEY, WALL_MS, Fleet, events

from agent.control.control_service import NO_PLACEMENT
from agent.control.observation.fleet_view import described_placement
from agent.control.observation.placement_entries import JobPlacement
from agent.runtime.master.job_master import OVER
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.master.owners.key_placement import NO_AGENT, NO_GROUPS, ONE_TREE, TOO_MANY
from agent.runtime.messages.views.placement import PlacementView, PlaceRequest
from agent.runtime.model.fields import GROUPS
from agent.runtime.model.placement import MOVES_MAX, KeyMoves, Move
from agent.runtime.reduce.owner import GIVEN_MAX, TreeOwner
from agent.runtime.requests.asks import TIMEOUT_S
from agent.runtime.requests.events import AskRefused, AskReply
from overlay import app_id

HOPPING = "SELECT product, COUNT(*) AS n FROM web GROUP BY product WINDOWING 4 SECONDS EVERY 1 SECOND GRACE 0 SECONDS"
SALT = "1"
"""With it, the trees of a job of three have three owners."""
OWNER, STRANGER = "maria@web-1", "john@web-2"


def living(text: str, agents: int = 4) -> Fleet:
    """A live job of Maria's in its tenth second."""
    fleet = Fleet(agents, salt=SALT)
    fleet.wait(0.5)
    fleet.submit(text, bounded=False, grace_ms=0, owner=OWNER)
    fleet.catch_up()
    for second in range(1, 10):
        live_on(fleet, second)
    return fleet


def live_on(fleet: Fleet, second: int) -> None:
    for number in range(len(fleet.agents)):
        products = (f"product-{one}" for one in range(60))
        fleet.insert(number, events(*products, at_ms=WALL_MS + second * 1000))
    fleet.catch_up()
    fleet.wait(0.3)


def reply_to(fleet: Fleet, request: PlaceRequest, by: int = 2) -> AskReply:
    replies: list[AskReply] = []
    fleet.agents[by].questions.ask(request, replies.append, fleet.now)
    fleet.settle()
    for _ in range(round(2 * TIMEOUT_S)):
        if replies:
            break
        fleet.wait(0.5)
    return replies[0]


def placement(fleet: Fleet, *groups: int, to: str = "", mode: str = "instant", by: str = OWNER) -> JobPlacement | str:
    """What an agent's client is told: the places, or why groups do not move."""
    found = reply_to(fleet, PlaceRequest(KEY, groups, to, mode, by))  # type: ignore[arg-type]
    assert isinstance(found, PlacementView), found
    return found.refusal or described_placement(found)


def test_the_view_has_every_group_with_its_owner_and_all_rows_that_owners_get() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    for second in range(10, 22):
        live_on(fleet, second)
    found = placement(fleet)
    assert isinstance(found, JobPlacement)
    assert [one.group for one in found.groups] == list(range(GROUPS))
    assert [one.tree for one in found.owners] == [0, 1, 2]
    assert len({one.agent for one in found.owners}) == 3
    names = {agent.name for agent in fleet.agents}
    by_id = {f"{agent.node.peer.node_id:032x}": agent.name for agent in fleet.agents}
    assert all(one.agent == by_id[one.node_id] for one in found.owners)
    for one in found.groups:
        assert set(one.agents) <= names
        assert [owner.agent for owner in found.owners if owner.tree in one.trees] == one.agents
    assert sum(one.groups for one in found.owners) == sum(len(one.trees) for one in found.groups)
    rows = sum(one.rows_per_s for one in found.groups)
    assert rows > 0
    assert sum(one.rows_per_s for one in found.owners) == pytest.approx(rows)
    assert found.moves == []


def test_groups_that_have_moved_are_shown_with_their_new_owner() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    before = placement(fleet)
    assert isinstance(before, JobPlacement)
    to = before.owners[2].agent
    found = placement(fleet, 24, 25, to=to, mode="smooth")
    assert isinstance(found, JobPlacement)
    assert [(one.group, one.tree, one.agent, one.mode, one.is_over) for one in found.moves] == [
        (24, 2, to, "smooth", False), (25, 2, to, "smooth", False),
    ]  # fmt: skip
    assert all(one.first_pane.endswith("Z") for one in found.moves)
    assert {found.groups[24].agents[-1], found.groups[25].agents[-1]} == {to}
    for second in range(10, 22):
        live_on(fleet, second)
    later = placement(fleet)
    assert isinstance(later, JobPlacement)
    assert all(one.is_over for one in later.moves)
    assert (later.groups[24].trees, later.groups[24].agents) == ([2], [to])


def test_an_agent_that_owns_nothing_is_given_a_tree() -> None:
    """Also of a job of one tree; it is asked by its node id as well as by its name."""
    fleet = living(HOPPING)
    master = next(agent for agent in fleet.agents if agent.masters.get(KEY) is not None)
    other = next(agent for agent in fleet.agents if agent is not master)
    found = placement(fleet, *range(8), to=f"{other.node.peer.node_id:032x}")
    assert isinstance(found, JobPlacement)
    assert [one.agent for one in found.owners] == [master.name, other.name]
    assert all(found.groups[group].agents == [other.name] for group in range(8))


def test_what_is_not_possible_is_refused_in_one_line() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    names = ", ".join(sorted(agent.name for agent in fleet.agents))
    assert placement(fleet, 3, to="agent-9") == NO_AGENT.format(agent="agent-9", agents=names)
    found = placement(fleet)
    assert isinstance(found, JobPlacement)
    first, second, third = (one.agent for one in found.owners)
    assert placement(fleet, 24, to=third, by=STRANGER) == (
        f"it is {OWNER}'s, and {STRANGER} has no right to operate it"
    )
    assert isinstance(placement(fleet, by=STRANGER), JobPlacement), "who may read it may look"
    assert isinstance(placement(fleet, 24, to=third, mode="smooth"), JobPlacement)
    assert "group 24 has moved already" in str(placement(fleet, 23, 24, to=first))
    nothing = placement(fleet)
    assert isinstance(nothing, JobPlacement)
    assert nothing.groups[23].agents == [second], "all of them move, or none"


def test_nothing_moves_to_an_agent_that_leaves() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    before = placement(fleet)
    assert isinstance(before, JobPlacement)
    leaving = next(agent for agent in fleet.agents if agent.name == before.owners[2].agent)
    leaving.drain.begin(fleet.now)
    fleet.settle()
    others = ", ".join(sorted(agent.name for agent in fleet.agents if agent is not leaving))
    for to in (leaving.name, before.owners[2].node_id):
        found = reply_to(fleet, PlaceRequest(KEY, (24,), to), by=3)
        assert isinstance(found, PlacementView)
        assert found.refusal == NO_AGENT.format(agent=to, agents=others)


@pytest.mark.parametrize(
    "text", ["SELECT COUNT(*) AS n FROM web WINDOWING 4 SECONDS EVERY 1 SECOND", "SELECT product FROM web LIMIT 3"]
)
def test_a_job_without_groups_has_nothing_to_move(text: str) -> None:
    fleet = living(text)
    other = next(agent.name for agent in fleet.agents if agent.masters.get(KEY) is None)
    assert placement(fleet, 1, to=other) == NO_GROUPS
    found = placement(fleet)
    assert isinstance(found, JobPlacement)
    assert len(found.owners) == 1, "no tree is added for it"


def test_a_master_that_does_not_know_the_request_is_waited_for_no_longer_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of the release before does not answer: the client is told that it may be one."""
    monkeypatch.setattr(JobMasters, "place", lambda *_: None)
    fleet = living(f"{HOPPING} TREES 3")
    begun = fleet.now
    assert reply_to(fleet, PlaceRequest(KEY)) == AskRefused(unavailable=True)
    assert fleet.now - begun <= 1.1 * TIMEOUT_S
    assert "release before" in NO_PLACEMENT
    assert len(NO_PLACEMENT.splitlines()) == 1


def test_one_agent_alone_owns_everything() -> None:
    fleet = living(HOPPING, agents=1)
    (agent,) = fleet.agents
    found = placement_of_alone(fleet)
    assert {tuple(one.agents) for one in found.groups} == {(agent.name,)}
    assert reply_text(fleet, 3, to=agent.name) == ONE_TREE
    assert reply_text(fleet, 3, to="agent-2") == NO_AGENT.format(agent="agent-2", agents=agent.name)


def placement_of_alone(fleet: Fleet) -> JobPlacement:
    found = reply_to(fleet, PlaceRequest(KEY), by=0)
    assert isinstance(found, PlacementView)
    return described_placement(found)


def reply_text(fleet: Fleet, *groups: int, to: str) -> str | None:
    found = reply_to(fleet, PlaceRequest(KEY, groups, to), by=0)
    assert isinstance(found, PlacementView)
    return found.refusal


def test_a_job_that_nobody_knows_and_one_that_is_over() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    found = placement(fleet)
    assert isinstance(found, JobPlacement)
    assert reply_to(fleet, PlaceRequest(app_id("unknown", b""))) == AskRefused(unavailable=False)
    fleet.agents[1].commands.stop(KEY, lambda _reply: None, fleet.now)
    fleet.settle()
    assert placement(fleet, 24, to=found.owners[2].agent) == OVER


def test_of_very_many_moves_that_windows_need_one_more_is_refused() -> None:
    fleet = living(f"{HOPPING} TREES 3")
    master = next(one for agent in fleet.agents if (one := agent.masters.get(KEY)) is not None)
    later = WALL_MS + 3_600_000
    master.state.moved = KeyMoves(
        MOVES_MAX, tuple(Move(number, later, number % 8, 1, "instant", later) for number in range(1, MOVES_MAX + 1))
    )
    assert master.placement.move([60], 1, "instant", fleet.now) == TOO_MANY
    assert master.state.moved.number == MOVES_MAX


def test_owners_keep_only_so_many_states_that_others_have_given() -> None:
    owner = TreeOwner(3, 1 << 20, 1 << 20)
    assert all(owner.take_given((1, node_id, 0), []) for node_id in range(GIVEN_MAX))
    assert not owner.take_given((1, GIVEN_MAX, 0), []), "its master asks again"
    assert owner.take_given((1, 0, 0), []), "what is known already is no more"
