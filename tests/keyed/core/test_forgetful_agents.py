"""Agents that are started again have forgotten what they held and agreed to: they count for nothing until they are
taken anew, and standbys have the state."""

from __future__ import annotations

import pytest
from fleet_of_elements import Agent, Fleet
from seeds import seeds
from test_flow import check, counting, rows_of

from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration, Configurations
from agent.runtime.messages.elements import MoveNodes
from overlay import Peer

A, B, C = (Peer(number, f"10.0.0.{number}:1") for number in (1, 2, 3))
BEFORE = Configuration(1, (A, B, C), is_anew=True, incarnations=(7, 7, 7))


def busy_fleet(agents: int, **options) -> tuple[Fleet, list[tuple[str, str, int]]]:
    """A fleet with guaranteed elements whose states all standbys hold; the first agent has the source."""
    fleet = Fleet(counting(guaranteed=True), agents, **options)
    inserted = rows_of(fleet, 200)
    fleet.insert(next(iter(fleet.agents.values())), "Text", inserted)
    fleet.settle()
    return fleet, inserted


def more(fleet: Fleet, inserted: list[tuple[str, str, int]]) -> None:
    rows = rows_of(fleet, 100)
    inserted += rows
    fleet.insert(next(iter(fleet.agents.values())), "Text", rows)


def members_of(fleet: Fleet, node: int) -> tuple[Agent, ...]:
    """The agents that have a node, host first, as the one with the latest news knows."""
    found = [known for agent in fleet.agents.values() if (known := agent.job._membership._known[node]) is not None]
    latest = max(found, key=lambda known: known.epoch)
    return tuple(fleet.agents[peer] for peer in latest.members)


def lacking(fleet: Fleet, node: int) -> list[Peer]:
    """The agents that are to have a node, and have no state of it."""
    members = [agent for agent in members_of(fleet, node) if agent.me in fleet.agents]
    return [
        one.me for one in members if not one.job._host.owned[node] and not one.job._membership._store.version(node)[0]
    ]


def test_a_member_that_was_started_again_has_no_vote_and_says_so() -> None:
    remembers, forgot = (Configurations(B, start, lambda *_: None) for start in (7, 8))
    asked = Ballot(5, 2, 1 << 40, BEFORE)
    assert remembers.prepare(asked, (1, 3)) == ("promise", Ballot(5, 2, 1 << 40, copy=(1, 3), incarnation=7))
    assert forgot.prepare(asked, (0, 0))[0] == "unknown"
    value = Configuration(2, (B, C), incarnations=(8, 7))
    assert forgot.accept(Ballot(5, 2, 1 << 40, value), is_late=False)[0] == "unknown"
    assert remembers.accept(Ballot(5, 2, 1 << 40, value), is_late=False)[0] == "accepted"
    assert not forgot.is_in(BEFORE)
    assert forgot.is_host_of(value)


@pytest.mark.parametrize("down_s", seeds(slow=[0.01, 0.7, 2.5]))
def test_hosts_that_are_back_at_once_do_not_begin_without_the_state(down_s: float) -> None:
    fleet, inserted = busy_fleet(5)
    for agent in list(fleet.agents.values())[1:4]:
        fleet.restart(fleet.agents[agent.me], down_s)
        more(fleet, inserted)
        fleet.run(4)
    fleet.settle()
    check(fleet, {"Text": inserted})
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())


