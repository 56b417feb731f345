"""The figures of single elements: each count stands with the elements whose events it is about."""

from __future__ import annotations

from collections import Counter

import pytest
from fleet_of_elements import Agent, Fleet, element, graph_of, type_
from seeds import seeds
from test_flow import counting, rows_of

from agent.runtime.messages.elements import ElementRows
from overlay import Peer


def figures(agent: Agent, name: str) -> dict[str, object]:
    return {one["element"]: one[name] for one in agent.job.describe()}


def first_of(fleet: Fleet) -> Agent:
    return next(iter(fleet.agents.values()))


def test_events_with_null_in_a_key_are_told_of_the_element_that_has_this_key() -> None:
    graph = graph_of(
        [type_("Text")], [element("ByWord", ("Text", ["a"])), element("ByGroup", ("Text", ["b"]))], ["Text"]
    )
    fleet = Fleet(graph, 2)
    agent = first_of(fleet)
    fleet.insert(agent, "Text", [("w", "g", 1), (None, "g", 1), (None, "h", 3)])
    fleet.settle()
    assert figures(agent, "null_keys") == {"ByWord": 2, "ByGroup": 0}
    assert agent.job.statistics()["null_keys"] == 2


def test_events_that_are_shed_are_told_of_the_elements_that_read_them() -> None:
    types = [type_("Text", guaranteed=False, shed="a"), type_("Word", guaranteed=False)]
    graph = graph_of(
        types, [element("Split", ("Text", ["a"]), emits=["Word"]), element("Count", ("Word", ["a"]))], ["Text"]
    )
    fleet = Fleet(graph, 2)
    agent, other = fleet.agents.values()
    agent.job._shedder.heard(other.me, 0.25)
    fleet.insert(agent, "Text", [(f"w{number}", "g", 1) for number in range(1_000)])
    fleet.settle()
    shed = figures(agent, "shed")
    assert shed == {"Split": agent.job.statistics()["shed"], "Count": 0}
    assert 650 < int(str(shed["Split"])) < 850
    assert figures(other, "shed") == {"Split": 0, "Count": 0}


def test_batches_that_are_refused_are_told_of_the_elements_that_read_their_type() -> None:
    fleet = Fleet(counting(guaranteed=True), 1)
    agent = first_of(fleet)
    place = agent.job._layout.by_name["Word"].place
    assert not agent.job.handle(
        ElementRows(agent.job.app_id, place, 1, 0, 0, b"none"), Peer(9, "10.9.9.9:1"), fleet.now
    )
    assert figures(agent, "refused") == {"Split": 0, "Count": 1, "Sort": 0, "All": 0}


def test_the_age_of_the_oldest_event_that_is_not_committed_grows_until_a_standby_answers() -> None:
    graph = graph_of([type_("Text")], [element("Count", ("Text", ["a"]))], ["Text"])
    fleet = Fleet(graph, 2)
    host, other = fleet.agents.values()
    fleet.insert(host, "Text", rows_of(fleet, 40))
    fleet.settle()
    assert figures(host, "lag_s") == {"Count": None}
    fleet.silence(other, 6, detected_s=100)
    fleet.insert(host, "Text", rows_of(fleet, 40))
    fleet.run(4)
    lag_s = figures(host, "lag_s")["Count"]
    assert isinstance(lag_s, float)
    assert 3.5 < lag_s < 4.1
    fleet.run(4)
    fleet.settle()
    assert figures(host, "lag_s") == {"Count": None}


def test_events_that_wait_for_their_element_are_its_queue() -> None:
    graph = graph_of([type_("Text")], [element("Count", ("Text", ["a"]))], ["Text"])
    fleet = Fleet(graph, 1, slow=True)
    agent = first_of(fleet)
    agent.runtimes["Count"].stopped = True
    for _ in range(10):
        fleet.insert(agent, "Text", rows_of(fleet, 10))
        fleet.run(0.1)
    queue = figures(agent, "queue")["Count"]
    assert isinstance(queue, int)
    assert 40 <= queue < 100  # the first calls are under way
    agent.runtimes["Count"].stopped = False
    fleet.settle()
    assert figures(agent, "queue") == {"Count": 0}
    assert figures(agent, "events") == {"Count": 100}


@pytest.mark.parametrize("seed", seeds(slow=range(8)))
def test_where_nothing_is_under_replicated_all_who_are_to_have_the_state_of_a_node_have_it(seed: int) -> None:
    fleet = Fleet(counting(guaranteed=True), 5, seed=seed)
    restarts, looks = (50, 125), {True: [], False: []}
    noticed_at = fleet.now
    for number in range(300):
        first = first_of(fleet)
        if number % 5 == 0:
            fleet.insert(first, "Text", rows_of(fleet, 5))
        if number in restarts:
            fleet.restart(fleet.random.choice([one for one in fleet.agents.values() if one is not first]), 0.5)
            noticed_at = fleet.now + 1.5
        fleet.run(0.04, 0.04)
        lacking = [agent.job.statistics()["under_replicated"] for agent in fleet.agents.values()]
        looks[any(lacking)].append(number)
        if not any(lacking) and fleet.now > noticed_at:
            assert copies(fleet).issuperset(begun(fleet)), (seed, number)
    for first, end in zip(restarts, (125, 300), strict=True):
        assert min(one for one in looks[True] if one > first) < max(one for one in looks[False] if one < end), looks


def begun(fleet: Fleet) -> set[int]:
    """The nodes that have taken anything."""
    return {node for agent in fleet.agents.values() for node in agent.job._host.touched.nonzero()[0].tolist()}


def copies(fleet: Fleet) -> set[int]:
    """The nodes that two members of their latest configuration have a copy of, in that life of theirs."""
    held: Counter[int] = Counter()
    for node in begun(fleet):
        known = [value for agent in fleet.agents.values() if (value := agent.job._membership._known[node]) is not None]
        latest = max(known, key=lambda value: value.epoch)
        members = [agent for agent in fleet.agents.values() if latest.has(agent.me, agent.incarnation)]
        held[node] = sum(agent.job._membership._store.version(node)[0] > 0 for agent in members)
    return {node for node, count in held.items() if count >= 2}
