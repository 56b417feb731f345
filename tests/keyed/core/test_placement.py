"""Logical nodes are spread evenly over agents, and do not wander."""

from __future__ import annotations

import random

import pytest
from fleet_of_elements import APP, Agent, Fleet, element, graph_of, type_
from test_flow import check, counting, rows_of

from agent.runtime.keyed.hosting.placement.even import placed_evenly
from agent.runtime.keyed.hosting.placement.roots import REVIEW_S
from agent.runtime.keyed.logical_nodes import NODES, ring_key
from agent.runtime.messages.elements import MoveNodes
from overlay import Id, Peer


def _share(hosted: list[int]) -> float:
    return max(hosted) * len(hosted) / sum(hosted)


@pytest.mark.parametrize(("agents", "share"), [(1, 1.0), (8, 1.1), (64, 1.15), (128, 1.25)])
def test_no_agent_has_much_more_than_others(agents: int, share: float) -> None:
    pick = random.Random(agents)
    peers = [Peer(Id(pick.getrandbits(128)), f"10.0.0.1:{number}") for number in range(1, agents + 1)]
    hosts = placed_evenly(lambda node, choice: ring_key(APP, node + NODES * choice), dict.fromkeys(peers, 1.0))
    assert _share([hosts.count(peer) for peer in peers]) <= share


def test_weights_are_heeded() -> None:
    pick = random.Random(3)
    weights = {Peer(Id(pick.getrandbits(128)), f"10.0.0.1:{n + 1}"): float(n % 3) for n in range(9)}
    hosts = placed_evenly(lambda node, choice: ring_key(APP, node + NODES * choice), weights)
    by_weight = {weight: sum(weights[peer] == weight for peer in hosts) for weight in (0.0, 1.0, 2.0)}
    assert by_weight[0.0] == 0
    assert 1.6 < by_weight[2.0] / by_weight[1.0] < 2.4


def _hosted(agents: list[Agent]) -> list[int]:
    return [agent.job.statistics()["hosted"] for agent in agents]


def _hosts(fleet: Fleet) -> dict[int, Peer]:
    return {
        node: agent.me
        for agent in fleet.agents.values()
        for node, one in agent.job._membership._known.all()
        if one.host == agent.me
    }


@pytest.mark.slow
def test_a_fleet_is_even_from_the_start_and_when_agents_come() -> None:
    """All roots hear the same loads at once: they do not move nodes in herds."""
    graph = graph_of([type_("Word", guaranteed=False)], [element("Count", ("Word", ["a"]))], ["Word"])
    fleet = Fleet(graph, 12)
    for agent in list(fleet.agents.values()):
        fleet.insert(agent, "Word", [(f"{agent.me.node_id} {n}", "b", 1) for n in range(300)])
    fleet.run(1.0)
    agents, first = list(fleet.agents.values()), _hosts(fleet)
    assert len(first) > NODES * 0.9
    assert _share(_hosted(agents)) <= 1.25
    fleet.run(3.0, 0.1)
    assert _hosts(fleet) == first
    new = fleet.join()
    fleet.run(6.0, 0.1)
    moved = [node for node, host in _hosts(fleet).items() if first[node] != host]
    assert NODES / 13 / 3 < _hosted([new])[0] < NODES / 13 * 1.3
    assert len(moved) < NODES / 8


@pytest.mark.slow
def test_nodes_stay_where_they_begin_though_agents_hear_late_of_each_others_loads() -> None:
    """On a busy machine messages take seconds: nodes that moved for what was true then stood still for as long."""
    fleet = Fleet(counting(guaranteed=True), 6, lost_s=30.0)
    fleet.run(1.0)  # all know each other
    fleet.delay_s = 3.0
    inserted = []
    for agent in list(fleet.agents.values()):
        inserted += rows_of(fleet, 60, words=300)
        fleet.insert(agent, "Text", inserted[-60:])
    moves = fleet.sent(MoveNodes)
    fleet.run(20.0, 0.2)
    assert len(_hosts(fleet)) > 100
    assert not moves
    fleet.delay_s = 0.01
    fleet.settle(120.0)
    check(fleet, {"Text": inserted})


def test_roots_look_at_their_nodes_rarely_while_nothing_changes_and_soon_when_something_does() -> None:
    fleet = Fleet(graph_of([type_("Word")], [element("Count", ("Word", ["a"]))], ["Word"]), 3)
    first = next(iter(fleet.agents.values()))
    fleet.insert(first, "Word", [(f"{n}", "b", 1) for n in range(300)])
    fleet.run(40.0, 0.1)
    looks = set()
    for _ in range(80):
        fleet.run(0.1, 0.1)
        looks.add(first.job._membership._roots.next_timer())
    assert len(looks) <= 3, "times in eight seconds"
    before = _hosted([first])
    fleet.lend(first)
    fleet.run(REVIEW_S + 1.0, 0.1)
    assert _hosted([first]) < before


@pytest.mark.parametrize("guaranteed", [False, True])
def test_agents_that_take_no_part_decide_nothing_though_keys_are_theirs(guaranteed: bool) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), 3)
    fleet.known |= {Peer(Id(fleet.random.getrandbits(128)), f"10.0.0.2:{number}") for number in range(1, 9)}
    inserted = rows_of(fleet, 300)
    fleet.insert(next(iter(fleet.agents.values())), "Text", inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})
    hosts = {
        peer for agent in fleet.agents.values() for _, one in agent.job._membership._known.all() for peer in one.members
    }
    assert hosts == set(fleet.agents)