@pytest.mark.parametrize("seed", seeds(0, slow=[5]))
def test_a_host_that_is_asked_to_move_nodes_and_has_forgotten_them_loses_and_stops_nothing(seed: int) -> None:
    """Its root hears that it has none of them, and does not ask it for ever."""
    fleet, inserted = busy_fleet(4, seed=seed)

    def restart(_sender: Agent, to: Peer) -> None:
        fleet.at(0.0, lambda: fleet.restart(fleet.agents[to], 0.01))

    fleet.on_message(MoveNodes, 1, restart, arrived=False)
    fleet.join()
    fleet.run(2)
    more(fleet, inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.slow
def test_a_standby_that_was_started_again_is_given_the_state_though_nothing_happens() -> None:
    fleet, inserted = busy_fleet(4)
    node = next(n for n in range(1024) if next(iter(fleet.agents.values())).job._emitter.host(n) is not None)
    host, first, second = members_of(fleet, node)
    fleet.restart(first, 0.01)
    fleet.run(8)
    assert not lacking(fleet, node)
    source = next(iter(fleet.agents.values()))
    for whom in (host, second):
        if whom is not source:
            fleet.crash(whom)
    more(fleet, inserted)
    fleet.run(12)
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_a_standby_that_nobody_has_missed_is_given_the_state_though_nothing_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet, _ = busy_fleet(4, seed=5)
    monkeypatch.setattr(fleet, "_failed", lambda *_: None)
    source = next(iter(fleet.agents.values()))
    nodes = [node for node in range(1024) if source.job._emitter.host(node) is not None]
    fleet.restart(members_of(fleet, nodes[0])[1], 0.01)
    fleet.run(8)
    assert not [node for node in nodes if lacking(fleet, node)]


@pytest.mark.slow
def test_of_three_copies_one_is_enough_where_two_of_its_agents_have_forgotten() -> None:
    fleet, inserted = busy_fleet(6)
    source = next(iter(fleet.agents.values()))
    for node in range(1024):
        if source.job._emitter.host(node) is not None and source not in members_of(fleet, node):
            break
    for whom in members_of(fleet, node)[:2]:
        fleet.restart(whom, 0.01)
    fleet.run(12)
    more(fleet, inserted)
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_nodes_of_which_no_copy_is_left_begin_anew_after_a_while_and_are_named() -> None:
    fleet, inserted = busy_fleet(7, lost_s=6.0)
    source = next(iter(fleet.agents.values()))
    for node in range(1024):
        if source.job._emitter.host(node) is not None and source not in members_of(fleet, node):
            break
    for whom in members_of(fleet, node):
        fleet.crash(whom)
    more(fleet, inserted)
    fleet.run(5)
    assert not any(agent.job._host.owned[node] for agent in fleet.agents.values()), "those who have it may come back"
    assert not any(agent.job.lost_nodes() for agent in fleet.agents.values())
    fleet.run(10)
    fleet.settle()
    lost = {one for agent in fleet.agents.values() for one in agent.job.lost_nodes()}
    assert node in lost
    for agent in fleet.agents.values():  # what is not lost is as it was, and the job goes on
        for key, (place, count, _) in agent.runtimes["Count"].state.items():
            if agent.job._host.owned[place] and place not in lost:
                assert count == _count(inserted, key), key
    assert sum(agent.job._host.owned[node] for agent in fleet.agents.values()) == 1
    before = sum(agent.job.statistics()["events"] for agent in fleet.agents.values())
    more(fleet, inserted)
    fleet.settle()
    assert sum(agent.job.statistics()["events"] for agent in fleet.agents.values()) > before


def _count(inserted: list[tuple[str, str, int]], key: str) -> int:
    """The words that Split makes of rows: each gives its group, and an even one its text, too."""
    return sum((b == key) + (a == key and v % 2 == 0) for a, b, v in inserted)


@pytest.mark.parametrize("agents", seeds(slow=[6, 9]))
def test_nodes_all_of_whose_agents_are_started_again_at_once_are_named(agents: int) -> None:
    """Nobody else knows of the node, and that it was is in the store of those who had it."""
    fleet, inserted = busy_fleet(agents)
    source = next(iter(fleet.agents.values()))
    words = fleet.states("Count")
    node = next(
        node
        for agent in fleet.agents.values()
        for node, count, _ in agent.runtimes["Count"].state.values()
        if agent.job._host.owned[node] and source not in members_of(fleet, node)
    )
    for whom in members_of(fleet, node):
        fleet.restart(whom, 0.01)
    for agent in fleet.agents.values():  # nobody who sends events to it is left
        agent.job._emitter.epochs[node] = 0
        agent.job._membership._known._known[node] = None
    more(fleet, inserted)
    fleet.run(15)
    fleet.settle()
    lost = {one for agent in fleet.agents.values() for one in agent.job.lost_nodes()}
    assert node in lost
    lacking = {key for key, found in fleet.states("Count").items() if found[0] < _count(inserted, key)}
    assert lacking
    assert {
        place
        for agent in fleet.agents.values()
        for key, (place, *_) in agent.runtimes["Count"].state.items()
        if key in lacking
    } <= lost
    assert words.keys() >= lacking


@pytest.mark.parametrize("guaranteed", [False, True])
@pytest.mark.parametrize("agents", [1, 3])
def test_a_whole_fleet_that_is_started_again_names_what_it_had_and_goes_on_at_once(
    agents: int, guaranteed: bool
) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), agents)
    source = next(iter(fleet.agents.values()))
    inserted = rows_of(fleet, 100)
    fleet.insert(source, "Text", inserted)
    fleet.settle()
    fleet.run(1)
    had = {node for agent in fleet.agents.values() for node in range(1024) if agent.job._host.touched[node]}
    for agent in list(fleet.agents.values()):
        fleet.restart(agent, 0.3)
    fleet.run(1)
    fleet.insert(source, "Text", rows_of(fleet, 300))
    fleet.run(2.5)
    fleet.settle()
    found = {node for agent in fleet.agents.values() for node in range(1024) if agent.job._host.touched[node]}
    lost = {one for agent in fleet.agents.values() for one in agent.job.lost_nodes()}
    assert had & found
    assert lost == had & found, "others begin for the first time"


def test_a_node_goes_on_where_its_root_was_started_again_and_never_knew_its_dead_host() -> None:
    fleet, inserted = busy_fleet(5, seed=3)
    jobs = {agent.me: agent.job for agent in fleet.agents.values()}
    first = next(iter(fleet.agents))
    host, root = next(
        (known.host, root)
        for job in jobs.values()
        for node, known in job._membership._known.all()
        if (root := job._membership._places.root(node)) in known.standbys and first not in (root, known.host)
    )
    fleet.crash(fleet.agents[host])
    fleet.run(0.3)
    fleet.restart(fleet.agents[root], 0.02)
    fleet.settle()
    check(fleet, {"Text": inserted})
