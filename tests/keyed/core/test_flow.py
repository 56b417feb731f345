"""Events go from sources to the elements of their keys and on, on one agent and on several."""

from __future__ import annotations

from collections import Counter

import pytest
from fleet_of_elements import Fleet, element, graph_of, model, type_


def counting(*, guaranteed: bool):
    """Split without a key, counts by word, sums by group."""
    return graph_of(
        [type_(name, guaranteed=guaranteed) for name in ("Text", "Word", "Updated", "Done")],
        [
            element("Split", ("Text", None), emits=["Word"]),
            element("Count", ("Word", ["a"]), emits=["Updated"]),
            element("Sort", ("Updated", ["b"]), emits=["Done"]),
            element("All", ("Updated", [], 7)),
        ],
        ["Text"],
    )


def rows_of(fleet: Fleet, count: int, words: int = 50) -> list[tuple[str, str, int]]:
    pick = fleet.random
    return [(f"w{pick.randrange(words)}", f"g{pick.randrange(5)}", pick.randrange(10)) for _ in range(count)]


def check(fleet: Fleet, inserted: dict[str, list[tuple[str, str, int]]]) -> None:
    """What the fleet has come to is what one machine would."""
    states, rows = model(fleet.graph, inserted)
    for one in fleet.graph.graph.elements:
        if one.inputs[0].key is not None:
            assert fleet.states(one.name) == states[one.name], (fleet.seed, one.name)
    for name in fleet.graph.types:
        if name not in [source.type for source in fleet.graph.sources]:
            assert Counter(fleet.shown[name].values()) == Counter(rows[name]), (fleet.seed, name)


@pytest.mark.parametrize("agents", [1, 2, 8])
@pytest.mark.parametrize("guaranteed", [False, True])
@pytest.mark.parametrize("slow", [False, True])
def test_every_event_gets_to_its_elements(agents: int, guaranteed: bool, slow: bool) -> None:
    fleet = Fleet(counting(guaranteed=guaranteed), agents, slow=slow)
    inserted = []
    for _ in range(5):
        for agent in list(fleet.agents.values()):
            rows = rows_of(fleet, 40)
            inserted += rows
            fleet.insert(agent, "Text", rows)
        fleet.run(0.1)
    fleet.settle()
    check(fleet, {"Text": inserted})
