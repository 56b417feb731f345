"""Random graphs of elements under whatever may happen to agents: guaranteed ones come to what one machine would."""

from __future__ import annotations

import random

import polars as pl
import pytest
from fleet_of_elements import Agent, Fleet, element, graph_of, model, type_
from seeds import seeds
from test_flow import check, rows_of

from agent.runtime.keyed.logical_nodes import nodes_of

COSTLY = {0, 17, 19, 20, 22}
"""Seeds below 30 whose fleets take more than 8 s of a processor."""
QUICK = [seed for seed in range(30) if seed not in COSTLY]
KEYS = (["a"], ["b"], ["a", "b"], "constant")


def random_graph(pick: random.Random, *, guaranteed: bool):
    """Elements in layers: each reads types of layers before, and emits types of later ones."""
    count = pick.randint(2, 4)
    types = ["S", *(f"T{i}" for i in range(count))]
    elements = []
    for layer, name in enumerate(types[:-1]):
        for number in range(pick.randint(1, 2)):
            emits = pick.sample(types[layer + 1 :], pick.randint(0, min(2, count - layer)))
            emits = emits or ([types[layer + 1]] if number == 0 else [])
            reads = [name, *([pick.choice(types[:layer])] if layer and pick.random() < 0.3 else [])]
            key = pick.choice((*KEYS, None)) if emits else pick.choice(KEYS)
            inputs = [(one, [], 5) if key == "constant" else (one, key) for one in reads]
            elements.append(element(f"E{layer}{number}", *inputs, emits=emits))
    elements.append(element("Last", (types[-1], ["a"])))
    return graph_of([type_(name, guaranteed=guaranteed) for name in types], elements, ["S"])


def disturb(fleet: Fleet, pick: random.Random, sources: list[Agent]) -> None:
    """Something happens to an agent."""
    others = [one for one in fleet.agents.values() if one not in sources and not one.silent]
    whom = pick.choice(others) if others else None
    match pick.choice(("crash", "silence", "cut", "join", "leave", "lose", "nothing")):
        case "crash" if whom is not None and len(others) > 3:
            fleet.crash(whom)
        case "silence":
            fleet.silence(pick.choice([*sources, *others]), pick.uniform(0.1, 3.0))
        case "cut" if not fleet.side:
            fleet.cut(pick.sample([*sources, *others], 1))
            fleet.at(pick.uniform(0.3, 4.0), fleet.heal)
        case "join" if len(fleet.agents) < 9:
            fleet.join()
        case "leave" if whom is not None and len(others) > 3:
            fleet.leave(whom)
        case "lose":
            one, other = pick.sample(list(fleet.agents.values()), 2)
            fleet.lose_link(one, other)


def live(seed: int, *, guaranteed: bool) -> None:
    pick = random.Random(seed)
    fleet = Fleet(random_graph(pick, guaranteed=guaranteed), pick.randint(4, 6), seed, slow=pick.random() < 0.3)
    sources = list(fleet.agents.values())[:2]
    inserted: list[tuple[str, str, int]] = []
    for _ in range(pick.randint(2, 4)):
        for _ in range(3):
            for agent in sources:
                rows = rows_of(fleet, pick.randint(1, 30))
                inserted += rows
                fleet.insert(agent, "S", rows)
            fleet.run(pick.uniform(0.01, 0.3))
        disturb(fleet, pick, sources)
        fleet.run(pick.uniform(0.05, 3.5))
        fleet.remove_left()
    fleet.run(4)  # until the last one is missed
    fleet.settle(90)
    check(fleet, {"S": inserted})


@pytest.mark.parametrize("seed", seeds(*QUICK, slow=sorted({*range(1000)} - {*QUICK})))
def test_guaranteed_elements_come_to_what_one_machine_would(seed: int) -> None:
    live(seed, guaranteed=True)


@pytest.mark.parametrize("seed", seeds(*range(10), slow=range(10, 300)))
def test_unguaranteed_elements_lose_nothing_where_agents_only_come_and_go(seed: int) -> None:
    pick = random.Random(seed)
    fleet = Fleet(random_graph(pick, guaranteed=False), 4, seed, slow=pick.random() < 0.5)
    source = next(iter(fleet.agents.values()))
    inserted: list[tuple[str, str, int]] = []
    for _ in range(4):
        for _ in range(3):
            rows = rows_of(fleet, pick.randint(1, 30))
            inserted += rows
            fleet.insert(source, "S", rows)
            fleet.run(pick.uniform(0.01, 0.2))
        others = [one for one in fleet.agents.values() if one is not source]
        if len(others) > 2 and pick.random() < 0.5:
            fleet.leave(pick.choice(others))
        else:
            fleet.join()
        fleet.run(pick.uniform(0.05, 2.0))
        fleet.remove_left()
    fleet.settle(90)
    assert not any(agent.job.statistics()["lost_rows"] for agent in fleet.agents.values())
    check(fleet, {"S": inserted})


@pytest.mark.parametrize("seed", seeds(*range(6), slow=range(6, 300)))
def test_unguaranteed_elements_differ_only_in_nodes_named_lost(seed: int) -> None:
    """One stage, so that a row that is lost changes nothing but the element that it was for."""
    pick = random.Random(seed)
    graph = graph_of([type_("S", guaranteed=False)], [element("Count", ("S", ["a"]))], ["S"])
    fleet = Fleet(graph, 5, seed)
    source = next(iter(fleet.agents.values()))
    inserted: list[tuple[str, str, int]] = []
    for _ in range(3):
        for _ in range(4):
            rows = rows_of(fleet, pick.randint(1, 30))
            inserted += rows
            fleet.insert(source, "S", rows)
            fleet.run(pick.uniform(0.01, 0.3))
        fleet.crash(pick.choice([one for one in fleet.agents.values() if one is not source]))
        fleet.run(pick.uniform(0.5, 3.0))
    fleet.run(4)  # until the last one is missed
    fleet.settle(90)
    states, _ = model(graph, {"S": inserted})
    found = fleet.states("Count")
    lost = {node for agent in [*fleet.agents.values(), *fleet.gone] for node in agent.job.lost_nodes()}
    lost_rows = sum(agent.job.statistics()["lost_rows"] for agent in fleet.agents.values())
    differing = {key: count for key, (count, _) in states["Count"].items() if found.get(key, (0,))[0] != count}
    nodes = dict(zip(differing, nodes_of([pl.Series(list(differing), dtype=pl.String)]).to_list(), strict=True))
    missing = sum(count - found.get(key, (0,))[0] for key, count in differing.items() if nodes[key] not in lost)
    assert 0 <= missing <= lost_rows, (seed, missing, lost_rows)
