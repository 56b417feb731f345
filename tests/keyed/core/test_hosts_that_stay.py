"""Elements that nobody stands by for begin anew where their host is dead, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from fleet_of_elements import Agent, Fleet, element, graph_of, type_
from seeds import seeds

KEYS = [f"k{number}" for number in range(300)]


def counting_fleet(seed: int, delay_s: float, *, guaranteed: bool = False) -> Fleet:
    graph = graph_of([type_("S", guaranteed=guaranteed)], [element("Count", ("S", ["a"]))], ["S"])
    fleet = Fleet(graph, 4, seed)
    fleet.delay_s = delay_s
    return fleet


def count_all(fleet: Fleet, source: Agent, seconds: float) -> None:
    fleet.insert(source, "S", [(key, "x", 1) for key in KEYS])
    fleet.run(seconds, 0.05)


def hosted(agent: Agent) -> set[int]:
    return set(np.flatnonzero(agent.job._host.owned).tolist())


def lost(fleet: Fleet) -> set[int]:
    return {node for agent in fleet.agents.values() for node in agent.job.lost_nodes()}


@pytest.mark.parametrize("seed", seeds(1, slow=[0, 2]))
def test_agents_that_answer_slowly_keep_their_nodes_when_another_is_killed(seed: int) -> None:
    fleet = counting_fleet(seed, delay_s=0.3)
    source, killed, *_ = fleet.agents.values()
    for _ in range(3):
        count_all(fleet, source, 2.0)
        fleet.settle()
    had = hosted(killed)
    assert had, seed
    fleet.crash(killed)
    for _ in range(4):
        count_all(fleet, source, 2.0)
    fleet.settle()
    assert lost(fleet) == had, seed
    states = [state for agent in fleet.agents.values() for state in agent.runtimes["Count"].state.values()]
    assert {count for node, count, _ in states if node not in had} == {7}, seed
    assert all(count < 7 for node, count, _ in states if node in had), seed


@pytest.mark.parametrize("guaranteed", [False, True])
def test_an_agent_that_is_slow_as_a_job_begins_costs_no_node_its_state(guaranteed: bool) -> None:
    """Nobody has heard yet which start of it is meant: nodes that began there would begin anew at once."""
    fleet = counting_fleet(0, delay_s=0.01, guaranteed=guaranteed)
    source, slow, *_ = fleet.agents.values()
    fleet.silence(slow, 2.0, detected_s=60.0)
    count_all(fleet, source, 4.0)
    fleet.settle()
    assert not lost(fleet)
    assert {count for count, _ in fleet.states("Count").values()} == {1}


@pytest.mark.slow
def test_agents_that_come_just_after_a_host_was_killed_find_its_nodes_another() -> None:
    """They are roots of some of them, and nobody tells them of an agent that they have never met."""
    fleet = counting_fleet(0, delay_s=0.01, guaranteed=True)
    source, killed, *_ = fleet.agents.values()
    count_all(fleet, source, 2.0)
    fleet.crash(killed)
    came = [fleet.join() for _ in range(3)]
    fleet.run(0.02)
    met_nobody = [agent for agent in came if not agent.job._membership._places.dead]
    assert met_nobody == came
    count_all(fleet, source, 4.0)
    fleet.settle()
    states = [state for agent in fleet.agents.values() for state in agent.runtimes["Count"].state.values()]
    assert {count for _, count, _ in states} == {2}
    assert not lost(fleet)
    fleet.run(20, 0.05)  # nobody has events for some
    for agent in came:
        membership = agent.job._membership
        own = [known for node, known in membership._known.all() if membership._places.is_root(node)]
        assert own
        assert not any(known.host == killed.me for known in own)


def test_nobody_chooses_hosts_before_it_knows_who_takes_part() -> None:
    fleet = counting_fleet(0, delay_s=0.01)
    source, *others = fleet.agents.values()
    roster = list(fleet.agents)
    for agent in fleet.agents.values():
        agent.job._membership._places.members(())
    for agent in others:  # each takes itself for the only one
        agent.unseen |= {one for one in roster if one != agent.me}
    count_all(fleet, source, 1.0)
    assert not any(hosted(agent) for agent in fleet.agents.values())
    for agent in fleet.agents.values():
        agent.unseen.clear()
        agent.job.members(roster, roster[0], fleet.now)
    count_all(fleet, source, 3.0)
    fleet.settle()
    everywhere = [node for agent in fleet.agents.values() for node in hosted(agent)]
    assert len(everywhere) == len(set(everywhere))
    assert not lost(fleet)
    assert {count for count, _ in fleet.states("Count").values()} == {2}
